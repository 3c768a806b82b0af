"""Plans of MSCCL++ with real bytes: right ones in any order, and mutants that must be caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from execute_cases import any_order
from hypothesis import given, settings
from hypothesis import strategies as st

from hetesynth.errors import HetesynthError
from hetesynth.execute.inprocess import run_in_process
from hetesynth.execute.job import RunOptions, job_of
from hetesynth.execute.outcome import Run
from hetesynth.model.plan import (
    ChannelType,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOp,
    PlanOperation,
    RemoteBuffer,
    RemoteSlice,
    Slice,
)  # fmt: skip
from hetesynth.model.program import Buffer

BOTH: tuple[ChannelType, ...] = ("memory", "port")


def local(buffer: Buffer, index: int, size: int = 1) -> LocalSlice:
    return LocalSlice(buffer, index, size)


def op(
    name: PlanOp, channels: tuple[int, ...] = (), src: tuple[Slice, ...] = (), dst: tuple[Slice, ...] = (),
    kind: ChannelType | None = "memory", **more: object,
) -> PlanOperation:  # fmt: skip
    return PlanOperation(name, kind, channels, src, dst, **more)  # type: ignore[arg-type]


def peers_of(rank: int, n: int) -> tuple[int, ...]:
    return tuple(q for q in range(n) if q != rank)


def gpu(
    rank: int, n: int, sizes: tuple[int, int, int], buffers: Buffer, *blocks: tuple[PlanOperation, ...]
) -> GpuPlan:
    """Channels of both types to every peer; ``buffers``: which buffer of each peer is within reach."""
    peers = peers_of(rank, n)
    every = tuple(range(n - 1))
    made = tuple(PlanBlock(k, ops, every, every, every, every) for k, ops in enumerate(blocks))
    remote = tuple(RemoteBuffer(q, buffers, BOTH) for q in peers)
    return GpuPlan(rank, *sizes, made, peers, peers, remote, (0,))


def allgather(n: int, kind: ChannelType = "memory", in_place: bool = False) -> Plan:
    """Handshake; everyone puts its block into all others and signals; then waits for all."""
    gpus = []
    every = tuple(range(n - 1))
    for r in range(n):
        own: tuple[Slice, ...] = (local("i", 0),)
        start = (op("rlxsignal", every), op("rlxwait", every))
        puts = tuple(op("put", (c,), own, (RemoteSlice(c, r, 1),), kind) for c in every)
        end = (op("signal", every, kind=kind), op("wait", every, kind=kind))
        copies = () if in_place else (op("copy", src=own, dst=(local("o", r),), kind=None),)
        gpus.append(gpu(r, n, (1, n, 0), "o", (*start, *copies, op("nop", kind=None), *puts, *end)))
    return Plan("test", "allgather", "Simple", in_place, tuple(gpus))


def allreduce(n: int) -> Plan:
    """Everyone puts all it has into the scratch of all others; a second thread block waits for it and sums."""
    gpus = []
    every = tuple(range(n - 1))
    for r in range(n):
        lanes = [peers_of(q, n).index(r) for q in peers_of(r, n)]
        puts = tuple(op("put", (c,), (local("i", 0, n),), (RemoteSlice(c, n * lanes[c], n),)) for c in every)
        talks = (*puts, op("signal", every), op("wait", every), op("sem_release", kind=None, semaphores=(0,)))
        sums = tuple(
            op("re", src=(local("i", k), *(local("s", n * c + k) for c in every)), dst=(local("o", k),), kind=None)
            for k in range(n)
        )
        meet = op("barrier", kind=None, barrier=0, blocks=2)
        adds = (op("sem_acquire", kind=None, semaphores=(0,)), *sums, meet)
        gpus.append(gpu(r, n, (n, n, n * (n - 1)), "s", (*talks, meet), adds))
    return Plan("test", "allreduce", "Simple", False, tuple(gpus))


def reading_reduce(n: int) -> Plan:
    """Reducescatter by reading: rank r sums chunk r of all peers with rre; alltoall's cousin with get."""
    every = tuple(range(n - 1))
    gpus = [
        gpu(r, n, (n, 1, 0), "i", (
            op("signal", every), op("wait", every),
            op("rre", every, (local("i", r), *(RemoteSlice(c, r, 1) for c in every)), (local("o", 0),)),
        ))
        for r in range(n)
    ]  # fmt: skip
    return Plan("test", "reducescatter", "Simple", False, tuple(gpus))


def run(plan: Plan, order: int = 0, **options: object) -> Run:
    job, parts = job_of(plan, RunOptions(**options))  # type: ignore[arg-type]
    (result,) = run_in_process(job, parts, any_order(order))
    return result


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(2, 5), seed=st.integers(0, 10**6), kind=st.sampled_from(BOTH), which=st.integers(0, 2),
    reduction=st.sampled_from(["sum", "max", "min"]),
)  # fmt: skip
def test_right_plans_are_right_in_any_order(
    n: int, seed: int, kind: ChannelType, which: int, reduction: str
) -> None:
    plan = (allgather(n, kind), allreduce(n), reading_reduce(n))[which]
    result = run(plan, seed, reduction=reduction, seed=seed)
    assert (result.ending, result.wrong, result.diagnosis) == ("done", 0, ())


def with_operations(plan: Plan, rank: int, block: int, change: dict[int, PlanOperation | None]) -> Plan:
    """Operations replaced, or dropped where None stands."""
    target = plan.gpus[rank]
    old = target.blocks[block].operations
    new = tuple(x for k, y in enumerate(old) if (x := change.get(k, y)) is not None)
    blocks = list(target.blocks)
    blocks[block] = replace(blocks[block], operations=new)
    gpus = list(plan.gpus)
    gpus[rank] = replace(target, blocks=tuple(blocks))
    return replace(plan, gpus=tuple(gpus))


def index_of(plan: Plan, name: PlanOp, block: int = 0) -> int:
    return [x.op for x in plan.gpus[0].blocks[block].operations].index(name)


@pytest.mark.parametrize("name", ["put", "copy"])
def test_a_dropped_transfer_is_wrong_bytes(name: PlanOp) -> None:
    plan = allgather(3)
    result = run(with_operations(plan, 0, 0, {index_of(plan, name): None}))
    assert result.ending == "done" and result.wrong > 4000
    assert set(result.first[0].found) <= {"d", "b", " "}, "what nobody wrote is poison"


@pytest.mark.parametrize(
    ("plan", "block", "name", "words"),
    [
        (allgather(3), 0, "signal", "waits for a signal of rank 0 on memory channel 0"),
        (allgather(3, "port"), 0, "signal", "waits for a signal of rank 0 on port channel 0"),
        (allreduce(3), 0, "sem_release", "rank 0 thread block 1 step 0 (`sem_acquire`) waits for semaphore 0"),
        (allreduce(3), 0, "barrier", "waits for 1 more thread blocks at barrier 0"),
    ],
)
def test_dropped_synchronization_is_a_stall_that_names_it(
    plan: Plan, block: int, name: PlanOp, words: str
) -> None:
    result = run(with_operations(plan, 0, block, {index_of(plan, name, block): None}))
    assert result.ending == "stall"
    assert any(words in line for line in result.diagnosis)


def test_a_put_outside_the_peers_buffer_is_a_fault() -> None:
    plan = allgather(3)
    k = index_of(plan, "put")
    result = run(with_operations(plan, 0, 0, {k: op("put", (0,), (local("i", 0),), (RemoteSlice(0, 9, 1),))}))
    assert result.ending == "fault"
    assert "o[9] is outside the buffer, which has 3 chunks" in result.diagnosis[0]


def test_an_output_buffer_of_another_size_is_a_fault() -> None:
    plan = allgather(3)
    gpus = tuple(replace(g, output_chunks=g.output_chunks + 1) if g.rank == 1 else g for g in plan.gpus)
    result = run(replace(plan, gpus=gpus))
    assert result.ending == "fault"
    assert result.diagnosis[0].startswith("rank 1 the output buffer has ")


def test_in_place_a_put_lands_where_the_runtime_puts_it() -> None:
    """A plan that names the peer's input in place misses: its own offset is not the peer's."""
    assert run(allgather(3, in_place=True)).correct
    broken = allgather(3, in_place=True)
    broken = replace(
        broken, gpus=tuple(replace(g, remote_buffers=tuple(replace(b, buffer="i") for b in g.remote_buffers))
        for g in broken.gpus),
    )  # fmt: skip
    assert not run(broken).correct


def test_plans_have_whole_aligned_chunks() -> None:
    with pytest.raises(HetesynthError, match="16-byte"):
        job_of(allgather(3), RunOptions(size=3 * 20))
    assert job_of(allgather(3), RunOptions(size=3 * 32))[0].size == 96
    with pytest.raises(HetesynthError, match="whole chunks"):
        job_of(allgather(3), RunOptions(message_bytes=64))
