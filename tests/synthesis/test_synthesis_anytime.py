"""Budgets, Ctrl-C, and the same answer for the same seed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.graphs import dgx1, fig10, problem, ring, servers
from support.replay import accepts
from support.solving import solve

from hetesynth.errors import InternalError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Budget
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import Violation
from hetesynth.policy import DEFAULT
from hetesynth.search.interrupts import announcing
from hetesynth.search.registry import strategy
from hetesynth.search.search import Search, Strategy
from hetesynth.search.solve import Solution, Solver

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("method", ["auto", "greedy", "cegis"])
def test_ctrl_c_after_the_first_schedule_returns_it(method: str) -> None:
    wanted = problem(fig10(), "allgather")  # its bound of 4 is not met at once
    seen: list[int | None] = []

    def progress(what: str, steps: int | None) -> None:
        seen.append(steps)
        if steps is not None:
            raise KeyboardInterrupt

    outcome = Solver(strategy(method), Budget(), schedule_violations, progress).solve(wanted)
    assert isinstance(outcome, Solution)
    assert outcome.cut_short and accepts(wanted, outcome.schedule)
    assert outcome.schedule.makespan == seen[-1]


@pytest.mark.parametrize("name", ["reducescatter", "allreduce"])
def test_ctrl_c_in_a_reduction_returns_a_whole_schedule(name: str) -> None:
    wanted = problem(fig10(), name, exclusive=name == "allreduce")  # type: ignore[arg-type]

    def progress(what: str, steps: int | None) -> None:
        if steps is not None:
            raise KeyboardInterrupt

    outcome = Solver(strategy("auto"), Budget(), schedule_violations, progress).solve(wanted)
    assert isinstance(outcome, Solution) and outcome.cut_short and accepts(wanted, outcome.schedule)


def test_after_ctrl_c_in_the_first_phase_the_second_is_short() -> None:
    """It gets the time of a first schedule, not what the budget leaves."""
    budgets: list[float | None] = []
    whole = strategy("auto")

    def improve(search: Search) -> LowerBound | None:
        budgets.append(search.budget.seconds)
        return whole.improve(search)

    def progress(what: str, steps: int | None) -> None:
        if steps is not None and len(budgets) == 1:
            signal.raise_signal(signal.SIGINT)

    wanted = problem(fig10(), "allreduce", exclusive=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    try:
        with announcing(lambda: None):
            outcome = Solver(Strategy("auto", improve), Budget(), schedule_violations, progress).solve(wanted)
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(outcome, Solution) and outcome.ending == "interrupt" and accepts(wanted, outcome.schedule)
    assert budgets == [None, DEFAULT.steps.first_schedule_seconds]


def test_ctrl_c_before_there_is_a_schedule_goes_through() -> None:
    def progress(what: str, steps: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Solver(strategy("auto"), Budget(), schedule_violations, progress).solve(problem(ring(4), "allgather"))


@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce", "reduce"])
def test_a_tiny_budget_still_gives_a_schedule(name: str) -> None:
    wanted = problem(servers([4, 8]), name, 2, exclusive=name == "allreduce")  # type: ignore[arg-type]
    started = time.monotonic()
    solution = solve(wanted, "auto", 1e-6)
    assert time.monotonic() - started < 5
    best_of_its_kind = solution.schedule.makespan == solution.within  # both phases meet their bounds
    assert solution.cut_short or solution.certificate.proven_optimal or best_of_its_kind


def test_a_wrong_proposal_is_our_bug_and_not_an_answer() -> None:
    wanted = problem(ring(4), "allgather")
    search = Search(wanted, 1, Budget(), schedule_violations)
    with pytest.raises(InternalError):
        search.offer(Schedule.of([], 3), "nothing")
    assert search.best is None


def test_the_oracle_handed_in_is_the_one_that_judges() -> None:
    asked: list[int] = []

    def picky(wanted, schedule: Schedule) -> list[Violation]:  # type: ignore[no-untyped-def]
        asked.append(schedule.makespan)
        return schedule_violations(wanted, schedule)

    outcome = Solver(strategy("auto"), Budget(), picky).solve(problem(ring(4), "allgather"))
    assert isinstance(outcome, Solution) and outcome.schedule.makespan in asked


def test_progress_reports_falling_steps() -> None:
    seen: list[int] = []

    def progress(what: str, steps: int | None) -> None:
        assert what
        if steps is not None:
            seen.append(steps)

    solution = solve(problem(dgx1(), "alltoall"), progress=progress)
    assert seen == sorted(seen, reverse=True) and seen[-1] == solution.schedule.makespan


CASES = """
from support.graphs import *
from support.solving import solve
cases = [
    (problem(fig10(), "allgather"), "auto"),          # through cegis and a proof
    (problem(fig10(), "allgather"), "cegis"),
    (problem(star(4), "broadcast"), "monolithic"),
    (problem(servers([3, 5]), "alltoall"), "greedy"),
    (problem(ring(5), "allreduce", exclusive=True), "auto"),
    (problem(servers([2, 3], [2, 1], 5, [1, 3]), "scatter", 2), "auto"),
]
for wanted, method in cases:
    made = solve(wanted, method, seed=3)
    print(repr(made.schedule), repr(made.bound), made.cut_short)
"""


def test_the_same_seed_gives_the_same_schedule_in_every_process() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", CASES], env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(TESTS)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in (1, 20_261)
    ]  # fmt: skip
    assert outputs[0].count("\n") == 6
    assert outputs[0] == outputs[1]


def test_the_seed_of_another_run_does_not_leak_into_this_one() -> None:
    wanted = problem(servers([2, 3]), "alltoall")
    first = solve(wanted, "greedy", seed=1).schedule
    solve(wanted, "greedy", seed=2)
    assert solve(wanted, "greedy", seed=1).schedule == first
