"""Every bound that is produced passes the judge of bounds, which shares no code with what produces them."""

from __future__ import annotations

import pytest
from support.graphs import Graph, dgx1, fig10, full, problem, ring, servers, star

from hetesynth.judge.bounds.judge import recheck
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.search.bounds.lower import cut_bounds, lower_bound
from hetesynth.search.registry import strategy
from hetesynth.search.smt.clauses import unsatisfiable
from hetesynth.search.solve import Solution, Solver, bounds_of

GRAPHS = {
    "ring5": lambda: ring(5), "oneway4": lambda: ring(4, 2, both=False), "full3": lambda: full(3),
    "star4": lambda: star(4), "dgx1": dgx1, "fig10": fig10, "4+8": lambda: servers([4, 8]),
    "odd": lambda: servers([1, 3, 2], [1, 2, 1], 5, [2, 1, 3]),
}  # fmt: skip


def searched(wanted: Problem, name: str) -> LowerBound:
    """The bound that an exact strategy ends with."""
    outcome = Solver(strategy(name), Budget(), schedule_violations).solve(wanted)
    assert isinstance(outcome, Solution)
    return outcome.bound


@pytest.fixture
def unaided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the last-step bound, which would spare the solver, and without bounds of tests before."""
    monkeypatch.setattr("hetesynth.search.solve.lower_bound", lower_bound.__wrapped__)
    monkeypatch.setattr("hetesynth.search.bounds.lower.cut_bounds", lambda p: (cut_bounds(p)[0], None))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_every_bound_is_accepted(graph: str, name: CollectiveName) -> None:
    for chunks in (1, 3):
        for exclusive in (False, True):
            wanted = problem(GRAPHS[graph](), name, chunks, exclusive=exclusive)
            for bound in bounds_of(wanted):
                found = recheck(wanted, bound)
                assert found.complete, found


@pytest.mark.parametrize("name", ["monolithic", "cegis"])
@pytest.mark.parametrize(
    ("graph", "collective", "exclusive"),
    [
        (fig10(), "allgather", False), (fig10(), "reducescatter", False), (star(4), "broadcast", False),
        (star(4), "reduce", True), (full(4), "broadcast", True), (servers([1, 3, 2], 2), "allgather", True),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("unaided")
def test_the_queries_of_exact_strategies_follow_from_the_problem(
    graph: Graph, collective: CollectiveName, exclusive: bool, name: str
) -> None:
    wanted = problem(graph, collective, exclusive=exclusive)
    bound = searched(wanted, name)
    assert recheck(wanted, bound, unsat=lambda query: unsatisfiable(query, 60)).complete
