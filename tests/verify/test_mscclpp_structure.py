"""What is said of small plans, each damaged in one way, before they run: whole verdicts; and up to which size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_builders import NOP, block, exchange, local, pair
from test_mscclpp_runs import GET, M, Op, Ops, verdict

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp import judge
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.model.plan import GpuPlan, Plan, PlanBlock, PlanOperation, RemoteBuffer, RemoteSlice

GOLDEN = Path(__file__).parent / "golden" / "mscclpp_structure.txt"
BASE, PORTS = pair(exchange(0)), pair(exchange(0, "port"), "port")
BOTH = {(0, 1), (1, 0)}
COPY = Op("copy", src=(local("i", 0),), dst=(RemoteSlice(0, 0, 1),))


def first(**values: Any) -> Plan:
    """The exchange of two GPUs, of which the first has these values."""
    return replace(BASE, gpus=(replace(BASE.gpus[0], **values), BASE.gpus[1]))


def code(*operations: PlanOperation, **values: Any) -> Plan:
    """The same with ``operations`` behind those of the first GPU's thread block, which has these values."""
    return first(blocks=(replace(block(0, [*exchange(0), *operations]), **values),))


def beside(*blocks: Ops) -> Plan:
    """The same with further thread blocks on the first GPU."""
    more = (PlanBlock(t, tuple(operations)) for t, operations in enumerate(blocks, 1))
    return first(blocks=(BASE.gpus[0].blocks[0], *more))


def buffers(*owners: int, scratch: bool = False) -> tuple[RemoteBuffer, ...]:
    return tuple(RemoteBuffer(owner, "s" if scratch else "o", (M,)) for owner in owners)


def middle(*operations: PlanOperation) -> Plan:
    """The same with ``operations`` where the first GPU puts."""
    return pair([*exchange(0)[:3], *operations, *exchange(0)[3:]])


def barrier(number: int | None, blocks: int | None, op: Any = "barrier") -> PlanOperation:
    return Op(op, barrier=number, blocks=blocks)


UNTYPED = first(
    port_peers=(1,),
    remote_buffers=(RemoteBuffer(1, "o", ("memory", "port")),) * 2,
    blocks=code(COPY, port_buffers=(0,)).gpus[0].blocks,
)
TAKE = replace(GET, src=(RemoteSlice(0, 0, 1),), dst=(local("o", 0),))
RRES = Op("rres", M, (), (local("i", 0), RemoteSlice(0, 0, 1)), (local("s", 0), RemoteSlice(1, 0, 1)))
ROWS: dict[str, tuple[Plan, dict[str, Any]]] = {
    "alignment 24": (replace(BASE, alignment=24), {}),
    "0 threads": (replace(BASE, threads=0), {}),
    "1025 threads": (replace(BASE, threads=1025), {}),
    "no size": (replace(BASE, min_bytes=65, max_bytes=64), {}),
    "another rank": (first(rank=1), {}),
    "no input": (first(input_chunks=0), {}),
    "no output": (first(output_chunks=0), {}),
    "no thread block": (first(blocks=()), {}),
    "a channel to itself": (first(memory_peers=(1, 0)), {}),
    "a channel to the first GPU that is not there": (first(memory_peers=(1, 2)), {}),
    "port channels without any back": (first(port_peers=(1, 1)), {}),
    "no memory channel": (first(memory_peers=()), {}),
    "a remote buffer of its own": (first(remote_buffers=buffers(1, 1, 0)), {}),
    "a remote buffer of the first GPU that is not there": (first(remote_buffers=buffers(1, 1, 2)), {}),
    "a put into the first GPU that is not there": (first(remote_buffers=buffers(2, 2)), {}),
    "one remote buffer": (first(remote_buffers=buffers(1)), {}),
    "no remote scratch": (replace(BASE, gpus=(BASE.gpus[0], replace(BASE.gpus[1], scratch_chunks=0))), {}),
    "another id": (code(id=1), {}),
    "65 operations": (code(*[NOP] * 57), {}),
    "17 channels": (code(memory_channels=(0,) * 17), {}),
    "the first channel that is not there": (code(memory_channels=(0, 1)), {}),
    "17 remote buffers": (code(memory_buffers=(0,) * 17), {}),
    "the first remote buffer that is not there": (code(memory_buffers=(0, 1, 2)), {}),
    "a remote buffer by the wrong channel": (code(port_buffers=(0,)), {}),
    "tables that hide operations": (code(COPY, memory_channels=(0, 1)), {}),
    "a barrier of one": (beside([barrier(15, 1)]), {}),
    "a barrier beyond the last": (beside([barrier(16, 1)]), {}),
    "a nop beside a barrier": (beside([barrier(0, 1), barrier(0, 2, "nop")]), {}),
    "a barrier without a number": (beside([barrier(None, 1)]), {}),
    "a barrier without a size": (beside([barrier(0, None)]), {}),
    "a barrier with two sizes": (beside([barrier(1, 2)], [barrier(1, 3)]), {}),
    "a barrier met unequally often": (beside([barrier(1, 2)] * 2, [barrier(1, 2)]), {}),
    "one server": (BASE, {"servers": ["a", "a"]}),
    "two servers": (BASE, {"servers": ["a", "b"]}),
    "too few multiprocessors": (beside([NOP]), {"sms": 1}),
    "both links": (BASE, {"links": BOTH}),
    "no link": (BASE, {"links": set()}),
    "no link for port channels": (PORTS, {"links": {(1, 0)}}),
    "no link for a get": (middle(TAKE), {"links": {(0, 1)}}),
    "no link to read from": (middle(RRES), {"links": {(0, 1)}}),
    "no link to write to": (middle(RRES), {"links": {(1, 0)}}),
    "no channel type": (UNTYPED, {"links": {(1, 0)}}),
    "the first root that is none": (replace(BASE, collective="broadcast"), {"root": 2}),
    "no root is right": (replace(BASE, collective="broadcast"), {}),
    "two findings of many": (code(*[COPY] * 9), {"max_findings": 2}),
}  # fmt: skip


def test_whole_verdicts(golden: Callable[[Path, bytes], None]) -> None:
    lines = []
    for name, (made, options) in ROWS.items():
        lines += [f"{name}:", *(f"    {said}" for said in verdict(made, **options) or ["right"])]
    golden(GOLDEN, ("\n".join(lines) + "\n").encode())


# -- which plans are too large to run


def measured() -> Plan:
    """19 chunks of memory, 20 moved; 3 thread blocks, 2 ports and 2 GPUs, of which 6 operations learn."""
    sent = Op("pwsf", "port", (0,), (local("i", 0, 4),), (RemoteSlice(0, 0, 4),))
    flush = Op("flush", "port", (0,), dst=(local("o", 0, 4),))
    first = [
        Op("wait", "port", (0,)),
        NOP,
        sent,
        Op("copy", src=(local("i", 0, 4),), dst=(local("o", 0, 4),)),
        flush,
    ]
    second = [Op("signal", "port", (0,)), Op("rlxwait", "port", (0,)), NOP,
              Op("copy", src=(local("o", 0, 2),), dst=(local("s", 0, 2),))]  # fmt: skip
    other = [Op("sem_acquire", semaphores=(0,)), barrier(0, 1), Op("sem_release", semaphores=(0,))]
    gpus = []
    for rank, blocks in enumerate(([first, other], [second])):
        codes = (PlanBlock(t, tuple(ops), (), (0,), (), (0,)) for t, ops in enumerate(blocks))
        remote = (RemoteBuffer(1 - rank, "o", ("port",)),)
        gpus.append(GpuPlan(rank, 4, 4, 1 + rank, tuple(codes), (), (1 - rank,), remote, (1,)))
    return Plan("p", "broadcast", "Simple", False, tuple(gpus))


@pytest.mark.parametrize(
    ("limit", "most"), [("MAX_CELLS", 19), ("MAX_MOVED", 20), ("MAX_KNOWLEDGE", (3 + 2 + 2) * (6 + 3))]
)
def test_what_is_counted_of_a_plan(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, limit, most)
    assert verdict(measured()) == []
    monkeypatch.setattr(judge, limit, most - 1)
    with pytest.raises(HetesynthError) as caught:
        plan_violations(measured())
    assert caught.value.code == "HS532"
    assert "too large to execute: 19 chunks of memory, 20 moved, 3 thread blocks" in caught.value.message


# -- roots that no plan states
