"""Exact findings about damaged plans: operations seen alone, sizes of buffers, what an operator is told."""

from __future__ import annotations

import pytest
from plan_builders import block, gpu, plan

from hetesynth.judge.layout import Layout
from hetesynth.judge.mscclpp.checks import operation_defects
from hetesynth.judge.mscclpp.judge import plan_layout
from hetesynth.model.plan import GpuPlan, LocalSlice, Plan, PlanBlock, PlanOperation, RemoteBuffer, RemoteSlice

Op = PlanOperation
I0, I1, O0, O1 = (LocalSlice(name, at, 1) for name in ("i", "o") for at in (0, 1))
R0, R1, FAR = RemoteSlice(0, 0, 1), RemoteSlice(0, 1, 1), RemoteSlice(1, 0, 1)
EMPTY = LocalSlice("i", 0, 0)
BOTH = (0, 1)
BLOCK = PlanBlock(0, (), BOTH, BOTH, BOTH, BOTH)
OWNERS = tuple(RemoteBuffer(peer, "o", ("memory", "port")) for peer in (1, 2))
GPU = GpuPlan(0, 2, 2, 2, (BLOCK,), (1, 2), (1, 2), OWNERS, semaphores=(0, 0))
THREE = Plan("p", "allreduce", "Simple", False, (GPU, gpu(1, i=2), gpu(2, i=2)))


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Op("put", "memory", (), (I0,) * 10, (R0,) * 10), []),
        (Op("put", "memory", (), (I0,) * 11, (R0,) * 11), ["plan-slice-limit: more than 10 slices on one side"]),
        (Op("put", "port", (0,) * 8, (I0,) * 8, (R0,) * 8), []),
        (
            Op("put", "port", (0,) * 9, (I0,) * 9, (R0,) * 9),
            ["plan-operation-channels: 9 channels, at most 8 an operation"],
        ),
        (
            Op("put", "port", (0,), (I0, I1), (R0, R1)),
            ["plan-channel-each: 1 channels for 2 slices: one carries each"],
        ),
        (
            Op("put", "port", (0,), (I0,), (FAR,)),
            ["plan-other-peer: `put` into gpu 2: none of its channels leads there"],
        ),
        (Op("put", "memory", (0,), (I0,), (FAR,)), []),
        (Op("put", "port", (), (I0,), (FAR,)), ["plan-channel-each: 0 channels for 1 slices: one carries each"]),
        (Op("put", "port", BOTH, (I0, O0), (R0, FAR)), []),
        (
            Op("put", "memory", (), (I0, O0), (R0, R1)),
            ["plan-put-one-buffer: `put` from different buffers: "
             "the runtime takes all from that of the first slice"],
        ),
        (Op("res", "memory", (), (I0, O0), (O1, R0)), []),
        (Op("put", "memory", (), (I0, I1), (R0,)), ["plan-slice-count: `put` has 2 sources and 1 targets"]),
        (
            Op("put", "memory", (), (I0, LocalSlice("i", 0, 2)), (R0, R1)),
            ["plan-slice-size: `put` moves between slices of different sizes"],
        ),
        (Op("get", "memory", (), (R0,), (O0, O1)), ["plan-slice-count: `get` has 1 sources and 2 targets"]),
        (
            Op("get", "memory", (), (R0, R1), (O0, O0)),
            ["plan-get-exchanged: `get` between different indices: the runtime exchanges the two offsets"],
        ),
        (Op("get", "memory", (), (R0, R1), (O0, O1)), []),
        (Op("sem_acquire", semaphores=(0, 0)), ["plan-semaphore-twice: `sem_acquire` names a semaphore twice"]),
        (Op("sem_acquire", semaphores=(0, 2)), ["plan-semaphore-range: semaphore 2: the GPU has 2"]),
        (Op("flush", "port", (0,), (), (O0,) * 8), []),
        (Op("nop", "memory", (), (), (RemoteSlice(1, 0, 1),)), []),
        (
            Op("nop", "memory", (), (), (RemoteSlice(2, 0, 1),)),
            [
                "plan-buffer-id: buffer_id 2: the thread block has 2 over memory channels,"
                " and the loader looks it up though `nop` moves nothing"
            ],
        ),
        (
            Op("nop", None, (), (), (R0,)),
            [
                "plan-buffer-id: buffer_id 0: the thread block has 0 over no channels,"
                " and the loader looks it up though `nop` moves nothing"
            ],
        ),
        (Op("nop", None, (4,)), []),
        (
            Op("put", "memory", (), (I0,), (RemoteSlice(2, 0, 1),)),
            ["plan-buffer-id: buffer_id 2: the thread block has 2 over memory channels"],
        ),
        (Op("signal", "memory"), ["plan-no-channel: `signal` names no channel"]),
        (
            Op("wait", "memory", (0, 0)),
            ["plan-channel-twice: `wait` names a channel twice: two threads would use it at once"],
        ),
        (Op("flush", "memory", (0,), (), (O0,)), ["plan-port-only: `flush` is for port channels"]),
        (
            Op("get", "port", (0,), (R0,), (O0,)),
            ["plan-memory-only: `get` reads or writes peers directly: a port channel cannot"],
        ),
        (
            Op("sem_acquire", semaphores=(0,) * 17),
            ["plan-semaphore-limit: 17 semaphores, at most 16 an operation"],
        ),
        (Op("sem_release"), ["plan-no-semaphore: `sem_release` names no semaphore"]),
        (Op("put", None, (), (I0,), (R0,)), ["plan-channel-type: `put` needs a channel_type"]),
        (Op("copy", None, (), (EMPTY,), (O0,)), ["plan-slice-size: `copy` moves between slices of different sizes",
                                                 "plan-empty-slice: a slice of no chunks"]),
        (Op("signal", "port", (2,)), ["plan-no-such-channel: channel 2: the thread block has 2 port channels"]),
    ],
)  # fmt: skip
def test_an_operation_seen_alone(operation: PlanOperation, expected: list[str]) -> None:
    assert [f"{rule}: {text}" for rule, text in operation_defects(THREE, GPU, BLOCK, operation)] == expected


def sized(name: str, *chunks: tuple[int, int]) -> Plan:
    return plan(*(gpu(r, block(0, []), i=i, o=o) for r, (i, o) in enumerate(chunks)), name=name)


@pytest.mark.parametrize(
    ("name", "root", "chunks", "block_chunks"),
    [
        ("gather", None, [(1, 2), (1, 0)], 1),
        ("gather", 0, [(3, 6), (3, 0)], 3),
        ("gather", 1, [(3, 0), (3, 6)], 3),
        ("gather", 1, [(3, 6), (3, 0)], None),
        ("gather", None, [(3, 0), (3, 6)], None),
        ("gather", 0, [(3, 6), (2, 0)], None),
        ("gather", None, [(2, 2)], 2),
        ("scatter", 1, [(0, 3), (6, 3)], 3),
        ("scatter", 1, [(0, 3), (6, 2)], None),
        ("allgather", None, [(1, 2), (2, 2)], None),
        ("allgather", None, [(1, 2), (1, 4)], None),
        ("allgather", None, [(2, 4), (2, 4)], 2),
        ("allgather", None, [(3, 3)], 3),
        ("allgather", None, [(2, 3), (2, 3)], None),
        ("reducescatter", None, [(4, 2), (4, 2)], 2),
        ("reducescatter", None, [(3, 2), (3, 2)], None),
        ("allreduce", None, [(3, 3), (3, 3)], 3),
        ("allreduce", None, [(3, 2), (3, 2)], None),
        ("alltoall", None, [(4, 4), (4, 4)], 2),
        ("alltoall", None, [(3, 3), (3, 3)], None),
    ],
)
def test_sizes_of_the_buffers(
    name: str, root: int | None, chunks: list[tuple[int, int]], block_chunks: int | None
) -> None:
    layout = plan_layout(sized(name, *chunks), root)
    if block_chunks is None:
        assert isinstance(layout, str) and name in layout
    else:
        inputs, outputs = [i for i, _ in chunks], [o for _, o in chunks]
        assert layout == Layout(name, False, root, inputs, outputs, block_chunks)
