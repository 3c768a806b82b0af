"""Neighbourhood search: from bad schedules to the optimum, none that the oracle refuses, within the budget."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.graphs import Graph, dgx1, full, line, problem, ring, servers, star
from support.optimum import copying_optimum
from support.random_graphs import COPYING, clusters, copying_problems
from support.replay import accepts

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Search
from hetesynth.search.smt import neighbourhood_search
from hetesynth.search.smt.neighbourhood_search import (
    NeighbourhoodModel,
    first_steps,
    pushed,
    size,
    without_step,
)

fixed = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


def one_at_a_time(wanted: Problem) -> Schedule:
    """As bad as it gets: every transfer of a greedy round in a step of its own, and an empty step after each."""
    search = Search(wanted, 1, Budget(), schedule_violations)
    greedy.improve(search, rounds=1)
    assert search.best is not None
    moved = [Transfer(2 * i, 2 * i + 1, t.chunk, t.link) for i, t in enumerate(search.best.transfers)]
    return Schedule.of(moved)


def shortened(wanted: Problem, bad: Schedule, target: int = 1, **options: int) -> Search:
    search = Search(wanted, target, Budget(), schedule_violations)
    search.offer(bad, "handed in")
    neighbourhood_search.improve(search, **options)  # type: ignore[arg-type]
    assert search.best is not None and accepts(wanted, search.best)
    assert not schedule_violations(wanted, search.best)
    return search


@given(copying_problems())
@fixed
def test_neighbourhood_search_reaches_the_optimum_of_tiny_problems_from_the_worst_schedules(
    wanted: Problem,
) -> None:
    search = shortened(wanted, one_at_a_time(wanted))
    assert search.best is not None and search.best.makespan == copying_optimum(wanted)
    assert search.ending in ("bound", "tried")


@pytest.mark.parametrize(
    ("graph", "name", "steps"),
    [
        (dgx1(), "allgather", 2),
        (star(4), "broadcast", 2),
        (servers([4, 8]), "allgather", 3),
        (full(4), "alltoall", 1),
    ],
)
def test_neighbourhood_search_reaches_known_optima(graph: Graph, name: CollectiveName, steps: int) -> None:
    wanted = problem(graph, name)
    assert shortened(wanted, one_at_a_time(wanted), steps).done


def test_chunks_go_around_where_the_direct_link_is_crowded() -> None:
    """Two GPUs on one NIC have 4 chunks for the other server; passed on inside, no NIC carries more than 3."""
    wanted = problem(servers([2, 4], [2, 3], nic=[2, 1]), "alltoall")
    search = shortened(wanted, one_at_a_time(wanted), 3)
    assert search.done and search.best is not None
    targets = [next(iter(post)) for post in wanted.collective.post]
    assert any(wanted.arcs[t.link].dst != targets[t.chunk] for t in search.best.transfers), "no chunk was relayed"


@given(clusters(most_servers=3, most_gpus=3), st.sampled_from(COPYING), st.booleans(), st.integers(0, 3))
@settings(fixed, max_examples=6)
def test_what_neighbourhood_search_returns_always_verifies(
    graph: Graph, name: CollectiveName, exclusive: bool, peers: int
) -> None:
    wanted = problem(graph, name, exclusive=exclusive and name in ("broadcast", "allgather"))
    if peers:
        limited = replace(wanted, max_peers=max(2, graph.ranks - peers))
        search = Search(limited, 1, Budget(), schedule_violations)
        greedy.improve(search, rounds=2)
        wanted = limited if search.best is not None else wanted
        bad = search.best or one_at_a_time(wanted)
    else:
        bad = one_at_a_time(wanted)
    search = shortened(wanted, bad, rlimit=400_000)
    assert search.best is not None and search.best.makespan <= bad.makespan


@given(copying_problems())
@fixed
def test_schedules_pushed_to_one_end_still_verify(wanted: Problem) -> None:
    tables = CopyProblem(wanted)
    bad = one_at_a_time(wanted)
    first = pushed(tables, bad, late=False)
    last = pushed(tables, first, late=True)
    for moved in (first, last):
        assert accepts(wanted, moved) and moved.makespan == bad.makespan
        assert sorted((t.chunk, t.link) for t in moved.transfers) == sorted(
            (t.chunk, t.link) for t in bad.transfers
        )
    assert max(t.end for t in first.transfers) <= max(t.end for t in bad.transfers)
    assert min(t.start for t in last.transfers) >= min(t.start for t in first.transfers)


def test_a_core_names_the_frozen_deliveries_that_are_in_the_way() -> None:
    """Line 0-1-2, broadcast from 0 with a step wasted: the delivery to 1 is late, which blocks the one to 2."""
    wanted = problem(line(3), "broadcast")
    bad = Schedule.of([Transfer(1, 2, 0, 0), Transfer(2, 3, 0, 2)])
    tables = CopyProblem(wanted)
    placed, free = without_step(wanted, bad, 2)
    assert placed == {(0, 1): (0, 1)} and free == {(0, 2)}
    ready = first_steps(tables, placed, free)
    model = NeighbourhoodModel(tables, 2, placed, free, ready, lambda: None, threading.Event())
    assert size(tables, 2, free, ready) == len(model.send) == 0
    assert model.check(10**6, None) == "unsat"
    both = free | set(placed)
    model = NeighbourhoodModel(tables, 2, {}, both, first_steps(tables, {}, both), lambda: None, threading.Event())
    assert model.check(10**6, None) == "sat"
    assert [(t.start, t.link) for t in model.transfers()] == [(0, 0), (1, 2)]


def test_the_solver_budget_is_kept_and_told() -> None:
    wanted = problem(ring(8), "alltoall")
    search = shortened(wanted, one_at_a_time(wanted), 1, rlimit=20_000)
    assert search.ending == "solver" and not search.cut_short


def test_without_time_nothing_is_shortened() -> None:
    wanted = problem(servers([4, 4, 8]), "allgather")
    search = Search(wanted, 1, Budget(1e-9), schedule_violations)
    search.offer(one_at_a_time(wanted), "handed in")
    before = search.best
    neighbourhood_search.improve(search)
    assert search.best is before and search.ending == "time"
