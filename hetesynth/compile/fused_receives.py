"""Whether a program forwards and adds in its receives (rcs, rrc, rrs, rrcs) is chosen by time.

In: a schedule, a size, and how it is lowered for a target. Out: the ways to lower it, the one to write first. A
fused receive saves an instruction, and holds the thread block and the slot of the message that it takes until what
it sends has gone; plain instructions let the next message in meanwhile (docs/decisions/0007).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetesynth.compile.predictors import ProgramPredictor
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import LoweringOptions, lower
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PLAIN_OPS
from hetesynth.model.topology import Topology

if TYPE_CHECKING:
    from hetesynth.compile.formats import Emitted

MAX_TIMED = 10_000  # transfers of a schedule both of whose programs are timed, which takes some seconds
EQUAL = 1e-9  # of the time: programs nearer than that are equally quick, and the shorter one is written


@dataclass(frozen=True)
class LoweringVariant:
    """A way to lower a schedule; ``seconds``: what its program takes, None where that is not known; ``note``: why
    it is this one, empty where there was no choice."""

    options: LoweringOptions
    seconds: float | None = None
    note: str = ""


def lowering_variants(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> list[LoweringVariant]:
    """How ``schedule`` may be lowered as ``options`` say, the best for ``size`` bytes first; at least one.

    Both with and without fused receives are timed for schedules of up to ``MAX_TIMED`` transfers. Past that they
    come first: which is quicker varies there, and they are a third fewer instructions where data is added.
    """
    if not (options.profile.ops > PLAIN_OPS and options.passes.fuse):
        return [LoweringVariant(options)]
    plain = replace(options, passes=replace(options.passes, fuse=False))
    if len(schedule.transfers) > MAX_TIMED:
        told = f"fused receives: past {MAX_TIMED:,} transfers programs are not timed to choose"
        untold = "no fused receives: with them the program does not fit"
        return [LoweringVariant(options, None, told), LoweringVariant(plain, None, untold)]
    one, two = _program(problem, schedule, options), _program(problem, schedule, plain)
    if one is None or two is None:
        if one is None and two is not None:
            return [LoweringVariant(plain, None, "no fused receives: with them the program does not fit")]
        note = "fused receives: without them the program does not fit" if one is not None else ""
        return [LoweringVariant(options, None, note)]
    if not _fuses(one):
        return [LoweringVariant(options)]
    clocks = [ProgramPredictor(topology, program, target=options.profile) for program in (one, two)]
    fused, separate = (clock.timeline(size).makespan for clock in clocks)
    told = f"{fused * 1e6:.1f} us with them for {size:,} bytes, {separate * 1e6:.1f} us without"
    if separate < fused * (1 - EQUAL):
        return [LoweringVariant(plain, separate, f"no fused receives: {told}"), LoweringVariant(options, fused)]
    return [LoweringVariant(options, fused, f"fused receives: {told}"), LoweringVariant(plain, separate)]


def emitted(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> Emitted:
    """The file for ``options.profile`` with whichever receives are better for ``size`` bytes.

    Raises HetesynthError as lowering does, where no way fits.
    """
    from hetesynth.compile.formats import FORMATS

    backend = FORMATS[options.profile.format]
    if options.profile.format != "msccl-xml":
        return backend.emit(problem, schedule, options)
    *ways, last = lowering_variants(topology, problem, schedule, size, options)
    for way in ways:
        try:
            return _noting(backend.emit(problem, schedule, way.options), way.note)
        except HetesynthError:
            continue
    return _noting(backend.emit(problem, schedule, last.options), last.note)


def seconds(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> float | None:
    """What the program that ``emitted`` writes takes; None where the target cannot hold it."""
    for way in lowering_variants(topology, problem, schedule, size, options):
        if way.seconds is not None:
            return way.seconds
        program = _program(problem, schedule, way.options)
        if program is not None:
            return ProgramPredictor(topology, program, target=options.profile).timeline(size).makespan
    return None


def clock(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> ProgramPredictor | None:
    """What tells the time, at any size, of the program that ``emitted`` writes for ``size`` bytes."""
    for way in lowering_variants(topology, problem, schedule, size, options):
        program = _program(problem, schedule, way.options)
        if program is not None:
            return ProgramPredictor(topology, program, target=options.profile)
    return None


def _program(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Program | None:
    try:
        return lower(problem, schedule, options)
    except HetesynthError:
        return None


def _fuses(program: Program) -> bool:
    return any(
        x.op not in PLAIN_OPS for gpu in program.gpus for block in gpu.thread_blocks for x in block.instructions
    )


def _noting(made: Emitted, note: str) -> Emitted:
    return replace(made, notes=(*made.notes, note)) if note else made
