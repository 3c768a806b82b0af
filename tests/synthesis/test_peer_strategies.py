"""Every registered strategy where ranks may have few peers: it verifies or declines, whatever the cluster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.graphs import Graph, full, problem, servers
from support.graphs import problem as problem_on
from support.random_graphs import clusters
from support.replay import complaint

from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.peers import within_peers
from hetesynth.search.registry import ROWS, names, strategy, timed_strategies
from hetesynth.search.search import Search, Strategy, excess, most_peers
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.timed.earliest_arrival import Rates

COLLECTIVES: tuple[CollectiveName, ...] = get_args(CollectiveName)
SLOW = ("cegis", "monolithic", "auto")  # with a solver


def every(wanted: Problem) -> dict[str, Strategy]:
    """All strategies by name. For those that count seconds a step is one, and so is the latency of a link."""
    tables = CopyProblem(wanted)
    rates = Rates([1.0] * len(wanted.arcs), tables.resources_of, [float(r.capacity) for r in tables.resources], 1)
    by_steps = {name: strategy(name) for name in names("steps")}
    by_time = {label: s for row in ROWS if row.objective == "time" for label, s in timed_strategies(row, rates)}
    return {**by_steps, **by_time}


def solved_or_declined(wanted: Problem, found: Strategy) -> bool:
    """Whether there is a schedule, which then verifies; an internal error is none of the answers."""
    try:
        outcome = Solver(found, Budget(effort=0.1), schedule_violations).solve(wanted)
    except HetesynthError as error:
        assert error.code == "HS306", error
        return False
    if not isinstance(outcome, Solution):
        return False
    assert not schedule_violations(wanted, outcome.schedule)
    assert complaint(wanted, outcome.schedule) is None
    return True


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(3, 3), st.sampled_from(COLLECTIVES), st.integers(1, 6), st.integers(1, 2))
def test_every_strategy_verifies_or_declines(graph: Graph, name: CollectiveName, most: int, chunks: int) -> None:
    wanted = replace(problem(graph, name, chunks), max_peers=most)
    for known, tried in every(wanted).items():
        if known not in SLOW:
            solved_or_declined(wanted, tried)


@pytest.mark.parametrize("name", ["earliest arrival, price 0.5", "negotiated", "timed-trees", "tree-packing"])
def test_few_peers_are_enough_on_servers(name: str) -> None:
    """Three servers of two: two peers make a ring of servers and a ring in each."""
    for most in (2, 5):
        wanted = replace(problem(servers([2, 2, 2]), "allgather"), max_peers=most)
        assert solved_or_declined(wanted, every(wanted)[name])


def gateways(count: int) -> Graph:
    """Servers of four: three GPUs at the first, and the first of every two servers joined."""
    graph = Graph(4 * count)
    for first in range(0, graph.ranks, 4):
        for other in (1, 2, 3):
            graph.both(first, first + other, 2)
        for there in range(0, first, 4):
            graph.both(first, there)
    return graph


def test_servers_with_one_way_out_are_joined_by_few_peers() -> None:
    """One GPU of each server has a NIC: pairs with the same number in the next server are no links there."""
    collectives: tuple[CollectiveName, ...] = ("gather", "alltoall", "reduce")
    for asked in collectives:
        wanted = replace(problem(gateways(5), asked), max_peers=5)
        assert solved_or_declined(wanted, strategy("sph")), asked
    assert within_peers(replace(problem(gateways(5), "alltoall"), max_peers=5)) is not None


def test_chosen_arcs_keep_the_limit_and_join_all() -> None:
    wanted = replace(problem(servers([4, 4, 2]), "allgather"), max_peers=3)
    tables = within_peers(wanted)
    assert tables is not None and tables.usable is not None
    assert most_peers(wanted, tables.arcs) == 3
    assert (
        excess(wanted, range(len(wanted.arcs)))
        == "a rank would send to, or receive from, 9 others, and may only 3"
    )
    assert all(hops < wanted.ranks for row in tables.hops for hops in row)
    assert within_peers(replace(wanted, max_peers=9)) == CopyProblem(replace(wanted, max_peers=9))


def test_peers_that_join_nobody_are_no_choice() -> None:
    """Out of a hub with one peer only one of three leaves is reached."""
    graph = Graph(4)
    for leaf in (1, 2, 3):
        graph.link(0, leaf, 1)
    assert within_peers(replace(problem(graph, "broadcast"), max_peers=1)) is None
    assert within_peers(replace(problem(graph, "broadcast"), max_peers=3)) is not None


def test_a_schedule_with_too_many_peers_is_not_taken() -> None:
    """It is right otherwise, and the search goes on."""
    free = problem(full(4), "allgather")
    schedule = Schedule.of(Transfer(0, 1, arc.src, a) for a, arc in enumerate(free.arcs))
    assert Search(free, 1, Budget(), schedule_violations).offer(schedule, "all at once")
    search = Search(replace(free, max_peers=2), 1, Budget(), schedule_violations)
    assert not search.offer(schedule, "all at once")
    assert search.best is None and search.crowded is not None and "may only 2" in search.crowded


def peers_of(problem: Problem, schedule: Schedule) -> int:
    to, of = defaultdict(set), defaultdict(set)
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        to[arc.src].add(arc.dst)
        of[arc.dst].add(arc.src)
    return max(len(peers) for side in (to, of) for peers in side.values())


def solved(problem: Problem, name: str = "auto") -> Schedule:
    found = Solver(strategy(name), Budget(effort=1.0), schedule_violations).solve(problem)
    assert isinstance(found, Solution)
    assert schedule_violations(problem, found.schedule) == []
    return found.schedule


@pytest.mark.parametrize(("name", "most"), [("greedy", 2), ("cegis", 1), ("monolithic", 1)])
def test_every_strategy_keeps_the_limit(name: str, most: int) -> None:
    problem = replace(problem_on(full(4), "allgather"), max_peers=most)
    assert peers_of(problem, solved(problem, name)) <= most


def test_a_limit_holds_over_both_phases() -> None:
    problem = replace(problem_on(full(4), "allreduce"), max_peers=2)
    assert peers_of(problem, solved(problem, "greedy")) <= 2


def test_the_judge_refuses_too_many_peers() -> None:
    problem = problem_on(full(4), "allgather")
    schedule = solved(problem)
    limited = replace(problem, max_peers=1)
    assert {v.kind for v in schedule_violations(limited, schedule)} == {"too-many-peers"}
