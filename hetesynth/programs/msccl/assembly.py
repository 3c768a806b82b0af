"""Operations -> instructions: which connections share thread blocks, what is fused, what waits for what.

The stages: pairing, fusion, scratch, thread blocks (``Grouped``), dependences (``Ordered``), throttling. Each says
how large the program is at least, so that a plan that cannot fit is given up early; limits are checked elsewhere.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hetesynth.model.target import PLAIN_OPS, Target
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.dependences import (
    RankBlocks,
    Waits,
    all_waits,
    conflicts_of,
    reduced,
    total_order,
    waits_without_local,
)
from hetesynth.programs.msccl.fusion import Traffic, compacted, forwards, fused
from hetesynth.programs.msccl.placement import Placement
from hetesynth.programs.msccl.thread_blocks import BlockPlan, Connection, Connections, partners, thread_blocks
from hetesynth.programs.msccl.throttling import Throttling, throttled


@dataclass(frozen=True, slots=True)
class Optimizations:
    """Which receives do more at once where the target can: ``fuse``: they add; with ``forward`` they send too, and
    their connections share a thread block for it."""

    fuse: bool = True
    forward: bool = True


OPTIMIZED = Optimizations()


@dataclass(frozen=True, slots=True)
class Saving:
    """What an optimization saved: ``count`` of ``what`` (such as ``steps``)."""

    by: str
    count: int
    what: str


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


@dataclass(frozen=True)
class Ordered:
    """``grouped`` with the dependences that values need; ``dropped``: how many others imply."""

    grouped: Grouped
    waits: list[Waits]
    dropped: int

    @cached_property
    def steps(self) -> list[list[int]]:
        """Of every thread block by rank, nops included."""
        return [
            [sum(max(1, len(waits[i])) for i in block.operations) for block in rank.blocks]
            for rank, waits in zip(self.grouped.ranks, self.waits, strict=True)
        ]


class Assembly:
    """One placement, and what all its groupings into thread blocks have in common."""

    def __init__(
        self,
        placement: Placement,
        carried: Sequence[Message],
        optimizations: Optimizations,
        target: Target,
        slots: int,
    ) -> None:
        """``slots``: messages a connection holds."""
        self.placement, self.carried, self.optimizations = placement, carried, optimizations
        self.target, self.slots = target, slots
        self.ops = target.ops if optimizations.fuse else PLAIN_OPS
        self.order: array[int] | None = None  # of all operations, where none are fused

    def grouped(self, plans: Sequence[BlockPlan]) -> Grouped:
        """The operations in thread blocks; ``plans``: one a rank."""
        placed, ops = self.placement.operations, self.ops
        traffic = Traffic(self.carried, self.slots)
        connections = [Connections.of(operations) for operations in placed]
        forwarded: list[Counter[tuple[Connection, Connection]]] = [Counter() for _ in placed]
        if ops > PLAIN_OPS and self.optimizations.forward:
            forwarded = [forwards(operations, ops, traffic) for operations in placed]
        pairs = [
            partners(*of_rank, self.target) for of_rank in zip(placed, connections, forwarded, plans, strict=True)
        ]
        ranks, scratch, saved = list(placed), self.placement.scratch, 0
        if ops > PLAIN_OPS:
            done = [fused(*of_rank, ops, traffic) for of_rank in zip(placed, pairs, strict=True)]
            saved = sum(map(len, placed)) - sum(map(len, done))
            if saved:
                ranks, scratch = compacted(done)
                connections = [Connections.of(operations) for operations in ranks]
        grouped = [
            RankBlocks(operations, thread_blocks(of_rank, pair, plan, self.target))
            for operations, of_rank, pair, plan in zip(ranks, connections, pairs, plans, strict=True)
        ]
        return Grouped(grouped, scratch, sum(map(len, pairs)), saved)

    def ordered(self, grouped: Grouped) -> Ordered:
        """``grouped`` with its dependences."""
        every = [all_waits(rank, conflicts_of(rank.operations)) for rank in grouped.ranks]
        waits = [waits_without_local(*of_rank) for of_rank in zip(grouped.ranks, every, strict=True)]
        waits = self._reduced(grouped, waits)
        before, after = (sum(len(named) for of_rank in of_all for named in of_rank) for of_all in (every, waits))
        return Ordered(grouped, waits, before - after)

    def throttled(self, ordered: Ordered, throttling: Throttling) -> Ordered:
        """The same with the dependences that ``throttling`` asks for."""
        grouped, steps = ordered.grouped, self.target.max_steps
        waits = [
            throttled(rank, named, throttling, steps)
            for rank, named in zip(grouped.ranks, ordered.waits, strict=True)
        ]
        return Ordered(grouped, self._reduced(grouped, waits), ordered.dropped)

    def _reduced(self, grouped: Grouped, waits: Sequence[Waits]) -> list[Waits]:
        if not grouped.fused and self.order is None:
            self.order = total_order(self.placement.operations)
        return reduced(grouped.ranks, waits, None if grouped.fused else self.order)

    def savings(self, ordered: Ordered) -> tuple[Saving, ...]:
        """What each optimization saved."""
        chunks = sum(len(m.chunks) for m in self.carried)
        return (
            Saving("merge", chunks - len(self.carried), "messages"),
            Saving("share", ordered.grouped.shared, "thread blocks"),
            Saving("fuse", ordered.grouped.fused, "steps"),
            Saving("order", ordered.dropped, "dependences"),
        )
