"""The judge of MSCCL++ plans on plans written by hand: one defect each, found as what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.plan_chaos import outcome

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.judge import plan_violations
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
)
from hetesynth.model.program import Buffer

NOP = PlanOperation("nop")


def on(op: PlanOp, *channels: int, kind: ChannelType = "memory") -> PlanOperation:
    counted = (LocalSlice("o", 0, 1),) * len(channels or (0,)) if op == "flush" else ()
    return PlanOperation(op, kind, channels or (0,), dst=counted)


def local(buffer: Buffer, index: int, size: int = 1) -> LocalSlice:
    return LocalSlice(buffer, index, size)


def put(src: Slice, index: int, *, to: int = 0, kind: ChannelType = "memory", op: PlanOp = "put") -> PlanOperation:
    return PlanOperation(op, kind, (0,) if kind == "port" else (), (src,), (RemoteSlice(to, index, src.size),))


def copy(src: Slice, dst: Slice) -> PlanOperation:
    return PlanOperation("copy", src=(src,), dst=(dst,))


def add(dst: Slice, *src: Slice) -> PlanOperation:
    return PlanOperation("re", src=src, dst=(dst,))


def barrier(number: int, blocks: int) -> PlanOperation:
    return PlanOperation("barrier", barrier=number, blocks=blocks)


def semaphore(op: PlanOp, *ids: int) -> PlanOperation:
    return PlanOperation(op, semaphores=ids)


def block(number: int, operations: list[PlanOperation], kind: ChannelType = "memory") -> PlanBlock:
    if kind == "memory":
        return PlanBlock(number, tuple(operations), memory_channels=(0,), memory_buffers=(0, 1))
    return PlanBlock(number, tuple(operations), port_channels=(0,), port_buffers=(0, 1))


def gpu(
    rank: int, *blocks: PlanBlock, i: int = 1, o: int = 2, s: int = 2, kind: ChannelType = "memory"
) -> GpuPlan:
    peer = 1 - rank
    return GpuPlan(
        rank, i, o, s, blocks,
        memory_peers=(peer,) if kind == "memory" else (), port_peers=(peer,) if kind == "port" else (),
        remote_buffers=(RemoteBuffer(peer, "o", (kind,)), RemoteBuffer(peer, "s", (kind,))),
    )  # fmt: skip


def plan(*gpus: GpuPlan, name: str = "allgather", in_place: bool = False) -> Plan:
    return Plan("p", name, "Simple", in_place, gpus)


def exchange(rank: int, kind: ChannelType = "memory") -> list[PlanOperation]:
    """An allgather's part of one of two ranks."""
    end = [on("flush", kind=kind)] if kind == "port" else []
    return [
        on("rlxsignal", kind=kind), on("rlxwait", kind=kind), NOP,
        put(local("i", 0), rank, kind=kind), copy(local("i", 0), local("o", rank)), NOP,
        on("signal", kind=kind), on("wait", kind=kind), *end,
    ]  # fmt: skip


def pair(
    first: list[PlanOperation], kind: ChannelType = "memory", second: list[PlanOperation] | None = None
) -> Plan:
    other = exchange(1, kind) if second is None else second
    return plan(gpu(0, block(0, first, kind), kind=kind), gpu(1, block(0, other, kind), kind=kind))


def kinds(p: Plan) -> set[str]:
    return {v.kind for v in plan_violations(p)}


@pytest.mark.parametrize("kind", ["memory", "port"])
def test_a_good_exchange(kind: ChannelType) -> None:
    good = pair(exchange(0, kind), kind)
    assert plan_violations(good) == []
    assert {outcome(good, None, seed) for seed in range(20)} == {"right"}


@pytest.mark.parametrize(
    ("without", "kind", "words"),
    [
        (0, "deadlock", "for a signal of gpu 0"),
        (1, "race", "may not have started"),
        (2, "race", "may not have started"),
        (3, "wrong-data", "ends with nothing, not input chunk 0 of rank 0"),
        (4, "wrong-data", "o[0] ends with nothing"),
        (5, "race", "its kernel may end while gpu 0 thread block 0"),
        (6, "deadlock", "wait for ever"),
        (7, "connection", "never waited for"),
    ],
)
def test_each_operation_of_the_exchange_is_needed(without: int, kind: str, words: str) -> None:
    operations = exchange(0)
    del operations[without]
    found = plan_violations(pair(operations))
    assert any(v.kind == kind and words in v.message for v in found), found


def test_a_port_channel_must_be_flushed_before_its_source_may_change() -> None:
    without = exchange(0, "port")[:-1]
    found = plan_violations(pair(without, "port"))
    assert [v.kind for v in found] == ["race"]
    assert "the port channel 0 of gpu 0 to gpu 1 still uses its memory" in found[0].message
    early = exchange(0, "port")
    early[-1], early[3] = early[3], early[-1]  # a flush before the put says nothing
    assert "race" in kinds(pair(early, "port"))


def test_pwsf_is_put_signal_and_flush_in_one() -> None:
    def part(rank: int) -> list[PlanOperation]:
        sent = put(local("i", 0), rank, kind="port", op="pwsf")
        opening = [on("signal", kind="port"), on("wait", kind="port"), NOP]
        return [*opening, sent, copy(local("i", 0), local("o", rank)), on("wait", kind="port")]

    assert kinds(pair(part(0), "port", part(1))) == set()
    unflushed = [replace(x, op="pws") if x.op == "pwsf" else x for x in part(0)]
    assert kinds(pair(unflushed, "port", part(1))) == {"race"}


@pytest.mark.parametrize(("kind", "wrong"), [("memory", {"race"}), ("port", set())])
@pytest.mark.parametrize(("op", "relaxed"), [("signal", "rlxsignal"), ("wait", "rlxwait")])
def test_a_relaxed_signal_says_nothing_of_data(
    kind: ChannelType, wrong: set[str], op: PlanOp, relaxed: PlanOp
) -> None:
    """The runtime's kernel has the relaxed forms for memory channels only; over ports it signals and waits."""
    operations = [replace(x, op=relaxed) if x.op == op else x for x in exchange(0, kind)]
    assert kinds(pair(operations, kind)) == wrong


def test_a_put_by_another_thread_than_the_signal_needs_a_nop() -> None:
    """The signal of thread 0 does not follow the put of thread 1."""
    two = PlanOperation(
        "put", "port", (0, 0), (local("i", 0), local("i", 1)), (RemoteSlice(0, 0, 1), RemoteSlice(0, 1, 1))
    )

    def part(rank: int, nop: bool) -> list[PlanOperation]:
        moved = replace(two, dst=tuple(replace(p, index=p.index + 2 * rank) for p in two.dst))
        own = copy(local("i", 0, 2), local("o", 2 * rank, 2))
        after = [NOP] if nop else []
        opening = [on("signal", kind="port"), on("wait", kind="port"), NOP]
        closing = [on("signal", kind="port"), on("wait", kind="port"), NOP, on("flush", kind="port")]
        return [*opening, own, moved, *after, *closing]

    def both(nop: bool) -> Plan:
        sizes = {"i": 2, "o": 4, "kind": "port"}
        return plan(*(gpu(r, block(0, part(r, nop), "port"), **sizes) for r in (0, 1)))  # type: ignore[arg-type]

    assert kinds(both(True)) == set()
    assert kinds(both(False)) == {"race"}


def two_blocks(first: list[PlanOperation], second: list[PlanOperation], semaphores: tuple[int, ...] = ()) -> Plan:
    """Two GPUs alike: a local reduction of an allreduce of one chunk split over two thread blocks."""

    def one(rank: int) -> GpuPlan:
        made = gpu(rank, block(0, first), block(1, second), i=1, o=1)
        return replace(made, semaphores=semaphores)

    return plan(one(0), one(1), name="allreduce")


OPENING = [on("rlxsignal"), on("rlxwait"), NOP]
RECEIVED = [*OPENING, put(local("i", 0), 0, to=1), NOP, on("signal"), on("wait"), NOP]
SUM = add(local("o", 0), local("i", 0), local("s", 0))


@pytest.mark.parametrize(
    ("before", "after", "semaphores", "expected"),
    [
        ([barrier(0, 2)], [barrier(0, 2)], (), set()),
        ([semaphore("sem_release", 0)], [semaphore("sem_acquire", 0), NOP], (0,), set()),
        ([], [], (), {"race"}),
        ([semaphore("sem_release", 0)], [semaphore("sem_acquire", 0)], (0,), {"race"}),  # no nop after it
        ([semaphore("sem_release", 0)], [semaphore("sem_acquire", 0), NOP], (1,), {"race"}),  # a token of old
        ([], [semaphore("sem_acquire", 0), NOP], (0,), {"deadlock"}),
        ([semaphore("sem_release", 0)], [], (0,), {"race", "dependence"}),
        ([barrier(0, 2)], [], (), {"dependence"}),
        ([barrier(0, 3)], [barrier(0, 3)], (), {"dependence"}),
        ([barrier(0, 2), barrier(0, 2)], [barrier(0, 2)], (), {"dependence"}),
        ([barrier(16, 2)], [barrier(16, 2)], (), {"limit"}),
        ([semaphore("sem_release", 1)], [semaphore("sem_acquire", 1)], (0,), {"range"}),
        ([semaphore("sem_release", 0)], [semaphore("sem_acquire", 0), NOP], (0,) * 17, set()),
    ],
)
def test_thread_blocks_order_each_other(
    before: list[PlanOperation], after: list[PlanOperation], semaphores: tuple[int, ...], expected: set[str]
) -> None:
    made = two_blocks([*RECEIVED, *before], [*after, SUM], semaphores)
    assert kinds(made) - {"undefined-data"} == expected
    if not expected:
        assert kinds(made) == set()
        assert {outcome(made, None, seed) for seed in range(20)} == {"right"}


def test_an_acquire_that_may_meet_either_release_learns_nothing_until_it_has_met_both() -> None:
    """Two thread blocks release, one acquires: after one acquire it is sure of neither, after two of both."""
    release = semaphore("sem_release", 0)
    acquire = semaphore("sem_acquire", 0)
    for acquires, expected in ((1, {"race", "dependence"}), (2, set())):
        base = two_blocks([*RECEIVED, release], [*[acquire] * acquires, NOP, SUM], (0,))
        gpus = tuple(replace(g, blocks=(*g.blocks, PlanBlock(2, (release,)))) for g in base.gpus)
        assert kinds(replace(base, gpus=gpus)) == expected


def test_two_thread_blocks_may_not_use_a_channel_at_once() -> None:
    first = exchange(0)
    second = [on("signal")]
    other = [*exchange(1), on("wait")]
    made = plan(gpu(0, block(0, first), block(1, second)), gpu(1, block(0, other)))
    found = plan_violations(made)
    assert any(v.kind == "race" and "uses a channel" in v.message for v in found)


def test_in_place_a_peers_input_is_not_where_the_own_one_is() -> None:
    """Read as the peer's input, the block of an allgather is the wrong chunk; as its output, the right one."""

    def part(rank: int, buffer: int, index: int) -> PlanBlock:
        get = PlanOperation("get", "memory", (0,), (RemoteSlice(buffer, index, 1),), (local("o", 1 - rank),))
        operations = [*OPENING, get, NOP, on("signal"), on("wait")]
        return PlanBlock(0, tuple(operations), memory_channels=(0,), memory_buffers=(0, 1))

    def both(buffer: int) -> Plan:
        made = []
        for rank in (0, 1):
            index = 1 - rank if buffer else 0
            remote = tuple(RemoteBuffer(1 - rank, b, ("memory",)) for b in ("i", "o"))  # type: ignore[arg-type]
            made.append(replace(gpu(rank, part(rank, buffer, index)), remote_buffers=remote))
        return plan(*made, in_place=True)

    assert plan_violations(both(1)) == []
    assert {outcome(both(1), None, seed) for seed in range(9)} == {"right"}
    assert kinds(both(0)) - {"wrong-data"} <= {"race", "undefined-data"} and kinds(both(0))


def test_reading_peers_while_they_add_is_a_race() -> None:
    rre = PlanOperation("rre", "memory", (), (local("i", 0), RemoteSlice(0, 0, 1)), (local("o", 0),))
    operations = [*OPENING, rre, NOP, on("signal"), on("wait")]
    made = plan(gpu(0, block(0, operations), i=1, o=1), gpu(1, block(0, operations), i=1, o=1), name="allreduce")
    assert kinds(made) >= {"race"}
    inputs = tuple(replace(g, remote_buffers=(RemoteBuffer(1 - g.rank, "i", ("memory",)),) * 2) for g in made.gpus)
    assert kinds(replace(made, gpus=inputs)) == set()


@pytest.mark.parametrize(
    ("operation", "kind", "words"),
    [
        (put(local("i", 1), 0), "range", "which has 1 chunks"),
        (put(local("i", 0), 2), "range", "which has 2 chunks"),
        (put(local("i", 0, 2), 0), "range", "i[0..1]"),
        (put(local("i", 0), 0, to=7), "range", "buffer_id 7"),
        (PlanOperation("put", "memory", (), (local("i", 0),), (local("o", 0),)), "range", "does not take these"),
        (
            PlanOperation("copy", src=(local("i", 0), local("i", 0)), dst=(local("o", 0),)),
            "range",
            "does not take",
        ),
        (PlanOperation("copy", src=(local("i", 0, 0),), dst=(local("o", 0, 0),)), "range", "no chunks"),
        (PlanOperation("copy", src=(local("i", 0),), dst=(local("o", 0, 2),)), "range", "different sizes"),
        (replace(put(local("i", 0), 0), channel_type=None), "connection", "needs a channel_type"),
        (on("signal", 0, 0), "connection", "names a channel twice"),
        (on("signal", 3), "connection", "has 1 memory channels"),
        (PlanOperation("wait", "memory"), "connection", "names no channel"),
        (on("flush"), "connection", "is for port channels"),
        (PlanOperation("get", "port", (0,), (RemoteSlice(0, 0, 1),), (local("o", 0),)), "connection", "directly"),
        (PlanOperation("signal", "memory", (0,) * 9), "limit", "at most 8"),
        (PlanOperation("re", src=(local("i", 0),) * 11, dst=(local("o", 0),)), "limit", "more than 10 slices"),
        (PlanOperation("get", "memory", (), (RemoteSlice(0, 0, 1),), (local("o", 1),)), "wrong-data", "exchanges"),
        (
            PlanOperation("put", "memory", (), (local("i", 0), local("o", 0)), (RemoteSlice(0, 0, 1),) * 2),
            "wrong-data",
            "different buffers",
        ),
        (PlanOperation("barrier"), "dependence", "needs barrier_id"),
        (PlanOperation("sem_release"), "dependence", "names no semaphore"),
        (copy(local("o", 0), local("i", 0)), "wrong-data", "out of place"),
        (copy(local("s", 0), local("o", 0)), "undefined-data", "nothing is written"),
    ],
)
def test_defects_of_an_operation(operation: PlanOperation, kind: str, words: str) -> None:
    found = plan_violations(pair([*exchange(0), NOP, operation]))
    assert any(v.kind == kind and words in v.message and v.rank == 0 for v in found), found
    assert all(v.step == 9 for v in found if v.kind == kind and words in v.message)


def test_limits_of_gpus_and_thread_blocks() -> None:
    base = pair(exchange(0))
    first, second = base.gpus

    def changed(**values: object) -> Plan:
        return replace(base, gpus=(replace(first, **values), second))  # type: ignore[arg-type]

    long = block(0, [*exchange(0), *[NOP] * 57])
    wide = replace(first.blocks[0], memory_channels=(0,) * 17)
    reach = replace(first.blocks[0], memory_buffers=(0,) * 17)
    both = on("signal", 0, 1)
    twice = replace(first.blocks[0], operations=(*exchange(0)[:6], both), memory_channels=(0, 0))
    beyond = replace(first.blocks[0], memory_channels=(1,))
    cases: list[tuple[Plan, str, str]] = [
        (changed(blocks=(long,)), "limit", "65 operations, at most 64"),
        (changed(blocks=(wide,)), "limit", "17 memory channels"),
        (changed(blocks=(reach,)), "limit", "17 remote buffers"),
        (changed(blocks=(beyond,)), "connection", "channel 1 does not exist"),
        (changed(blocks=(twice,)), "connection", "names a channel twice"),
        (changed(blocks=()), "limit", "no thread block"),
        (changed(blocks=(replace(first.blocks[0], id=1),)), "attribute", "its id is 1"),
        (changed(rank=1), "attribute", "its id is 1"),
        (changed(input_chunks=0), "limit", "at least 1"),
        (changed(output_chunks=0), "limit", "at least 1"),
        (changed(memory_peers=(0,)), "connection", "the GPU itself"),
        (changed(memory_peers=(5,)), "connection", "does not exist"),
        (changed(remote_buffers=(RemoteBuffer(1, "o", ("port",)),) * 2), "connection", "no remote buffer 0"),
        (changed(output_chunks=3), "attribute", "must be the same on every rank"),
        (replace(base, alignment=8), "attribute", "no multiple of 16"),
        (replace(base, threads=2048), "limit", "threads"),
        (replace(base, min_bytes=2, max_bytes=1), "attribute", "min_message_size"),
        (replace(base, gpus=(first, replace(second, scratch_chunks=0))), "range", "scratch of GPU 1"),
        (replace(base, gpus=(first, replace(second, memory_peers=()))), "connection", "none back"),
    ]
    for wrong, kind, words in cases:
        found = plan_violations(wrong)
        assert any(v.kind == kind and words in v.message for v in found), (words, found)


def test_servers_and_links() -> None:
    base = pair(exchange(0))
    assert plan_violations(base, servers=["a", "a"], links={(0, 1), (1, 0)}) == []
    assert {v.kind for v in plan_violations(base, servers=["a", "b"])} == {"connection"}
    found = plan_violations(base, links={(0, 1)})
    assert [(v.kind, v.rank, v.step) for v in found] == [("no-such-link", 1, 3)]


def test_roots_are_found_or_checked() -> None:
    def sender(rank: int) -> list[PlanOperation]:
        return [on("rlxwait"), NOP, put(local("i", 0), 0), copy(local("i", 0), local("o", 0)), NOP, on("signal")]

    made = plan(
        gpu(0, block(0, [on("rlxsignal"), on("wait")]), o=1), gpu(1, block(0, sender(1)), o=1), name="broadcast"
    )
    assert plan_violations(made) == []
    assert plan_violations(made, root=1) == []
    assert {v.kind for v in plan_violations(made, root=0)} == {"undefined-data"}
    assert {v.kind for v in plan_violations(made, root=2)} == {"attribute"}
    silent = replace(made, gpus=tuple(replace(g, blocks=(PlanBlock(0, (NOP,)),)) for g in made.gpus))
    assert {v.kind for v in plan_violations(silent)} == {"attribute", "wrong-data"}


def test_what_is_not_known_is_said() -> None:
    base = pair(exchange(0))
    with pytest.raises(HetesynthError, match="'sendrecv'") as caught:
        plan_violations(replace(base, collective="sendrecv"))
    assert (caught.value.code, caught.value.exit_code) == ("HS531", 3)
    stuck = pair(exchange(0)[1:])
    huge = replace(stuck, gpus=tuple(replace(g, input_chunks=2**30, output_chunks=2**31) for g in stuck.gpus))
    with pytest.raises(HetesynthError, match="too large") as caught:
        plan_violations(huge)
    assert (caught.value.code, caught.value.exit_code) == ("HS532", 3)


def test_findings_are_limited() -> None:
    many = [put(local("i", 5), 9) for _ in range(60)]
    assert len(plan_violations(pair(many), max_findings=7)) == 7


def test_slices_of_one_operation_that_overlap_out_of_step_race() -> None:
    """Threads share out each slice by position: the one that reads a chunk is not the one that overwrites it."""

    def part(rank: int, *middle: PlanOperation) -> list[PlanOperation]:
        return [*exchange(rank), NOP, *middle]

    def rules(*middle: PlanOperation) -> set[str | None]:
        blocks = [block(0, part(r, *middle)) for r in (0, 1)]
        return {v.rule for v in plan_violations(plan(*(gpu(r, blocks[r], s=4) for r in (0, 1))))}

    first = copy(local("o", 0, 2), local("s", 0, 2))
    assert rules(first) == set()
    assert rules(first, NOP, copy(local("s", 0, 2), local("s", 2, 2))) == set()
    assert rules(first, NOP, copy(local("s", 0, 2), local("s", 0, 2))) == set()
    assert rules(first, NOP, copy(local("s", 0, 2), local("s", 1, 2))) == {"HX903"}
    found = plan_violations(pair([*exchange(0), NOP, first, NOP, copy(local("s", 0, 1), local("s", 1, 1))]))
    assert found == []


def test_a_put_that_writes_a_chunk_with_two_slices_out_of_step_races() -> None:
    def judged(*indices: int) -> set[str | None]:
        sent = put(local("i", 0, 2), 0)
        sent = replace(
            sent, src=(local("i", 0, 2),) * len(indices), dst=tuple(RemoteSlice(1, i, 2) for i in indices)
        )
        first = [*exchange(0)[:3], sent, put(local("i", 0, 2), 0), copy(local("i", 0, 2), local("o", 0, 2)), NOP]
        opening, closing = [on("rlxsignal"), on("rlxwait"), NOP], [on("signal"), on("wait")]
        other = [*opening, put(local("i", 0, 2), 2), copy(local("i", 0, 2), local("o", 2, 2)), NOP, *closing]
        sizes = {"i": 2, "o": 4, "s": 4}
        blocks = [block(0, [*first, *closing]), block(0, other)]
        return {v.rule for v in plan_violations(plan(*(gpu(r, blocks[r], **sizes) for r in (0, 1))))}

    assert judged(0, 2) == judged(0, 0) == set()
    assert judged(0, 1) == {"HX903"}


@pytest.mark.parametrize("op", ["flush", "signal", "wait"])
def test_remote_buffers_that_the_loader_looks_up_for_nothing(op: PlanOp) -> None:
    plain = pair(exchange(0, "port"), "port")
    assert plan_violations(plain) == []
    for remote, expected in ((1, set()), (9, {"HX850"})):
        operations = [
            replace(x, dst=(RemoteSlice(remote, 0, 1),)) if x.op == op else x for x in exchange(0, "port")
        ]
        assert {v.rule for v in plan_violations(pair(operations, "port"))} == expected
