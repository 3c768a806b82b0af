"""Operations -> instructions: which connections share thread blocks, what is fused, what waits for what.

In: a placement, and one way to do it. Out: the thread blocks of every GPU with their instructions, and what each
pass saved. The order of the passes: pairing, fusion, scratch, thread blocks, dependences, pacing. Does not check
limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetesynth.emitter.channels import Message
from hetesynth.emitter.critical_path import critical_path
from hetesynth.emitter.dependences import HappensBefore, RankBlocks, Waits, all_waits, waits_without_local, written
from hetesynth.emitter.fusion import Traffic, forwards, fused
from hetesynth.emitter.pacing import Pacing, paced
from hetesynth.emitter.placement import Placement
from hetesynth.emitter.scratch import compacted
from hetesynth.emitter.thread_blocks import BlockPlan, partners, passed_on, thread_blocks
from hetesynth.model.program import ThreadBlock
from hetesynth.model.target import PLAIN_OPS, Target


@dataclass(frozen=True, slots=True)
class Passes:
    """Which optimizations the lowering makes.

    ``merge``: neighbouring chunks that share a channel in one tick are one message. ``share``: a send and a
    receive connection may have one thread block. ``fuse``: additions and sends go into the receive before them,
    where the target can. ``reduce``: what other dependences imply is dropped.
    """

    merge: bool = True
    share: bool = True
    fuse: bool = True
    reduce: bool = True


OPTIMIZED = Passes()
STRAIGHTFORWARD = Passes(False, False, False, False)
"""One message a chunk, one thread block a connection, plain instructions, all dependences."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What a pass saved: ``count`` of ``what`` (such as ``steps``)."""

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

    @property
    def size(self) -> tuple[int, int, int]:
        """What is to be small: the critical path, then thread blocks, then steps."""
        blocks = [tb for of_rank in self.thread_blocks for tb in of_rank]
        return self.critical_path, len(blocks), sum(len(tb.instructions) for tb in blocks)


def assemble(
    placement: Placement,
    carried: Sequence[Message],
    plans: Sequence[BlockPlan],
    passes: Passes,
    target: Target,
    slots: int,
    pacing: Pacing | None = None,
) -> Assembled:
    """The instructions of every rank; ``plans``: one a rank; ``slots``: messages a connection holds."""
    traffic = Traffic(carried, slots)
    ops = target.ops if passes.fuse else PLAIN_OPS
    pairs, ranks = [], []
    saved = 0
    for operations, plan in zip(placement.operations, plans, strict=True):
        could = forwards(operations, ops, traffic) if ops > PLAIN_OPS else passed_on(operations)
        pairs.append(partners(operations, could, plan, target))
        if ops > PLAIN_OPS:
            done = fused(operations, pairs[-1], ops, traffic)
            operations, saved = done.operations, saved + done.saved
        ranks.append(operations)
    scratch = placement.scratch
    if saved:
        ranks, scratch = compacted(ranks)
    laid = [
        RankBlocks(operations, thread_blocks(operations, pair, plan, target))
        for operations, pair, plan in zip(ranks, pairs, plans, strict=True)
    ]
    waits, graph, dropped = _ordered(laid, reduce=passes.reduce)
    if pacing is not None:
        waits = [paced(rank, named, pacing, target.max_steps) for rank, named in zip(laid, waits, strict=True)]
        graph = HappensBefore(laid, waits)
        waits = graph.reduced(waits)
    blocks = tuple(written(rank, needed) for rank, needed in zip(laid, waits, strict=True))
    chunks = sum(len(m.chunks) for m in carried)
    savings = (
        Saving("merge", chunks - len(carried), "messages"),
        Saving("share", sum(map(len, pairs)), "thread blocks"),
        Saving("fuse", saved, "steps"),
        Saving("order", dropped, "dependences"),
    )
    return Assembled(blocks, scratch, critical_path(graph, laid, slots), savings)


def _ordered(laid: list[RankBlocks], *, reduce: bool) -> tuple[list[Waits], HappensBefore, int]:
    """The dependences that values need, the order they make, and how many of them that implies were dropped."""
    every = [all_waits(rank) for rank in laid]
    waits = [waits_without_local(*each) for each in zip(laid, every, strict=True)] if reduce else every
    graph = HappensBefore(laid, waits)
    if reduce:
        waits = graph.reduced(waits)
    return waits, graph, sum(map(_count, every)) - sum(map(_count, waits))


def _count(waits: Waits) -> int:
    return sum(map(len, waits))
