"""Every target on every small graph: its instructions, its linter, the judge, and never a larger program."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.lowering_cases import case, problem_on, random_schedule

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.judge.msccl.linter import lint
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED
from hetesynth.model.program import Program
from hetesynth.model.target import PLAIN_OPS, TARGETS, Target
from hetesynth.programs.layout import in_place_supported
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower_with_notes
from hetesynth.programs.msccl.xml_writer import write_msccl_xml
from hetesynth.programs.summary import program_summary

HERE = Path(__file__).parent / "golden"
XML = [t for t in TARGETS.values() if t.format.program]
FUSING = TARGETS["msccl-executor"]
UNBOUNDED = 10**6


def lowered(graph: str, name: str, target: Target, in_place: bool = False, chunks: int = 1) -> Lowered:
    root = 1 if name in ROOTED and graph != "one" else None
    return lower_with_notes(*case(graph, name, chunks, root), LoweringOptions("case", in_place, target=target))


def instructions(program: Program, op: str) -> int:
    return dict(program_summary(program).instructions).get(op, 0)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("graph", ["one", "oneway4", "star5", "ring8"])
def test_every_target_accepts_and_runs_its_program(graph: str, name: str) -> None:
    for target in XML:
        if name not in target.collectives:
            continue
        both = in_place_supported(name) and name not in target.out_of_place_only  # type: ignore[arg-type]
        for in_place in (False, True)[: 1 + both]:
            program = lowered(graph, name, target, in_place).program
            used = {x.op for gpu in program.gpus for tb in gpu.thread_blocks for x in tb.instructions}
            assert used <= target.ops
            read = read_program(write_msccl_xml(program, target), "case.xml")
            assert read.program == program
            assert lint(read, target) == []


def test_a_ring_forwards_and_adds_at_once() -> None:
    """Partial sums that travel on are never stored, and what stays is stored as it arrives."""
    program = lowered("ring8", "reduce", FUSING).program
    assert instructions(program, "re") == instructions(program, "r") == 0
    assert instructions(program, "rrs") + instructions(program, "rrc") == 7
    assert max(gpu.scratch_chunks for gpu in program.gpus) == 0
    around = lowered("oneway4", "allgather", FUSING).program
    assert instructions(around, "rcs") == 8 and instructions(around, "r") == 4


def without_dependence(program: Program, rank: int, block: int, step: int) -> Program:
    """The program with one wait taken out; a nop that carried it goes too, and later steps keep their names."""
    gpu = program.gpus[rank]
    tb = gpu.thread_blocks[block]
    steps = [replace(x, depends=None) if s == step else x for s, x in enumerate(tb.instructions)]
    blocks = [replace(b, instructions=tuple(steps)) if b.id == block else b for b in gpu.thread_blocks]
    gpus = [replace(g, thread_blocks=tuple(blocks)) if g.rank == rank else g for g in program.gpus]
    return replace(program, gpus=tuple(gpus))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("target", ["portable", "msccl-executor"])
@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall", "reducescatter", "reduce"])
def test_every_dependence_is_needed(name: str, in_place: bool, target: str) -> None:
    """Without any one of them there is a race, also counting what messages by way of other GPUs imply.

    Slots are unbounded here: that a send waits for one is deliberately not relied on.
    """
    program = lowered("ring8", name, TARGETS[target], in_place).program
    assert not program_violations(program, slots=UNBOUNDED), "no order rests on the depth of a FIFO"
    places = [
        (gpu.rank, tb.id, s)
        for gpu in program.gpus
        for tb in gpu.thread_blocks
        for s, x in enumerate(tb.instructions)
        if x.depends is not None and x.op != "nop" and (s == 0 or tb.instructions[s - 1].op != "nop")
    ]
    for place in random.Random(0).sample(places, min(12, len(places))):
        kinds = {v.kind for v in program_violations(without_dependence(program, *place), slots=UNBOUNDED)}
        assert "race" in kinds, place


def odd(seed: int) -> None:
    rng = random.Random(seed)
    graph = rng.choice(["pair", "line3", "full3", "full4", "oneway4"])
    name = rng.choice(["allreduce", "allreduce", "alltoall", "reduce", "reducescatter", "broadcast", "allgather"])
    problem = problem_on(graph, name, rng.choice([1, 2, 3]))
    schedule = random_schedule(problem, rng, longest=rng.choice([1, 3]))
    target = replace(FUSING, max_thread_blocks=rng.choice([64, 5, 3]), max_steps=rng.choice([64, 10]))
    if rng.random() < 0.3:
        target = replace(target, ops=PLAIN_OPS | {rng.choice(["rcs", "rrc"])})  # type: ignore[arg-type]
    if schedule is None or schedule_violations(problem, schedule):
        return
    for in_place in (False, True)[: 1 + in_place_supported(problem.collective.name)]:
        try:
            made = lower_with_notes(problem, schedule, LoweringOptions("odd", in_place, target=target))
        except HetesynthError as error:
            assert error.code in ("HS501", "HS502")
            continue
        assert not program_violations(made.program)
        assert not program_violations(made.program, slots=UNBOUNDED)


@pytest.mark.parametrize("seed", range(25))
def test_odd_schedules_with_fused_receives(seed: int) -> None:
    odd(seed)


@pytest.mark.parametrize("target", [t.name for t in XML])
def test_golden_of_each_target(golden: Callable[[Path, bytes], None], target: str) -> None:
    problem, schedule = case("line3", "reducescatter")
    made = lower_with_notes(problem, schedule, LoweringOptions("rs_line3", target=TARGETS[target]))
    golden(HERE / f"reducescatter_line3.{target}.xml", write_msccl_xml(made.program, TARGETS[target]))


def test_sizes_given_in_bytes() -> None:
    problem, schedule = case("pair", "allgather")
    for name, last in (("rccl-6", 4096), ("msccl", 4097)):
        options = LoweringOptions("x", target=TARGETS[name], min_bytes=1, max_bytes=4096)
        assert lower_with_notes(problem, schedule, options).program.max_bytes == last
