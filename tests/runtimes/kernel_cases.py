"""Programs for the target nccl-device, made quickly, and how they are run on threads."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.formats import forms
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.execute.job import RunOptions, job_of
from hetesynth.execute.outcome import Run
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.program import Program
from hetesynth.model.target import TARGETS
from hetesynth.programs.msccl.lower import LoweringOptions, lower_with_notes
from hetesynth.runtimes.nccl_device.cpu import run_on_threads
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGET = TARGETS["nccl-device"]


@cache
def programs(cluster: str, name: CollectiveName) -> tuple[Program, ...]:
    """One round of the greedy strategy, in place and out of place where both are had."""
    request = Request(EXAMPLES / cluster / "topo.dsl", name, strategy="greedy", targets=(TARGET,))
    problem = load_problem(request, PhaseTimer())[1]
    outcome = Solver(Strategy("one", lambda s: greedy.improve(s, 1)), Budget(), schedule_violations).solve(problem)
    assert isinstance(outcome, Solution)
    options = [LoweringOptions("x", in_place, target=TARGET) for in_place in forms(TARGET, name)]
    return tuple(lower_with_notes(problem, outcome.schedule, one).program for one in options)


def run(program: Program, server: int = 0, **options: Any) -> list[Run]:
    job, parts = job_of(program, RunOptions(**options), TARGET)
    return list(run_on_threads(job, parts, server))
