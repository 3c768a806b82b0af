"""Every collective on every small graph: within the limits, connections that match, and right when executed."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pytest
from support.lowering_cases import GRAPHS, case, problem_on, random_schedule

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED
from hetesynth.model.problem import Problem
from hetesynth.model.program import GpuProgram, Instruction, Program, ThreadBlock
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
SENDS, RECEIVES = "s", "r"
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


def over_limits(program: Program, target: Target) -> list[str]:
    """The limits of a profile, checked without the emitter's help."""
    found = []
    for gpu in program.gpus:
        blocks = gpu.thread_blocks
        steps = sum(len(tb.instructions) for tb in blocks)
        found += [f"{gpu.rank}: {len(blocks)} blocks"] if len(blocks) > target.max_thread_blocks else []
        found += [f"{gpu.rank}: nodes"] if 1 + program.ranks + len(blocks) + steps > target.max_nodes else []
        found += [f"{gpu.rank}: ids"] if [tb.id for tb in blocks] != list(range(len(blocks))) else []
        for tb in blocks:
            where = f"{gpu.rank}.{tb.id}"
            found += [f"{where}: steps"] if not 1 <= len(tb.instructions) <= target.max_steps else []
            found += [f"{where}: channel"] if not 0 <= tb.channel <= target.max_channel else []
            for x in tb.instructions:
                found += [f"{where}: {x.op}"] if x.op not in target.ops else []
                if x.op != "nop" and not 1 <= x.count <= target.max_count:
                    found.append(f"{where}: cnt {x.count}")
    return found


def connections(program: Program, op: str) -> dict[tuple[int, int, int], list[Instruction]]:
    """(source, destination, channel) -> its sends, or its receives, in order; a duplicate connection fails."""
    found: dict[tuple[int, int, int], list[Instruction]] = {}
    for gpu in program.gpus:
        for tb in gpu.thread_blocks:
            peer = tb.send_peer if op == SENDS else tb.recv_peer
            steps = [x for x in tb.instructions if x.op == op]
            assert bool(steps) == (peer is not None)
            if peer is not None:
                key = (gpu.rank, peer, tb.channel) if op == SENDS else (peer, gpu.rank, tb.channel)
                assert key not in found
                found[key] = steps
    return found


def dependences_in_order(gpu: GpuProgram) -> bool:
    """Targets exist in another block, are marked, nothing else is, and nops stand before a waiting step."""
    targets = {x.depends for tb in gpu.thread_blocks for x in tb.instructions if x.depends}
    marked = {(tb.id, s) for tb in gpu.thread_blocks for s, x in enumerate(tb.instructions) if x.has_dependents}
    own = any(x.depends and x.depends[0] == tb.id for tb in gpu.thread_blocks for x in tb.instructions)
    return targets == marked and not own and all(nops_carry(tb) for tb in gpu.thread_blocks)


def nops_carry(tb: ThreadBlock) -> bool:
    following = [*tb.instructions[1:], None]
    return all(
        x.depends is not None and after is not None and after.depends is not None
        for x, after in zip(tb.instructions, following, strict=True)
        if x.op == "nop"
    )


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
    assert not over_limits(program, PORTABLE)
    assert connections(program, SENDS).keys() == connections(program, RECEIVES).keys()
    for key, sends in connections(program, SENDS).items():
        fields = [(x.src, x.dst, x.count) for x in sends]
        assert fields == [(x.src, x.dst, x.count) for x in connections(program, RECEIVES)[key]]
    assert [gpu.rank for gpu in program.gpus] == list(range(problem.ranks))
    assert all(dependences_in_order(gpu) for gpu in program.gpus)
    read = read_program(write_msccl_xml(program), "case.xml")
    assert read.program == program
    links = {(arc.src, arc.dst) for arc in problem.arcs}
    assert not program_violations(read, links=links)
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


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast"])
def test_out_of_place_never_writes_the_input(name: str) -> None:
    problem, schedule = case("h4p8", name, 2)
    for gpu in lowered(problem, schedule, False).gpus:
        for tb in gpu.thread_blocks:
            assert not [x for x in tb.instructions if x.op in ("r", "cpy", "re") and x.dst and x.dst.buffer == "i"]


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


@pytest.mark.slow
def test_many_odd_schedules() -> None:
    for seed in range(40, 4000):
        test_odd_schedules(seed)


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
        assert not over_limits(program, target)
        assert not program_violations(program)
        assert not program_violations(program, slots=1)
