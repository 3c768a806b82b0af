"""Fitting a program into a target: draft it, see which limit breaks, draft it again in a smaller way.

In: a draft and the decisions it was made with. Out: better decisions, or an error that says which limit cannot
be met and what to change. The ways, in the order they are taken:

- too many steps in a thread block: its sends and receives part; then the pair's transfers spread over more
  channels;
- too many thread blocks on a GPU: fewer channels for its widest pairs; then no spreading over channels in time;
  then no thread block only for copies.

Drafts share thread blocks as much as possible. Once one fits, ``best`` also tries to share less, where that
shortens the critical path and still fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hetesynth.emitter.assembly import Assembled, Passes, assemble
from hetesynth.emitter.channels import ChannelPlan, Message, Pair, messages
from hetesynth.emitter.layout import Layout
from hetesynth.emitter.pacing import Pacing
from hetesynth.emitter.placement import Placement, place
from hetesynth.emitter.thread_blocks import SHARINGS, BlockPlan, Connection, Sharing
from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.program import Protocol, ThreadBlock
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

MOST_TRIED = 20_000
"""Operations of a program up to which several ways to share thread blocks are tried."""
FEWER = "use fewer chunks per rank, another strategy or another target"


@dataclass(frozen=True)
class Fit:
    """The decisions taken so far, and in words why."""

    channels: ChannelPlan = field(default_factory=ChannelPlan)
    alone: frozenset[tuple[Rank, Connection]] = frozenset()
    no_copy_block: frozenset[Rank] = frozenset()
    spread: bool = True  # whether transfers may still be cut in time to spread over channels
    notes: tuple[str, ...] = ()

    def noting(self, note: str) -> Fit:
        """The same with one more note, said once."""
        return self if note in self.notes else replace(self, notes=(*self.notes, note))


@dataclass(frozen=True)
class Job:
    """What is lowered, and to what; the same in every attempt."""

    problem: Problem
    schedule: Schedule
    layout: Layout
    target: Target
    protocol: Protocol
    passes: Passes
    pacing: Pacing | None = None

    @property
    def slots(self) -> int:
        """Messages a connection holds."""
        return self.target.slots(self.protocol)


@dataclass(frozen=True)
class Draft:
    """A program made with a ``Fit``, before its limits are checked. ``torn``: messages that must be taken apart
    first; then there are no thread blocks."""

    messages: list[Message]
    placement: Placement
    assembled: Assembled

    @property
    def torn(self) -> tuple[Message, ...]:
        """Messages whose chunks are not neighbours."""
        return self.placement.torn

    @property
    def thread_blocks(self) -> tuple[tuple[ThreadBlock, ...], ...]:
        """By rank."""
        return self.assembled.thread_blocks

    @classmethod
    def of(cls, job: Job, fit: Fit) -> Draft:
        """Channels, placement, thread blocks and dependences with the decisions of ``fit``."""
        carried = messages(job.problem, job.schedule, fit.channels, job.target, job.slots)
        placement = place(job.layout, carried, job.target)
        if placement.torn:
            return cls(carried, placement, Assembled((), placement.scratch, 0, ()))
        return cls(carried, placement, _assembled(job, fit, placement, carried, "all"))


def _assembled(
    job: Job, fit: Fit, placement: Placement, carried: list[Message], sharing: Sharing,
    pacing: Pacing | None = None,
) -> Assembled:  # fmt: skip
    plans = []
    for rank in range(len(placement.operations)):
        alone = frozenset(connection for r, connection in fit.alone if r == rank)
        plans.append(BlockPlan(alone, rank in fit.no_copy_block, sharing if job.passes.share else "none"))
    return assemble(placement, carried, plans, job.passes, job.target, job.slots, pacing)


def best(job: Job, fit: Fit, draft: Draft) -> Assembled:
    """The shortest way to share thread blocks that fits, for a draft that fits; ties go to the smaller program.

    It is paced last, where the job asks for that and it still fits.
    """
    found, chosen = draft.assembled, SHARINGS[0]
    few = job.passes.share and sum(map(len, draft.placement.operations)) <= MOST_TRIED
    for sharing in SHARINGS[1:] if few else ():
        tried = _assembled(job, fit, draft.placement, draft.messages, sharing)
        if _fits(tried, job.target) and tried.size < found.size:
            found, chosen = tried, sharing
    if job.pacing is None:
        return found
    tried = _assembled(job, fit, draft.placement, draft.messages, chosen, job.pacing)
    return tried if _fits(tried, job.target) else found


def _fits(made: Assembled, target: Target) -> bool:
    ranks = len(made.thread_blocks)
    for blocks in made.thread_blocks:
        steps = [len(tb.instructions) for tb in blocks]
        nodes = 1 + ranks + len(blocks) + sum(steps)
        if (
            len(blocks) > target.thread_blocks
            or max(steps, default=0) > target.max_steps
            or nodes > target.max_nodes
        ):
            return False
    return True


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
    return _more_channels(long, fit, profile)


def _more_channels(long: list[tuple[Rank, ThreadBlock]], fit: Fit, profile: Target) -> Fit:
    """The transfers of the pairs of these thread blocks cut into more runs, each on channels of its own."""
    before, channels = fit.channels.parts, profile.channels
    parts, most = dict(before), dict(fit.channels.most)
    for rank, tb in long:
        pair = _pair(rank, tb)
        times = max(2, -(-len(tb.instructions) // profile.max_steps))
        if pair is None or not fit.spread or before.get(pair, 1) * times > channels:
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
    crowded = {r for r, blocks in enumerate(draft.thread_blocks) if len(blocks) > profile.thread_blocks}
    if not crowded:
        return None
    lanes = _lanes(draft, fit)
    touching = {pair: n for pair, n in lanes.items() if crowded & {*pair}}
    widest = max(touching.values(), default=1)
    if widest > 1:
        narrower = {pair: widest - 1 for pair, n in touching.items() if n == widest}
        plan = replace(fit.channels, most={**fit.channels.most, **narrower})
        return replace(fit, channels=plan).noting(
            f"some links use fewer channels than chunks at once to stay within {profile.thread_blocks} "
            "thread blocks"
        )
    if fit.channels.parts:
        return replace(fit, channels=replace(fit.channels, parts={}), spread=False)
    if crowded - fit.no_copy_block:
        return replace(fit, no_copy_block=fit.no_copy_block | crowded).noting(
            f"own blocks are copied by thread blocks that also send, to stay within {profile.thread_blocks}"
        )
    rank = min(crowded, key=lambda r: (-len(draft.thread_blocks[r]), r))
    raise HetesynthError(
        f"rank {rank} needs {len(draft.thread_blocks[rank])} thread blocks; target {profile.name} allows "
        f"{profile.thread_blocks}",
        code="HS501",
        help=f"{FEWER}; one channel a link is used already, so the schedule has too many peers or steps per rank",
    )


def _fewer_nodes(draft: Draft, fit: Fit, profile: Target) -> Fit | None:
    """Files with more elements than a reader stores for one rank."""
    ranks = len(draft.thread_blocks)
    for rank, blocks in enumerate(draft.thread_blocks):
        nodes = 1 + ranks + len(blocks) + sum(len(tb.instructions) for tb in blocks)
        if nodes <= profile.max_nodes:
            continue
        raise HetesynthError(
            f"rank {rank} needs {nodes} elements in the file; readers of target {profile.name} store "
            f"{profile.max_nodes}",
            code="HS504",
            help=FEWER,
        )
    return None


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
