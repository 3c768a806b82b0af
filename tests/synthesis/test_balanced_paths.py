"""Balanced paths: schedules that verify, both forms of the kernels, and DGX-2's alltoall at its bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
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
from hetesynth.model.time_bound import tightest
from hetesynth.policy import DEFAULT, Policy
from hetesynth.policy.machine_code import WorkLimits
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, schedule_of
from hetesynth.search.timed.list_scheduling import Paths, exchange_strategy, refuses
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


def paths(instance: Problem, policy: Policy = DEFAULT) -> Paths:
    """A second of latency on every arc, every resource busy for a second over its capacity."""
    tables = CopyProblem(instance)
    times = LinkTimes([1.0] * len(instance.arcs), [1.0 / r.capacity for r in tables.resources])
    balanced = Paths(tables, times, 0, policy)
    assert all(balanced.sweep(sharpness) for sharpness in DEFAULT.timed.path_sharpness)
    return balanced


def judged(instance: Problem, pressure: float = 0.0) -> TimedRoutes:
    balanced = paths(instance)
    timed = balanced.list_schedule(pressure)
    schedule = schedule_of(balanced.tables, timed)
    assert not schedule_violations(instance, schedule)
    assert complaint(instance, schedule) is None
    return timed


@settings(max_examples=40, deadline=None)
@given(
    clusters(),
    st.sampled_from(["alltoall", "gather", "scatter"]),
    st.integers(1, 2),
    st.sampled_from(DEFAULT.timed.path_pressures),
)
def test_schedules_verify_on_random_clusters(graph: Graph, name: str, chunks: int, pressure: float) -> None:
    judged(problem(graph, name, chunks), pressure)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("graph", "name", "seconds"),
    [(full(5), "alltoall", 2.0), (line(3), "scatter", 4.0), (line(4), "scatter", 6.0), (line(4), "gather", 6.0)],
)
def test_known_times(graph: Graph, name: str, seconds: float) -> None:
    """One second of latency and one of bytes a hop; on a line what goes farthest goes first."""
    assert judged(problem(graph, name)).seconds == pytest.approx(seconds)  # type: ignore[arg-type]


def test_work_is_even() -> None:
    """What leaves a server of four through four links is spread over them."""
    balanced = paths(problem(servers([4, 4]), "alltoall"))
    arcs = balanced.tables.problem.arcs
    between = [
        i
        for i, r in enumerate(balanced.tables.resources)
        if all(arcs[a].src // 4 != arcs[a].dst // 4 for a in r.arcs)
    ]
    load = balanced.load[between]
    assert between and load.max() <= load.mean() + 1.0


def test_interpreted_and_compiled_kernels_agree() -> None:
    instance = problem(servers([4, 3]), "alltoall", 2)
    interpreted = paths(instance)
    limits = replace(DEFAULT.machine_code, balanced_paths=WorkLimits.by_numba(unloaded=0, loaded=0))
    always = replace(DEFAULT, machine_code=limits)
    machine = paths(instance, always)
    assert not interpreted.large and machine.large
    assert machine.paths == interpreted.paths and np.array_equal(machine.load, interpreted.load)
    for pressure in DEFAULT.timed.path_pressures:
        assert machine.list_schedule(pressure).start == interpreted.list_schedule(pressure).start


def test_what_is_no_exchange_is_refused() -> None:
    assert "several" in str(refuses(problem(full(4), "allgather")))
    assert refuses(problem(full(4), "alltoall")) is None


@pytest.mark.parametrize(("size", "goal"), [(10**9, 12.4), (10**6, 11.9)])
def test_dgx2_alltoall_is_at_its_bound(size: int, goal: float) -> None:
    """Of 16 GPUs 8 send to the other server and 8 receive: relays before and behind scarce links."""
    topology = load_topology(EXAMPLES / "dgx2_x2" / "topo.dsl")
    exact = chunk_bytes("alltoall", topology.ranks, 1, size)
    request = Request(EXAMPLES / "dgx2_x2" / "topo.dsl", "alltoall")
    instance = ProblemFactory(topology, request).problem(chunk(topology, ChunkingOptions(chunk_bytes=int(exact))))
    paid = costs(topology)
    rates = Rates(paid.link_alpha, paid.link_resources, paid.resource_rate, exact)
    search = Search(instance, 1, Budget(None, 0), schedule_violations)
    exchange_strategy(rates).improve(search)
    assert search.best is not None
    seconds = SchedulePredictor(topology, instance, search.best).timeline(size).makespan
    bound = float(tightest(time_bounds(topology, "alltoall", None), size).seconds(size))
    assert size / seconds / 1e9 >= goal
    assert bound <= seconds * (1 + 1e-9) <= bound * 1.001


def test_many_paths_are_scheduled_from_a_queue() -> None:
    """What goes farthest goes first by either rule."""
    queued = replace(DEFAULT, timed=replace(DEFAULT.timed, scanned_paths=0))
    routes = paths(problem(line(4), "scatter"), queued)
    assert routes.list_schedule(0.0).seconds == pytest.approx(6.0)


def test_the_size_of_an_exchange_is_policy() -> None:
    instance = problem(full(4), "alltoall")
    rates = Rates([0.0] * len(instance.arcs), CopyProblem(instance).resources_of, [1.0] * len(instance.arcs), 1.0)
    policy = replace(DEFAULT, timed=replace(DEFAULT.timed, path_single_chunks=11))
    search = Search(instance, 1, Budget(None, 0), schedule_violations, policy=policy)
    exchange_strategy(rates).improve(search)
    assert search.best is None
