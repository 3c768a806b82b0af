"""Fixed routes list-scheduled in seconds, and negotiated loads: schedules that verify, orders with known times."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Graph, full, line, problem, servers
from support.random_graphs import clusters
from support.replay import complaint

from hetesynth.engine.predictors import SchedulePredictor
from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.request import Request
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.cost import chunk_bytes, costs
from hetesynth.model.problem import Budget, Problem
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import WorkLimits
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
)
from hetesynth.search.timed.list_scheduling import by_start, negotiated_strategy
from hetesynth.topology.language import load_topology


def link_times(tables: CopyProblem, seconds: float = 1.0) -> LinkTimes:
    return LinkTimes([1.0] * len(tables.problem.arcs), [seconds / r.capacity for r in tables.resources])


def routed(instance: Problem) -> tuple[CopyProblem, TimedRoutes]:
    tables = CopyProblem(instance)
    return tables, earliest_arrival(
        tables, link_times(tables), [0.5 / r.capacity for r in tables.resources], DEFAULT
    )


def in_order(routes: TimedRoutes) -> list[tuple[int, int]]:
    return [(k, a) for _, k, a in sorted((begins, k, a) for (k, a), begins in routes.start.items())]


@settings(max_examples=30, deadline=None)
@given(
    clusters(),
    st.sampled_from(["allgather", "broadcast", "alltoall", "scatter"]),
    st.integers(1, 2),
    st.sampled_from([0.0, 1.0]),
)
def test_list_schedules_keep_every_law(graph: Graph, name: str, chunks: int, pressure: float) -> None:
    """Routes stay; nothing leaves before it came, no resource serves two at once beyond its rate."""
    tables, routes = routed(problem(graph, name, chunks))  # type: ignore[arg-type]
    timed_routes = by_start(tables, link_times(tables), in_order(routes), pressure, DEFAULT)
    assert timed_routes.start.keys() == routes.start.keys()
    assert timed_routes.load == pytest.approx(routes.load)
    assert timed_routes.seconds >= max(timed_routes.load) - 1e-9
    for r, resource in enumerate(tables.resources):
        begins = sorted(t for (_, a), t in timed_routes.start.items() if a in resource.arcs)
        busy = 1.0 / resource.capacity
        assert all(later >= earlier + busy - 1e-9 for earlier, later in itertools.pairwise(begins)), r
    for most in (None, full_speed_transfers(tables, link_times(tables))):
        schedule = schedule_of(tables, timed_routes, most)
        assert not schedule_violations(tables.problem, schedule)
        assert complaint(tables.problem, schedule) is None


def test_the_longest_path_goes_first() -> None:
    """A line of four, scattered from its end, a second of latency and one of bytes a hop."""
    tables, routes = routed(problem(line(4), "scatter"))
    assert by_start(tables, link_times(tables), in_order(routes), 1.0, DEFAULT).seconds == pytest.approx(6.0)
    first = min(
        routes.start, key=lambda at: by_start(tables, link_times(tables), in_order(routes), 1.0, DEFAULT).start[at]
    )
    assert tables.problem.collective.post[first[0]] == {3}


def test_interpreted_and_compiled_list_scheduling_agree() -> None:
    tables, routes = routed(problem(servers([4, 3]), "allgather", 2))
    interpreted, compiled = (
        by_start(
            tables,
            link_times(tables),
            in_order(routes),
            1.0,
            replace(DEFAULT, machine_code=replace(DEFAULT.machine_code, list_scheduling=limits)),
        )
        for limits in (WorkLimits.by_numba(unloaded=n, loaded=n) for n in (10**9, 0))
    )
    assert interpreted == compiled


@settings(max_examples=15, deadline=None)
@given(clusters(), st.sampled_from(["allgather", "broadcast"]), st.integers(1, 2))
def test_negotiated_loads_verify(graph: Graph, name: str, chunks: int) -> None:
    instance = problem(graph, name, chunks)  # type: ignore[arg-type]
    tables = CopyProblem(instance)
    resources = [tables.resources_of[a] for a in range(len(instance.arcs))]
    rates = Rates([1e-6] * len(instance.arcs), resources, [float(r.capacity) for r in tables.resources], 1.0)
    search = Search(instance, 1, Budget(None, 0), schedule_violations)
    negotiated_strategy(rates).improve(search)
    assert search.best is not None and complaint(instance, search.best) is None


def test_without_time_there_is_one_round() -> None:
    instance = problem(full(4), "allgather")
    tables = CopyProblem(instance)
    rates = Rates([0.0] * len(instance.arcs), tables.resources_of, [1.0] * len(tables.resources), 1.0)
    search = Search(instance, 1, Budget(1e-9, 0), schedule_violations)
    negotiated_strategy(rates).improve(search)
    assert search.best is not None and search.cut_short


def test_a_wide_port_serves_several_transfers_at_full_speed() -> None:
    tables = CopyProblem(problem(servers([4, 4]), "allgather"))
    wide = LinkTimes([0.0] * len(tables.problem.arcs), [1.0] * len(tables.resources))
    assert full_speed_transfers(tables, wide) == [1] * len(tables.resources)
    shared = next(r for r, resource in enumerate(tables.resources) if len(resource.arcs) > 1)
    quick = [0.25 if r == shared else 1.0 for r in range(len(tables.resources))]
    through = {r for a in tables.resources[shared].arcs for r in tables.resources_of[a]}
    assert full_speed_transfers(tables, LinkTimes(wide.alpha, quick))[shared] == (4 if len(through) > 1 else 1)


@pytest.mark.slow
def test_the_hetero_mesh_is_near_its_bound() -> None:
    """TACOS needs 513.8 us on 8 x 8 GPUs with rows of 50 and columns of 75 GiB/s, 1 MiB a rank."""
    path = Path(__file__).parents[2] / "examples" / "mesh_8x8_hetero" / "topo.dsl"
    topology, size = load_topology(path), 64 * 2**20
    exact = chunk_bytes("allgather", topology.ranks, 2, size)
    factory = ProblemFactory(topology, Request(path, "allgather", 2))
    instance = factory.problem(chunk(topology, ChunkingOptions(chunk_bytes=int(exact))))
    paid = costs(topology)
    rates = Rates(paid.link_alpha, paid.link_resources, paid.resource_rate, exact)
    search = Search(instance, 1, Budget(None, 0), schedule_violations)
    negotiated_strategy(rates).improve(search)
    assert search.best is not None
    assert SchedulePredictor(topology, instance, search.best).timeline(size).makespan <= 500e-6


def test_negotiated_rounds_are_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[TimedRoutes] = []

    def counted(*arguments: object) -> TimedRoutes:
        rounds.append(earliest_arrival(*arguments))  # type: ignore[arg-type]
        return rounds[-1]

    monkeypatch.setattr("hetesynth.search.timed.list_scheduling.earliest_arrival", counted)
    instance = problem(full(4), "allgather")
    tables = CopyProblem(instance)
    rates = Rates([0.0] * len(instance.arcs), tables.resources_of, [1.0] * len(tables.resources), 1.0)
    policy = replace(DEFAULT, timed=replace(DEFAULT.timed, negotiated_rounds=3))
    search = Search(instance, 1, Budget(None, 0), schedule_violations, policy=policy)
    negotiated_strategy(rates).improve(search)
    assert len(rounds) == 3
