"""Lowering: a schedule becomes what every thread block of every GPU executes (HeteCCL 5.3 and appendix J).

A program is drafted, and again with less while a limit breaks. Too many steps in a thread block: its sends and
receives part, then the transfers of its pair spread over more channels. Too many thread blocks: fewer channels for
the widest pairs, no spreading in time, no block only for copies, peers spread evenly over channels. Too many
elements in the file: thread blocks are shared as much as possible."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.problem import Problem
from hetesynth.model.program import GpuProgram, Program, Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import FileOptions, Layout
from hetesynth.programs.msccl.assembly import Draft, Fusion, grouped, ordered
from hetesynth.programs.msccl.channels import ChannelPlan, Message, Pair, messages, steps_of, tracks_of
from hetesynth.programs.msccl.placement import Placer
from hetesynth.programs.msccl.thread_blocks import BlockPlan, Connection, Sharing, chunk_times, written

LARGE = 20_000
"""Transfers, or operations, of more than which few drafts are to be enough: AllReduce on 256 GPUs settles in 3."""
FEWER = "use fewer chunks per rank, another strategy or another target"


@dataclass(frozen=True, slots=True)
class LoweringOptions(FileOptions):
    """The options of a lowering. ``servers``: the server of each rank; empty: all in one. ``chunk_seconds``:
    seconds of a chunk between ranks, by which links share thread blocks; empty: 1 / C(u, v)."""

    target: Target = PORTABLE
    protocol: Protocol = "Simple"
    fusion: Fusion = "forward"
    servers: tuple[str, ...] = ()
    chunk_seconds: Mapping[Pair, float] = field(default_factory=dict)

    @property
    def unnamed(self) -> LoweringOptions:
        """The options that decide about instructions: without the name and the sizes of the file."""
        return replace(self, name="", min_bytes=0, max_bytes=0)

    @property
    def stated_max_bytes(self) -> int:
        """The largest size as the target states it: its word for no limit; one more if it excludes the limit."""
        if not self.max_bytes:
            return self.target.open_max_bytes
        return self.max_bytes + (not self.target.max_bytes_inclusive)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program, and in words what had to be done so that it fits its target (nothing: an empty tuple)."""

    program: Program
    notes: tuple[str, ...]


def lower(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Program:
    """The program that carries out ``schedule``; raises as ``lower_with_notes``."""
    return lower_with_notes(problem, schedule, options).program


def lower_with_notes(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
    """Return the program that carries out ``schedule``, with what was done to meet the limits. Raises
    HetesynthError: HS501-HS504 a limit of the target, HS505 the collective has no such form, HS507 the schedule
    sends what a rank does not hold."""
    options.check(problem.collective.name)
    # a thread block has one peer to send to and one to receive from: said before anything else is done
    pairs = {(problem.arcs[a].src, problem.arcs[a].dst) for a in {t.link for t in schedule.transfers}}
    for ranks in (Counter(src for src, _ in pairs), Counter(dst for _, dst in pairs)):
        rank, number = min(ranks.items(), key=lambda ranked: (-ranked[1], ranked[0]), default=(0, 0))
        if number > options.target.thread_blocks:
            raise _too_many_blocks(rank, number, options.target)
    settle = _settled if len(schedule.transfers) > LARGE else _settled_cached
    job = Job(problem, schedule, options)
    fit, draft = settle(job)
    return lowered_as(job.layout, draft, options, fit.notes)


def lowered_as(layout: Layout, draft: Draft, options: LoweringOptions, notes: tuple[str, ...] = ()) -> Lowered:
    """The program of ``draft`` with the attributes that ``options`` ask for."""
    collective = layout.collective
    if draft.waits is None:
        raise InternalError("a draft without its dependences")
    blocks = written(draft.code, draft.waits)
    program = Program(
        name=options.name,
        collective=collective.name,
        ranks=collective.ranks,
        protocol=options.protocol,
        channels=max((tb.channel + 1 for of_rank in blocks for tb in of_rank), default=1),
        chunks_per_loop=layout.chunks_per_loop,
        in_place=options.in_place,
        out_of_place=not options.in_place,
        min_bytes=options.min_bytes,
        max_bytes=options.stated_max_bytes,
        root=collective.root,
        gpus=tuple(
            GpuProgram(rank, *layout.sizes(rank), scratch, of_rank)
            for rank, (scratch, of_rank) in enumerate(zip(draft.scratch, blocks, strict=True))
        ),
    )
    return Lowered(program, notes)


# -- fitting


@dataclass(frozen=True)
class Fit:
    """The decisions taken so far, and in words why."""

    channels: ChannelPlan = field(default_factory=ChannelPlan)
    alone: frozenset[tuple[Rank, Connection]] = frozenset()
    no_copy_block: frozenset[Rank] = frozenset()
    sharing: Sharing = "needed"
    split_in_time: bool = True  # tracks may still be split in time to spread over channels
    notes: tuple[str, ...] = ()

    def with_channels(self, note: str = "", **changes: Any) -> Fit:
        """Return the fit with ``changes`` to its plan of channels and with ``note``."""
        return replace(self, channels=replace(self.channels, **changes)).noting(note)

    def noting(self, note: str) -> Fit:
        """Return the fit with one more note, unless it is empty or already there."""
        return self if note in ("", *self.notes) else replace(self, notes=(*self.notes, note))


@dataclass(frozen=True, eq=False)
class Job:
    """The problem, schedule and options of a lowering, the same in every attempt. It equals others with the same
    problem and schedule for a target with the same limits."""

    problem: Problem
    schedule: Schedule
    options: LoweringOptions

    @cached_property
    def layout(self) -> Layout:
        """The places of chunks in buffers."""
        return Layout(self.problem.collective, self.options.in_place)

    @cached_property
    def times(self) -> Mapping[Pair, Fraction]:
        """The time of a chunk between each pair of ranks, as ``chunk_times`` returns it."""
        return chunk_times(self.problem, self.options.chunk_seconds)

    @property
    def slots(self) -> int:
        """The number of messages that a connection holds."""
        return self.options.target.slots(self.options.protocol)

    @cached_property
    def facts(self) -> tuple[object, ...]:
        """The facts that decide about the program, by which jobs are equal."""
        o, t = self.options, self.options.target
        sizes = (t.max_steps, t.thread_blocks, t.channels, t.max_peers_per_channel, t.max_count, t.max_nodes)
        asked = (o.in_place, o.fusion, self.slots, tuple(sorted(o.chunk_seconds.items())))
        return id(self.problem), id(self.schedule), asked, t.ops, sizes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self.facts == other.facts

    def __hash__(self) -> int:
        return hash(self.facts)


Steps = Sequence[Sequence[int]]
_Settled = tuple[Fit, Draft]
"""Decisions with which a program fits, and what was made."""


def _settled(job: Job) -> _Settled:
    options = job.options
    plan = ChannelPlan(adjacent_only=len(job.schedule.transfers) > LARGE)
    fit, target = Fit(plan), options.target
    for _ in range(400):
        carried = messages(job.problem, job.schedule, fit.channels, target, job.slots)
        placement = Placer(job.layout, carried, target).run()
        if placement.fragmented:
            fragmented = {((m.src, m.dst), m.start) for m in placement.fragmented}
            fit = fit.with_channels(unmerged=fit.channels.unmerged | fragmented)
            continue
        alone: dict[Rank, set[Connection]] = defaultdict(set)
        for rank, connection in fit.alone:
            alone[rank].add(connection)
        plans = [
            BlockPlan(rank, job.times, frozenset(alone[rank]), rank in fit.no_copy_block, fit.sharing)
            for rank in range(job.problem.ranks)
        ]
        draft = grouped(placement, carried, options.fusion, target, job.slots, plans)
        crowded = any(len(of_rank) > target.thread_blocks for of_rank in draft.steps)
        if not crowded and (len(placement.operations.op) <= LARGE or within(draft.steps, target)):
            draft = ordered(draft)
        better = _fewer_thread_blocks(job, carried, draft.steps, fit) or _fewer_steps(job, draft, fit)
        better = better or _fewer_elements(target, draft.steps, fit)
        if better is None:
            return fit, draft
        fit = better
        del carried, placement, draft  # a large program takes much memory
    raise InternalError("the lowering did not settle")


_settled_cached = lru_cache(maxsize=2)(_settled)
"""Several targets have the same limits, in and out of place."""


def within(steps: Sequence[Sequence[int]], target: Target) -> bool:
    """Return True if the limits on thread blocks, steps and elements hold; ``steps``: of each block by rank."""
    return all(
        len(blocks) <= target.thread_blocks
        and max(blocks, default=0) <= target.max_steps
        and 1 + len(steps) + len(blocks) + sum(blocks) <= target.max_nodes
        for blocks in steps
    )


def _fewer_elements(target: Target, steps: Steps, fit: Fit) -> Fit | None:
    """Return a fit with shared thread blocks if readers store too few elements, or None; HS504 if tried before."""
    nodes = [1 + len(steps) + len(blocks) + sum(blocks) for blocks in steps]
    over = next((rank for rank, number in enumerate(nodes) if number > target.max_nodes), None)
    if over is None:
        return None
    if fit.sharing != "all":
        return replace(fit, sharing="all").noting(
            "thread blocks were shared to stay within the elements that readers store"
        )
    raise HetesynthError(
        f"rank {over} needs {nodes[over]} elements in the file; readers of target {target.name} store "
        f"{target.max_nodes}",
        code="HS504",
        help=FEWER,
    )


def _fewer_steps(job: Job, draft: Draft, fit: Fit) -> Fit | None:
    """Return a fit that parts thread blocks with too many steps, or splits the transfers of their pairs into more
    runs, each on channels of its own; None if there are none, HetesynthError HS502 if nothing is left to try."""
    target, plan = job.options.target, fit.channels
    long = [
        (rank, number, draft.code.blocks[rank][number], length)
        for rank, lengths in enumerate(draft.steps)
        for number, length in enumerate(lengths)
        if length > target.max_steps
    ]
    if not long:
        return None
    paired = [
        (rank, (block.recv_peer, block.channel))
        for rank, _, block, _ in long
        if block.recv_peer is not None and block.send_peer is not None
    ]
    if paired:
        return replace(fit, alone=fit.alone | frozenset(paired)).noting(
            f"sends and receives of some thread blocks were parted to stay within {target.max_steps} steps"
        )
    before, channels = plan.runs_in_time, target.channels
    runs_in_time, max_channels, dealt_evenly = dict(before), dict(plan.max_channels), dict(plan.dealt_evenly)
    for rank, number, block, length in long:
        pair = None  # the ranks whose transfers it carries
        if block.send_peer is not None:
            pair = rank, block.send_peer
        elif block.recv_peer is not None:
            pair = block.recv_peer, rank
        times = max(2, -(-length // target.max_steps))
        if pair is not None and plan.dealt_evenly.get(pair, channels) < channels:
            dealt_evenly[pair] = plan.dealt_evenly[pair] + 1
            continue
        if pair is None or not fit.split_in_time or before.get(pair, 1) * times > channels:
            raise HetesynthError(
                f"rank {rank}, thread block {number} needs {length} steps; target {target.name} allows "
                f"{target.max_steps}",
                code="HS502",
                help=FEWER,
            )
        runs_in_time[pair] = max(runs_in_time.get(pair, 1), before.get(pair, 1) * times)
        max_channels[pair] = min(max_channels.get(pair, channels), channels // runs_in_time[pair])
    note = f"transfers of some links were spread over more channels to stay within {target.max_steps} steps"
    return fit.with_channels(note, runs_in_time=runs_in_time, max_channels=max_channels, dealt_evenly=dealt_evenly)


def _fewer_thread_blocks(job: Job, carried: Sequence[Message], steps: Steps, fit: Fit) -> Fit | None:
    """Return a fit for GPUs with too many thread blocks, or None: fewer channels for pairs, no copy blocks."""
    limit, plan = job.options.target.thread_blocks, fit.channels
    crowded = {rank for rank, blocks in enumerate(steps) if len(blocks) > limit}
    if not crowded:
        return None
    narrower = _dealt_out(job, carried, crowded) if plan.adjacent_only else {}
    if narrower:
        note = f"transfers of some links were dealt out over fewer channels to stay within {limit} thread blocks"
        return fit.with_channels(note, dealt_evenly={**plan.dealt_evenly, **narrower})
    tracks = tracks_of(job.problem, job.schedule, plan, job.options.target)
    touching = {pair: n for pair, n in tracks.items() if crowded & {*pair}}
    widest = max(touching.values(), default=1)
    if widest > 1:
        narrower = {pair: widest - 1 for pair, n in touching.items() if n == widest}
        note = f"some links use fewer channels than chunks at once to stay within {limit} thread blocks"
        return fit.with_channels(note, max_channels={**plan.max_channels, **narrower})
    if plan.runs_in_time:
        return replace(fit.with_channels(runs_in_time={}), split_in_time=False)
    if crowded - fit.no_copy_block:
        return replace(fit, no_copy_block=fit.no_copy_block | crowded).noting(
            f"own blocks are copied by thread blocks that also send, to stay within {limit}"
        )
    if not plan.spread_peers_evenly:
        return fit.with_channels(spread_peers_evenly=True)
    rank = min(crowded, key=lambda r: (-len(steps[r]), r))
    raise _too_many_blocks(rank, len(steps[rank]), job.options.target)


def _dealt_out(job: Job, carried: Sequence[Message], crowded: set[Rank]) -> dict[Pair, int]:
    """Return fewer channels for the pairs of crowded GPUs whose transfers, dealt out evenly, fit into as many: one
    less for each, and again while a GPU has more connections in one direction than thread blocks."""
    used: dict[Pair, set[int]] = defaultdict(set)
    for m in carried:
        if m.src in crowded or m.dst in crowded:
            used[m.src, m.dst].add(m.channel)
    target = job.options.target
    steps = steps_of(job.problem, job.schedule, target)
    room = 0.9 * target.max_steps  # the rest is for nops
    channels = {pair: len(used[pair]) for pair in sorted(used)}
    before = dict(channels)
    while crowded:
        narrower = {
            pair: n - 1
            for pair, n in channels.items()
            if n > 1 and crowded & {*pair} and steps[pair] <= room * (n - 1)
        }
        if not narrower:
            break
        channels.update(narrower)
        sent: Counter[Rank] = Counter()
        received: Counter[Rank] = Counter()
        for (src, dst), n in channels.items():
            sent[src] += n
            received[dst] += n
        crowded = {rank for rank in crowded if max(sent[rank], received[rank]) > target.thread_blocks}
    return {pair: n for pair, n in channels.items() if n < before[pair]}


def _too_many_blocks(rank: Rank, number: int, target: Target) -> HetesynthError:
    return HetesynthError(
        f"rank {rank} needs {number} thread blocks; target {target.name} allows {target.thread_blocks}",
        code="HS501",
        help=f"{FEWER}; one channel a link is used already, so the schedule has too many peers or steps per rank",
    )
