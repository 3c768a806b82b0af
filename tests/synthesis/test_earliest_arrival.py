"""Earliest arrival first: schedules that verify, the kernel in both forms, and what prices do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Graph, full, line, problem, ring, servers
from support.random_graphs import clusters
from support.replay import complaint

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.cost import costs
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import WorkLimits
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.timed import earliest_arrival as timed
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates, earliest_arrival, rounds, schedule_of
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


def link_times(instance: Problem, alpha: float = 1.0, seconds: float = 1.0) -> LinkTimes:
    """Every arc ``alpha``, every resource ``seconds`` over its capacity."""
    tables = CopyProblem(instance)
    return LinkTimes([alpha] * len(instance.arcs), [seconds / r.capacity for r in tables.resources])


def judged(instance: Problem, price: float = 0.0) -> timed.TimedRoutes:
    tables = CopyProblem(instance)
    timed_routes = earliest_arrival(
        tables, link_times(instance), [price / r.capacity for r in tables.resources], DEFAULT
    )
    schedule = schedule_of(tables, timed_routes)
    assert not schedule_violations(instance, schedule)
    assert complaint(instance, schedule) is None
    return timed_routes


@settings(max_examples=40, deadline=None)
@given(clusters(), st.sampled_from(["allgather", "broadcast", "alltoall", "gather", "scatter"]), st.integers(1, 2))
def test_schedules_verify_on_random_clusters(graph: Graph, name: str, chunks: int) -> None:
    judged(problem(graph, name, chunks), price=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("graph", "name", "seconds"),
    [
        (line(4), "broadcast", 3 * 2.0),
        (ring(5, both=False), "allgather", 4 * 2.0),
        (full(5), "allgather", 2.0),
        (full(5), "alltoall", 2.0),
    ],
)
def test_known_times(graph: Graph, name: str, seconds: float) -> None:
    """One second of latency and one of bytes a hop, nothing in the way."""
    assert judged(problem(graph, name)).seconds == pytest.approx(seconds)  # type: ignore[arg-type]


def test_an_exclusive_reduction_sends_a_chunk_once_a_step() -> None:
    judged(problem(full(4), "allgather", exclusive=True))


def crossings(instance: Problem, timed_routes: timed.TimedRoutes, home: list[int]) -> int:
    """Transfers between servers."""
    return sum(1 for _, a in timed_routes.start if home[instance.arcs[a].src] != home[instance.arcs[a].dst])


def test_without_prices_quick_with_prices_sparing() -> None:
    instance = problem(servers([4, 4]), "allgather")
    home = [0] * 4 + [1] * 4
    assert crossings(instance, judged(instance, price=5.0), home) == 8  # every chunk once
    assert crossings(instance, judged(instance), home) >= 8


def test_interpreted_and_compiled_rounds_agree() -> None:
    instance = problem(servers([4, 3]), "allgather", 2)
    tables = CopyProblem(instance)
    price = [0.3 / r.capacity for r in tables.resources]
    interpreted = earliest_arrival(tables, link_times(instance), price, DEFAULT)
    limits = replace(DEFAULT.machine_code, earliest_arrival=WorkLimits.by_numba(unloaded=0, loaded=0))
    always = replace(DEFAULT, machine_code=limits)
    machine = earliest_arrival(tables, link_times(instance), price, always)
    assert list(machine.start.items()) == list(interpreted.start.items())
    assert np.array_equal(machine.load, interpreted.load) and machine.seconds == interpreted.seconds


def test_rounds_end_when_time_is_up() -> None:
    instance = problem(full(4), "allgather")
    tables, times = CopyProblem(instance), link_times(instance)
    three = replace(DEFAULT, timed=replace(DEFAULT.timed, arrival_rounds=3))
    assert len(rounds(tables, times, 1.0, lambda: True, DEFAULT)) == 1
    assert len(rounds(tables, times, 1.0, lambda: False, DEFAULT)) == DEFAULT.timed.arrival_rounds
    assert len(rounds(tables, times, 1.0, lambda: False, three)) == 3


def test_a_law_is_as_fast_as_what_all_its_arcs_share() -> None:
    from hetesynth.search.chunking import ChunkingOptions, chunk
    from hetesynth.search.collectives import collective

    topology = load_topology(EXAMPLES / "h20_4p8" / "topo.dsl")
    instance = chunk(topology, ChunkingOptions(chunk_bytes=10**6)).problem(collective("allgather", 12, 1))
    paid = costs(topology)
    tables = CopyProblem(instance)
    busy = Rates(paid.link_alpha, paid.link_resources, paid.resource_rate, 10**6).link_times(tables).busy
    by_name = {r.name: seconds for r, seconds in zip(tables.resources, busy, strict=True)}
    ports = [s for name, s in by_name.items() if "nvswitch" in name]
    cards = [s for name, s in by_name.items() if name.startswith("a.nic0->")]
    assert ports and all(s == pytest.approx(10**6 / 450e9) for s in ports)
    assert cards and all(s == pytest.approx(10**6 / 50e9) for s in cards)
