"""Fitting a program into a target: draft it, see which limit breaks, draft it again in a smaller way.

In: a draft and the decisions it was made with. Out: better decisions, or an error that says which limit cannot
be met and what to change. The ways, in the order they are taken:

- too many steps in a thread block: its sends and receives part; then neighbouring chunks that share a channel
  in one tick travel together (cnt > 1); then the pair's transfers spread over more channels;
- too many thread blocks on a GPU: fewer channels for its widest pairs; then neighbouring chunks together, so
  that more sends and receives fit one thread block; then no thread block only for copies;
- too many elements in the file: neighbouring chunks together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hetesynth.emitter.channels import ChannelPlan, Message, Pair, messages
from hetesynth.emitter.dependences import with_dependences
from hetesynth.emitter.layout import Layout
from hetesynth.emitter.placement import place
from hetesynth.emitter.thread_blocks import BlockPlan, Connection, thread_blocks
from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.program import Protocol, ThreadBlock
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

FEWER = "use fewer chunks per rank, another strategy or another target"


@dataclass(frozen=True)
class Fit:
    """The decisions taken so far, and in words why."""

    channels: ChannelPlan = field(default_factory=ChannelPlan)
    alone: frozenset[tuple[Rank, Connection]] = frozenset()
    no_copy_block: frozenset[Rank] = frozenset()
    notes: tuple[str, ...] = ()

    def noting(self, note: str) -> Fit:
        """The same with one more note, said once."""
        return self if note in self.notes else replace(self, notes=(*self.notes, note))


@dataclass(frozen=True)
class Draft:
    """A program made with a ``Fit``, before its limits are checked."""

    messages: list[Message]
    torn: tuple[Message, ...]
    thread_blocks: tuple[tuple[ThreadBlock, ...], ...]
    scratch: tuple[int, ...]

    @classmethod
    def of(
        cls, problem: Problem, schedule: Schedule, layout: Layout, fit: Fit, profile: Target, protocol: Protocol
    ) -> Draft:
        """Channels, placement, thread blocks and dependences with the decisions of ``fit``."""
        carried = messages(problem, schedule, fit.channels, profile, profile.slots(protocol))
        placement = place(layout, carried, profile)
        if placement.torn:
            return cls(carried, placement.torn, (), placement.scratch)
        done = []
        for rank, operations in enumerate(placement.operations):
            alone = frozenset(connection for r, connection in fit.alone if r == rank)
            plan = BlockPlan(alone, rank in fit.no_copy_block)
            done.append(with_dependences(operations, thread_blocks(operations, plan, profile)))
        return cls(carried, (), tuple(done), placement.scratch)


def refined(draft: Draft, fit: Fit, profile: Target) -> Fit | None:
    """Better decisions, or None when every limit holds; HetesynthError when nothing is left to try."""
    if draft.torn:
        apart = {((m.src, m.dst), m.start) for m in draft.torn}
        return replace(fit, channels=replace(fit.channels, apart=fit.channels.apart | apart))
    for limit in (_fewer_thread_blocks, _fewer_steps, _fewer_nodes):
        better = limit(draft, fit, profile)
        if better is not None:
            return better
    return None


def _fewer_steps(draft: Draft, fit: Fit, profile: Target) -> Fit | None:
    """Thread blocks with too many steps: part them, merge chunks, or take more channels."""
    long = [
        (rank, tb)
        for rank, blocks in enumerate(draft.thread_blocks)
        for tb in blocks
        if len(tb.instructions) > profile.max_steps
    ]
    if not long:
        return None
    paired = [
        (rank, (tb.recv_peer, tb.channel))
        for rank, tb in long
        if tb.recv_peer is not None and tb.send_peer is not None
    ]
    if paired:
        return replace(fit, alone=fit.alone | frozenset(paired)).noting(
            f"sends and receives of some thread blocks were parted to stay within {profile.max_steps} steps"
        )
    if not fit.channels.merge and _sharing(draft):
        return _merging(fit)
    return _more_channels(long, fit, profile)


def _more_channels(long: list[tuple[Rank, ThreadBlock]], fit: Fit, profile: Target) -> Fit:
    """The transfers of the pairs of these thread blocks cut into more runs, each on channels of its own."""
    before, channels = fit.channels.parts, profile.max_channel + 1
    parts, most = dict(before), dict(fit.channels.most)
    for rank, tb in long:
        pair = _pair(rank, tb)
        times = max(2, -(-len(tb.instructions) // profile.max_steps))
        if pair is None or before.get(pair, 1) * times > channels:
            raise _too_many_steps(rank, tb, profile)
        parts[pair] = max(parts.get(pair, 1), before.get(pair, 1) * times)
        most[pair] = min(most.get(pair, channels), channels // parts[pair])
    return replace(fit, channels=replace(fit.channels, parts=parts, most=most)).noting(
        f"transfers of some links were spread over more channels to stay within {profile.max_steps} steps"
    )


def _too_many_steps(rank: Rank, tb: ThreadBlock, profile: Target) -> HetesynthError:
    return HetesynthError(
        f"rank {rank}, thread block {tb.id} needs {len(tb.instructions)} steps; target {profile.name} allows "
        f"{profile.max_steps}",
        code="HS502",
        help=FEWER,
    )


def _fewer_thread_blocks(draft: Draft, fit: Fit, profile: Target) -> Fit | None:
    """GPUs with too many thread blocks: fewer channels for their widest pairs, no block for copies only."""
    crowded = {r for r, blocks in enumerate(draft.thread_blocks) if len(blocks) > profile.max_thread_blocks}
    if not crowded:
        return None
    lanes = _lanes(draft, fit)
    touching = {pair: n for pair, n in lanes.items() if crowded & {*pair}}
    widest = max(touching.values(), default=1)
    if widest > 1:
        narrower = {pair: widest - 1 for pair, n in touching.items() if n == widest}
        plan = replace(fit.channels, most={**fit.channels.most, **narrower})
        return replace(fit, channels=plan).noting(
            f"some links use fewer channels than chunks at once to stay within {profile.max_thread_blocks} "
            "thread blocks"
        )
    if not fit.channels.merge and (fit.channels.parts or _sharing(draft)):
        return _merging(replace(fit, channels=replace(fit.channels, parts={})))
    if crowded - fit.no_copy_block:
        return replace(fit, no_copy_block=fit.no_copy_block | crowded).noting(
            f"own blocks are copied by thread blocks that also send, to stay within {profile.max_thread_blocks}"
        )
    rank = min(crowded, key=lambda r: (-len(draft.thread_blocks[r]), r))
    raise HetesynthError(
        f"rank {rank} needs {len(draft.thread_blocks[rank])} thread blocks; target {profile.name} allows "
        f"{profile.max_thread_blocks}",
        code="HS501",
        help=f"{FEWER}; one channel a link is used already, so the schedule has too many peers or steps per rank",
    )


def _fewer_nodes(draft: Draft, fit: Fit, profile: Target) -> Fit | None:
    """Files with more elements than a reader stores for one rank: merge, else give up."""
    ranks = len(draft.thread_blocks)
    for rank, blocks in enumerate(draft.thread_blocks):
        nodes = 1 + ranks + len(blocks) + sum(len(tb.instructions) for tb in blocks)
        if nodes <= profile.max_nodes:
            continue
        if not fit.channels.merge and _sharing(draft):
            return _merging(fit)
        raise HetesynthError(
            f"rank {rank} needs {nodes} elements in the file; readers of target {profile.name} store "
            f"{profile.max_nodes}",
            code="HS504",
            help=FEWER,
        )
    return None


def _merging(fit: Fit) -> Fit:
    return replace(fit, channels=replace(fit.channels, merge=True)).noting(
        "neighbouring chunks that share a channel in one step travel as one message"
    )


def _sharing(draft: Draft) -> bool:
    """Whether two messages of one tick share a connection."""
    return any(m.wave > 0 for m in draft.messages)


def _lanes(draft: Draft, fit: Fit) -> dict[Pair, int]:
    """Channels each pair uses for concurrent chunks (not those it has only because it was cut in time)."""
    used: dict[Pair, set[int]] = {}
    for m in draft.messages:
        used.setdefault((m.src, m.dst), set()).add(m.channel)
    return {pair: -(-len(channels) // fit.channels.parts.get(pair, 1)) for pair, channels in used.items()}


def _pair(rank: Rank, tb: ThreadBlock) -> Pair | None:
    if tb.send_peer is not None:
        return rank, tb.send_peer
    return (tb.recv_peer, rank) if tb.recv_peer is not None else None
