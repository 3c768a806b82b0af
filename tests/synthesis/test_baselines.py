"""Baselines: known numbers of steps, shapes of rings and trees, and schedules that verify wherever they apply."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.graphs import Graph, full, line, problem, ring
from support.solving import solve

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.policy import DEFAULT
from hetesynth.search.baselines.table import BASELINES, parents, ring_routes
from hetesynth.search.copy_problem import CopyProblem, NoRoute
from hetesynth.search.search import Search

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = [s.name for s in BASELINES]


def cluster(name: str, collective: CollectiveName, chunks: int) -> Problem:
    wanted = Request(
        EXAMPLES / name / "topo.dsl",
        collective,
        chunks,
        0 if collective in ("broadcast", "reduce", "gather", "scatter") else None,
    )
    return load_problem(wanted, PhaseTimer())[1]


def steps(wanted: Problem, strategy: str) -> int:
    return solve(wanted, strategy).schedule.makespan


@pytest.mark.parametrize(
    ("graph", "collective", "strategy", "expected"),
    [
        (ring(8), "allgather", "ring", 7),
        (ring(8), "reducescatter", "ring", 7),
        (ring(8), "allreduce", "ring", 14),
        (ring(5), "broadcast", "ring", 4),
        (full(8), "allgather", "doubling", 4),  # half of the chunks cross one link
        (full(8), "broadcast", "doubling", 3),
        (full(8), "allgather", "all-pairs", 1),
        (full(6), "alltoall", "all-pairs", 1),
        (full(6), "alltoall", "ring", 1),
        (line(5), "broadcast", "sph", 4),
        (line(4), "allgather", "sph", 3),
    ],
)  # fmt: skip
def test_known_steps(graph: Graph, collective: CollectiveName, strategy: str, expected: int) -> None:
    assert steps(problem(graph, collective), strategy) == expected


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("collective", COLLECTIVE_NAMES)
@pytest.mark.parametrize("name", ["h20_4p8", "dgx1", "fig10", "v100_fail_one8"])
def test_a_schedule_that_verifies_or_a_reason(name: str, collective: CollectiveName, strategy: str) -> None:
    wanted = cluster(name, collective, 2)
    try:
        solved = solve(wanted, strategy)
    except HetesynthError as refusal:
        assert refusal.code == "HS306"
        assert strategy in str(refusal)
    else:
        assert solved.schedule.makespan >= solved.bound.steps


@pytest.mark.parametrize("name", ["h20_4p8", "h20_4x2p8x2", "dgx1", "ring8", "v100_4p8"])
def test_rings_visit_every_rank_once_and_spread_over_nics(name: str) -> None:
    wanted = cluster(name, "allgather", 4)
    routes = ring_routes(CopyProblem(wanted), (), DEFAULT)
    crossings = set()
    for chunk, route in zip(wanted.collective.chunks, routes, strict=True):
        at = [wanted.arcs[a].src for a in route]
        assert at[0] == chunk.block[0] and len(set(at)) == wanted.ranks - 1
        assert [wanted.arcs[a].dst for a in route[:-1]] == at[1:]
        crossings |= {(chunk.part, a) for a in route if len(wanted.arcs[a].segments) > 2}
    if name.startswith("h20"):
        nics = {wanted.arcs[a].segments for _, a in crossings}
        assert len(nics) >= 4  # one way between servers for each of the four rings


def test_rings_of_a_stated_order() -> None:
    wanted = problem(full(4), "allgather")
    routes = ring_routes(CopyProblem(wanted), [[0, 2, 1, 3]], DEFAULT)
    assert [wanted.arcs[a].dst for a in routes[0]] == [2, 1, 3]
    with pytest.raises(NoRoute, match="every rank once"):
        ring_routes(CopyProblem(wanted), [[0, 2, 1]], DEFAULT)


@pytest.mark.parametrize("n", range(2, 40))
def test_double_trees_are_trees_and_share_the_work(n: int) -> None:
    first, second = parents(n)
    for tree in (first, second):
        assert tree.count(None) == 1
        for start in range(n):
            seen, at = {start}, start
            while (up := tree[at]) is not None:
                assert up not in seen
                seen.add(up)
                at = up
    inner = [{p for p in tree if p is not None} for tree in (first, second)]
    assert len(inner[0] & inner[1]) <= 1 + (n % 2)  # a server is inner in one tree and a leaf in the other


def test_no_ring_is_a_reason() -> None:
    with pytest.raises(HetesynthError, match="ring"):
        solve(problem(line(3), "allgather"), "ring")


def test_doubling_wants_a_power_of_two() -> None:
    with pytest.raises(HetesynthError, match="power of two"):
        solve(problem(full(6), "allgather"), "doubling")


def test_a_baseline_says_when_it_needs_more_peers() -> None:
    from dataclasses import replace

    with pytest.raises(HetesynthError, match="may only 2"):
        solve(replace(problem(full(6), "allgather"), max_peers=2), "all-pairs")


def test_a_punctual_budget_ends_the_listing() -> None:
    wanted = problem(full(4), "allgather")
    for budget, is_found in ((Budget(1e-9), True), (Budget(1e-9, strict_deadline=True), False)):
        search = Search(wanted, 1, budget, schedule_violations)
        BASELINES[NAMES.index("ring")].improve(search)
        assert (search.best is not None) == is_found
