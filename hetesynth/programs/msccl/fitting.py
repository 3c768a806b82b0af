"""Fitting a program into a target: draft it, see which limit breaks, draft it again so that it takes less.

In: a draft and the decisions it was made with. Out: better decisions, or an error that says which limit cannot
be met and what to change. The measures, in the order in which they are taken:

- too many steps in a thread block: its sends and receives part; then the pair's transfers spread over more
  channels;
- too many thread blocks on a GPU: fewer channels for its widest pairs; then no spreading over channels in time;
  then no thread block only for copies; then peers spread evenly over channels, so that sends find receives to
  share a thread block with.

- too many elements in the file: thread blocks are shared as much as possible.

A thread block serves one link while there are as many thread blocks as connections (``thread_blocks``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.program import Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.programs.cut_chunks import at_once, collective_in_pieces
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.assembly import Assembly, Grouped, Optimizations, Ordered
from hetesynth.programs.msccl.channels import (
    ChannelPlan,
    Message,
    Pair,
    concurrent_chunks,
    messages,
    steps_of,
    tracks_of,
)
from hetesynth.programs.msccl.chunk_times import ChunkTimes, chunk_times
from hetesynth.programs.msccl.placement import Placement, place
from hetesynth.programs.msccl.thread_blocks import Block, BlockPlan, Connection, Sharing
from hetesynth.programs.msccl.throttling import Throttling

FEWER = "use fewer chunks per rank, another strategy or another target"


@dataclass(frozen=True)
class Fit:
    """The decisions taken so far, and in words why."""

    channels: ChannelPlan = field(default_factory=ChannelPlan)
    alone: frozenset[tuple[Rank, Connection]] = frozenset()
    no_copy_block: frozenset[Rank] = frozenset()
    sharing: Sharing = "needed"
    split_in_time: bool = True  # whether tracks may still be split in time to spread over channels
    notes: tuple[str, ...] = ()

    def noting(self, note: str) -> Fit:
        """The same with one more note, said once."""
        return self if note in self.notes else replace(self, notes=(*self.notes, note))


@dataclass(frozen=True)
class Job:
    """What is lowered, and to what; the same in every attempt."""

    problem: Problem
    schedule: Schedule
    in_place: bool
    target: Target
    protocol: Protocol
    optimizations: Optimizations
    policy: LoweringPolicy
    min_channels: Mapping[Pair, int]
    chunk_seconds: Mapping[Pair, float]
    instances: int

    @cached_property
    def layout(self) -> Layout:
        """Where chunks stand in buffers."""
        return Layout(self.problem.collective, self.in_place)

    def cut(self) -> Job:
        """The same with every chunk cut into its instances."""
        if self.instances == 1:
            return self
        collective = collective_in_pieces(self.problem.collective, self.instances)
        schedule = at_once(self.schedule, self.instances)
        return replace(self, problem=replace(self.problem, collective=collective), schedule=schedule)

    @cached_property
    def times(self) -> list[ChunkTimes]:
        """Of a chunk from and to each peer, by rank."""
        return chunk_times(self.problem, self.chunk_seconds)

    @property
    def slots(self) -> int:
        """Messages a connection holds."""
        return self.target.slots(self.protocol)


Lengths = list[list[int]]  # steps of every thread block by rank


@dataclass(frozen=True)
class Draft:
    """A program made with a ``Fit``, before its limits are checked: as far as it had to be made to see one break.

    ``ordered`` is None when thread blocks, or steps without nops, are too many already;
    ``grouped`` is None when messages must be taken apart first (``placement.fragmented``)."""

    messages: list[Message]
    placement: Placement
    assembly: Assembly
    grouped: Grouped | None = None
    ordered: Ordered | None = None

    @property
    def fragmented(self) -> tuple[Message, ...]:
        """Messages whose chunks are not neighbours."""
        return self.placement.fragmented

    @property
    def steps(self) -> Lengths:
        """As far as they are known."""
        furthest = self.ordered or self.grouped
        return furthest.steps if furthest is not None else []

    @property
    def blocks(self) -> list[list[Block]]:
        """Thread blocks by rank."""
        return [rank.blocks for rank in self.grouped.ranks] if self.grouped is not None else []

    @classmethod
    def of(cls, job: Job, fit: Fit) -> Draft:
        """Channels, placement, thread blocks and dependences with the decisions of ``fit``."""
        carried = messages(job.problem, job.schedule, fit.channels, job.target, job.slots)
        placement = place(job.layout, carried, job.target)
        assembly = Assembly(placement, carried, job.optimizations, job.target, job.slots, job.policy)
        if placement.fragmented:
            return cls(carried, placement, assembly)
        grouped = assembly.grouped(_plans(job, fit))
        large = sum(map(len, placement.operations)) > job.policy.early_check_from
        if any(len(of_rank) > job.target.thread_blocks for of_rank in grouped.steps) or (
            large and not within(grouped.steps, job.target)
        ):
            return cls(carried, placement, assembly, grouped)
        return cls(carried, placement, assembly, grouped, assembly.ordered(grouped))


def channels_of_instances(job: Job) -> dict[Pair, int]:
    """Of every pair of a job that is still to be cut: as many as chunks at once or as its link needs. So the parts
    of a chunk stay in one message where one thread block fills the link."""
    tracks, most = concurrent_chunks(job.problem, job.schedule), job.target.channels
    return {pair: min(most, max(n, job.min_channels.get(pair, 1))) for pair, n in tracks.items()}


def _plans(job: Job, fit: Fit) -> list[BlockPlan]:
    alone: dict[Rank, set[Connection]] = defaultdict(set)
    for rank, connection in fit.alone:
        alone[rank].add(connection)
    sharing: Sharing = fit.sharing if job.optimizations.share else "none"
    return [
        BlockPlan(times, frozenset(alone[rank]), rank in fit.no_copy_block, sharing)
        for rank, times in enumerate(job.times)
    ]


def with_throttling(draft: Draft, ordered: Ordered, throttling: Throttling, target: Target) -> Ordered:
    """``ordered`` throttled, where it still fits."""
    tried = draft.assembly.throttled(ordered, throttling)
    return tried if within(tried.steps, target) else ordered


def within(steps: Lengths, target: Target) -> bool:
    """Whether every limit of the target holds."""
    ranks = len(steps)
    return all(
        len(blocks) <= target.thread_blocks
        and max(blocks, default=0) <= target.max_steps
        and 1 + ranks + len(blocks) + sum(blocks) <= target.max_nodes
        for blocks in steps
    )


def refined(job: Job, draft: Draft, fit: Fit) -> Fit | None:
    """Better decisions, or None when every limit holds; HetesynthError when nothing is left to try."""
    if draft.fragmented:
        fragmented = {((m.src, m.dst), m.start) for m in draft.fragmented}
        return replace(fit, channels=replace(fit.channels, unmerged=fit.channels.unmerged | fragmented))
    for limit in (_fewer_thread_blocks, _fewer_steps):
        better = limit(job, draft, fit)
        if better is not None:
            return better
    over = _too_many_nodes(draft.steps, job.target)
    if over is None:
        return None
    if fit.sharing != "all" and job.optimizations.share:
        return replace(fit, sharing="all").noting(
            "thread blocks were shared to stay within the elements that readers store"
        )
    rank, nodes = over
    raise HetesynthError(
        f"rank {rank} needs {nodes} elements in the file; readers of target {job.target.name} store "
        f"{job.target.max_nodes}",
        code="HS504",
        help=FEWER,
    )


def _fewer_steps(job: Job, draft: Draft, fit: Fit) -> Fit | None:
    """Thread blocks with too many steps: part them, merge chunks, or take more channels."""
    limit = job.target.max_steps
    long = [
        _Long(rank, number, draft.blocks[rank][number], length)
        for rank, lengths in enumerate(draft.steps)
        for number, length in enumerate(lengths)
        if length > limit
    ]
    if not long:
        return None
    paired = [
        (x.rank, (x.block.recv_peer, x.block.channel))
        for x in long
        if x.block.recv_peer is not None and x.block.send_peer is not None
    ]
    if paired:
        return replace(fit, alone=fit.alone | frozenset(paired)).noting(
            f"sends and receives of some thread blocks were parted to stay within {limit} steps"
        )
    return _more_channels(long, fit, job)


class _Long(NamedTuple):
    """A thread block with too many steps."""

    rank: Rank
    number: int
    block: Block
    steps: int

    @property
    def pair(self) -> Pair | None:
        """The ranks whose transfers it carries."""
        if self.block.send_peer is not None:
            return self.rank, self.block.send_peer
        return (self.block.recv_peer, self.rank) if self.block.recv_peer is not None else None


def _more_channels(long: list[_Long], fit: Fit, job: Job) -> Fit:
    """The transfers of the pairs of these thread blocks split into more runs, each on channels of its own."""
    target = job.target
    before, channels = fit.channels.runs_in_time, target.channels
    runs_in_time, max_channels = dict(before), dict(fit.channels.max_channels)
    dealt_evenly = dict(fit.channels.dealt_evenly)
    for x in long:
        pair = x.pair
        times = max(job.policy.least_runs, -(-x.steps // target.max_steps))
        if pair is not None and fit.channels.dealt_evenly.get(pair, channels) < channels:
            dealt_evenly[pair] = fit.channels.dealt_evenly[pair] + 1
            continue
        if pair is None or not fit.split_in_time or before.get(pair, 1) * times > channels:
            raise HetesynthError(
                f"rank {x.rank}, thread block {x.number} needs {x.steps} steps; target {target.name} allows "
                f"{target.max_steps}",
                code="HS502",
                help=FEWER,
            )
        runs_in_time[pair] = max(runs_in_time.get(pair, 1), before.get(pair, 1) * times)
        max_channels[pair] = min(max_channels.get(pair, channels), channels // runs_in_time[pair])
    plan = replace(fit.channels, runs_in_time=runs_in_time, max_channels=max_channels, dealt_evenly=dealt_evenly)
    return replace(fit, channels=plan).noting(
        f"transfers of some links were spread over more channels to stay within {target.max_steps} steps"
    )


def _fewer_thread_blocks(job: Job, draft: Draft, fit: Fit) -> Fit | None:
    """GPUs with too many thread blocks: fewer channels for their widest pairs, no block for copies only."""
    limit = job.target.thread_blocks
    crowded = {rank for rank, blocks in enumerate(draft.steps) if len(blocks) > limit}
    if not crowded:
        return None
    narrower = _dealt_out(job, draft, crowded) if fit.channels.adjacent_only else {}
    if narrower:
        plan = replace(fit.channels, dealt_evenly={**fit.channels.dealt_evenly, **narrower})
        return replace(fit, channels=plan).noting(
            f"transfers of some links were dealt out over fewer channels to stay within {limit} thread blocks"
        )
    tracks = tracks_of(job.problem, job.schedule, fit.channels, job.target)
    touching = {pair: n for pair, n in tracks.items() if crowded & {*pair}}
    widest = max(touching.values(), default=1)
    if widest > 1:
        narrower = {pair: widest - 1 for pair, n in touching.items() if n == widest}
        plan = replace(fit.channels, max_channels={**fit.channels.max_channels, **narrower})
        return replace(fit, channels=plan).noting(
            f"some links use fewer channels than chunks at once to stay within {limit} thread blocks"
        )
    if fit.channels.runs_in_time:
        return replace(fit, channels=replace(fit.channels, runs_in_time={}), split_in_time=False)
    if crowded - fit.no_copy_block:
        return replace(fit, no_copy_block=fit.no_copy_block | crowded).noting(
            f"own blocks are copied by thread blocks that also send, to stay within {limit}"
        )
    if not fit.channels.spread_peers_evenly:
        return replace(fit, channels=replace(fit.channels, spread_peers_evenly=True))
    rank = min(crowded, key=lambda r: (-len(draft.steps[r]), r))
    raise too_many_blocks(rank, len(draft.steps[rank]), job.target)


def _dealt_out(job: Job, draft: Draft, crowded: set[Rank]) -> dict[Pair, int]:
    """Fewer channels for pairs of crowded GPUs whose transfers fit into as many, dealt out evenly: one less for
    each, and again while a GPU has more connections in one direction than thread blocks."""
    used: dict[Pair, set[int]] = defaultdict(set)
    for m in draft.messages:
        if m.src in crowded or m.dst in crowded:
            used[m.src, m.dst].add(m.channel)
    steps = steps_of(job.problem, job.schedule, job.target)
    room = job.policy.filled_steps * job.target.max_steps
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
        crowded = {rank for rank in crowded if _connections(rank, channels) > job.target.thread_blocks}
    return {pair: n for pair, n in channels.items() if n < before[pair]}


def _connections(rank: Rank, channels: dict[Pair, int]) -> int:
    """Of ``rank``, in the direction in which it has more; each takes a thread block."""
    sent = sum(n for (src, _), n in channels.items() if src == rank)
    return max(sent, sum(n for (_, dst), n in channels.items() if dst == rank))


def too_many_blocks(rank: Rank, number: int, target: Target) -> HetesynthError:
    """HS501."""
    return HetesynthError(
        f"rank {rank} needs {number} thread blocks; target {target.name} allows {target.thread_blocks}",
        code="HS501",
        help=f"{FEWER}; one channel a link is used already, so the schedule has too many peers or steps per rank",
    )


def _too_many_nodes(steps: Lengths, target: Target) -> tuple[Rank, int] | None:
    """The first rank with more elements in the file than a reader stores for one, and how many."""
    for rank, blocks in enumerate(steps):
        nodes = 1 + len(steps) + len(blocks) + sum(blocks)
        if nodes > target.max_nodes:
            return rank, nodes
    return None
