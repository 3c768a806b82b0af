"""Operations -> instructions: which connections share thread blocks, what is fused, what waits for what.

In: a placement, and plans of thread blocks. Out: for each plan the thread blocks of every GPU (``Grouped``); with
their dependences (``Ordered``); as instructions, with what each optimization saved (``Assembled``). The stages:
pairing, fusion, scratch, thread blocks, dependences, throttling. Each stage says how large the program is at
least, so that a plan that cannot fit is given up early. Does not check limits.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hetesynth.model.program import ThreadBlock
from hetesynth.model.target import PLAIN_OPS, Target
from hetesynth.policy import DEFAULT
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.critical_path import critical_path
from hetesynth.programs.msccl.dependences import (
    HappensBefore,
    RankBlocks,
    Waits,
    all_waits,
    conflicts_of,
    total_order,
    waits_without_local,
    written,
)
from hetesynth.programs.msccl.fusion import Traffic, forwards, fused
from hetesynth.programs.msccl.placement import Placement
from hetesynth.programs.msccl.scratch import compacted
from hetesynth.programs.msccl.thread_blocks import (
    BlockPlan,
    Connection,
    Connections,
    partners,
    thread_blocks,
)
from hetesynth.programs.msccl.throttling import Throttling, throttled

Size = tuple[int, int, int]
"""What is to be small: the critical path, then thread blocks, then steps."""


@dataclass(frozen=True, slots=True)
class Optimizations:
    """Which optimizations the lowering makes.

    ``merge``: neighbouring chunks that share a channel in one tick are one message. ``share``: a send and a
    receive connection may have one thread block. ``fuse``: additions go into the receive before them, where the
    target can; with ``forward`` sends do too, and their connections share a thread block for it. ``reduce``: what
    other dependences imply is dropped.
    """

    merge: bool = True
    share: bool = True
    fuse: bool = True
    forward: bool = True
    reduce: bool = True


OPTIMIZED = Optimizations()
STRAIGHTFORWARD = Optimizations(merge=False, share=False, fuse=False, forward=False, reduce=False)
"""One message a chunk, one thread block a connection, plain instructions, all dependences."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What an optimization saved: ``count`` of ``what`` (such as ``steps``)."""

    by: str
    count: int
    what: str


@dataclass(frozen=True, slots=True)
class Assembled:
    """Thread blocks and scratch chunks by rank, the critical path, and what was saved."""

    thread_blocks: tuple[tuple[ThreadBlock, ...], ...]
    scratch: tuple[int, ...]
    critical_path: int
    savings: tuple[Saving, ...]


@dataclass(frozen=True)
class Grouped:
    """The operations of every rank in thread blocks. ``shared``: thread blocks saved by sharing; ``fused``:
    operations that went into others (0: the operations are those placed)."""

    ranks: list[RankBlocks]
    scratch: tuple[int, ...]
    shared: int
    fused: int

    @cached_property
    def steps(self) -> list[list[int]]:
        """Of every thread block by rank, without nops."""
        return [[len(block.operations) for block in rank.blocks] for rank in self.ranks]

    def same(self, other: Grouped) -> bool:
        """Whether the thread blocks do the same."""
        return self.fused == other.fused and self.ranks == other.ranks


@dataclass(frozen=True)
class Ordered:
    """``grouped`` with the dependences that values need; ``dropped``: how many others imply."""

    grouped: Grouped
    waits: list[Waits]
    critical_path: int
    dropped: int

    @cached_property
    def steps(self) -> list[list[int]]:
        """Of every thread block by rank, nops included."""
        return [
            [sum(max(1, len(waits[i])) for i in block.operations) for block in rank.blocks]
            for rank, waits in zip(self.grouped.ranks, self.waits, strict=True)
        ]

    @property
    def size(self) -> Size:
        """See ``Size``."""
        return self.critical_path, sum(map(len, self.steps)), sum(map(sum, self.steps))


class Assembly:
    """One placement, and what all its groupings into thread blocks have in common."""

    def __init__(
        self,
        placement: Placement,
        carried: Sequence[Message],
        optimizations: Optimizations,
        target: Target,
        slots: int,
        policy: LoweringPolicy = DEFAULT.lowering,
    ) -> None:
        """``slots``: messages a connection holds."""
        self.placement, self.carried, self.optimizations, self.target, self.slots, self.policy = (
            placement, carried, optimizations, target, slots, policy,
        )  # fmt: skip
        self.ops = target.ops if optimizations.fuse else PLAIN_OPS

    @cached_property
    def _traffic(self) -> Traffic:
        return Traffic(self.carried, self.slots)

    @cached_property
    def _connections(self) -> list[Connections]:
        return [Connections.of(operations) for operations in self.placement.operations]

    @cached_property
    def _forwarded(self) -> list[Counter[tuple[Connection, Connection]]]:
        if self.ops > PLAIN_OPS and self.optimizations.forward:
            return [forwards(operations, self.ops, self._traffic) for operations in self.placement.operations]
        return [Counter() for _ in self.placement.operations]

    @cached_property
    def _order(self) -> array[int]:
        return total_order(self.placement.operations)

    @cached_property
    def _conflicts_as_placed(self) -> list[Waits]:
        return [conflicts_of(operations) for operations in self.placement.operations]

    def _conflicts(self, rank: RankBlocks, r: int) -> Waits:
        """Of the operations of rank ``r``: worked out once for groupings in which nothing of them is fused."""
        if rank.operations is self.placement.operations[r]:
            return self._conflicts_as_placed[r]
        return conflicts_of(rank.operations)

    def grouped(self, plans: Sequence[BlockPlan]) -> Grouped:
        """The operations in thread blocks; ``plans``: one a rank."""
        placed = self.placement.operations
        pairs = [
            partners(operations, connections, could, plan, self.target)
            for operations, connections, could, plan in zip(
                placed, self._connections, self._forwarded, plans, strict=True
            )
        ]
        shared = sum(map(len, pairs))
        ranks, scratch, saved = list(placed), self.placement.scratch, 0
        if self.ops > PLAIN_OPS:
            done = [
                fused(operations, pair, self.ops, self._traffic)
                for operations, pair in zip(placed, pairs, strict=True)
            ]
            saved = sum(of_rank.saved for of_rank in done)
            if saved:
                ranks, scratch = compacted([of_rank.operations for of_rank in done])
        grouped = []
        for operations, connections, pair, plan in zip(ranks, self._connections, pairs, plans, strict=True):
            connections = Connections.of(operations) if saved else connections
            grouped.append(RankBlocks(operations, thread_blocks(connections, pair, plan, self.target)))
        return Grouped(grouped, scratch, shared, saved)

    def ordered(self, grouped: Grouped) -> Ordered:
        """``grouped`` with its dependences."""
        every = [all_waits(rank, self._conflicts(rank, r)) for r, rank in enumerate(grouped.ranks)]
        waits, dropped = every, 0
        if self.optimizations.reduce:
            waits = [waits_without_local(*each) for each in zip(grouped.ranks, every, strict=True)]
        graph = self._graph(grouped, waits)
        if self.optimizations.reduce:
            waits = graph.reduced(waits)
            dropped = sum(map(_count, every)) - sum(map(_count, waits))
        return Ordered(grouped, waits, critical_path(graph, grouped.ranks, self.slots), dropped)

    def throttled(self, ordered: Ordered, throttling: Throttling) -> Ordered:
        """The same with the dependences that ``throttling`` asks for."""
        grouped, steps = ordered.grouped, self.target.max_steps
        waits = [
            throttled(rank, named, throttling, steps)
            for rank, named in zip(grouped.ranks, ordered.waits, strict=True)
        ]
        graph = self._graph(grouped, waits)
        path = critical_path(graph, grouped.ranks, self.slots)
        return Ordered(grouped, graph.reduced(waits), path, ordered.dropped)

    def assembled(self, ordered: Ordered) -> Assembled:
        """The instructions."""
        grouped = ordered.grouped
        blocks = tuple(written(rank, needed) for rank, needed in zip(grouped.ranks, ordered.waits, strict=True))
        chunks = sum(len(m.chunks) for m in self.carried)
        savings = (
            Saving("merge", chunks - len(self.carried), "messages"),
            Saving("share", grouped.shared, "thread blocks"),
            Saving("fuse", grouped.fused, "steps"),
            Saving("order", ordered.dropped, "dependences"),
        )
        return Assembled(blocks, grouped.scratch, ordered.critical_path, savings)

    def _graph(self, grouped: Grouped, waits: Sequence[Waits]) -> HappensBefore:
        return HappensBefore(grouped.ranks, waits, None if grouped.fused else self._order, self.policy)


def _count(waits: Waits) -> int:
    return sum(map(len, waits))
