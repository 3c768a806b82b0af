"""Throttling: a send waits until what should go before it has gone, as far as its own GPU can know that.

All sends that are ready share the NIC, so what others must forward is late with everything else. Here a send waits
for the one operation of its GPU that ends last before the send ought to begin, as a schedule simulated in the
order of its steps says. Such dependences point backwards in the total order, so there is no deadlock."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.dependences import RankBlocks, Waits

After = Literal["any", "sends", "shared"]
AFTERS: tuple[After, ...] = get_args(After)
"""What a send may have to wait for: any operation of its GPU, its sends, or its sends over a common resource."""

_Flow = tuple[Rank, Rank, int, int]  # (from, to, start, chunk)


@dataclass(frozen=True)
class Throttling:
    """When transfers ought to flow, in seconds: ``flows`` from (from, to, start, chunk) to (begin, end of bytes).

    ``shared``: the resources of each pair of ranks that other pairs use too.
    """

    flows: Mapping[_Flow, tuple[float, float]]
    shared: Mapping[tuple[Rank, Rank], frozenset[int]]
    after: After = "any"

    @classmethod
    def of(
        cls, problem: Problem, schedule: Schedule, begin: Sequence[float], end: Sequence[float], after: After
    ) -> Throttling:
        """``begin`` and ``end``: seconds, one each for ``schedule.transfers``."""
        flows: dict[_Flow, tuple[float, float]] = {}
        for t, begins, ends in zip(schedule.transfers, begin, end, strict=True):
            arc = problem.arcs[t.link]
            flows[arc.src, arc.dst, t.start, t.chunk] = (float(begins), float(ends))
        shared: dict[tuple[Rank, Rank], set[int]] = {}
        for number, resource in enumerate(problem.binding_resources):
            for a in resource.arcs if len(resource.arcs) > 1 else ():
                shared.setdefault((problem.arcs[a].src, problem.arcs[a].dst), set()).add(number)
        return cls(flows, {pair: frozenset(numbers) for pair, numbers in shared.items()}, after)

    def cut(self, pieces: int) -> Throttling:
        """The same where every chunk is cut into ``pieces``."""
        flows = {
            (src, dst, start, chunk * pieces + j): span
            for (src, dst, start, chunk), span in self.flows.items()
            for j in range(pieces)
        }
        return replace(self, flows=flows)

    def span(self, m: Message) -> tuple[float, float]:
        """When the first byte of a message flows and when the last one has."""
        flows = [self.flows[m.src, m.dst, m.start, k] for k in m.chunks]
        return min(begin for begin, _ in flows), max(end for _, end in flows)


def throttled(rank: RankBlocks, waits: Waits, throttling: Throttling, max_steps: int) -> Waits:
    """``waits`` and one more for each send that something goes before; none where a block would grow too long."""
    block_of = {i: b for b, block in enumerate(rank.blocks) for i in block.operations}
    steps = [sum(max(1, len(waits[i])) for i in block.operations) for block in rank.blocks]
    throttled_waits = list(waits)
    ends: list[tuple[float, int]] = []
    sends: dict[int, Message] = {}
    for i, op in enumerate(rank.operations):
        out = op.message if op.op == "s" else op.forwards
        if out is not None:
            sends[i] = out
        moved = out or op.message
        if moved is not None and (out is not None or throttling.after == "any"):
            ends.append((throttling.span(moved)[1], i))
    ends.sort()
    anywhere = throttling.after != "shared"

    def resources(m: Message) -> frozenset[int]:
        return throttling.shared.get((m.src, m.dst), frozenset())

    for i, m in sends.items():
        ended = ends[: bisect_right(ends, (throttling.span(m)[0], len(rank.operations)))]
        j = next(
            (j for _, j in reversed(ended) if j < i and (anywhere or resources(sends[j]) & resources(m))), None
        )
        if j is None or block_of[j] == block_of[i] or j in throttled_waits[i]:
            continue
        nop = 1 if throttled_waits[i] else 0
        if steps[block_of[i]] + nop <= max_steps:
            throttled_waits[i] = tuple(sorted((*throttled_waits[i], j)))
            steps[block_of[i]] += nop
    return throttled_waits
