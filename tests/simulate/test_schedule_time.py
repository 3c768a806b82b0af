"""Schedules in time: hand answers, each reading of a step and of alpha, and laws on random clusters."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clusters import cluster, problem_on, ring, ring_allgather, ring_reducescatter
from support.fluid_reference import fullest

from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology

MB = 10**6


def us(topology: Topology, problem: Problem, schedule: Schedule, size: float, **options: str) -> float:
    chosen = CostOptions(**options)  # type: ignore[arg-type]
    return SchedulePredictor(topology, problem, schedule, chosen).timeline(Fraction(size)).makespan * 1e6


def test_reducing_takes_gamma() -> None:
    """Three steps of 2 us, 20 us for the bytes, 10 us for adding them at 100 GB/s: tau_c of HeteCCL 4.2."""
    topology = cluster(4, ring(4, 50, 2), reduce=100)
    problem = problem_on(topology, "reducescatter")
    assert us(topology, problem, ring_reducescatter(4), 4 * MB) == pytest.approx(96, rel=1e-9)


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
@given(SEEDS)
def test_never_below_the_bound(seed: int) -> None:
    topology, problem, schedule = broadcast_case(seed)
    clock = SchedulePredictor(topology, problem, schedule, CostOptions())
    timeline = clock.timeline(MB)
    assert timeline.makespan >= fullest(timeline.graph) * (1 - 1e-12)
