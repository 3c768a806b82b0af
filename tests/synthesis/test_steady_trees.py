"""Steady-state trees: chunks are carried by spanning trees, loads are those stated, schedules are right."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from support.graphs import Graph, problem
from support.replay import complaint

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.cost import chunk_bytes, costs
from hetesynth.model.deadline import ClockDecisions, Deadline, no_deadline
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.steady_state import EXPANSIONS, PACKED, refuses, steady_state_strategy, whole_packings
from hetesynth.search.timed.earliest_arrival import Rates

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLUSTERS = ("fig10", "dgx1", "v100_fail_one4")
TREES: tuple[CollectiveName, ...] = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce")
GIGABYTE = 10**9


def case(cluster: str, name: CollectiveName, chunks: int) -> tuple[Topology, Problem, Rates]:
    path = EXAMPLES / cluster / "topo.dsl"
    chunking, goal = load_problem(Request(path, name, chunks, root=0 if name in ROOTED else None), PhaseTimer())
    topology = chunking.topology
    prices = costs(topology)
    exact = chunk_bytes(name, topology.ranks, chunks, GIGABYTE)
    return topology, goal, Rates(
        prices.link_alpha, prices.link_resources, prices.resource_rate, exact, topology.servers
    )  # fmt: skip


def unit_rates(goal: Problem) -> Rates:
    """A step is a second, and so is the latency of a link; servers are not told."""
    tables = CopyProblem(goal)
    return Rates([1.0] * len(goal.arcs), tables.resources_of, [float(r.capacity) for r in tables.resources], 1)


def solver(rates: Rates) -> Solver:
    return Solver(steady_state_strategy(rates), Budget(), schedule_violations)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("name", TREES)
def test_schedules_verify(cluster: str, name: CollectiveName) -> None:
    _, goal, rates = case(cluster, name, 2)
    outcome = solver(rates).solve(goal)
    assert isinstance(outcome, Solution)
    assert not schedule_violations(goal, outcome.schedule) and complaint(goal, outcome.schedule) is None
    each = (goal.ranks - 1) * (2 if name == "allreduce" else 1)
    assert len(outcome.schedule.transfers) == each * len(goal.collective.chunks)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("name", PACKED)
def test_loads_are_those_that_are_stated(cluster: str, name: CollectiveName) -> None:
    _, goal, rates = case(cluster, name, 2)
    packed = whole_packings(goal, rates, DEFAULT, no_deadline())[0]
    load: Counter[int] = Counter()
    for carrier in packed.carriers:
        for a in (*carrier.outward, *carrier.inward):
            load.update(rates.resources[a])
    seconds = max(load[r] / rates.rate[r] for r in load) / len(goal.collective.chunks)
    assert packed.seconds == pytest.approx(seconds)
    assert packed.least <= packed.seconds * (1 + 1e-9)


def test_free_roots_are_quicker_than_any_reduction_at_the_owner() -> None:
    """HeteCCL eq. 7 reduces chunk k at rank k mod n, which takes a reduce-scatter and an allgather."""
    _, goal, rates = case("h20_4p8", "allgather", 1)
    each_way = whole_packings(goal, rates, DEFAULT, no_deadline())[0].least
    assert each_way * 1e15 == pytest.approx(3333.3, rel=2e-3)
    _, goal, rates = case("h20_4p8", "allreduce", 4)
    packed = whole_packings(goal, rates, DEFAULT, no_deadline())[0]
    assert packed.seconds < 0.8 * 2 * each_way
    assert packed.seconds * 1e15 < 5150


def test_a_root_that_nobody_reaches_is_declined_in_words() -> None:
    graph = Graph(3)
    for src, dst in ((0, 1), (0, 2), (1, 2)):
        graph.link(src, dst, 1)
    goal = problem(graph, "broadcast")
    assert refuses(goal, DEFAULT) == "links do not lead from every rank to every other"
    with pytest.raises(HetesynthError, match="links do not lead") as refused:
        solver(unit_rates(goal)).solve(goal)
    assert refused.value.code == "HS306"
    both = Graph(3)
    both.link(0, 1, 1)
    both.link(1, 2, 1)
    both.link(2, 0, 1)
    assert refuses(problem(both, "broadcast"), DEFAULT) is None


def test_what_a_deadline_cut_short_is_not_used_again_without_it() -> None:
    _, goal, rates = case("v100_fail_one4", "allreduce", 3)
    EXPANSIONS.clear()
    over = Deadline(-math.inf, ClockDecisions())
    [short] = whole_packings(goal, rates, DEFAULT, over)
    assert over.clock_decisions.places and whole_packings(goal, rates, DEFAULT, over)[0].least == short.least
    whole = whole_packings(goal, rates, DEFAULT, no_deadline())[0]
    assert whole.least >= short.least and whole.seconds <= short.seconds * 1.05
    [again] = whole_packings(goal, rates, DEFAULT, Deadline(-math.inf, ClockDecisions()))
    assert again.least == whole.least and again.seconds == whole.seconds


@pytest.mark.parametrize("name", TREES)
def test_a_search_without_time_has_a_schedule_and_says_so(name: CollectiveName) -> None:
    _, goal, rates = case("v100_fail_one8", name, 2)
    outcome = Solver(steady_state_strategy(rates), Budget(seconds=0.0), schedule_violations).solve(goal)
    assert isinstance(outcome, Solution) and outcome.cut_short and outcome.ending in ("time", "bound")
    assert complaint(goal, outcome.schedule) is None
