"""What a prefix of a schedule must leave for the steps that are left: laws on what sets of ranks may still lack.

In: a copying problem. Out: for sets of ranks (single ranks, servers, and all ranks but these) how many chunks that
none of them holds may be left when so many steps remain. They follow from the capacity of the links that enter the
set and from how fast a chunk spreads in it, so every schedule obeys them: a prefix that breaks one cannot be
completed in time, which shows the step of the mistake long before the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.search.bounds.cover import Coverer
from hetesynth.search.bounds.regions import partitions
from hetesynth.search.copy_problem import CopyProblem

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Region:
    """A set of ranks. ``entering``: arcs from outside; ``capacity``: chunks they carry in a step; ``wanting``: how
    many of the ranks want a chunk that starts outside, at least; ``copies``: to how many others of the set a rank
    sends one chunk in a step, at most."""

    ranks: tuple[int, ...]
    entering: tuple[int, ...]
    capacity: int
    wanting: int
    copies: int

    def limit(self, rest: int) -> int:
        """How many chunks that none of the ranks holds can still reach all that want them in ``rest`` steps.

        A chunk that enters when r steps are left, this one included, is at (1 + copies)^(r - 1) ranks in the end.
        """
        holders, served = 1, 0
        for left in range(rest):
            if holders >= self.wanting:
                served += (rest - left) * self.wanting
                break
            served += holders
            holders *= 1 + self.copies
        return self.capacity * served // self.wanting


class SuffixLaws:
    """The regions of ``tables`` and what they lack. ``levels``: partitions of the ranks, coarsest first."""

    def __init__(self, tables: CopyProblem, policy: BoundsPolicy) -> None:
        self._problem = tables.problem
        self._coverer = Coverer(tables.problem)
        collective, ranks = tables.problem.collective, tables.problem.ranks
        self.wants: Bools = np.zeros((len(collective.post), ranks), dtype=np.bool_)
        for k, post in enumerate(collective.post):
            self.wants[k, sorted(post)] = True
        self.levels = list(reversed(partitions(tables.problem, policy)))
        self.regions = tuple(self._regions())

    def _regions(self) -> Iterator[Region]:
        everybody = frozenset(range(self._problem.ranks))
        seen: set[frozenset[int]] = set()
        for part in (frozenset(region) for level in self.levels for region in level):
            for ranks in (part, everybody - part):
                if ranks and ranks not in seen:
                    seen.add(ranks)
                    region = self._region(ranks)
                    if region is not None:
                        yield region

    def _region(self, ranks: frozenset[int]) -> Region | None:
        """None where nothing has to enter, or nothing can."""
        arcs = self._problem.arcs
        entering = tuple(a for a, arc in enumerate(arcs) if arc.dst in ranks and arc.src not in ranks)
        pairs = zip(self._problem.collective.pre, self._problem.collective.post, strict=True)
        wanting = [len(post & ranks) for pre, post in pairs if post & ranks and not pre & ranks]
        if not entering or not wanting:
            return None
        inside: dict[int, set[int]] = {r: set() for r in ranks}
        for arc in arcs:
            if arc.src in ranks and arc.dst in ranks:
                inside[arc.src].add(arc.dst)
        copies = 1 if self._problem.exclusive_reduction else max(map(len, inside.values()))
        capacity = self._coverer.cover(entering).capacity
        return Region(tuple(sorted(ranks)), entering, capacity, min(wanting), copies)

    @cached_property
    def _members(self) -> npt.NDArray[np.float32]:
        """Ranks x regions."""
        members = np.zeros((self._problem.ranks, len(self.regions)), dtype=np.float32)
        for i, region in enumerate(self.regions):
            members[list(region.ranks), i] = 1.0
        return members

    @cached_property
    def _wanted(self) -> Bools:
        """Chunks x regions."""
        asked: Bools = self.wants.astype(np.float32) @ self._members > 0
        return asked

    def lacking(self, holds: Bools) -> Bools:
        """Chunks x regions: wanted there and held by none of its ranks. ``holds``: chunks x ranks."""
        lacking: Bools = self._wanted & ~(holds.astype(np.float32) @ self._members > 0)
        return lacking

    def broken(self, holds: Bools, rest: int) -> list[int]:
        """The regions that lack more than can still enter them in ``rest`` steps."""
        counts = self.lacking(holds).sum(axis=0).tolist()
        return [i for i, region in enumerate(self.regions) if counts[i] and counts[i] > region.limit(rest)]
