"""What CEGIS must not do: fail while a schedule exists, prove what is false, or forget what it learned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import dgx1, fig10, line, problem, ring, servers, star
from support.replay import accepts

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Infeasible, Synthesized
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import WorkLimits
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.greedy.greedy import improve
from hetesynth.search.search import Search
from hetesynth.search.smt import cegis, monolithic
from hetesynth.search.smt.step_model import Law, StepModel, size


def search_from(wanted: Problem, best: Schedule | None = None) -> Search:
    made = Search(wanted, 1, Budget(), schedule_violations, first_candidate="nothing")  # all steps at once
    if best is not None:
        made.offer(best, "handed in")
    return made


# one chunk a step, by the longest way round: its first half leaves no way to finish in two steps
DETOUR = [Transfer(0, 1, 0, 0), Transfer(1, 2, 0, 2), Transfer(2, 3, 0, 4)]


def test_a_frozen_prefix_that_leads_nowhere_is_unfrozen() -> None:
    """Arcs of ring(4): 0->1, 1->0, 1->2, 2->1, 2->3, 3->2, 3->0, 0->3."""
    wanted = problem(ring(4), "broadcast")
    padded = Schedule.of([Transfer(t.start + 1, t.end + 1, t.chunk, t.link) for t in DETOUR], 6)
    assert not schedule_violations(wanted, padded)
    for steps in (2, 3):
        outcome, _ = cegis.synthesize(search_from(wanted, padded), steps)
        assert isinstance(outcome, Synthesized) and outcome.schedule.makespan == steps
        assert accepts(wanted, outcome.schedule)
    outcome, _ = cegis.synthesize(search_from(wanted, padded), 1)
    assert isinstance(outcome, Infeasible) and outcome.steps == 1


@pytest.mark.parametrize(
    ("wanted", "optimum"),
    [
        (problem(fig10(), "broadcast"), 2), (problem(star(4), "broadcast"), 2), (problem(dgx1(), "allgather"), 2),
        (problem(servers([1, 3]), "allgather"), 3), (problem(line(3), "alltoall"), 2),
    ],
)  # fmt: skip
def test_cegis_and_the_whole_model_decide_alike(wanted: Problem, optimum: int) -> None:
    for steps in range(1, optimum + 2):
        kinds = {type(module.synthesize(search_from(wanted), steps)[0]) for module in (cegis, monolithic)}
        assert kinds == {Synthesized if steps >= optimum else Infeasible}, steps


def test_laws_are_learned_once() -> None:
    model = StepModel(CopyProblem(problem(ring(4), "allgather")), 2)
    law = Law("capacity", 0)
    assert model.add(law) and not model.add(law)


def test_cegis_needs_fewer_laws_than_there_are() -> None:
    wanted = problem(dgx1(), "allgather")
    _, model = cegis.synthesize(search_from(wanted), 2)
    assert len(model.laws) < len(monolithic.every_law(model.tables))


def test_the_core_names_the_sends_that_block() -> None:
    wanted = problem(line(3), "broadcast")  # 0->1 must go at step 0, 1->2 at step 1
    model = StepModel(CopyProblem(wanted), 2)
    assert model.check([(0, 0, 0)], 10**8, None) == "sat"
    assert model.check([(0, 0, 1)], 10**8, None) == "unsat" and model.core() == [(0, 0, 1)]
    short = StepModel(CopyProblem(wanted), 1)
    assert short.check([], 10**8, None) == "unsat" and short.core() == []


def test_the_size_is_known_before_the_model_is_built() -> None:
    for wanted in (problem(fig10(), "allgather"), problem(line(4), "alltoall"), problem(ring(5), "broadcast", 3)):
        for steps in (1, 2, 4):
            tables = CopyProblem(wanted)
            assert size(tables, steps) == len(StepModel(tables, steps).send)


def test_useless_deliveries_are_left_out() -> None:
    wanted = problem(ring(4), "gather")  # to rank 0; arcs as above
    useful = [Transfer(0, 1, 1, 1), Transfer(0, 1, 3, 6), Transfer(0, 1, 2, 3), Transfer(1, 2, 2, 1)]
    useless = [Transfer(0, 1, 1, 2), Transfer(1, 2, 1, 4), Transfer(0, 1, 2, 4)]
    assert without_useless(wanted, useful + useless, 2) == Schedule.of(useful, 2)


@pytest.mark.slow
def test_compiled_and_interpreted_rounds_give_one_schedule() -> None:
    for asked in (problem(servers([4, 4, 8]), "allgather"), problem(fig10(), "alltoall", 2)):
        schedules = []
        for most in (0, 10**12):
            limits = WorkLimits.by_disk(absent=most, on_disk=most)
            machine_code = replace(DEFAULT.machine_code, greedy_work=limits, greedy_seconds=limits)
            search = search_from(asked)
            search.policy = replace(DEFAULT, machine_code=machine_code)
            improve(search, rounds=6)
            schedules.append(search.best)
        assert schedules[0] == schedules[1]
