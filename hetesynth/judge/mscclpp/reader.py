"""Reads MSCCL++ plan JSON that anybody wrote.

Trusts nothing: size, depth, duplicate fields, types and ranges of numbers are checked. Fields the runtime's
loader does not look at are skipped, as it does. Operations and features outside the subset that the judge
executes are refused by name, with exit code 3: nothing is known of such a plan. Does not judge: indices
may point nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.model.plan import (
    ALIGNMENT,
    CHANNEL_TYPES,
    MAX_THREADS,
    OPEN_MAX_BYTES,
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

_PACKETS = frozenset({"rppkt", "ppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt"})
OTHER_OPS = _PACKETS | {"glres", "gstore", "gstorepkt", "pipeline"}
"""Operations of the runtime that the judge does not execute: packets, multimem, pipelines."""

_BUFFERS: dict[str, Buffer] = {"i": "i", "o": "o", "s": "s"}


def load_plan(path: Path) -> Plan:
    """The plan in file ``path``; HetesynthError HS540 when it cannot be read, else as ``read_plan_json``."""
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {str(path)!r}: {reason}"
        raise HetesynthError(message, code="HS540", help="check the path") from error
    return read_plan_json(data, str(path))


def read_plan_json(data: bytes, filename: str = "<plan>") -> Plan:
    """The plan in ``data``.

    Raises HetesynthError HS530, exit code 2, when it is not one; HS531, exit code 3, when it uses what is
    outside the executed subset, which the message names.
    """
    return _Reader(filename).plan(data)


class _Reader:
    """Checks one text. ``outside``: what it uses beyond the subset."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.outside: set[str] = set()

    def fail(self, what: str) -> NoReturn:
        help_text = "give an MSCCL++ execution plan in JSON"
        raise HetesynthError(f"{self.filename}: {what}", code="HS530", help=help_text)

    def plan(self, data: bytes) -> Plan:
        if len(data) > MAX_BYTES:
            self.fail(f"more than the {MAX_BYTES} bytes a plan may have")
        try:
            values = self._dict(read_json(data, JsonLimits(MAX_DEPTH, MAX_DIGITS)), "the plan")
        except JsonRefused as refusal:
            self.fail(str(refusal))
        if values.get("format") == "hetesynth-schedule":
            raise HetesynthError(
                f"{self.filename} is a schedule, which no runtime reads, and not an MSCCL++ plan",
                code="HS530",
                help="`hetesynth import` judges it and writes programs; `hetesynth simulate` predicts its time",
            )
        gpus = self._list(values, "gpus", "the plan")
        if not 1 <= len(gpus) <= MAX_GPUS:
            self.fail(f"{len(gpus)} GPUs, not 1 to {MAX_GPUS}")
        protocol = self._text(values, "protocol", "the plan")
        if protocol not in ("Simple", "LL"):
            self.fail(f"there is no protocol {_shown(protocol)}")
        plan = Plan(
            name=self._text(values, "name", "the plan"),
            collective=self._text(values, "collective", "the plan"),
            protocol=protocol,
            in_place=self._flag(values, "inplace", None),
            gpus=tuple(self._gpu(gpu, f"gpu {g}") for g, gpu in enumerate(gpus)),
            reuse_resources=self._flag(values, "reuse_resources", False),
            double_scratch=self._flag(values, "use_double_scratch_buffer", False),
            alignment=self._number(values, "buffer_alignment", "the plan", default=ALIGNMENT),
            threads=self._number(values, "num_threads_per_block", "the plan", default=MAX_THREADS),
            min_bytes=self._number(values, "min_message_size", "the plan", OPEN_MAX_BYTES, 0),
            max_bytes=self._number(values, "max_message_size", "the plan", OPEN_MAX_BYTES, OPEN_MAX_BYTES),
        )
        if self.outside:
            names = sorted(self.outside)
            shown = ", ".join(names[:MAX_REFUSED]) + (" and more" if len(names) > MAX_REFUSED else "")
            raise HetesynthError(
                f"{self.filename}: the plan uses {shown}, outside what is executed: nothing is known of it",
                code="HS531",
                exit_code=3,
                help="plans of put, get, copy, re, signal, wait, barrier and semaphore operations can be judged",
            )
        return plan

    def _gpu(self, values: object, where: str) -> GpuPlan:
        gpu = self._dict(values, where)
        peers = self._references(gpu, "channels", "channel_type", "connected_to", where)
        semaphores = self._list(gpu, "semaphores", where) if "semaphores" in gpu else []
        remote = []
        for i, entry in enumerate(self._list(gpu, "remote_buffers", where)):
            at = f"{where} remote_buffers[{i}]"
            words = self._list(self._dict(entry, at), "access_channel_types", at)
            kinds = [self._kind({"type": word}, "type", at) for word in words]
            access = tuple(kind for kind in kinds if kind is not None)
            remote.append(RemoteBuffer(self._number(entry, "rank", at), self._buffer(entry, at), access))
        return GpuPlan(
            rank=self._number(gpu, "id", where),
            input_chunks=self._number(gpu, "input_chunks", where),
            output_chunks=self._number(gpu, "output_chunks", where),
            scratch_chunks=self._number(gpu, "scratch_chunks", where),
            blocks=tuple(
                self._block(block, f"{where} thread block {t}")
                for t, block in enumerate(self._list(gpu, "threadblocks", where))
            ),
            memory_peers=tuple(peers["memory"]),
            port_peers=tuple(peers["port"]),
            remote_buffers=tuple(remote),
            semaphores=tuple(
                self._number(self._dict(s, f"{where} semaphore {i}"), "init_value", f"{where} semaphore {i}")
                for i, s in enumerate(semaphores)
            ),
        )

    def _block(self, values: object, where: str) -> PlanBlock:
        block = self._dict(values, where)
        channels = self._references(block, "channels", "channel_type", "channel_ids", where)
        words = ("remote_buffer_refs", "access_channel_type", "remote_buffer_ids")
        buffers = self._references(block if words[0] in block else {words[0]: []}, *words, where)
        return PlanBlock(
            id=self._number(block, "id", where),
            operations=tuple(
                self._operation(operation, f"{where} operation {i}")
                for i, operation in enumerate(self._list(block, "ops", where))
            ),
            memory_channels=tuple(channels["memory"]),
            port_channels=tuple(channels["port"]),
            memory_buffers=tuple(buffers["memory"]),
            port_buffers=tuple(buffers["port"]),
        )

    def _references(
        self, block: dict[str, Any], name: str, kind_name: str, ids_name: str, where: str
    ) -> dict[ChannelType, list[int]]:
        numbers: dict[ChannelType, list[int]] = {"memory": [], "port": []}
        for i, entry in enumerate(self._list(block, name, where)):
            at = f"{where} {name}[{i}]"
            kind = self._kind(self._dict(entry, at), kind_name, at)
            if kind is not None:
                numbers[kind] += self._numbers(entry, ids_name, at)
        return numbers

    def _operation(self, values: object, where: str) -> PlanOperation:
        operation = self._dict(values, where)
        name = self._text(operation, "name", where)
        op = next((word for word in PLAN_OPS if word == name), None)
        if op is None:
            if name not in OTHER_OPS:
                self.fail(f"{where}: the runtime has no operation {_shown(name)}")
            self.outside.add(f"`{name}`")
            return PlanOperation("nop")
        for feature in ("tbg_info", "iter_context", "ops"):
            if feature in operation:
                self.outside.add(f"`{feature}`")
        if operation.get("reduce_op", "sum") != "sum":
            self.outside.add(f"`reduce_op` {_shown(operation['reduce_op'])}")
        kind = self._kind(operation, "channel_type", where) if "channel_type" in operation else None
        barrier = blocks = None
        if "barrier_id" in operation or "num_threadblocks" in operation:
            barrier = self._number(operation, "barrier_id", where)
            blocks = self._number(operation, "num_threadblocks", where)
        return PlanOperation(
            op,
            kind,
            tuple(self._numbers(operation, "channel_ids", where)) if "channel_ids" in operation else (),
            tuple(self._slices(operation, "src_buff", where)),
            tuple(self._slices(operation, "dst_buff", where)),
            barrier,
            blocks,
            tuple(self._numbers(operation, "semaphore_ids", where)) if "semaphore_ids" in operation else (),
        )

    def _slices(self, operation: dict[str, Any], name: str, where: str) -> Iterator[Slice]:
        for i, entry in enumerate(self._list(operation, name, where) if name in operation else []):
            at = f"{where} {name}[{i}]"
            values = self._dict(entry, at)
            index, size = self._number(values, "index", at), self._number(values, "size", at)
            if "switch_channel_id" in values:
                self.outside.add("`switch_channel_id`")
            elif "buffer_id" in values:
                yield RemoteSlice(self._number(values, "buffer_id", at), index, size)
            else:
                yield LocalSlice(self._buffer(values, at), index, size)

    def _kind(self, values: dict[str, Any], name: str, where: str) -> ChannelType | None:
        word = self._text(values, name, where)
        kind = next((channel_type for channel_type in CHANNEL_TYPES if channel_type == word), None)
        if kind is None:
            if word == "switch":
                self.outside.add("a `switch` channel")
            elif word != "none":
                self.fail(f"{where}: there is no channel type {_shown(word)}")
        return kind

    def _buffer(self, values: dict[str, Any], where: str) -> Buffer:
        word = self._text(values, "type", where)
        if word not in _BUFFERS:
            self.fail(f"{where}: there is no buffer {_shown(word)}, only i, o and s")
        return _BUFFERS[word]

    def _get(self, values: dict[str, Any], name: str, where: str) -> Any:
        if name not in values:
            self.fail(f"{where}: {name!r} is missing")
        return values[name]

    def _dict(self, value: object, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(f"{where} is not an object")
        return value

    def _list(self, values: dict[str, Any], name: str, where: str) -> list[Any]:
        value = self._get(values, name, where)
        if not isinstance(value, list):
            self.fail(f"{where}: {name!r} is not a list")
        return value

    def _text(self, values: dict[str, Any], name: str, where: str) -> str:
        value = self._get(values, name, where)
        if not isinstance(value, str) or len(value) > MAX_NAME:
            self.fail(f"{where}: {name!r} is not a string of at most {MAX_NAME} characters")
        return value

    def _flag(self, values: dict[str, Any], name: str, default: bool | None) -> bool:
        value = values.get(name, default)
        if not isinstance(value, bool):
            self.fail(f"the plan: {name!r} is not true or false")
        return value

    def _number(
        self, values: dict[str, Any], name: str, where: str, most: int = MAX_NUMBER, default: int | None = None
    ) -> int:
        value = self._get(values, name, where) if default is None else values.get(name, default)
        return self._checked(value, f"{where}: {name!r}", most)

    def _numbers(self, values: dict[str, Any], name: str, where: str) -> list[int]:
        return [self._checked(v, f"{where}: {name!r}", MAX_NUMBER) for v in self._list(values, name, where)]

    def _checked(self, value: object, what: str, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"{what}: {_shown(value)} is not an integer")
        if not 0 <= value <= most:
            self.fail(f"{what}: {_shown(value)} is out of range, it must be from 0 to {most}")
        return value


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
