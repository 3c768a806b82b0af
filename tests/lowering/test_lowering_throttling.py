"""Throttling: the program stays right within every limit, and sends that crowded a port come in order."""

from __future__ import annotations

import pytest
from support.lowering_cases import case, problem_on

from hetesynth.judge.msccl.linter import lint
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import TARGETS, Target
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.programs.msccl.throttling import AFTERS, After, Throttling
from hetesynth.programs.msccl.xml_writer import write_msccl_xml

CASES = [
    ("h4p8", "allgather", 1), ("h4p8", "allgather", 2), ("h4p8", "reducescatter", 1), ("h4p8", "allreduce", 1),
    ("dgx1", "allreduce", 2), ("star5", "alltoall", 1), ("star5", "broadcast", 4), ("ring8", "allgather", 1),
]  # fmt: skip


def throttling_of(problem: Problem, schedule: Schedule, after: After = "any") -> Throttling:
    """By steps, each a second long."""
    begin = [float(t.start) for t in schedule.transfers]
    return Throttling.of(problem, schedule, begin, [float(t.end) for t in schedule.transfers], after)


def judged(program: Program, problem: Problem, target: Target) -> list[str]:
    read = read_program(write_msccl_xml(program, target), "x.xml")
    links = {(arc.src, arc.dst) for arc in problem.arcs}
    return [v.message for v in lint(read, target, links=links, root=problem.collective.root)]


@pytest.mark.parametrize("after", AFTERS)
@pytest.mark.parametrize("target", ["portable", "msccl-executor"])
@pytest.mark.parametrize(("graph", "name", "chunks"), CASES)
def test_a_throttled_program_is_right(graph: str, name: str, chunks: int, target: str, after: After) -> None:
    problem, schedule = case(graph, name, chunks)
    options = LoweringOptions("x", target=TARGETS[target], throttling=throttling_of(problem, schedule, after))
    program = lower(problem, schedule, options)
    assert judged(program, problem, TARGETS[target]) == []


def crowded() -> tuple[Problem, Schedule]:
    """A hub of five sends its chunk to the others, one a step."""
    problem = problem_on("star5", "broadcast", 1, 0)
    links = sorted(i for i, arc in enumerate(problem.arcs) if arc.src == 0)
    return problem, Schedule.of(Transfer(step, step + 1, 0, link) for step, link in enumerate(links))
