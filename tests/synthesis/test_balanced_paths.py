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

from hetesynth.bounds.throughput import time_bounds
from hetesynth.chunking import ChunkingOptions, chunk
from hetesynth.compile.predictors import SchedulePredictor
from hetesynth.compile.problem import problem_of
from hetesynth.compile.request import Request
from hetesynth.frontend import load_topology
from hetesynth.model.cost import chunk_bytes, costs
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.time_bound import tightest
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import MachineCodePolicy, WorkLimits
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.timed import balanced_paths as exchange
from hetesynth.synthesis.timed.balanced_paths import Paths, exchange_strategy, refuses
from hetesynth.synthesis.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, schedule_of
from hetesynth.verify.schedule.judge import schedule_violations

EXAMPLES = Path(__file__).parents[2] / "examples"


def paths(wanted: Problem, policy: MachineCodePolicy = DEFAULT.machine_code) -> Paths:
    """A second of latency on every arc, every resource busy for a second over its capacity."""
    tables = CopyProblem(wanted)
    clock = LinkTimes([1.0] * len(wanted.arcs), [1.0 / r.capacity for r in tables.resources])
    found = Paths(tables, clock, 0, policy)
    assert all(found.sweep(sharpness) for sharpness in exchange.SHARPNESS)
    return found


def judged(wanted: Problem, pressure: float = 0.0) -> TimedRoutes:
    found = paths(wanted)
    timed = found.listed(pressure)
    schedule = schedule_of(found.tables, timed)
    assert not schedule_violations(wanted, schedule)
    assert complaint(wanted, schedule) is None
    return timed


@settings(max_examples=40, deadline=None)
@given(
    clusters(),
    st.sampled_from(["alltoall", "gather", "scatter"]),
    st.integers(1, 2),
    st.sampled_from(exchange.PRESSURES),
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
    found = paths(problem(servers([4, 4]), "alltoall"))
    arcs = found.tables.problem.arcs
    between = [
        i
        for i, r in enumerate(found.tables.resources)
        if all(arcs[a].src // 4 != arcs[a].dst // 4 for a in r.arcs)
    ]
    load = found.load[between]
    assert between and load.max() <= load.mean() + 1.0


def test_interpreted_and_compiled_kernels_agree() -> None:
    wanted = problem(servers([4, 3]), "alltoall", 2)
    interpreted = paths(wanted)
    always = replace(DEFAULT.machine_code, balanced_paths=WorkLimits.by_numba(unloaded=0, loaded=0))
    machine = paths(wanted, always)
    assert not interpreted.large and machine.large
    assert np.array_equal(machine.length, interpreted.length) and np.allclose(machine.load, interpreted.load)
    for pressure in exchange.PRESSURES:
        assert machine.listed(pressure).start == interpreted.listed(pressure).start


def test_what_is_no_exchange_is_refused() -> None:
    assert "several" in str(refuses(problem(full(4), "allgather")))
    assert refuses(problem(full(4), "alltoall")) is None


@pytest.mark.parametrize(("size", "goal"), [(10**9, 12.4), (10**6, 11.9)])
def test_dgx2_alltoall_is_at_its_bound(size: int, goal: float) -> None:
    """Of 16 GPUs 8 send to the other server and 8 receive: relays before and behind scarce links."""
    topology = load_topology(EXAMPLES / "dgx2_x2" / "topo.dsl")
    exact = chunk_bytes("alltoall", topology.ranks, 1, size)
    request = Request(EXAMPLES / "dgx2_x2" / "topo.dsl", "alltoall")
    wanted = problem_of(request, chunk(topology, ChunkingOptions(chunk_bytes=int(exact))))
    paid = costs(topology)
    rates = Rates(paid.link_alpha, paid.link_resources, paid.resource_rate, exact)
    search = Search(wanted, 1, Budget(None, 0), schedule_violations)
    exchange_strategy(rates).improve(search)
    assert search.best is not None
    seconds = SchedulePredictor(topology, wanted, search.best).timeline(size).makespan
    bound = float(tightest(time_bounds(topology, "alltoall", None), size).seconds(size))
    assert size / seconds / 1e9 >= goal
    assert bound <= seconds * (1 + 1e-9) <= bound * 1.001
