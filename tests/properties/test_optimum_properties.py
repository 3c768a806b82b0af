"""On tiny random graphs: no bound above the true optimum, and every strategy where it claims to be."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.certificates import recheck
from support.graphs import Graph, fig10, full, line, problem, ring, star
from support.optimum import copying_optimum, reducing_optimum
from support.random_graphs import tiny_graphs
from support.solving import solve

from hetesynth.model.bound import UnsatWitness
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.search.solve import bounds_of

COPYING: list[CollectiveName] = ["allgather", "broadcast", "gather", "scatter", "alltoall"]
REDUCTIONS: list[CollectiveName] = ["reduce", "reducescatter", "allreduce"]
fixed = settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


@st.composite
def copying_problems(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from(COPYING))
    graph = draw(tiny_graphs(most=3 if name == "alltoall" else 4))
    chunks = draw(st.integers(1, 2)) if graph.ranks == 2 or name == "broadcast" else 1
    exclusive = name in ("broadcast", "allgather") and draw(st.booleans())
    return problem(graph, name, chunks, exclusive=exclusive)


@st.composite
def reducing_problems(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from(REDUCTIONS))
    graph = draw(tiny_graphs(most=3 if name == "reduce" else 2))
    return problem(graph, name, exclusive=draw(st.booleans()))


@pytest.mark.parametrize(
    ("graph", "name", "steps"),
    [
        (ring(4), "allgather", 2), (line(3), "allgather", 2), (star(3), "allgather", 2), (star(3), "broadcast", 2),
        (line(3), "scatter", 2), (line(4), "gather", 3),
        (ring(3, both=False), "scatter", 2),
    ],
)  # fmt: skip
def test_the_search_itself_by_hand(graph: Graph, name: CollectiveName, steps: int) -> None:
    assert copying_optimum(problem(graph, name)) == steps


def test_the_search_of_reductions_by_hand() -> None:
    assert reducing_optimum(problem(line(2), "allreduce")) == 2
    assert reducing_optimum(problem(ring(2, 2), "allreduce")) == 1, "both add what the other sends"
    assert reducing_optimum(problem(line(3), "reduce")) == 2
    assert reducing_optimum(problem(full(3), "reduce")) == 1
    assert reducing_optimum(problem(full(3), "reduce", exclusive=True)) == 2


def _bounds_hold(wanted: Problem, best: int | None) -> None:
    assert best is not None
    for bound in bounds_of(wanted):
        assert bound.steps <= best, bound
        recheck(wanted, bound)


def _strategies_agree(wanted: Problem, best: int | None) -> None:
    assert best is not None
    for name in ("monolithic", "cegis", "auto"):
        solution = solve(wanted, name)
        assert solution.schedule.makespan == best, name
        assert solution.bound.steps == best, f"{name} stops without a proof"
        recheck_search(wanted, solution.bound)
    assert solve(wanted, "greedy").schedule.makespan >= best


def recheck_search(wanted: Problem, bound) -> None:  # type: ignore[no-untyped-def]
    recheck(wanted, bound)
    if isinstance(bound.witness, UnsatWitness):
        assert "assert" in bound.witness.query


@given(copying_problems())
@fixed
def test_bounds_and_strategies_against_exhaustive_search(wanted: Problem) -> None:
    best = copying_optimum(wanted)
    _bounds_hold(wanted, best)
    _strategies_agree(wanted, best)


@given(reducing_problems())
@fixed
def test_reductions_against_exhaustive_search(wanted: Problem) -> None:
    best = reducing_optimum(wanted)
    _bounds_hold(wanted, best)
    solution = solve(wanted)
    if wanted.collective.name != "allreduce":  # allreduce is composed of two phases, optimal each
        assert solution.schedule.makespan == best and solution.certificate.proven_optimal
    else:
        assert best is not None and solution.schedule.makespan >= best


def test_figure_10_needs_five_steps_although_no_cut_says_so() -> None:
    solution = solve(problem(fig10(), "allgather"))
    assert solution.schedule.makespan == solution.bound.steps == 5
    recheck(problem(fig10(), "allgather"), solution.bound)
