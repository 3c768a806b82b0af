"""Which thread block owns which channels: the peers of one rank shared out over its thread blocks.

In: a rank's part of a placement, and how many peers may share a thread block. Out: the channels of each thread
block, to which operations are added later. Knows nothing of the order of operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from hetesynth.model.plan import (
    MAX_CHANNELS_OF_OPERATION,
    MAX_REMOTE_BUFFERS,
    ChannelType,
    LocalSlice,
    PlanOp,
    PlanOperation,
)
from hetesynth.model.program import Buffer
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import CopySlice, Layout
from hetesynth.programs.mscclpp.placement import Addition, PlanMessage

_SYNCHRONIZING = frozenset({"nop", "barrier"})
RemoteName = tuple[Rank, Buffer]
"""(peer, its buffer)."""


@dataclass(frozen=True, slots=True)
class Share:
    """The part of one rank. ``remote``: the buffers it puts into, in the order of the GPU's list."""

    rank: Rank
    layout: Layout
    outgoing: Sequence[PlanMessage]
    incoming: Sequence[PlanMessage]
    additions: dict[int, list[list[Addition]]]
    early: Sequence[CopySlice]
    late: Sequence[CopySlice]
    peers: dict[ChannelType, tuple[Rank, ...]]
    remote: tuple[RemoteName, ...]

    def kind(self, peer: Rank) -> ChannelType:
        """The type of its channel to ``peer``."""
        return "memory" if peer in self.peers["memory"] else "port"


@dataclass(frozen=True, slots=True)
class Spread:
    """How many peers share a thread block."""

    memory: int
    port: int


@dataclass(slots=True)
class BlockChannels:
    """A thread block while operations are added to it, with all channels to ``peers``.

    ``segment`` counts the synchronizations of its threads; up to ``sealed`` all thread blocks know them.
    """

    kind: ChannelType
    peers: tuple[Rank, ...]
    remote: tuple[RemoteName, ...]
    operations: list[PlanOperation] = field(default_factory=list)
    segment: int = 1
    sealed: int = 0


def assign_channels(share: Share, spread: Spread) -> Iterator[BlockChannels]:
    """One thread block after the other, within the limits on peers and on remote buffers."""
    kinds: tuple[tuple[ChannelType, int], ...] = (("memory", spread.memory), ("port", spread.port))
    for kind, most in kinds:
        peers: list[Rank] = []
        remote: list[RemoteName] = []
        for peer in share.peers[kind]:
            more = [name for name in share.remote if name[0] == peer]
            if peers and (len(peers) >= most or len(remote) + len(more) > MAX_REMOTE_BUFFERS):
                yield BlockChannels(kind, tuple(peers), tuple(remote))
                peers, remote = [], []
            peers.append(peer)
            remote += more
        if peers:
            yield BlockChannels(kind, tuple(peers), tuple(remote))


def overtakes(before: Sequence[PlanOperation], following: Sequence[PlanOperation]) -> bool:
    """Whether in ``following`` a thread signals or flushes a port channel on which another thread's put may come
    later, since no ``nop`` or ``barrier`` stands between the two.

    The kernel's thread i handles entry i of an operation; threads of a block run apart until they synchronize.
    """
    putters: dict[int, set[int]] = defaultdict(set)
    for operation in _since_synchronization(before):
        _note_puts(operation, putters)
    for operation in following:
        if operation.op in _SYNCHRONIZING:
            return False
        if operation.op in ("signal", "flush") and any(
            putters[channel] - {thread} for thread, channel in enumerate(operation.channels)
        ):
            return True
        _note_puts(operation, putters)
    return False


def _since_synchronization(operations: Sequence[PlanOperation]) -> Iterator[PlanOperation]:
    """From the last on backwards, as far as the threads of the block have not synchronized."""
    return takewhile(lambda operation: operation.op not in _SYNCHRONIZING, reversed(operations))


def _note_puts(operation: PlanOperation, putters: dict[int, set[int]]) -> None:
    if operation.op == "put":
        for thread, channel in enumerate(operation.channels):
            putters[channel].add(thread)


def on_channels(op: PlanOp, block: BlockChannels, peers: Sequence[Rank]) -> list[PlanOperation]:
    """``op`` on the channels to ``peers``, eight at a time.

    A flush also names a chunk per channel as its target: kernels count those, not the channels.
    """
    operations = []
    for first in range(0, len(peers), MAX_CHANNELS_OF_OPERATION):
        ids = tuple(block.peers.index(p) for p in peers[first : first + MAX_CHANNELS_OF_OPERATION])
        dst = (LocalSlice("o", 0, 1),) * len(ids) if op == "flush" else ()
        operations.append(PlanOperation(op, block.kind, ids, dst=dst))
    return operations
