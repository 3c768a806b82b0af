"""Reads MSCCL++ plan JSON that anybody wrote.

Trusts nothing: size, depth, duplicate fields, types and ranges of numbers are checked. Fields the runtime's
loader does not look at are skipped, as it does. Operations and features outside the subset that the judge
executes are refused by name, with exit code 3: nothing is known of such a plan. Does not judge: indices
may point nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.strict_json import JsonRefused, fail, integer, integers, items, read_json
from hetesynth.model.plan import (
    ALIGNMENT,
    CHANNEL_TYPES,
    MAX_THREADS,
    OPEN_MAX_BYTES,
    PACKET_OPS,
    PLAN_OPS,
    ChannelType,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOperation,
    RemoteBuffer,
    RemoteSlice,
    Slice,
)
from hetesynth.model.program import Buffer

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 16
MAX_DIGITS = 20
MAX_NUMBER = 2**31 - 1
MAX_NAME = 1000
MAX_GPUS = 65536
MAX_REFUSED = 8  # names shown
MAX_SHARES = 64  # thread blocks of a group
LEAST_UNIT = 1 << 17  # of a pipeline: in 65,535 turns it comes to the end of any buffer

OTHER_OPS = frozenset({"glres", "gstore", "gstorepkt"})
"""Operations of the runtime that the judge does not execute: multimem."""

_BUFFERS: dict[str, Buffer] = {"i": "i", "o": "o", "s": "s"}
_OPS: dict[str, Any] = {**{op: op for op in PLAN_OPS}, **dict.fromkeys(sorted(OTHER_OPS))}
_KINDS: dict[str, Any] = {**{kind: kind for kind in CHANNEL_TYPES}, "switch": "switch", "none": None}


def load_plan(path: Path, *, packets: bool = False, turns: int = 2) -> Plan:
    """The plan in file ``path``; HetesynthError HS540 when it cannot be read, else as ``read_plan_json``."""
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {str(path)!r}: {reason}"
        raise HetesynthError(message, code="HS540", help="check the path") from error
    return read_plan_json(data, str(path), packets=packets, turns=turns)


def read_plan_json(data: bytes, filename: str = "<plan>", *, packets: bool = False, turns: int = 2) -> Plan:
    """Return the plan in ``data``. Raises HetesynthError HS530, exit code 2, when it is none; HS531, exit code 3,
    when it uses what is outside the executed subset, which the message names. ``packets``: whether packets are in
    the subset. ``turns``: how often pipelines are unrolled; in a run the size of the message says how often."""
    whole = _Whole(turns, packets)
    outside = whole.outside
    try:
        if len(data) > MAX_BYTES:
            fail(f"more than the {MAX_BYTES} bytes a plan may have")
        values = read_json(data, MAX_DEPTH, MAX_DIGITS)
        if isinstance(values, dict) and values.get("format") == "hetesynth-schedule":
            raise HetesynthError(
                f"{filename} is a schedule, which no runtime reads, and not an MSCCL++ plan",
                code="HS530",
                help="`hetesynth import` judges it and writes programs; `hetesynth simulate` predicts its time",
            )
        read = _plan(_Object({}, "", whole).within(values, "the plan"))
        if len(whole.units) > 1 or (whole.units and read.reuse_resources):
            outside.add("`pipeline` with units that differ, or with reuse_resources")
        if len(whole.groups) > 1:  # where messages do not divide evenly, their parts end at different places
            outside.add("`tbg_info` of groups of several sizes")
        plan = _shared_out(read, math.lcm(*whole.groups))
    except JsonRefused as refusal:
        help_text = "give an MSCCL++ execution plan in JSON"
        raise HetesynthError(f"{filename}: {refusal}", code="HS530", help=help_text) from refusal
    if outside:
        shown = ", ".join(sorted(outside)[:MAX_REFUSED]) + (" and more" if len(outside) > MAX_REFUSED else "")
        raise HetesynthError(
            f"{filename}: the plan uses {shown}, outside what is executed: nothing is known of it",
            code="HS531",
            exit_code=3,
            help="plans of put, get, copy, re, packets, signals, barriers and semaphores can be judged",
        )
    return plan


@dataclass(slots=True)
class _Whole:
    """The common state of the parts of a plan. ``turns``: how often pipelines are unrolled. The others are what is
    found: uses ``outside`` the subset, ``units`` of pipelines in bytes and chunks, sizes of ``groups``."""

    turns: int
    packets: bool
    outside: set[str] = field(default_factory=set)
    units: set[tuple[int, int]] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Object:
    """An object of the text at ``where``, a part of the plan ``whole``."""

    values: dict[str, Any]
    where: str
    whole: _Whole

    def within(self, value: object, where: str) -> _Object:
        """Return ``value``, a part of this object."""
        if not isinstance(value, dict):
            fail(f"{where} is not an object")
        return _Object(value, where, self.whole)

    def get(self, name: str) -> Any:
        if name not in self.values:
            fail(f"{self.where}: {name!r} is missing")
        return self.values[name]

    def number(self, name: str, default: int | None = None, most: int = MAX_NUMBER) -> int:
        value = self.get(name) if default is None else self.values.get(name, default)
        if type(value) is int and 0 <= value <= most:  # the usual case, without words
            return value
        return integer(value, f"{self.where}: {name!r}", 0, most)

    def numbers(self, name: str) -> tuple[int, ...]:
        return integers(self.get(name), f"{self.where}: {name!r}", MAX_NUMBER)

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str) or len(value) > MAX_NAME:
            fail(f"{self.where}: {name!r} is not a string of at most {MAX_NAME} characters")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            fail(f"{self.where}: {name!r} is not true or false")
        return value

    def objects(self, name: str, optional: bool = False) -> Iterator[_Object]:
        if optional and name not in self.values:
            return
        for i, value in enumerate(items(self.get(name), f"{self.where}: {name!r}")):
            yield self.within(value, f"{self.where} {name}[{i}]")

    def word(self, name: str, words: dict[str, Any]) -> Any:
        """Return what ``words`` says of the text in field ``name``."""
        text = self.text(name)
        if text not in words:
            fail(f"{self.where}: {name!r} is {text[:40]!r}, none of {' '.join(words)}")
        return words[text]


def _plan(plan: _Object) -> Plan:
    gpus = tuple(map(_gpu, plan.objects("gpus")))
    if not 1 <= len(gpus) <= MAX_GPUS:
        fail(f"{len(gpus)} GPUs, not 1 to {MAX_GPUS}")
    return Plan(
        name=plan.text("name"),
        collective=plan.text("collective"),
        protocol=plan.word("protocol", {"Simple": "Simple", "LL": "LL"}),
        in_place=plan.flag("inplace"),
        gpus=gpus,
        reuse_resources=plan.flag("reuse_resources", False),
        double_scratch=plan.flag("use_double_scratch_buffer", False),
        alignment=plan.number("buffer_alignment", ALIGNMENT),
        threads=plan.number("num_threads_per_block", MAX_THREADS),
        min_bytes=plan.number("min_message_size", 0, OPEN_MAX_BYTES),
        max_bytes=plan.number("max_message_size", OPEN_MAX_BYTES, OPEN_MAX_BYTES),
    )


def _gpu(gpu: _Object) -> GpuPlan:
    peers = _references(gpu.objects("channels"), "channel_type", "connected_to")
    remote = []
    for entry in gpu.objects("remote_buffers"):
        words = items(entry.get("access_channel_types"), f"{entry.where}: 'access_channel_types'")
        kinds = [_kind(entry.within({"type": word}, entry.where), "type") for word in words]
        access = tuple(kind for kind in kinds if kind is not None)
        remote.append(RemoteBuffer(entry.number("rank"), entry.word("type", _BUFFERS), access))
    return GpuPlan(
        rank=gpu.number("id"),
        input_chunks=gpu.number("input_chunks"),
        output_chunks=gpu.number("output_chunks"),
        scratch_chunks=gpu.number("scratch_chunks"),
        blocks=tuple(map(_block, gpu.objects("threadblocks"))),
        memory_peers=peers["memory"],
        port_peers=peers["port"],
        remote_buffers=tuple(remote),
        semaphores=tuple(s.number("init_value") for s in gpu.objects("semaphores", optional=True)),
    )


def _block(block: _Object) -> PlanBlock:
    channels = _references(block.objects("channels"), "channel_type", "channel_ids")
    entries = block.objects("remote_buffer_refs", optional=True)
    buffers = _references(entries, "access_channel_type", "remote_buffer_ids")
    operations: list[PlanOperation] = []
    stored = pipelines = 0  # in the runtime's table an entry, of a pipeline its own and one for each operation
    for entry in block.objects("ops"):
        stored += 1
        if entry.values.get("name") != "pipeline":
            operations.append(_operation(entry))
            continue
        inner = _in_turn(entry)
        stored, pipelines = stored + len(inner), pipelines + 1
        turns = entry.whole.turns
        entry.whole.groups.add(turns)
        operations += (replace(x, share=(turn, turns)) for turn in range(turns) for x in inner)
    return PlanBlock(
        id=block.number("id"),
        operations=tuple(operations),
        stored=stored if pipelines else 0,
        memory_channels=channels["memory"],
        port_channels=channels["port"],
        memory_buffers=buffers["memory"],
        port_buffers=buffers["port"],
    )


def _references(entries: Iterable[_Object], kind_name: str, ids_name: str) -> dict[ChannelType, tuple[int, ...]]:
    numbers: dict[ChannelType, tuple[int, ...]] = {"memory": (), "port": ()}
    for entry in entries:
        kind = _kind(entry, kind_name)
        if kind is not None:
            numbers[kind] += entry.numbers(ids_name)
    return numbers


def _kind(entry: _Object, name: str) -> ChannelType | None:
    kind = entry.word(name, _KINDS)
    if kind != "switch":
        return kind  # type: ignore[no-any-return]
    entry.whole.outside.add("a `switch` channel")
    return None


def _in_turn(entry: _Object) -> tuple[PlanOperation, ...]:
    """Return the operations of a pipeline: all are done for one part of their slices, then for the next."""
    context = entry.within(entry.get("iter_context"), f"{entry.where} iter_context")
    inner = tuple(map(_operation, entry.objects("ops")))
    unit, chunks = context.number("unit_size"), context.number("num_chunks")
    entry.whole.units.add((unit, chunks))
    if unit < LEAST_UNIT or unit % ALIGNMENT:  # the kernel counts turns in 16 bits
        entry.whole.outside.add(f"a `pipeline` with a unit_size of {unit}")
    odd = (
        x.op in PACKET_OPS or x.share[1] > 1 or {part.size for part in (*x.src, *x.dst)} - {chunks} for x in inner
    )
    if any(odd):
        entry.whole.outside.add("a `pipeline` of packets, groups or slices of another size than its own")
    return inner


def _operation(operation: _Object) -> PlanOperation:
    values, whole = operation.values, operation.whole
    outside = whole.outside
    op = operation.word("name", _OPS)
    if op is None:
        outside.add(f"`{values['name']}`")
        return PlanOperation("nop")
    outside |= {f"`{feature}`" for feature in ("iter_context", "ops") if feature in values}
    if values.get("reduce_op", "sum") != "sum":
        outside.add("another `reduce_op`")
    kind = _kind(operation, "channel_type") if "channel_type" in values else None
    if op in PACKET_OPS and not whole.packets:
        outside.add("packets (judged alone, by `hetesynth verify`)")
    if op == "ppkt" and kind == "port":
        outside.add("`ppkt` on a port channel")
    barrier = blocks = None
    if "barrier_id" in values or "num_threadblocks" in values:
        barrier, blocks = operation.number("barrier_id"), operation.number("num_threadblocks")
    share = (0, 1)
    if "tbg_info" in values:
        group = operation.within(values["tbg_info"], f"{operation.where} tbg_info")
        share = group.number("tb_id"), group.number("tbg_size", most=MAX_SHARES)
        if share[0] >= share[1]:
            fail(f"{group.where}: tb_id {share[0]} of {share[1]}")
        if share[1] > 1:
            whole.groups.add(share[1])
    return PlanOperation(
        op,
        kind,
        operation.numbers("channel_ids") if "channel_ids" in values else (),
        tuple(_slices(operation, "src_buff")),
        tuple(_slices(operation, "dst_buff")),
        barrier,
        blocks,
        operation.numbers("semaphore_ids") if "semaphore_ids" in values else (),
        share,
    )


def _shared_out(plan: Plan, finer: int) -> Plan:
    """Return ``plan`` with each chunk cut into ``finer``, so that a thread block of a group has whole ones of a
    slice, as with messages that divide evenly."""
    if finer == 1:
        return plan

    def share(part: Slice, number: int, parts: int) -> Slice:
        size = part.size * finer // parts
        return replace(part, index=part.index * finer + number * size, size=size)

    def operation(x: PlanOperation) -> PlanOperation:
        src, dst = (tuple(share(part, *x.share) for part in side) for side in (x.src, x.dst))
        return replace(x, src=src, dst=dst, share=(0, 1))

    def gpu(one: GpuPlan) -> GpuPlan:
        blocks = tuple(replace(b, operations=tuple(map(operation, b.operations))) for b in one.blocks)
        return replace(
            one,
            blocks=blocks,
            input_chunks=one.input_chunks * finer,
            output_chunks=one.output_chunks * finer,
            scratch_chunks=one.scratch_chunks * finer,
        )

    return replace(plan, gpus=tuple(map(gpu, plan.gpus)))


def _slices(operation: _Object, name: str) -> Iterator[Slice]:
    for entry in operation.objects(name, optional=True):
        index, size = entry.number("index"), entry.number("size")
        if "switch_channel_id" in entry.values:
            entry.whole.outside.add("`switch_channel_id`")
        elif "buffer_id" in entry.values:
            yield RemoteSlice(entry.number("buffer_id"), index, size)
        else:
            yield LocalSlice(entry.word("type", _BUFFERS), index, size)
