"""Compositions of small clusters: two judges, the bound, the flat optimum; the same bytes each time."""

from __future__ import annotations

from fractions import Fraction

import pytest
from support.pods import CHUNK, SMALL, complaints, composed, document, encoded, pods_of, transfers

from hetesynth.engine.problem import verified_solver
from hetesynth.judge.composition.judge import judge_composition
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import tightest
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.pods import composed_bound
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.collectives import collective
from hetesynth.search.pods.compose import COMPOSED, ComposedName
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution
from hetesynth.topology.language import parse_topology

FLAT = ["2x2", "2x4", "4x2", "4p8", "slow NIC"]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("collective_name", COMPOSED)
def test_both_judges_pass_it_and_it_is_not_below_the_bound(name: str, collective_name: ComposedName) -> None:
    composition = composed(SMALL[name], collective_name, chunks := 2 if name in ("2x4", "rails") else 1)
    values = document(composition)
    assert complaints(values) == []
    verdict = judge_composition(encoded(values), composition.task.cluster)
    assert verdict.violations == () and verdict.readable
    assert verdict.picoseconds == composition.picoseconds
    ranks = composition.task.cluster.ranks
    assert sum(len(transfers(values, phase)) for phase in values["phases"]) == verdict.deliveries
    assert verdict.deliveries == chunks * ranks * (ranks - 1) * len(values["phases"])
    bound = composed_bound(composition.task.cluster, collective_name, chunks, CHUNK)
    assert 0 < bound.seconds * 10**12 <= composition.picoseconds


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("collective_name", COMPOSED)
def test_the_bound_is_no_more_than_that_of_the_flat_cluster(name: str, collective_name: ComposedName) -> None:
    """For an allgather the flat bound is the optimum of the fractional packing, so a larger one would be wrong."""
    flat = parse_topology(SMALL[name])
    total = flat.ranks * CHUNK
    best = tightest(time_bounds(flat, collective_name), total)
    bound = composed_bound(pods_of(SMALL[name]), collective_name, 1, CHUNK)
    waiting = bound.seconds - (0 if bound.rate is None else Fraction(bound.bytes) / bound.rate)
    assert bound.seconds - waiting <= best.seconds(total)


@pytest.mark.parametrize(("name", "factor"), [("2x2", 1.0), ("4x2", 1.5)])
def test_steps_against_the_flat_optimum(name: str, factor: float) -> None:
    """Strategy composition in steps, its schedules judged by the ordinary judge, and auto on the same problem."""
    chunking = chunk(parse_topology(SMALL[name]), ChunkingOptions(CHUNK))
    problem = chunking.problem(collective("allgather", chunking.topology.ranks, 1))
    steps = {}
    for way in ("composition", "auto"):
        solution = verified_solver(strategy(way), Budget(effort=1.0), DEFAULT).solve(problem)
        assert isinstance(solution, Solution)
        assert schedule_violations(problem, solution.schedule) == []
        steps[way] = solution.schedule.makespan
        assert steps[way] >= solution.bound.steps
    assert steps["composition"] <= factor * steps["auto"]
