"""Budgets, Ctrl-C, and the same answer for the same seed.

A first Ctrl-C is answered at once, wherever it arrives, and only once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from support.graphs import fig10, problem, ring
from support.replay import accepts

from hetesynth.errors import InternalError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.schedule import Schedule
from hetesynth.search.interrupts import announcing, deferred, finishing
from hetesynth.search.registry import strategy
from hetesynth.search.search import Search, Strategy
from hetesynth.search.solve import Solution, Solver

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    yield
    signal.signal(signal.SIGINT, before)


def test_it_is_said_before_the_search_ends() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), announcing(lambda: said.append("x")):
        signal.raise_signal(signal.SIGINT)
    assert said == ["x"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("guard", [finishing, deferred])
def test_it_is_said_where_ctrl_c_is_put_off(guard: Callable[[], AbstractContextManager[object]]) -> None:
    said: list[str] = []
    put_off = False
    try:
        with announcing(lambda: said.append("x")), finishing(), guard():
            signal.raise_signal(signal.SIGINT)
            put_off = True
    except KeyboardInterrupt:
        pass
    assert put_off and said == ["x"]


def test_a_second_one_ends_what_is_being_finished() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), announcing(lambda: said.append("x")), finishing() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert interrupted.is_set()
        signal.raise_signal(signal.SIGINT)
    assert said == ["x"]


@pytest.mark.parametrize(
    ("method", "name"),
    [("auto", "allgather"), ("cegis", "allgather"), ("auto", "reducescatter"), ("auto", "allreduce")],
)
def test_ctrl_c_after_the_first_schedule_returns_a_whole_one(method: str, name: CollectiveName) -> None:
    asked = problem(fig10(), name, exclusive=name == "allreduce")  # its bound of 4 is not met at once
    seen: list[int | None] = []

    def progress(what: str, steps: int | None) -> None:
        seen.append(steps)
        if steps is not None:
            raise KeyboardInterrupt

    outcome = Solver(strategy(method), Budget(), schedule_violations, progress).solve(asked)
    assert isinstance(outcome, Solution)
    assert outcome.cut_short and accepts(asked, outcome.schedule)
    assert name == "allreduce" or outcome.schedule.makespan == seen[-1]


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
    with announcing(lambda: None):
        outcome = Solver(Strategy("auto", improve), Budget(), schedule_violations, progress).solve(wanted)
    assert isinstance(outcome, Solution) and outcome.ending == "interrupt" and accepts(wanted, outcome.schedule)
    assert budgets == [None, 1e-3]


def test_ctrl_c_before_there_is_a_schedule_goes_through() -> None:
    def progress(what: str, steps: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Solver(strategy("auto"), Budget(), schedule_violations, progress).solve(problem(ring(4), "allgather"))


def test_a_wrong_proposal_is_our_bug_and_not_an_answer() -> None:
    wanted = problem(ring(4), "allgather")
    search = Search(wanted, 1, Budget(), schedule_violations)
    with pytest.raises(InternalError):
        search.offer(Schedule.of([], 3), "nothing")
    assert search.best is None


CASES = """
from support.graphs import *
from support.solving import solve
cases = [
    (problem(fig10(), "allgather"), "auto"),          # through cegis and a proof
    (problem(servers([3, 5]), "alltoall"), "greedy"),
    (problem(ring(5), "allreduce", exclusive=True), "auto"),
]
for wanted, method in cases:
    made = solve(wanted, method, seed=3)
    print(repr(made.schedule), repr(made.bound), made.cut_short)
"""


def test_the_same_seed_gives_the_same_schedule_in_every_process() -> None:
    command = [sys.executable, "-c", CASES]
    environments = [{"PYTHONHASHSEED": seed, "PYTHONPATH": str(TESTS)} for seed in ("1", "20261")]
    outputs = [subprocess.run(command, env=e, stdout=subprocess.PIPE, check=True).stdout for e in environments]
    assert outputs[0].count(b"\n") == 3
    assert outputs[0] == outputs[1]
