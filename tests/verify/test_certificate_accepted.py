"""Every bound that is produced passes the judge of bounds, which shares no code with what produces them."""

from __future__ import annotations

import pytest
from support.graphs import Graph, dgx1, fig10, full, line, problem, ring, servers, star
from support.verdicts import certificate_violations

from hetesynth.judge.bounds.judge import recheck
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound, UnsatWitness
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


@pytest.mark.usefixtures("unaided")
def test_the_query_of_figure_10_states_its_laws() -> None:
    """Once solved, Z3 prints a simplified problem, which for an unsatisfiable one is just false."""
    bound = searched(problem(fig10(), "allgather"), "cegis")
    assert isinstance(bound.witness, UnsatWitness) and bound.witness.query.count("assert") > 1000


@pytest.mark.usefixtures("unaided")
def test_a_query_without_an_answer_is_open_and_not_wrong() -> None:
    wanted = problem(fig10(), "allgather")
    bound = searched(wanted, "monolithic")
    for oracle in (None, lambda query: None):
        found = recheck(wanted, bound, unsat=oracle)
        assert not found.violations and not found.complete and found.open
    assert certificate_violations(wanted, bound, unsat=lambda query: False)[0].kind == "certificate"


def test_the_second_solver() -> None:
    text = "(declare-fun x () Bool)(declare-fun y () Bool)(assert (or x y))(assert ((_ at-most 1) x y))"
    assert unsatisfiable(text, 10) is False
    assert unsatisfiable(text + "(assert x)(assert y)", 10) is True
    assert unsatisfiable("(assert", 10) is None


@pytest.mark.slow
def test_the_cut_of_a_thousand_ranks_takes_seconds() -> None:
    import time

    wanted = problem(servers([8] * 128), "allgather")
    bound = next(b for b in bounds_of(wanted) if b.method == "cut")
    started = time.monotonic()
    assert recheck(wanted, bound).complete
    assert time.monotonic() - started < 10


def test_a_cut_written_down_by_hand() -> None:
    """One bound written down by hand: two ranks, one link each way, three chunks to bring over."""
    from hetesynth.model.bound import CutWitness

    wanted = problem(line(2), "allgather", 3)
    name = next(r.name for r in wanted.resources if wanted.arcs[r.arcs[0]].dst == 1)
    claim = CutWitness((1,), "in", (name,), 3, 1)
    assert not certificate_violations(wanted, LowerBound(3, "cut", "by hand", claim))
    assert certificate_violations(wanted, LowerBound(4, "cut", "by hand", claim))
