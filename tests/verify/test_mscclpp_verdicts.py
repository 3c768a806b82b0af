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
        (Op("put", "memory", (), (I0,) * 10, (R0,) * 10), ""),
        (Op("put", "memory", (), (I0,) * 11, (R0,) * 11), "plan-slice-limit"),
        (Op("put", "port", (0,) * 8, (I0,) * 8, (R0,) * 8), ""),
        (Op("put", "port", (0,) * 9, (I0,) * 9, (R0,) * 9), "plan-operation-channels"),
        (Op("put", "port", (0,), (I0, I1), (R0, R1)), "plan-channel-each"),
        (Op("put", "port", (0,), (I0,), (FAR,)), "plan-other-peer"),
        (Op("put", "memory", (0,), (I0,), (FAR,)), ""),
        (Op("put", "port", (), (I0,), (FAR,)), "plan-channel-each"),
        (Op("put", "port", BOTH, (I0, O0), (R0, FAR)), ""),
        (Op("put", "memory", (), (I0, O0), (R0, R1)), "plan-put-one-buffer"),
        (Op("res", "memory", (), (I0, O0), (O1, R0)), ""),
        (Op("put", "memory", (), (I0, I1), (R0,)), "plan-slice-count"),
        (Op("put", "memory", (), (I0, LocalSlice("i", 0, 2)), (R0, R1)), "plan-slice-size"),
        (Op("get", "memory", (), (R0,), (O0, O1)), "plan-slice-count"),
        (Op("get", "memory", (), (R0, R1), (O0, O0)), "plan-get-exchanged"),
        (Op("get", "memory", (), (R0, R1), (O0, O1)), ""),
        (Op("sem_acquire", semaphores=(0, 0)), "plan-semaphore-twice"),
        (Op("sem_acquire", semaphores=(0, 2)), "plan-semaphore-range"),
        (Op("flush", "port", (0,), (), (O0,) * 8), ""),
        (Op("nop", "memory", (), (), (RemoteSlice(1, 0, 1),)), ""),
        (Op("nop", "memory", (), (), (RemoteSlice(2, 0, 1),)), "plan-buffer-id"),
        (Op("nop", None, (), (), (R0,)), "plan-buffer-id"),
        (Op("nop", None, (4,)), ""),
        (Op("put", "memory", (), (I0,), (RemoteSlice(2, 0, 1),)), "plan-buffer-id"),
        (Op("signal", "memory"), "plan-no-channel"),
        (Op("wait", "memory", (0, 0)), "plan-channel-twice"),
        (Op("flush", "memory", (0,), (), (O0,)), "plan-port-only"),
        (Op("get", "port", (0,), (R0,), (O0,)), "plan-memory-only"),
        (Op("sem_acquire", semaphores=(0,) * 17), "plan-semaphore-limit"),
        (Op("sem_release"), "plan-no-semaphore"),
        (Op("put", None, (), (I0,), (R0,)), "plan-channel-type"),
        (Op("copy", None, (), (EMPTY,), (O0,)), "plan-slice-size plan-empty-slice"),
        (Op("signal", "port", (2,)), "plan-no-such-channel"),
    ],
)  # fmt: skip
def test_an_operation_seen_alone(operation: PlanOperation, expected: str) -> None:
    assert " ".join(rule for rule, _ in operation_defects(THREE, GPU, BLOCK, operation)) == expected


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
