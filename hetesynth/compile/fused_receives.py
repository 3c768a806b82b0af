"""How the program of a schedule is lowered is chosen by time: fused receives (rcs, rrc, rrs, rrcs) or plain ones,
as many channels as fill a link or as few as the schedule needs.

In: a schedule, a size, and how it is lowered for a target. Out: variants of lowering it, the one to write first. A
fused receive saves an instruction, and holds the thread block and the slot of the message that it takes until what
it sends has gone; plain instructions let the next message in meanwhile (docs/decisions/0007). More channels copy
faster, and take thread blocks from each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hetesynth.compile.formats import FORMATS, Emitted
from hetesynth.compile.predictors import CostOptions, ProgramPredictor
from hetesynth.compile.spreading import channels_of_pairs
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import LoweringOptions, lower
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PLAIN_OPS
from hetesynth.model.topology import Topology

UNTIMED = "the time budget leaves no time to choose"
EQUAL = 1e-9  # of the time: programs nearer than that are equally quick, and the shorter one is written


@dataclass(frozen=True)
class LoweringVariant:
    """One variant of lowering a schedule; ``seconds``: what its program takes, None where that is not known;
    ``note``: why it is this one, empty where there was no choice."""

    options: LoweringOptions
    seconds: float | None = None
    note: str = ""


def lowering_variants(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions,
) -> list[LoweringVariant]:  # fmt: skip
    """How ``schedule`` may be lowered as ``options`` say, the best for ``size`` bytes first; at least one.

    With what runtimes cost, the best is also timed with channels for the copy rate of thread blocks, for schedules
    of up to ``max_spread`` transfers.
    """
    variants = _timed_variants(_Question(topology, problem, schedule, size, options.unnamed, costs))
    return [replace(variant, options=_named(variant.options, options)) for variant in variants]


def _named(options: LoweringOptions, like: LoweringOptions) -> LoweringOptions:
    """The same with the name and the sizes of ``like``."""
    return replace(options, name=like.name, min_bytes=like.min_bytes, max_bytes=like.max_bytes)


class _Question:
    """What the times of variants depend on; the problem and the schedule count by their identity."""

    def __init__(
        self, topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
        costs: CostOptions,
    ) -> None:  # fmt: skip
        self.topology, self.problem, self.schedule = topology, problem, schedule
        self.size, self.options, self.costs = size, options, costs
        self._identity = (id(topology), id(problem), id(schedule), size, costs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._identity == other._identity and self.options == other.options

    def __hash__(self) -> int:
        return hash(self._identity)


@lru_cache(maxsize=16)
def _timed_variants(question: _Question) -> tuple[LoweringVariant, ...]:
    """Answered once for the choice among programs and for the file."""
    q = question
    return tuple(_variants(q.topology, q.problem, q.schedule, q.size, q.options, q.costs))


def _variants(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions,
) -> list[LoweringVariant]:  # fmt: skip
    """The same, worked out."""
    variants = _receiving(topology, problem, schedule, size, options, costs)
    if costs.runtime is None or len(schedule.transfers) > costs.policy.compile.max_spread:
        return variants
    first, target = variants[0], options.target
    spread = channels_of_pairs(costs.costs(topology), schedule, options.protocol, target.thread_blocks)
    spreading = replace(first.options, min_channels=spread)
    program = _program(problem, schedule, spreading) if spread else None
    plain = _program(problem, schedule, first.options) if program is not None else None
    if program is None or plain is None or plain == program:
        return variants
    before = first.seconds
    if before is None:
        before = ProgramPredictor(topology, plain, costs, target).timeline(size).makespan
    after = ProgramPredictor(topology, program, costs, target).timeline(size).makespan
    if after >= before * (1 - EQUAL):
        return [replace(first, seconds=before), *variants[1:]]
    times = f"{after * 1e6:.1f} us for {size:,} bytes, {before * 1e6:.1f} us with as few as concurrent chunks need"
    note = f"channels for the copy rate of thread blocks: {times}"
    return [LoweringVariant(spreading, after, f"{first.note}; {note}" if first.note else note), *variants]


def _receiving(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions,
) -> list[LoweringVariant]:  # fmt: skip
    """The same by their receives.

    Both with and without fused receives are timed for schedules of up to ``max_both_receives`` transfers. Past
    that they come first: which is quicker varies there, and they are a third fewer instructions where data is
    added.
    """
    most = costs.policy.compile.max_both_receives
    if len(schedule.transfers) > most:
        return _untimed(options, f"past {most:,} transfers programs are not timed to choose")
    if not (options.target.ops > PLAIN_OPS and options.optimizations.fuse):
        return [LoweringVariant(options)]
    plain = replace(options, optimizations=replace(options.optimizations, fuse=False))
    fusing, separating = _program(problem, schedule, options), _program(problem, schedule, plain)
    if fusing is None or separating is None:
        if fusing is None and separating is not None:
            return [LoweringVariant(plain, None, "no fused receives: with them the program does not fit")]
        note = "fused receives: without them the program does not fit" if fusing is not None else ""
        return [LoweringVariant(options, None, note)]
    if not _fuses(fusing):
        return [LoweringVariant(options)]
    predictors = [ProgramPredictor(topology, program, costs, options.target) for program in (fusing, separating)]
    fused, separate = (predictor.timeline(size).makespan for predictor in predictors)
    times = f"{fused * 1e6:.1f} us with them for {size:,} bytes, {separate * 1e6:.1f} us without"
    if separate < fused * (1 - EQUAL):
        return [LoweringVariant(plain, separate, f"no fused receives: {times}"), LoweringVariant(options, fused)]
    return [LoweringVariant(options, fused, f"fused receives: {times}"), LoweringVariant(plain, separate)]


def _untimed(options: LoweringOptions, why: str) -> list[LoweringVariant]:
    """Fused receives, and without them where they do not fit."""
    if not (options.target.ops > PLAIN_OPS and options.optimizations.fuse):
        return [LoweringVariant(options)]
    plain = replace(options, optimizations=replace(options.optimizations, fuse=False))
    misfit = "no fused receives: with them the program does not fit"
    return [LoweringVariant(options, None, f"fused receives: {why}"), LoweringVariant(plain, None, misfit)]


def emitted(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions, *, timed: bool = True,
) -> Emitted:  # fmt: skip
    """The file for ``options.target`` with whichever receives are better for ``size`` bytes. Without ``timed``
    programs are not simulated to choose: fused receives where they fit, as few channels as the schedule needs.

    Raises HetesynthError as lowering does, where no variant fits.
    """
    backend = FORMATS[options.target.format]
    if options.target.format != "msccl-xml":
        return backend.emit(problem, schedule, options)
    if timed:
        *others, last = lowering_variants(topology, problem, schedule, size, options, costs)
    else:
        *others, last = _untimed(options, UNTIMED)
    for variant in others:
        try:
            return _noting(backend.emit(problem, schedule, variant.options), variant.note)
        except HetesynthError:
            continue
    return _noting(backend.emit(problem, schedule, last.options), last.note)


def seconds(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions,
) -> float | None:  # fmt: skip
    """What the program that ``emitted`` writes takes; None where the target cannot hold it."""
    for variant in lowering_variants(topology, problem, schedule, size, options, costs):
        if variant.seconds is not None:
            return variant.seconds
        program = _program(problem, schedule, variant.options)
        if program is not None:
            return ProgramPredictor(topology, program, costs, options.target).timeline(size).makespan
    return None


def program_predictor(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions,
) -> ProgramPredictor | None:  # fmt: skip
    """The predictor, for any size, of the program that ``emitted`` writes for ``size`` bytes."""
    for variant in lowering_variants(topology, problem, schedule, size, options, costs):
        program = _program(problem, schedule, variant.options)
        if program is not None:
            return ProgramPredictor(topology, program, costs, options.target)
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


def _noting(program: Emitted, note: str) -> Emitted:
    return replace(program, notes=(*program.notes, note)) if note else program
