"""Five faults seen in an earlier synthesizer (SCCL's public tool), each impossible here."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from support.graphs import dgx1, line, problem, ring
from support.solving import solve

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import GaveUp
from hetesynth.search.auto import raise_target
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search, Strategy
from hetesynth.search.smt import cegis
from hetesynth.search.smt import monolithic as whole
from hetesynth.search.smt.step_model import StepModel
from hetesynth.search.solve import Solution, Solver

T = Transfer


def kinds(wanted, moves):  # type: ignore[no-untyped-def]
    return {v.kind for v in schedule_violations(wanted, Schedule.of(moves))}


def test_fault_1_an_allreduce_that_adds_an_input_twice_is_refused() -> None:
    """(2a + b, 3a + 2b): both ranks add the other's value, then again."""
    wanted = problem(line(2), "allreduce")
    exchange = [T(0, 1, k, a, True) for k, a in ((0, 0), (1, 1))]
    assert kinds(wanted, [*exchange, T(1, 2, 0, 1, True), T(1, 2, 1, 0, True)]) == {"contribution-twice"}
    good = [*exchange, T(1, 2, 0, 1), T(1, 2, 1, 0)]
    assert kinds(wanted, good) == set()


def test_fault_1_twice_through_a_detour_is_refused() -> None:
    """A ring in which 0's input reaches 2 both directly and inside 1's partial sum."""
    wanted = problem(ring(3), "reduce", root=2)
    arcs = {(a.src, a.dst): i for i, a in enumerate(wanted.arcs)}
    moves = [T(0, 1, 0, arcs[0, 1], True), T(0, 1, 0, arcs[0, 2], True), T(1, 2, 0, arcs[1, 2], True)]
    assert kinds(wanted, moves) == {"contribution-twice"}
    assert kinds(wanted, [moves[0], moves[2]]) == set()


def test_fault_2_a_send_over_a_link_that_does_not_exist_is_refused() -> None:
    wanted = problem(ring(4, both=False), "broadcast")
    good = [T(t, t + 1, 0, t) for t in range(3)]
    assert kinds(wanted, good) == set()
    assert kinds(wanted, [*good[:2], T(2, 3, 0, len(wanted.arcs))]) == {"no-such-link"}
    # a link of the graph, but not one that leads to the rank it is meant for
    assert kinds(wanted, [*good[:2], T(2, 3, 0, 3)]) == {"not-held", "already-held", "not-delivered"}


def test_fault_3_a_send_of_a_chunk_not_held_yet_is_refused() -> None:
    wanted = problem(line(3), "broadcast")
    assert kinds(wanted, [T(0, 1, 0, 0), T(0, 1, 0, 2)]) == {"not-held", "not-delivered"}
    assert kinds(wanted, [T(0, 1, 0, 0), T(1, 2, 0, 2)]) == set()


def test_fault_4_unknown_is_not_unsatisfiable() -> None:
    wanted = problem(dgx1(), "allgather", 2)
    model = StepModel(CopyProblem(wanted), 3)
    for law in whole.every_law(model.tables):
        model.add(law)
    assert model.check((), 1, None) == "unknown"


@pytest.mark.parametrize("module", [cegis, whole])
def test_fault_4_a_spent_budget_gives_up_and_proves_nothing(module) -> None:  # type: ignore[no-untyped-def]
    wanted = problem(dgx1(), "allgather", 2)
    search = Search(wanted, 1, Budget(), schedule_violations)
    outcome, _ = module.synthesize(search, 3, rlimit=1)
    assert isinstance(outcome, GaveUp)


def test_fault_4_giving_up_never_raises_the_bound() -> None:
    """Not even when a later number of steps is proved impossible: bounds do not jump over what is unknown."""
    wanted = problem(ring(4), "allgather")
    best = solve(wanted).schedule
    search = Search(wanted, 1, Budget(), schedule_violations)
    search.offer(Schedule.of(best.transfers, 9), "padded")
    asked: list[int] = []

    def decide(steps):  # type: ignore[no-untyped-def]
        asked.append(steps)
        return GaveUp("spent", 0.0), None

    assert raise_target(search, decide, "test") is None
    assert asked == list(range(1, 9)) and search.target == 1


def test_fault_4_an_interrupted_solver_proves_nothing() -> None:
    def improve(search: Search) -> None:
        whole.synthesize(search, 3, rlimit=1)

    wanted = problem(dgx1(), "allgather", 2)
    outcome = Solver(Strategy("t", improve), Budget(), schedule_violations).solve(wanted)
    assert isinstance(outcome, GaveUp)


def test_fault_4_seconds_that_end_are_unknown() -> None:
    wanted = problem(dgx1(), "allgather", 2)
    outcome, _ = whole.synthesize(Search(wanted, 1, Budget(0.001), schedule_violations), 3)
    assert isinstance(outcome, GaveUp)


@pytest.mark.parametrize("in_place", [False, True])
def test_fault_5_the_xml_has_the_attributes_that_newer_readers_demand(in_place: bool) -> None:
    lower = pytest.importorskip("hetesynth.programs.msccl.lower")
    write = pytest.importorskip("hetesynth.programs.msccl.xml_writer").write_msccl_xml
    limits = pytest.importorskip("hetesynth.model.target")
    wanted = problem(ring(4), "allgather")
    solution = solve(wanted)
    assert isinstance(solution, Solution)
    options = lower.LoweringOptions(
        name="ring", in_place=in_place, out_of_place=not in_place, target=limits.PORTABLE
    )
    root = ET.fromstring(write(lower.lower(wanted, solution.schedule, options)))
    assert (root.get("inplace"), root.get("outofplace")) == (("1", "0") if in_place else ("0", "1"))
    assert int(root.attrib["minBytes"]) >= 0 and int(root.attrib["maxBytes"]) >= 0
    for name in ("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll"):
        assert root.get(name), name
