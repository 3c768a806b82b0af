"""How the program of a schedule is lowered, chosen by time: fused receives or plain ones, many channels or few.

A fused receive saves an instruction, and holds the thread block and the slot of the message that it takes until
what it sends has gone; plain instructions let the next message in meanwhile (docs/decisions.md, 7). More channels
copy faster, and take thread blocks from each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from hetesynth.engine.formats import FORMATS, Emitted
from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.cost import Costs
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program, Protocol
from hetesynth.model.runtime_costs import thread_blocks_for
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PLAIN_OPS
from hetesynth.model.topology import Rank, Topology
from hetesynth.programs.msccl.lower import LoweringOptions, lower

Pair = tuple[Rank, Rank]


def channels_of_pairs(costs: Costs, schedule: Schedule, protocol: Protocol, thread_blocks: int) -> dict[Pair, int]:
    """The pairs that need more than one channel, and how many, within the ``thread_blocks`` of every GPU.

    Empty where ``costs`` count no copy rates.
    """
    if costs.runtime is None:
        return {}
    needed: dict[Pair, int] = {}
    for pair, rate in _rates(costs, schedule).items():
        copying = costs.copy_rate(pair[0], protocol)
        needed[pair] = 1 if copying is None else thread_blocks_for(rate, copying)
    return {pair: number for pair, number in _within(needed, thread_blocks).items() if number > 1}


def chunk_seconds(costs: Costs, protocol: Protocol) -> dict[Pair, float]:
    """Seconds for each byte of a chunk that one thread block sends from one rank to another, nobody else sending;
    over all links of a pair together."""
    rates: dict[Pair, float] = defaultdict(float)
    for ends, rate in zip(costs.link_ends, costs.link_rate, strict=True):
        rates[ends] += rate
    copying = {src: costs.copy_rate(src, protocol) for src, _ in rates}
    return {pair: 1 / min(rate, copying[pair[0]] or rate) for pair, rate in rates.items()}


def _rates(costs: Costs, schedule: Schedule) -> dict[Pair, float]:
    """Bytes per second of each pair while the scarcest resource of each of its links is full."""
    of_link: dict[int, int] = defaultdict(int)
    for t in schedule.transfers:
        of_link[t.link] += 1
    of_resource: dict[int, int] = defaultdict(int)
    for link, chunks in of_link.items():
        for r in costs.link_resources[link]:
            of_resource[r] += chunks
    rates: dict[Pair, float] = defaultdict(float)
    for link, chunks in of_link.items():
        shares = (costs.resource_rate[r] * chunks / of_resource[r] for r in costs.link_resources[link])
        rates[costs.link_ends[link]] += min(shares)
    return dict(rates)


def _within(needed: dict[Pair, int], thread_blocks: int) -> dict[Pair, int]:
    """The same where every connection of a rank has a thread block of its own; the widest pairs give up channels
    first."""
    of_rank: dict[Rank, list[int]] = defaultdict(list)
    for pair, number in needed.items():
        for rank in pair:
            of_rank[rank].append(number)
    most = {rank: _width(numbers, thread_blocks) for rank, numbers in of_rank.items()}
    return {(s, d): min(number, most[s], most[d]) for (s, d), number in needed.items()}


def _width(numbers: Iterable[int], room: int) -> int:
    """The most channels that each pair may have so that all fit into ``room``; at least one."""
    widths = list(numbers)
    low, high = 1, max(widths, default=1)
    while low < high:
        width = (low + high + 1) // 2
        fits = sum(min(number, width) for number in widths) <= room
        low, high = (width, high) if fits else (low, width - 1)
    return low


EQUAL = 1e-9  # of the time: programs nearer than that are equally quick, and the shorter one is written


@dataclass(frozen=True)
class LoweringVariant:
    """One variant of lowering a schedule; ``seconds``: what its program takes, None where that is not known;
    ``note``: why it is this one, empty where there was no choice."""

    options: LoweringOptions
    seconds: float | None = None
    note: str = ""


def lowering_variants(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    size: int,
    options: LoweringOptions,
    costs: CostOptions,
) -> list[LoweringVariant]:
    """How ``schedule`` may be lowered as ``options`` say, the best for ``size`` bytes first; at least one.

    With what runtimes cost, the best is also timed with channels for the copy rate of thread blocks, and with
    chunks cut where that takes more channels than there are chunks at once, for schedules of up to ``max_spread``
    transfers.
    """
    options = replace(options, chunk_seconds=chunk_seconds(costs.costs(topology), options.protocol))
    variants = _timed_variants(_Question(topology, problem, schedule, size, options.unnamed, costs))
    name, least, most = options.name, options.min_bytes, options.max_bytes
    return [
        replace(variant, options=replace(variant.options, name=name, min_bytes=least, max_bytes=most))
        for variant in variants
    ]


class _Question:
    """What the times of variants depend on; the problem and the schedule count by their identity."""

    def __init__(
        self,
        topology: Topology,
        problem: Problem,
        schedule: Schedule,
        size: int,
        options: LoweringOptions,
        costs: CostOptions,
    ) -> None:
        self.topology, self.problem, self.schedule = topology, problem, schedule
        self.size, self.options, self.costs = size, options, costs
        self._identity = (id(topology), id(problem), id(schedule), size, costs)

    def program(self, options: LoweringOptions) -> Program | None:
        """The program that ``options`` make; None where the target cannot hold it."""
        return _program(self.problem, self.schedule, options)

    def seconds(self, program: Program) -> float:
        """What ``program`` takes."""
        return (
            ProgramPredictor(self.topology, program, self.costs, self.options.target).timeline(self.size).makespan
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._identity == other._identity and self.options == other.options

    def __hash__(self) -> int:
        return hash(self._identity)


@lru_cache(maxsize=16)
def _timed_variants(question: _Question) -> tuple[LoweringVariant, ...]:
    """Answered once for the choice among programs and for the file."""
    q = question
    variants = _receiving(q)
    if q.costs.runtime is None or len(q.schedule.transfers) > q.costs.policy.compile.max_spread:
        return tuple(variants)
    first = variants[0]
    best, before = _spread(q, first)
    if before is None:
        return tuple(variants)
    if best is None:
        return (replace(first, seconds=before), *variants[1:])
    return (best, *variants)


def _spread(question: _Question, first: LoweringVariant) -> tuple[LoweringVariant | None, float | None]:
    """The quickest with more channels than ``first``, if quicker than it, and the seconds of ``first``."""
    q, options, target = question, first.options, first.options.target
    priced = q.costs.costs(q.topology)
    spread = channels_of_pairs(priced, q.schedule, options.protocol, target.thread_blocks - 1)  # one is for copies
    plain = q.program(options) if spread else None
    if plain is None:
        return None, first.seconds
    before = q.seconds(plain) if first.seconds is None else first.seconds
    best, least = None, before
    for instances in _instances(q):
        spreading = replace(options, min_channels=spread, instances=instances)
        program = q.program(spreading)
        after = None if program is None or program == plain else q.seconds(program)
        if after is not None and after < least * (1 - EQUAL):
            cut = f", every chunk in {instances} parts" if instances > 1 else ""
            times = f"{after * 1e6:.1f} us for {q.size:,} bytes, {before * 1e6:.1f} us with as few as concurrent"
            note = f"channels for the copy rate of thread blocks{cut}: {times} chunks need"
            best, least = LoweringVariant(spreading, after, f"{first.note}; {note}" if first.note else note), after
    return best, before


def _instances(question: _Question) -> Iterator[int]:
    """Into how many parts chunks may be cut."""
    yield 1
    policy, transfers = question.costs.policy.compile, len(question.schedule.transfers)
    for instances in policy.instances:
        if transfers * instances <= policy.max_cut:
            yield instances


def _receiving(question: _Question) -> list[LoweringVariant]:
    """The variants by their receives.

    With fused receives, with fused additions alone, which need no shared thread blocks, and with plain
    instructions they are timed for schedules of up to ``max_both_receives`` transfers. Past
    that they come first: which is quicker varies there, and they are a third fewer instructions where data is
    added.
    """
    q, options, most = question, question.options, question.costs.policy.compile.max_both_receives
    if len(q.schedule.transfers) > most:
        return _untimed(options, f"past {most:,} transfers programs are not timed to choose")
    if not (options.target.ops > PLAIN_OPS and options.optimizations.fuse):
        return [LoweringVariant(options)]
    plain = replace(options, optimizations=replace(options.optimizations, fuse=False))
    fusing, separating = q.program(options), q.program(plain)
    if fusing is None or separating is None:
        if fusing is None and separating is not None:
            return [LoweringVariant(plain, None, "no fused receives: with them the program does not fit")]
        note = "fused receives: without them the program does not fit" if fusing is not None else ""
        return [LoweringVariant(options, None, note)]
    if all(x.op in PLAIN_OPS for gpu in fusing.gpus for block in gpu.thread_blocks for x in block.instructions):
        return [LoweringVariant(options)]

    fused, separate = q.seconds(fusing), q.seconds(separating)
    times = f"{fused * 1e6:.1f} us with them for {q.size:,} bytes, {separate * 1e6:.1f} us without"
    listed = [
        LoweringVariant(options, fused, f"fused receives: {times}"),
        LoweringVariant(plain, separate, f"no fused receives: {times}"),
    ]
    adding_options = replace(options, optimizations=replace(options.optimizations, forward=False))
    adding = q.program(adding_options)
    if adding is not None and adding not in (fusing, separating):
        seconds_of_adding = q.seconds(adding)
        note = f"fused additions, one link for a thread block: {seconds_of_adding * 1e6:.1f} us; {times}"
        listed.append(LoweringVariant(adding_options, seconds_of_adding, note))
    best = listed[0]
    for variant in listed[1:]:
        best = variant if (variant.seconds or 0.0) < (best.seconds or 0.0) * (1 - EQUAL) else best
    return [best, *(replace(variant, note="") for variant in listed if variant is not best)]


def _untimed(options: LoweringOptions, why: str) -> list[LoweringVariant]:
    """Fused receives, and without them where they do not fit."""
    if not (options.target.ops > PLAIN_OPS and options.optimizations.fuse):
        return [LoweringVariant(options)]
    plain = replace(options, optimizations=replace(options.optimizations, fuse=False))
    misfit = "no fused receives: with them the program does not fit"
    return [LoweringVariant(options, None, f"fused receives: {why}"), LoweringVariant(plain, None, misfit)]


def emitted(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    size: int,
    options: LoweringOptions,
    costs: CostOptions,
) -> Emitted:
    """The file for ``options.target`` with whichever receives are better for ``size`` bytes.

    Raises HetesynthError as lowering does, where no variant fits.
    """
    backend = FORMATS[options.target.format]
    if options.target.format.plan:
        return backend.emit(problem, schedule, options)
    variants = lowering_variants(topology, problem, schedule, size, options, costs)
    for variant in variants:
        try:
            program = backend.emit(problem, schedule, variant.options)
        except HetesynthError:
            if variant is variants[-1]:
                raise
            continue
        return replace(program, notes=(*program.notes, variant.note)) if variant.note else program
    raise InternalError("a schedule without variants")


def seconds(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    size: int,
    options: LoweringOptions,
    costs: CostOptions,
) -> float | None:
    """What the program that ``emitted`` writes takes; None where the target cannot hold it."""
    for variant in lowering_variants(topology, problem, schedule, size, options, costs):
        if variant.seconds is not None:
            return variant.seconds
        program = _program(problem, schedule, variant.options)
        if program is not None:
            return ProgramPredictor(topology, program, costs, options.target).timeline(size).makespan
    return None


def program_predictor(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    size: int,
    options: LoweringOptions,
    costs: CostOptions,
) -> ProgramPredictor | None:
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
