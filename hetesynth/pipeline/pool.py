"""Schedules for a span of sizes: contests at a few of them, every finalist predicted at all.

In: a topology, a request, sizes. Out: a ``Pool``: contenders and what each takes at each size. Atlas and compare
both choose from one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hetesynth.errors import HetesynthError
from hetesynth.model.cost import chunk_bytes
from hetesynth.model.problem import Budget
from hetesynth.model.topology import Topology
from hetesynth.pipeline.pace import Bounds, Pace
from hetesynth.pipeline.sizing import Contender, contest
from hetesynth.pipeline.synthesis import Request
from hetesynth.synthesis.search import Progress, silent

ANCHORS = 4  # sizes at which there is a contest
FINALISTS = 3  # of a contest that are predicted at all sizes


@dataclass(frozen=True)
class Pool:
    """Different contenders, and ``seconds[i][j]`` of contender i at size j; infinite where it cannot be cut."""

    sizes: tuple[int, ...]
    bounds: Bounds
    contenders: tuple[Contender, ...]
    cut_short: bool
    seconds: tuple[tuple[float, ...], ...] = field(repr=False)

    def best(self, j: int) -> int:
        """The quickest contender at size j."""
        return min(range(len(self.contenders)), key=lambda i: (self.seconds[i][j], i))

    def pace(self, i: int, j: int) -> Pace:
        """Contender i at size j beside the bound."""
        size = self.sizes[j]
        return Pace(size, self.bounds.name, self.bounds.ranks, self.seconds[i][j], self.bounds.at(size))

    def without(self, i: int) -> Pool:
        """All but contender i."""
        keep = [k for k in range(len(self.contenders)) if k != i]
        return replace(
            self,
            contenders=tuple(self.contenders[k] for k in keep),
            seconds=tuple(self.seconds[k] for k in keep),
        )


def pool(topology: Topology, request: Request, sizes: Sequence[int], progress: Progress = silent) -> Pool:
    """The finalists of contests at a few of ``sizes``, which share the budget.

    Raises HetesynthError when no contest found anything; a size too small to be cut is left to the others.
    """
    started = time.monotonic()
    found: dict[tuple[str, int], Contender] = {}
    bounds: Bounds | None = None
    cut_short = False
    failure: HetesynthError | None = None
    chosen = anchors(sizes)
    for number, size in enumerate(chosen):
        budget = request.budget.seconds
        if budget is not None:
            budget = max(0.05, budget - (time.monotonic() - started)) / (len(chosen) - number)
        asked = replace(request, budget=Budget(budget, request.budget.seed), size=size)
        try:
            held = contest(topology, asked, size, progress)
        except HetesynthError as error:
            failure = failure or error
            continue
        except KeyboardInterrupt:
            if not found:
                raise
            cut_short = True
            break
        bounds, cut_short = held.bounds, cut_short or held.cut_short
        for contender in held.contenders[:FINALISTS]:
            found.setdefault((contender.label, contender.chunking.chunk_bytes), contender)
        if held.interrupted:
            break
    if bounds is None:
        raise failure or HetesynthError("no sizes", code="HS611", help="give at least one size")
    contenders = tuple(found.values())
    seconds = tuple(tuple(seconds_at(c, size) for size in sizes) for c in contenders)
    return Pool(tuple(sizes), bounds, contenders, cut_short, seconds)


def anchors(sizes: Sequence[int]) -> list[int]:
    """A few of ``sizes``, from the first to the last."""
    count = min(ANCHORS, len(sizes))
    places = [round(k * (len(sizes) - 1) / max(1, count - 1)) for k in range(count)]
    return [sizes[p] for p in dict.fromkeys(places)]


def seconds_at(contender: Contender, size: int) -> float:
    """Simulated seconds; infinite where a chunk would be less than a byte."""
    asked = contender.problem.collective
    if asked.chunks_per_rank > 1 and chunk_bytes(asked.name, asked.ranks, asked.chunks_per_rank, size) < 1:
        return math.inf
    return contender.clock.timeline(size).makespan
