"""Five faults seen in an earlier synthesizer (SCCL's public tool), each impossible here."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from support.graphs import dgx1, problem, ring
from support.solving import solve

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import GaveUp
from hetesynth.search.auto import raise_target
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search, Strategy
from hetesynth.search.smt import cegis
from hetesynth.search.smt import monolithic as whole
from hetesynth.search.smt.step_model import StepModel
from hetesynth.search.solve import Solution, Solver


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
