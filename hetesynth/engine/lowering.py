"""How the program of a schedule is lowered, chosen by time: pipelines, fused receives, number of channels.

A fused receive saves an instruction, and holds the thread block and the slot of the message that it takes until
what it sends has gone; plain instructions let the next message in meanwhile (docs/decisions.md, 7). More channels
copy faster, and take thread blocks from each other. Where a target or a form of the collective cannot hold a
program or plan in steady state, or as a library runs it, the schedule is lowered step by step.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from hetesynth.engine.formats import FORMATS, Emitted, plan_of, servers_of, table_of, xml_of
from hetesynth.engine.predictors import (
    MAX_PROGRAM_TRANSFERS,
    CostOptions,
    PlanPredictor,
    ProgramPredictor,
    TablePredictor,
)
from hetesynth.engine.protocols import quickest_protocol
from hetesynth.engine.steady_programs import DispatchedPlan, Pipeline, PlanDispatching, no_collections
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.cost import Costs, chunk_bytes, runtime_bytes
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program, Protocol
from hetesynth.model.runtime_costs import thread_blocks_for
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PLAIN_OPS
from hetesynth.model.topology import Rank, Topology
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower, lower_with_notes
from hetesynth.programs.mscclpp.lower import largest_call, lower_plan
from hetesynth.programs.tables.lower import ORDERS, lower_table

Pair = tuple[Rank, Rank]


def channels_of_pairs(costs: Costs, schedule: Schedule, protocol: Protocol, thread_blocks: int) -> dict[Pair, int]:
    """How many channels the pairs need that need more than one, within the ``thread_blocks`` of every GPU; none
    where ``costs`` count no copy rates."""
    if costs.runtime is None:
        return {}
    needed: dict[Pair, int] = {}
    for pair, rate in _rates(costs, schedule).items():
        copying = costs.copy_rate(pair[0], protocol)
        needed[pair] = 1 if copying is None else thread_blocks_for(rate, copying)
    of_rank: dict[Rank, list[int]] = defaultdict(list)
    for pair, number in needed.items():
        for rank in pair:
            of_rank[rank].append(number)
    # the widest give up first
    most = {rank: fitting_width(numbers, thread_blocks) for rank, numbers in of_rank.items()}
    within = {(src, dst): min(number, most[src], most[dst]) for (src, dst), number in needed.items()}
    return {pair: number for pair, number in within.items() if number > 1}


def chunk_seconds(costs: Costs, protocol: Protocol) -> dict[Pair, float]:
    """Seconds for each byte of a chunk that one thread block sends between ranks over all links, nobody else
    sending."""
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


def fitting_width(numbers: Iterable[int], room: int) -> int:
    """The most channels that each pair may have so that all fit into ``room``; at least one."""
    most = [*numbers]
    widths = range(1, max(most, default=1) + 1)
    return max(1, bisect_right(widths, room, key=lambda width: sum(min(number, width) for number in most)))


EQUAL = 1e-9  # of the time: programs nearer than that are equally quick, and the shorter one is written


@dataclass(frozen=True)
class LoweringVariant:
    """One variant of lowering a schedule, what its program takes if that is known, with which protocol, and why it
    is this one."""

    options: LoweringOptions
    seconds: float | None = None
    note: str = ""
    protocol: Protocol | None = None


@dataclass(frozen=True, slots=True)
class QuickPlan:
    """A plan and what it takes. ``steady``: how it runs in steady state, None where it is lowered step by step."""

    plan: Plan
    seconds: float
    steady: DispatchedPlan | None


PIECES = (1, 2, 4, 8, 16, 32, 64, 128)
LEAST_PIECE = 1024  # bytes
MOST_MESSAGES = 60_000


@dataclass(frozen=True, slots=True)
class QuickTable:
    """A table with its predictor, and what it takes."""

    predictor: TablePredictor
    seconds: float


@dataclass(frozen=True, eq=False)
class Lowering:
    """A schedule that is to be lowered as ``options`` say, so that it is quickest for ``size`` bytes by ``costs``;
    the topology, the problem and the schedule count by their identity."""

    topology: Topology
    problem: Problem
    schedule: Schedule
    size: int
    options: LoweringOptions
    costs: CostOptions

    @property
    def _identity(self) -> tuple[object, ...]:
        return id(self.topology), id(self.problem), id(self.schedule), self.size, self.costs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lowering) and self._identity == other._identity and self.options == other.options

    def __hash__(self) -> int:
        return hash(self._identity)

    def emitted(self, steady: Pipeline | None = None) -> Emitted:
        """Return the file: of ``steady`` where the target holds it, else the quickest."""
        options = self.options
        if options.target.format.plan:
            plan = self.plan(steady)
            if plan is None:
                return FORMATS[options.target.format].emit(self.problem, self.schedule, options)
            return plan_of(plan, options)
        if options.target.format.table:
            quick = self.quickest_table()
            if quick is None:
                return FORMATS[options.target.format].emit(self.problem, self.schedule, options)
            table = quick.predictor.table
            table = replace(table, name=options.name, min_bytes=options.min_bytes, max_bytes=options.max_bytes)
            return table_of(table, options)
        pipelined = self._pipelined(steady)
        if pipelined is not None:
            return xml_of(self._quickest(pipelined), options)
        variants = self.variants()
        for variant in variants:
            try:
                lowered = lower_with_notes(self.problem, self.schedule, variant.options)
            except HetesynthError:
                if variant is variants[-1]:
                    raise
                continue
            program = xml_of(self._quickest(lowered, variant.protocol), variant.options)
            return replace(program, notes=(*program.notes, variant.note)) if variant.note else program
        raise InternalError("a schedule without variants")

    def seconds(self) -> float | None:
        """What the program step by step takes, or the quickest plan; None where the target cannot hold it."""
        if self.options.target.format.plan:
            quick = self.quickest_plan()
            return None if quick is None else quick.seconds
        if self.options.target.format.table:
            table = self.quickest_table()
            return None if table is None else table.seconds
        for variant in self.variants():
            if variant.seconds is not None:
                return variant.seconds
            program = self.program(variant.options)
            if program is not None:
                return self.timed(program)[0]
        return None

    def predictor(self, steady: Pipeline | None = None) -> ProgramPredictor | TablePredictor | None:
        """Of the program along ``steady``, or step by step, for any size, or of the table; None where the target
        cannot hold it."""
        if self.options.target.format.table:
            quick = self.quickest_table()
            return None if quick is None else quick.predictor
        program: Program | None = None
        with no_collections():
            if steady is None:
                programs = (self.program(variant.options) for variant in self.variants())
                program = next((p for p in programs if p is not None), None)
            else:
                pipelined = self._pipelined(steady)
                program = None if pipelined is None else pipelined.program
            if program is None:
                return None
            return self._predictor(program)

    def _predictor(self, program: Program) -> ProgramPredictor:
        """Of ``program`` with the quickest protocol."""
        target, servers = self.options.target, self.options.servers
        return quickest_protocol(self.topology, program, self.size, self.costs, target, servers)

    def _quickest(self, lowered: Lowered, protocol: Protocol | None = None) -> Lowered:
        """``lowered`` with ``protocol``, else with the quickest."""
        program = lowered.program
        chosen = protocol or self._predictor(program).program.protocol
        return (
            lowered if chosen == program.protocol else replace(lowered, program=replace(program, protocol=chosen))
        )

    def _pipelined(self, steady: Pipeline | None) -> Lowered | None:
        """The program along ``steady``, if there is one that fits."""
        if steady is None or isinstance(steady, DispatchedPlan):
            return None
        try:
            return steady.lowered(self.problem, self.schedule, self.options)
        except HetesynthError:
            return None

    # plans

    def plan(self, steady: Pipeline | None) -> Plan | None:
        """That along ``steady``, else the quickest; None where none fits, or plans are too large to be timed."""
        if isinstance(steady, DispatchedPlan):
            with suppress(HetesynthError), no_collections():  # in place the collective may have none
                return steady.plan(self.problem, self.schedule, self.options)
        if len(self.schedule.transfers) > MAX_PROGRAM_TRANSFERS:
            return None
        quick = self.quickest_plan()
        return None if quick is None else quick.plan

    def quick_plan(self, steady: DispatchedPlan | None) -> QuickPlan | None:
        """The plan along ``steady``, or step by step; None where the runtime cannot hold it, or not for the
        size."""
        servers = servers_of(self.problem, self.options)
        with suppress(HetesynthError), no_collections():
            if steady is None:
                plan = lower_plan(self.problem, self.schedule, self.options, servers)
            else:
                plan = steady.plan(self.problem, self.schedule, self.options)
            predictor = PlanPredictor(self.topology, plan, self.costs)
            call = runtime_bytes(predictor.collective, plan.ranks, self.size)
            if largest_call(plan.collective, plan.gpus) >= call:
                return QuickPlan(plan, predictor.timeline(self.size).makespan, steady)
        return None

    def quickest_plan(self) -> QuickPlan | None:
        """The quickest; None where the runtime can hold none."""
        costs = self.costs.costs(self.topology)
        dispatching = PlanDispatching(self.problem, self.schedule, costs, self.options, self.size)
        listed: list[DispatchedPlan] = []
        with suppress(HetesynthError):  # chunks that do not take trees
            best, _ = dispatching.best(max(10_000, 3 * len(self.schedule.transfers)))
            listed = [dispatching.pipeline(arrangement) for _, arrangement in best]
        plans = (self.quick_plan(steady) for steady in (*listed, None))
        return min((p for p in plans if p is not None), key=lambda p: p.seconds, default=None)

    # tables

    def quickest_table(self) -> QuickTable | None:
        """The quickest that verifies; None where none does."""
        return _quickest_table(replace(self, options=self.options.unnamed))

    # programs step by step

    def program(self, options: LoweringOptions) -> Program | None:
        """The program that ``options`` make; None where the target cannot hold it."""
        try:
            return lower(self.problem, self.schedule, options)
        except HetesynthError:
            return None

    def timed(self, program: Program) -> tuple[float, Protocol]:
        """What ``program`` takes, and with which protocol."""
        predictor = self._predictor(program)
        return predictor.timeline(self.size).makespan, predictor.program.protocol

    def variants(self) -> list[LoweringVariant]:
        """How the schedule may be lowered, the best first; at least one. With what runtimes cost, the best is also
        timed with channels for the copy rate of thread blocks, and with chunks cut."""
        asked, prices = self.options, self.costs.costs(self.topology)
        priced = replace(asked.unnamed, chunk_seconds=chunk_seconds(prices, asked.protocol))
        named = partial(replace, name=asked.name, min_bytes=asked.min_bytes, max_bytes=asked.max_bytes)
        variants = _timed_variants(replace(self, options=priced))
        return [replace(variant, options=named(variant.options)) for variant in variants]


@lru_cache(maxsize=64)
def _quickest_table(q: Lowering) -> QuickTable | None:
    """Answered once for the choice and for the file: twice as many pieces while that is quicker."""
    from hetesynth.judge.tables.judge import table_violations

    goal, target, best = q.problem.collective, q.options.target, None
    chunk = chunk_bytes(goal.name, goal.ranks, goal.chunks_per_rank, q.size)
    for order in ORDERS:
        before = math.inf
        for pieces in PIECES:
            if pieces > 1 and (chunk < LEAST_PIECE * pieces or len(q.schedule.transfers) * pieces > MOST_MESSAGES):
                break
            table = lower_table(q.problem, q.schedule, q.options, pieces, order)
            if pieces == 1 and table_violations(table, root=goal.root, max_findings=1):
                break  # what a transfer does not wait for must not come before it
            predictor = TablePredictor(q.topology, table, q.costs, target)
            seconds = predictor.timeline(q.size).makespan
            if best is None or seconds < best.seconds * (1 - EQUAL):
                best = QuickTable(predictor, seconds)
            if seconds > before:
                break
            before = seconds
    return best


@lru_cache(maxsize=16)
def _timed_variants(q: Lowering) -> tuple[LoweringVariant, ...]:
    """Answered once for the choice among programs and for the file: first the quickest with more channels, if
    quicker than the best by its receives."""
    first, *others = _receiving(q)
    options, policy, transfers = first.options, q.costs.policy.compile, len(q.schedule.transfers)
    spread: dict[Pair, int] = {}
    if q.costs.runtime is not None and transfers <= policy.max_spread:
        blocks = options.target.thread_blocks - 1  # one is for copies
        spread = channels_of_pairs(q.costs.costs(q.topology), q.schedule, options.protocol, blocks)
    plain = q.program(options) if spread else None
    if plain is None:
        return (first, *others)
    before, protocol = q.timed(plain) if first.seconds is None else (first.seconds, first.protocol)
    variants, least = (replace(first, seconds=before, protocol=protocol), *others), before
    quicker: tuple[LoweringVariant, ...] = ()
    for instances in (1, *policy.instances):  # into how many parts chunks are cut
        if instances > 1 and transfers * instances > policy.max_cut:
            continue
        spreading = replace(options, min_channels=spread, instances=instances)
        program = q.program(spreading)
        if program is None or program == plain:
            continue
        after, protocol = q.timed(program)
        if after < least * (1 - EQUAL):
            parts = f", every chunk in {instances} parts" if instances > 1 else ""
            note = f"channels for the copy rate of thread blocks{parts}: {after * 1e6:.1f}, {before * 1e6:.1f} us"
            quicker = (LoweringVariant(spreading, after, "; ".join(filter(None, (first.note, note))), protocol),)
            least = after
    return quicker + variants


def _receiving(q: Lowering) -> list[LoweringVariant]:
    """The variants by their receives: with fused receives, with fused additions alone, which need no shared thread
    blocks, and with plain instructions. They are timed for up to ``max_both_receives`` transfers; past that fused
    ones come first, which are a third fewer instructions where data is added."""
    options, most = q.options, q.costs.policy.compile.max_both_receives
    if not (options.target.ops > PLAIN_OPS and options.fusion != "none"):
        return [LoweringVariant(options)]
    plain = replace(options, fusion="none")
    misfit = LoweringVariant(plain, None, "no fused receives: with them the program does not fit")
    if len(q.schedule.transfers) > most:
        why = f"fused receives: past {most:,} transfers programs are not timed to choose"
        return [LoweringVariant(options, None, why), misfit]
    fusing, separating = q.program(options), q.program(plain)
    if fusing is None:
        return [LoweringVariant(options) if separating is None else misfit]
    if separating is None:
        return [LoweringVariant(options, None, "fused receives: without them the program does not fit")]
    if all(x.op in PLAIN_OPS for gpu in fusing.gpus for block in gpu.thread_blocks for x in block.instructions):
        return [LoweringVariant(options)]
    times = [(*q.timed(fusing), "fused receives", options), (*q.timed(separating), "no fused receives", plain)]
    adding_options = replace(options, fusion="add")
    adding = q.program(adding_options)
    if adding is not None and adding not in (fusing, separating):
        times.append((*q.timed(adding), "fused additions, one link for a thread block", adding_options))
    best = times[0]
    for one in times[1:]:
        best = one if one[0] < best[0] * (1 - EQUAL) else best
    least, protocol, chosen, ways = best
    said = f"{chosen}: {' or '.join(f'{one[0] * 1e6:.1f}' for one in times)} us for {q.size:,} bytes"
    others = [LoweringVariant(o, s, protocol=p) for s, p, name, o in times if name != chosen]
    return [LoweringVariant(ways, least, said, protocol), *others]
