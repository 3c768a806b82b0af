"""Fused receives are written where they are quicker, and plain instructions where those are."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.formats import Emitted
from hetesynth.engine.lowering import Lowering
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
from hetesynth.policy import DEFAULT
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXECUTOR = TARGETS["msccl-executor"]
FEWER = replace(DEFAULT, compile=replace(DEFAULT.compile, max_both_receives=1))
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


@pytest.mark.parametrize("factor", [1 / 16, 1, 16])
@pytest.mark.parametrize(("cluster", "name"), CASES)
def test_the_quicker_program_is_written(cluster: str, name: CollectiveName, factor: float) -> None:
    topology, problem, schedule, size = found(cluster, name)
    size = int(size * factor)
    lowering = Lowering(topology, problem, schedule, size, OPTIONS, CostOptions())
    made = lowering.emitted()
    fused, plain = (time(topology, program, size) for program in both(problem, schedule))
    assert time(topology, written(made), size) == pytest.approx(min(fused, plain), rel=1e-9)
    assert lowering.seconds() == pytest.approx(min(fused, plain), rel=1e-9)
    assert made.data == lowering.emitted().data
    if not fuses(both(problem, schedule)[0]):
        assert made.notes == ()
    elif plain < fused * (1 - 1e-6):
        assert not fuses(written(made)) and any(n.startswith("no fused receives: ") for n in made.notes)
    else:
        assert fuses(written(made)) and any(n.startswith("fused receives: ") for n in made.notes)


def test_what_does_not_fit_without_fused_receives_is_written_with_them() -> None:
    topology, problem, schedule, size = found("fig10", "allreduce")
    fused, plain = both(problem, schedule)
    steps = max(len(b.instructions) for g in fused.gpus for b in g.thread_blocks)
    narrow = replace(EXECUTOR, max_steps=steps, max_channel=0, max_thread_blocks=6, max_nodes=10**6)
    options = replace(OPTIONS, target=narrow)
    with pytest.raises(HetesynthError):
        lower(problem, schedule, replace(options, fusion="none"))
    assert time(topology, plain, size) < time(topology, fused, size)
    made = Lowering(topology, problem, schedule, size, options, CostOptions()).emitted()
    assert fuses(written(made)) and "fused receives: without them the program does not fit" in made.notes


def test_large_schedules_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetesynth.engine.lowering.ProgramPredictor", None)
    topology, problem, schedule, size = found("dgx1", "allgather")
    made = Lowering(topology, problem, schedule, size, OPTIONS, CostOptions(policy=FEWER)).emitted()
    assert fuses(written(made)) and any("not timed" in note for note in made.notes)


def test_targets_without_fused_receives_have_no_choice() -> None:
    topology, problem, schedule, size = found("dgx1", "allgather")
    options = replace(OPTIONS, target=TARGETS["rccl-6"])
    (only,) = Lowering(topology, problem, schedule, size, options, CostOptions()).variants()
    assert (only.seconds, only.note) == (None, "")
