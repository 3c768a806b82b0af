"""Every collective on every small graph: within the limits, connections that match, and right when executed."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pytest
from support.lowering_cases import GRAPHS, case, problem_on, random_schedule

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.linter import lint
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE, Target
from hetesynth.programs.layout import in_place_supported
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.programs.msccl.xml_writer import write_msccl_xml
from hetesynth.programs.summary import program_summary

CASES = [
    (graph, name, in_place)
    for graph in GRAPHS
    for name in COLLECTIVE_NAMES
    for in_place in (False, True)
    if not in_place or in_place_supported(name)
]
SMALL = ("one", "pair", "line3", "oneway4", "star5", "dgx1")  # a graph of each kind; the rest is slow
LARGE = (
    ("allgather", True),
    ("reducescatter", False),
    ("allreduce", True),
    ("alltoall", False),
    ("gather", False),
)


def lowered(problem: Problem, schedule: Schedule, in_place: bool, target: Target = PORTABLE) -> Program:
    return lower(problem, schedule, LoweringOptions("case", in_place, target=target))


QUICK = [(1, *c) for c in CASES if c[0] in SMALL or (c[0] == "h4p8" and c[1:] in LARGE)]
QUICK += [(2, *c) for c in CASES if c[0] in ("oneway4", "line3")]
ALL = [(1, *c) for c in CASES] + [(2, *c) for c in CASES if c[0] in ("line3", "full4", "oneway4", "ring8")]


@pytest.mark.parametrize(
    ("chunks", "graph", "name", "in_place"),
    [*QUICK, *(pytest.param(*c, marks=pytest.mark.slow) for c in ALL if c not in QUICK)],
)
def test_every_collective_lowers_to_a_right_program(chunks: int, graph: str, name: str, in_place: bool) -> None:
    root = 1 if name in ROOTED and graph != "one" else None
    problem, schedule = case(graph, name, chunks, root)
    assert not schedule_violations(problem, schedule)
    program = lowered(problem, schedule, in_place)
    read = read_program(write_msccl_xml(program), "case.xml")
    assert read.program == program
    links = {(arc.src, arc.dst) for arc in problem.arcs}
    assert not lint(read, PORTABLE, links=links, root=root)
    assert not profile_violations(read)
    assert not program_violations(program, slots=1), "no message waits for a second slot"


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_channels_per_link_are_the_chunks_at_once(name: str) -> None:
    """HeteCCL 5.3: a pair has as many channels as chunks are ever in flight on it, at most C(u, v)."""
    problem, schedule = case("dgx1", name, 3)
    at_once: dict[tuple[int, int, int], int] = defaultdict(int)
    for t in schedule.transfers:
        at_once[problem.arcs[t.link].src, problem.arcs[t.link].dst, t.start] += 1
    widest: dict[tuple[int, int], int] = defaultdict(int)
    for (src, dst, _), count in at_once.items():
        widest[src, dst] = max(widest[src, dst], count)
    summary = program_summary(lowered(problem, schedule, False))
    assert dict(summary.channels_per_link) == widest
    assert summary.channels == summary.max_channels_per_link == 2


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["reduce", "reducescatter"])
def test_reductions_write_nothing_but_their_result(name: str, in_place: bool) -> None:
    """Away from the root the output of a reduce may be a null pointer; in place the input is the user's."""
    problem, schedule = case("h4p8", name, 2, 3 if name == "reduce" else None)
    for gpu in lowered(problem, schedule, in_place).gpus:
        written = {
            x.dst.buffer for tb in gpu.thread_blocks for x in tb.instructions if x.op not in ("s", "nop") and x.dst
        }
        assert "i" not in written
        assert name == "reducescatter" or gpu.rank == 3 or "o" not in written


def test_same_schedule_same_bytes() -> None:
    problem, schedule = case("dgx1", "allreduce", 2)
    first = write_msccl_xml(lowered(problem, schedule, False))
    shuffled = list(schedule.transfers)
    random.Random(1).shuffle(shuffled)
    assert write_msccl_xml(lowered(problem, Schedule.of(shuffled), False)) == first


@pytest.mark.parametrize("seed", range(40))
def test_odd_schedules(seed: int) -> None:
    """Random valid schedules: values that cross, partial sums sent while others arrive, tight limits."""
    rng = random.Random(seed)
    graph = rng.choice(["pair", "line3", "full3", "full4", "oneway4"])
    name = rng.choice(["allreduce", "allreduce", "alltoall", "reduce", "reducescatter", "scatter", "allgather"])
    problem = problem_on(graph, name, rng.choice([1, 1, 2]))
    schedule = random_schedule(problem, rng, longest=rng.choice([1, 3]))
    target = replace(PORTABLE, max_thread_blocks=rng.choice([64, 4, 3]), max_steps=rng.choice([64, 64, 10]))
    if schedule is None or schedule_violations(problem, schedule):
        return
    for in_place in [False, True][: 1 + in_place_supported(problem.collective.name)]:
        try:
            program = lowered(problem, schedule, in_place, target)
        except HetesynthError as error:
            assert error.code in ("HS501", "HS502")
            continue
        assert not lint(read_program(write_msccl_xml(program), "x.xml"), target)
        assert not program_violations(program)
        assert not program_violations(program, slots=1)
