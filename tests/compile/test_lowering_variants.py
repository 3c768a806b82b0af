"""Fused receives are written where the target has them and the program fits, else plain instructions."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.formats import Emitted
from hetesynth.engine.lowering import UNFUSED, Lowering
from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.engine.time_verdict import implied_size
from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PLAIN_OPS, TARGETS, Target
from hetesynth.model.topology import Topology
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower, lower_with_notes
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXECUTOR = TARGETS["msccl-executor"]
OPTIONS = LoweringOptions("x", target=EXECUTOR)
ONE_ROUND = Strategy("greedy", lambda search: greedy.improve(search, rounds=1))
CASES: list[tuple[str, CollectiveName]] = [
    ("fig10", "allgather"),
    ("fig10", "reducescatter"),
    ("fig10", "allreduce"),
    ("dgx1", "allgather"),
    ("dgx1", "alltoall"),
    ("h20_4p8", "allgather"),
    ("a100_x2", "broadcast"),
]


@lru_cache
def found(cluster: str, name: CollectiveName) -> tuple[Topology, Problem, Schedule, int]:
    request = Request(EXAMPLES / cluster / "topo.dsl", name, root=0 if name == "broadcast" else None)
    chunking, problem = load_problem(request, PhaseTimer())
    solution = Solver(ONE_ROUND, Budget(), schedule_violations).solve(problem)
    assert isinstance(solution, Solution)
    return chunking.topology, problem, solution.schedule, implied_size(problem, chunking.chunk_bytes)


def both(problem: Problem, schedule: Schedule) -> tuple[Program, Program]:
    """Lowered with fused receives, and without."""
    plain = replace(OPTIONS, fusion="none")
    return lower(problem, schedule, OPTIONS), lower(problem, schedule, plain)


def time(topology: Topology, program: Program, size: int, target: Target = EXECUTOR) -> float:
    return ProgramPredictor(topology, program, target=target).timeline(size).makespan


def written(made: Emitted) -> Program:
    program = read_program(made.data, "x").program
    assert program is not None
    return program


def fuses(program: Program) -> bool:
    return any(x.op not in PLAIN_OPS for g in program.gpus for b in g.thread_blocks for x in b.instructions)


@pytest.mark.parametrize(("cluster", "name"), CASES)
def test_fused_receives_are_written(cluster: str, name: CollectiveName) -> None:
    topology, problem, schedule, size = found(cluster, name)
    lowering = Lowering(topology, problem, schedule, size, OPTIONS, CostOptions())
    made = lowering.emitted()
    fused, _ = both(problem, schedule)
    assert lowering.seconds() == pytest.approx(time(topology, written(made), size), rel=1e-9)
    assert time(topology, written(made), size) == pytest.approx(time(topology, fused, size), rel=1e-9)
    assert fuses(written(made)) == fuses(fused) and UNFUSED not in made.notes
    assert made.data == lowering.emitted().data


def test_what_does_not_fit_with_fused_receives_is_written_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def lowered(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
        if options.fusion != "none":
            raise HetesynthError("too many", code="HS501", help="fewer")
        return lower_with_notes(problem, schedule, options)

    monkeypatch.setattr("hetesynth.engine.lowering.lower_with_notes", lowered)
    topology, problem, schedule, size = found("fig10", "allreduce")
    made = Lowering(topology, problem, schedule, size, OPTIONS, CostOptions()).emitted()
    assert not fuses(written(made)) and UNFUSED in made.notes


def test_targets_without_fused_receives_have_no_choice() -> None:
    topology, problem, schedule, size = found("dgx1", "allgather")
    options = replace(OPTIONS, target=TARGETS["rccl-6"])
    made = Lowering(topology, problem, schedule, size, options, CostOptions()).emitted()
    assert not fuses(written(made)) and UNFUSED not in made.notes
