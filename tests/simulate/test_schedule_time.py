"""Schedules in time: hand answers, each reading of a step and of alpha, and laws on random clusters."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clusters import cluster, problem_on, ring, ring_allgather, ring_reducescatter
from support.costs import primitive

from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.timeline import lower_bound
from hetesynth.model.topology import Topology

MB = 10**6
READINGS = ("data", "order", "barrier")


def us(topology: Topology, problem: Problem, schedule: Schedule, size: float, **options: str) -> float:
    chosen = CostOptions(**options)  # type: ignore[arg-type]
    return SchedulePredictor(topology, problem, schedule, chosen).timeline(Fraction(size)).makespan * 1e6


def allgather_us(topology: Topology, chunk: float = MB, **options: str) -> float:
    n = topology.ranks
    return us(topology, problem_on(topology, "allgather"), ring_allgather(n), chunk * n, **options)


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ("barrier", 3 * (2 + 80)),
        ("order", 2 + 3 * 80),  # the slow link never rests, and what it brings last goes no further
        (
            "data",
            253,
        ),  # three chunks share it: 242; the second of them has an alpha and a hop of 20 to go: 264 - 11
    ],
)
def test_ring_with_a_slow_link(steps: str, answer: float) -> None:
    links = ring(4, 50, 2)
    links[0] = (0, 1, 12.5, 2)
    assert allgather_us(cluster(4, links), steps=steps) == pytest.approx(answer, rel=1e-9)


@pytest.mark.parametrize("steps", ["data", "order"])
def test_diamond(steps: str) -> None:
    links = [(0, 1, 50, 1), (0, 2, 25, 1), (1, 3, 50, 1), (2, 3, 50, 1), (3, 4, 50, 1)]
    topology = cluster(5, links, [(50, (2, 3))])
    moves = [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]
    schedule = Schedule.of(Transfer(t, t + 1, 0, link) for t, link in moves)
    assert us(topology, problem_on(topology, "broadcast", root=0), schedule, MB, steps=steps) == pytest.approx(
        83, rel=1e-9
    )


@pytest.mark.parametrize("steps", READINGS)
def test_reducing_takes_gamma(steps: str) -> None:
    """Three steps of 2 us, 20 us for the bytes, 10 us for adding them at 100 GB/s: tau_c of HeteCCL 4.2."""
    topology = cluster(4, ring(4, 50, 2), reduce=100)
    problem = problem_on(topology, "reducescatter")
    assert us(topology, problem, ring_reducescatter(4), 4 * MB, steps=steps) == pytest.approx(96, rel=1e-9)


def test_adding_does_not_hold_the_wire() -> None:
    """Two chunks queue on one link; the second flows while the first is added: 2 + 20 + 20 + 10."""
    topology = cluster(2, [(0, 1, 50, 2)], reduce=100)
    problem = problem_on(topology, "reduce", chunks=2, root=1)
    schedule = Schedule.of([Transfer(0, 1, 0, 0, True), Transfer(1, 2, 1, 0, True)])
    assert us(topology, problem, schedule, 2 * MB, steps="order") == pytest.approx(52, rel=1e-9)
    assert us(topology, problem, schedule, 2 * MB, steps="barrier") == pytest.approx(64, rel=1e-9)


def test_calibrations_and_the_primitive() -> None:
    """NVLink of a V100: 25 GB/s as stated, 20 for NCCL, 26.5625 signalled and no overheads."""
    topology = cluster(4, ring(4, 25, 2), reduce=100, kind="nvlink", model="V100")
    for calibration, answer in (("spec", 3 * (2 + 40)), ("nccl", 3 * (2 + 50)), ("raw", 3 * 40 / 1.0625)):
        assert allgather_us(topology, calibration=calibration) == pytest.approx(answer, rel=1e-9)
    clock = SchedulePredictor(topology, problem_on(topology, "allgather"), ring_allgather(4))
    assert primitive(clock.costs, 0, 1e6) * 1e6 == pytest.approx(42)
    assert primitive(clock.costs, 0, 1e6, reduces=True) * 1e6 == pytest.approx(52)


def test_a_schedule_of_another_topology_is_refused() -> None:
    topology = cluster(4, ring(4, 50, 0)[:2])
    with pytest.raises(ValueError, match="another topology"):
        SchedulePredictor(topology, problem_on(topology, "allgather"), ring_allgather(4))


RATES = (4, 8, 12.5, 16, 25, 50, 450)


def broadcast_case(seed: int) -> tuple[Topology, Problem, Schedule]:
    """Chunks flood a random cluster from rank 0, from any holder to any rank that lacks them."""
    chance = random.Random(seed)
    ranks, chunks = chance.randint(2, 6), chance.randint(1, 3)
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    links = [(a, b, chance.choice(RATES), chance.randint(0, 5)) for a, b in pairs]
    members = [sorted(chance.sample(range(len(links)), chance.randint(1, len(links)))) for _ in range(seed % 4)]
    topology = cluster(ranks, links, [(chance.choice(RATES), tuple(on)) for on in members], reduce=200)
    holders = [{0} for _ in range(chunks)]
    moves: list[Transfer] = []
    step = 0
    while any(len(h) < ranks for h in holders):
        lacking = [sorted(set(range(ranks)) - h) for h in holders]
        going = [(k, chance.choice(some)) for k, some in enumerate(lacking) if some and chance.random() < 0.6]
        sources = [chance.choice(sorted(holders[k])) for k, _ in going]
        for (k, to), source in zip(going, sources, strict=True):
            holders[k].add(to)
            moves.append(Transfer(step, step + 1, k, pairs.index((source, to))))
        step += bool(going)
    return topology, problem_on(topology, "broadcast", chunks, 0), Schedule.of(moves)


SEEDS = st.integers(0, 10**9)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from(READINGS), st.sampled_from(["overlap", "occupy"]))
def test_laws(seed: int, steps: str, alpha: str) -> None:
    """Never below a bound; a barrier takes what its steps take."""
    topology, problem, schedule = broadcast_case(seed)
    clock = SchedulePredictor(topology, problem, schedule, CostOptions(steps=steps, alpha=alpha))  # type: ignore[arg-type]
    timeline = clock.timeline(MB)
    assert timeline.makespan >= lower_bound(timeline.graph) * (1 - 1e-12)
    if steps == "barrier":
        apart = sum(
            us(
                topology,
                problem,
                Schedule.of(replace(t, start=0, end=1) for t in step),
                MB,
                alpha=alpha,
                steps="data",
            )
            for step in schedule.steps()
        )
        assert timeline.makespan * 1e6 == pytest.approx(apart, rel=1e-9)
