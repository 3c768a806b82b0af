"""TE-CCL: tiny cases whose optimum is known by hand, both switch models, rounds, refusals, the same twice."""

from __future__ import annotations

from math import ceil, inf

import pytest
from support.graphs import Graph, full, problem, servers, star
from support.replay import complaint

from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates
from hetesynth.search.timed.te_ccl import (
    Copies,
    Epochs,
    Flows,
    Solved,
    _held,
    epoch_seconds,
    fewest_epochs,
    in_rounds,
    te_ccl_strategy,
)


def no_limit() -> float:
    return inf


def path(*capacity: int) -> Graph:
    graph = Graph(len(capacity) + 1)
    for u, width in enumerate(capacity):
        graph.both(u, u + 1, width)
    return graph


def epochs_of(
    graph: Graph,
    name: CollectiveName,
    chunks: int = 1,
    alpha: float = 0.0,
    tau: float = 1.0,
    *,
    copy: bool = False,
) -> Epochs:
    wanted = problem(graph, name, chunks)
    tables = CopyProblem(wanted)
    times = LinkTimes([alpha] * len(wanted.arcs), [1.0 / r.capacity for r in tables.resources])
    return Epochs(tables, times, tau, copy)


def solved(epochs: Epochs, upper: int = 8) -> Solved:
    return fewest_epochs(epochs, upper, no_limit)


@pytest.mark.parametrize(
    ("graph", "name", "chunks", "alpha", "tau", "fewest"),
    [
        (full(4), "allgather", 1, 0.0, 1.0, 1),
        (full(4), "allgather", 1, 2.0, 1.0, 3),  # delta = 2
        (full(4), "allgather", 1, 1.5, 1.0, 3),  # and so where alpha takes a part of an epoch
        (full(4), "allgather", 1, 0.0, 0.5, 2),  # kappa = 2
        (full(4), "alltoall", 3, 0.0, 1.0, 3),
        (path(1, 1), "broadcast", 3, 0.0, 1.0, 4),  # two hops, pipelined
        (path(1, 1), "broadcast", 2, 1.0, 1.0, 5),
        (path(1, 1), "scatter", 2, 0.0, 1.0, 4),  # four chunks leave the root one by one
        (path(2, 1), "scatter", 2, 0.0, 1.0, 3),
        (path(1, 1), "alltoall", 1, 0.0, 1.0, 2),
    ],
)
def test_the_fewest_epochs_are_known(
    graph: Graph, name: CollectiveName, chunks: int, alpha: float, tau: float, fewest: int
) -> None:
    found = solved(epochs_of(graph, name, chunks, alpha, tau))
    assert (found.epochs, found.fewest, found.whole) == (fewest, True, True)


def test_a_guess_that_is_too_low_is_raised() -> None:
    assert solved(epochs_of(path(1, 1), "broadcast", 3), upper=1).epochs == 4


def test_a_switch_that_copies_saves_the_port() -> None:
    """Four ranks, each with a port of one chunk an epoch."""
    graph = star(4)
    assert solved(epochs_of(graph, "broadcast")).epochs == 2  # one receiver relays
    assert solved(epochs_of(graph, "broadcast", copy=True)).epochs == 1
    scattered = [solved(epochs_of(graph, "scatter", copy=copy)).epochs for copy in (False, True)]
    assert scattered == [3, 3]  # nothing that a switch could copy


@pytest.mark.parametrize("graph", [full(3), path(1, 2), servers([2, 2])])
def test_the_linear_program_and_integers_agree(graph: Graph) -> None:
    epochs = epochs_of(graph, "alltoall")
    fewest = solved(epochs).epochs
    every = Copies(epochs, fewest, _held(epochs.tables.problem))
    assert every.solve(inf, 1000)[0] == "found"
    for model in (Copies(epochs, fewest - 1, _held(epochs.tables.problem)), Flows(epochs, fewest - 1)):
        assert model.solve(inf, 1000)[0] == "infeasible"


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_rounds_deliver_and_carry_over_what_is_on_its_way(alpha: float) -> None:
    epochs = epochs_of(path(1, 1, 1), "allgather", 2, alpha)
    found = in_rounds(epochs, no_limit)
    lacking = {(c, d) for c, (pre, post) in enumerate(epochs.tables.problem.collective.ends) for d in post - pre}
    brought = [(c, epochs.tables.problem.arcs[a].dst) for _, a, c in found.sent]
    assert set(brought) == lacking and len(brought) == len(lacking)
    held = {(c, n): 0 for c, pre in enumerate(epochs.tables.problem.collective.pre) for n in pre}
    for k, a, c in sorted(found.sent):
        assert held[c, epochs.tables.problem.arcs[a].src] <= k
        held[c, epochs.tables.problem.arcs[a].dst] = k + epochs.delay[a]
    assert max(k for k, _, _ in found.sent) >= max(epochs.longest, 4)  # more than one round


def rates_of(graph: Graph, name: CollectiveName, chunks: int = 1) -> tuple[CopyProblem, Rates]:
    tables = CopyProblem(problem(graph, name, chunks))
    return tables, Rates(
        [1.0] * len(tables.problem.arcs), tables.resources_of, [float(r.capacity) for r in tables.resources], 1
    )


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_schedules_verify_and_are_the_same_twice(name: CollectiveName) -> None:
    tables, rates = rates_of(servers([2, 2]), name)
    found = [Solver(te_ccl_strategy(rates), Budget(), schedule_violations).solve(tables.problem) for _ in range(2)]
    assert isinstance(found[0], Solution) and isinstance(found[1], Solution)
    assert found[0].schedule == found[1].schedule
    assert complaint(tables.problem, found[0].schedule) is None


def test_what_is_too_large_is_refused() -> None:
    tables, rates = rates_of(full(24), "allgather", 4)
    with pytest.raises(HetesynthError, match="its smallest round would have about") as refused:
        Solver(te_ccl_strategy(rates), Budget(), schedule_violations).solve(tables.problem)
    assert refused.value.code == "HS306"


def test_epochs_are_of_the_slowest_and_the_fastest_link() -> None:
    tables, _ = rates_of(path(1, 4), "allgather")
    busy = [1.0 / r.capacity for r in tables.resources]
    assert epoch_seconds(tables, LinkTimes([0.0] * 4, busy)) == [1.0, 0.25]
    long = epoch_seconds(tables, LinkTimes([9.0] * 4, busy))
    assert long == [1.0, 0.75] and ceil(9.0 / long[1]) == 12
