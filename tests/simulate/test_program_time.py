"""Programs in time: hand answers for thread blocks, channels, slots, fused steps, loops; bounds; other judges."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from support.clusters import cluster
from support.fluid_reference import fullest
from verify.program_builders import block, direct_allreduce, direct_alltoall, program, ring_allgather, step

from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.errors import HetesynthError
from hetesynth.model.program import GpuProgram, Program, ThreadBlock
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.simulate.engine import simulate
from hetesynth.simulate.program import MAX_LOOPS, MIN_LOOPS, ProgramLoops

MB = 10**6
MESSAGE = 2 * 1024 * 1024


def us(topology: Topology, made: Program, size: float, target: str = "portable", **options: str) -> float:
    clock = ProgramPredictor(topology, made, CostOptions(**options), TARGETS[target])  # type: ignore[arg-type]
    return clock.timeline(Fraction(size)).makespan * 1e6


def mesh(ranks: int, rate: float, alpha: float, reduce: float | None = None) -> Topology:
    pairs = [(a, b, rate, alpha) for a in range(ranks) for b in range(ranks) if a != b]
    return cluster(ranks, pairs, reduce=reduce)


def two(sender: list[ThreadBlock], receiver: list[ThreadBlock], chunks: int, scratch: int = 0) -> Program:
    """A broadcast from rank 0 to rank 1 by these thread blocks."""
    gpus = [GpuProgram(r, chunks, chunks, scratch, tuple(b)) for r, b in enumerate((sender, receiver))]
    return program("broadcast", chunks, gpus, root=0)


def one_channel(messages: int) -> Program:
    sends = [step("s", f"i{k}", f"o{k}") for k in range(messages)]
    takes = [step("r", f"i{k}", f"o{k}") for k in range(messages)]
    return two([block(0, 1, None, *sends)], [block(0, None, 0, *takes)], messages)


def test_slots_hold_the_sender_back() -> None:
    """The receiver waits for a slow link: before it takes any, two messages are sent, or all with 8 slots."""
    links = [(0, 1, 50, 2), (0, 2, 1, 0), (2, 1, 50, 0)]
    topology = cluster(3, links)
    slow = block(1, 2, None, step("s", "i0", "o0"), channel=0)
    sends = [step("s", f"i{k}", f"o{k}") for k in range(1, 4)]
    takes = [step("r", f"i{k}", f"o{k}") for k in range(1, 4)]
    late = block(
        0, None, 0, *[step(x.op, f"i{k}", f"o{k}", on=(1, 0) if k == 1 else None) for k, x in enumerate(takes, 1)]
    )
    gate = block(1, None, 2, step("r", "o0", "o0", flag=True))
    relay = block(0, 2 - 1, 0, step("rcs", "o0", "o0"))
    gpus = [
        GpuProgram(0, 4, 4, 0, (block(0, 1, None, *sends), slow)),
        GpuProgram(1, 4, 4, 0, (late, gate)),
        GpuProgram(2, 4, 4, 0, (relay,)),
    ]
    made = program("broadcast", 4, gpus, root=0)
    gate_us = 1000 + 20
    assert us(topology, made, 4 * MB) == pytest.approx(gate_us + 22, rel=1e-9)
    loops = ProgramLoops(made, ProgramPredictor(topology, made).costs, slots=8).tasks(1e6)
    assert simulate(loops.tasks.graph(1.0)).makespan * 1e6 == pytest.approx(gate_us, rel=1e-9)


@pytest.mark.parametrize(("collective", "messages"), [("custom", 2), ("broadcast", 3), ("reduce", 3)])
def test_large_counts_are_split_into_messages(collective: str, messages: int) -> None:
    """Three chunks of 1 MiB: two fit into a message, of broadcast and reduce one, and a third message waits until
    the first was taken. A quarter of that fits them too; small ones go together."""
    topology = cluster(2, [(0, 1, 50, 1000)])
    made = two([block(0, 1, None, step("s", "i0", "o0", 3))], [block(0, None, 0, step("r", "i0", "o0", 3))], 3)
    made = replace(made, collective=collective)  # type: ignore[arg-type]
    beta = MESSAGE / 2 / 50e9 * 1e6
    whole = 1000 + 3 * beta if messages == 2 else 2000 + 2 * beta
    assert us(topology, made, 3 * MESSAGE // 2) == pytest.approx(whole, rel=1e-9)
    assert us(topology, made, 3 * MESSAGE // 8) == pytest.approx(1000 + 3 * beta / 4, rel=1e-9)
    assert us(topology, made, 3000) == pytest.approx(1000 + 3000 / 50e3, rel=1e-9)


def chain(ranks: int, alpha: float) -> tuple[Topology, Program]:
    """A broadcast of one chunk down a chain of rcs."""
    gpus = []
    for r in range(ranks):
        ops = step("s", "i0", "o0") if r == 0 else step("r" if r == ranks - 1 else "rcs", "o0", "o0")
        after = None if r == ranks - 1 else r + 1
        gpus.append(GpuProgram(r, 1, 1, 0, (block(0, after, r - 1 if r else None, ops),)))
    links = [(r, r + 1, 50, alpha) for r in range(ranks - 1)]
    return cluster(ranks, links), program("broadcast", 1, gpus, root=0)


@pytest.mark.parametrize("loops", [1, 2, 7, MAX_LOOPS])
def test_loops_are_pipelined(loops: int) -> None:
    """Down a chain of h hops, l slices take h + l - 1 turns. The first waits h times for alpha; after each two the
    sender waits for what took the first of them, which waited for alpha."""
    topology, made = chain(5, 2)
    turn = MESSAGE / 50e3
    waits = 4 + (loops - 1) // 2
    assert us(topology, made, loops * MESSAGE) == pytest.approx((4 + loops - 1) * turn + waits * 2, rel=1e-9)


@pytest.mark.parametrize("loops", [MAX_LOOPS + 1, 1000, Fraction(20001, 2)])
def test_extrapolated_loops_are_exact_where_all_are_equally_long(loops: Fraction | int) -> None:
    topology, made = chain(5, 0)
    found = ProgramPredictor(topology, made).predict(int(loops * MESSAGE))
    turn = MESSAGE / 50e3
    assert found.seconds * 1e6 == pytest.approx(float(4 + loops - 1) * turn, rel=1e-9)
    assert found.unsteady < 1e-9


def test_a_predictor_answers_as_a_fresh_one_whatever_it_was_asked_before() -> None:
    topology, made = chain(5, 2)
    one = ProgramPredictor(topology, made)
    for loops in (1000, 3, 2000, MAX_LOOPS, MAX_LOOPS + 1, 1000):
        fresh = ProgramPredictor(topology, made).predict(loops * MESSAGE)
        assert one.predict(loops * MESSAGE).seconds == fresh.seconds


@pytest.mark.parametrize("size", [10**3, 10**6, 10**8, 3 * 10**9])
@pytest.mark.parametrize(
    "make", [direct_alltoall, lambda n: direct_allreduce(n, True), lambda n: ring_allgather(n, False)]
)
def test_never_below_the_bound(make, size: int) -> None:
    made = make(4)
    links = [(a, b, 10 + 7 * a + b, a) for a in range(4) for b in range(4) if a != b]
    topology = cluster(4, links, [(40, (0, 1, 2)), (30, (5, 6, 7))], reduce=200)
    clock = ProgramPredictor(topology, made)
    tasks = clock.tasks(size)
    bound = fullest(tasks.tasks.graph(1.0))
    found = clock.predict(size)
    assert found.seconds >= bound * (1 - 1e-12)
    most_used = max(use.size / use.rate for use in found.timeline.uses())
    assert found.seconds >= most_used / tasks.simulated * tasks.loops * (1 - 1e-2)
    assert tasks.simulated >= min(MIN_LOOPS, tasks.loops)


def test_programs_that_cannot_run_are_refused() -> None:
    made = one_channel(1)
    with pytest.raises(HetesynthError, match="no link"):
        ProgramPredictor(cluster(2, [(1, 0, 50, 2)]), made)
    topology = cluster(2, [(0, 1, 50, 2)])
    lonely = two([block(0, 1, None, step("s", "i0", "o0"))], [], 1)
    with pytest.raises(HetesynthError, match="takes others"):
        ProgramPredictor(topology, lonely)
    dangling = two(
        [block(0, 1, None, step("s", "i0", "o0", on=(7, 0)))], [block(0, None, 0, step("r", "i0", "o0"))], 1
    )
    with pytest.raises(HetesynthError, match="never publishes"):
        ProgramPredictor(topology, dangling)
    circle = two(
        [block(0, None, None, step("cpy", "i0", "o0", on=(1, 0), flag=True)),
         block(1, None, None, step("cpy", "i0", "o0", on=(0, 0), flag=True))], [], 1,
    )  # fmt: skip
    with pytest.raises(HetesynthError, match="circle"):
        ProgramPredictor(topology, circle).predict(MB)


@pytest.mark.parametrize(("channels", "side_by_side"), [((0, 1), True), ((0, 2), False), ((1, 3), False)])
def test_channels_take_equal_links_by_their_number(channels: tuple[int, int], side_by_side: bool) -> None:
    topology = cluster(2, [(0, 1, 50, 0), (0, 1, 50, 0)])
    sends = [block(i, 1, None, step("s", f"i{i}", f"o{i}"), channel=c) for i, c in enumerate(channels)]
    takes = [block(i, None, 0, step("r", f"i{i}", f"o{i}"), channel=c) for i, c in enumerate(channels)]
    assert us(topology, two(sends, takes, 2), 2 * MB) == pytest.approx(20 if side_by_side else 40)
