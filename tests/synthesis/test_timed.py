"""Strategies that count seconds: schedules that verify, known times, both forms of the kernels, known bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Graph, full, line, problem, ring, servers
from support.random_graphs import COPYING, clusters
from support.replay import complaint

from hetesynth import machine_code
from hetesynth.engine.predictors import SchedulePredictor
from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.request import Request
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import tightest
from hetesynth.model.cost import chunk_bytes, costs
from hetesynth.model.problem import Budget, Problem
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search
from hetesynth.search.timed.earliest_arrival import (
    LinkTimes,
    Rates,
    TimedRoutes,
    earliest_arrival,
    full_speed_transfers,
    schedule_of,
    timed_strategy,
)
from hetesynth.search.timed.list_scheduling import (
    PRESSURES,
    SHARPNESS,
    Paths,
    by_start,
    exchange_strategy,
    negotiated_strategy,
)
from hetesynth.search.timed.matching import matched, matching_strategy, refuses
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


def link_times(tables: CopyProblem) -> LinkTimes:
    """A second of latency on every arc, every resource busy for a second over its capacity."""
    return LinkTimes([1.0] * len(tables.problem.arcs), [1.0 / r.capacity for r in tables.resources])


def checked(tables: CopyProblem, routes: TimedRoutes, most: list[int] | None = None) -> TimedRoutes:
    schedule = schedule_of(tables, routes, most)
    assert not schedule_violations(tables.problem, schedule)
    assert complaint(tables.problem, schedule) is None
    return routes


def arrival(instance: Problem, price: float = 0.0) -> TimedRoutes:
    tables = CopyProblem(instance)
    return checked(
        tables, earliest_arrival(tables, link_times(tables), [price / r.capacity for r in tables.resources])
    )


def listed(instance: Problem, pressure: float = 1.0) -> tuple[TimedRoutes, TimedRoutes]:
    """Routes of earliest arrival, and their list schedule."""
    tables, routes = CopyProblem(instance), arrival(instance, 0.5)
    order = [(k, a) for _, k, a in sorted((begins, k, a) for (k, a), begins in routes.start.items())]
    return routes, by_start(tables, link_times(tables), order, pressure)


def paths(instance: Problem) -> Paths:
    tables = CopyProblem(instance)
    balanced = Paths(tables, link_times(tables), 0)
    assert all(balanced.sweep(sharpness) for sharpness in SHARPNESS)
    return balanced


def grid(side: int, *, wraps: bool) -> Graph:
    """A torus, or a mesh."""
    graph = Graph(side * side)
    for row, column in itertools.product(range(side), repeat=2):
        at = row * side + column
        if wraps or column < side - 1:
            graph.both(at, row * side + (column + 1) % side)
        if wraps or row < side - 1:
            graph.both(at, (row + 1) % side * side + column)
    return graph


def matched_at_random(instance: Problem, seed: int, latency: float = 1.0) -> TimedRoutes:
    tables = CopyProblem(instance)
    times = LinkTimes([latency] * len(instance.arcs), [1.0 / r.capacity for r in tables.resources])
    return checked(tables, matched(tables, times, np.random.default_rng(seed)))


def exchanged(instance: Problem, pressure: float = 0.0) -> TimedRoutes:
    balanced = paths(instance)
    return checked(balanced.tables, balanced.list_schedule(pressure))


@settings(max_examples=30, deadline=None)
@given(clusters(), st.sampled_from(COPYING), st.integers(1, 2), st.sampled_from(PRESSURES))
def test_schedules_keep_every_law_on_random_clusters(
    graph: Graph, name: str, chunks: int, pressure: float
) -> None:
    """Routes stay; nothing leaves before it came, no resource serves two at once beyond its rate."""
    instance = problem(graph, name, chunks)  # type: ignore[arg-type]
    tables = CopyProblem(instance)
    routes, timed = listed(instance, pressure)
    assert timed.start.keys() == routes.start.keys() and timed.load == pytest.approx(routes.load)
    for r, resource in enumerate(tables.resources):
        begins = sorted(t for (_, a), t in timed.start.items() if a in resource.arcs)
        busy = 1.0 / resource.capacity
        assert all(later >= earlier + busy - 1e-9 for earlier, later in itertools.pairwise(begins)), r
    checked(tables, timed)
    checked(tables, timed, full_speed_transfers(tables, link_times(tables)))
    if name in ("alltoall", "gather", "scatter"):
        exchanged(instance, pressure)


@pytest.mark.parametrize(
    ("graph", "name", "seconds"),
    [(line(4), "broadcast", 6.0), (ring(5, both=False), "allgather", 8.0), (full(5), "alltoall", 2.0)],
)
def test_known_times_of_earliest_arrival(graph: Graph, name: str, seconds: float) -> None:
    """One second of latency and one of bytes a hop, nothing in the way."""
    assert arrival(problem(graph, name)).seconds == pytest.approx(seconds)  # type: ignore[arg-type]


def test_what_goes_farthest_goes_first() -> None:
    """On a line, by balanced paths and by list scheduling."""
    for name in ("scatter", "gather"):
        assert exchanged(problem(line(4), name)).seconds == pytest.approx(6.0)  # type: ignore[arg-type]
    timed = listed(problem(line(4), "scatter"))[1]
    assert timed.seconds == pytest.approx(6.0)
    first = min(timed.start, key=lambda at: timed.start[at])
    assert problem(line(4), "scatter").collective.post[first[0]] == {3}


def test_an_exclusive_reduction_sends_a_chunk_once_a_step() -> None:
    arrival(problem(full(4), "allgather", exclusive=True))


def test_with_prices_every_chunk_crosses_between_servers_once() -> None:
    instance = problem(servers([4, 4]), "allgather")
    ends = [instance.arcs[a] for _, a in arrival(instance, price=5.0).start]
    assert sum(arc.src // 4 != arc.dst // 4 for arc in ends) == 8


@contextmanager
def always_compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine_code, "pays", lambda kernel, seconds: True)
        yield


def test_interpreted_and_compiled_kernels_agree() -> None:
    gathered, exchange = problem(servers([4, 3]), "allgather", 2), problem(servers([4, 3]), "alltoall", 2)

    def results() -> list[object]:
        balanced = paths(exchange)
        schedules = [balanced.list_schedule(pressure) for pressure in PRESSURES]
        matching = matched_at_random(problem(grid(4, wraps=True), "allgather"), 3)
        return [listed(gathered), balanced.paths, balanced.load.tolist(), schedules, matching]

    interpreted = results()
    with always_compiled():
        assert results() == interpreted


@pytest.mark.parametrize(("side", "wraps", "least"), [(5, True, 6), (4, False, 8), (5, False, 12), (6, False, 18)])
def test_a_matching_keeps_the_scarcest_links_busy(side: int, wraps: bool, least: int) -> None:
    """Without latency a rank that gets all the others' chunks needs this long; earliest arrival takes longer."""
    instance = problem(grid(side, wraps=wraps), "allgather")
    tables = CopyProblem(instance)
    idle = LinkTimes([0.0] * len(instance.arcs), [1.0] * len(tables.resources))
    assert earliest_arrival(tables, idle, idle.busy).seconds > least
    assert [matched_at_random(instance, seed, 0.0).seconds for seed in range(3)] == [least] * 3


@settings(max_examples=30, deadline=None)
@given(clusters(), st.sampled_from(("allgather", "broadcast")), st.integers(1, 3), st.integers(0, 99))
def test_a_matching_keeps_every_law_on_random_clusters(graph: Graph, name: str, chunks: int, seed: int) -> None:
    """Everybody gets every chunk once, and no resource serves two at once beyond its rate."""
    instance = problem(graph, name, chunks)  # type: ignore[arg-type]
    timed = matched_at_random(instance, seed)
    assert len(timed.start) == instance.collective.deliveries
    for resource in CopyProblem(instance).resources:
        begins = sorted(t for (_, a), t in timed.start.items() if a in resource.arcs)
        assert all(b >= a + 1.0 / resource.capacity - 1e-9 for a, b in itertools.pairwise(begins))
    work = [sum(a in r.arcs for _, a in timed.start) / r.capacity for r in CopyProblem(instance).resources]
    assert timed.load == pytest.approx(work)


def test_matchings_are_for_links_with_wires_of_their_own() -> None:
    assert refuses(problem(grid(3, wraps=True), "allgather"), DEFAULT) is None
    said = "links share wires, which matchings would not spare"
    assert refuses(problem(servers([4, 4]), "allgather"), DEFAULT) == said
    assert refuses(problem(full(4), "alltoall"), DEFAULT) == "some chunk is not for everybody"
    assert refuses(problem(ring(5), "allgather"), DEFAULT) == "ranks have two neighbours or fewer"


def test_the_best_trial_counts() -> None:
    """On a torus of 4 x 4 four rounds are enough, which one trial in two finds."""
    instance = problem(grid(4, wraps=True), "allgather")
    tables = CopyProblem(instance)
    rates = Rates([0.0] * len(instance.arcs), tables.resources_of, [1.0] * len(tables.resources), 1.0)
    search = Search(instance, 1, Budget(None, 0), schedule_violations)
    matching_strategy(rates).improve(search)
    assert search.best is not None and search.best.makespan == 4
    assert {matched_at_random(instance, seed, 0.0).seconds for seed in range(6)} == {4.0, 5.0}


def test_rounds_end_when_time_is_up() -> None:
    tables = CopyProblem(problem(full(4), "allgather"))
    rates = Rates([0.0] * len(tables.problem.arcs), tables.resources_of, [1.0] * len(tables.resources), 1.0)
    for strategy in (timed_strategy(rates, 1.0), negotiated_strategy(rates), matching_strategy(rates)):
        search = Search(tables.problem, 1, Budget(1e-9, 0), schedule_violations)
        strategy.improve(search)
        assert search.best is not None and search.cut_short


def test_a_wide_port_serves_several_transfers_at_full_speed() -> None:
    tables = CopyProblem(problem(servers([4, 4]), "allgather"))
    wide = LinkTimes([0.0] * len(tables.problem.arcs), [1.0] * len(tables.resources))
    assert full_speed_transfers(tables, wide) == [1] * len(tables.resources)
    shared = next(r for r, resource in enumerate(tables.resources) if len(resource.arcs) > 1)
    quick = [0.25 if r == shared else 1.0 for r in range(len(tables.resources))]
    through = {r for a in tables.resources[shared].arcs for r in tables.resources_of[a]}
    assert full_speed_transfers(tables, LinkTimes(wide.alpha, quick))[shared] == (4 if len(through) > 1 else 1)


def of_example(name: str, collective: str, chunks: int, size: int) -> tuple[Search, Rates]:
    """A search for a size on an example, and its rates."""
    path = EXAMPLES / name / "topo.dsl"
    topology = load_topology(path)
    exact = chunk_bytes(collective, topology.ranks, chunks, size)  # type: ignore[arg-type]
    factory = ProblemFactory(topology, Request(path, collective, chunks))  # type: ignore[arg-type]
    instance = factory.problem(chunk(topology, ChunkingOptions(chunk_bytes=int(exact))))
    paid = costs(topology)
    rates = Rates(paid.link_alpha, paid.link_resources, paid.resource_rate, exact)
    return Search(instance, 1, Budget(None, 0), schedule_violations), rates


def seconds_of(search: Search, name: str, size: int) -> float:
    assert search.best is not None
    topology = load_topology(EXAMPLES / name / "topo.dsl")
    return SchedulePredictor(topology, search.problem, search.best).timeline(size).makespan


def test_dgx2_alltoall_is_at_its_bound() -> None:
    """Of 16 GPUs 8 send to the other server and 8 receive: relays before and behind scarce links."""
    size = 10**9
    search, rates = of_example("dgx2_x2", "alltoall", 1, size)
    exchange_strategy(rates).improve(search)
    seconds = seconds_of(search, "dgx2_x2", size)
    topology = load_topology(EXAMPLES / "dgx2_x2" / "topo.dsl")
    bound = float(tightest(time_bounds(topology, "alltoall", None), size).seconds(size))
    assert size / seconds / 1e9 >= 12.4
    assert bound <= seconds * (1 + 1e-9) <= bound * 1.001
