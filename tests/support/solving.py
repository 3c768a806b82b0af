"""Running the solver the way the pipeline does, and checking what it returns."""

from __future__ import annotations

from support.replay import complaint

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.search.registry import strategy
from hetesynth.search.search import Progress, Strategy, no_progress
from hetesynth.search.solve import Solution, Solver


def solve(
    problem: Problem,
    name: str = "auto",
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Solution:
    """The solution; both replays must find nothing and the bound must hold."""
    return solved_by(strategy(name), problem, Budget(seconds, seed), progress)


def solved_by(
    strategy: Strategy, problem: Problem, budget: Budget | None = None, progress: Progress = no_progress
) -> Solution:
    """The same by a strategy that has no name."""
    outcome = Solver(strategy, budget or Budget(), schedule_violations, progress).solve(problem)
    if not isinstance(outcome, Solution):
        raise AssertionError(outcome)
    if found := schedule_violations(problem, outcome.schedule):
        raise AssertionError(found)
    if said := complaint(problem, outcome.schedule):
        raise AssertionError(said)
    if outcome.bound.steps > outcome.schedule.makespan:
        raise AssertionError(f"bound {outcome.bound} above {outcome.schedule.makespan}")
    return outcome
