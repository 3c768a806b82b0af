"""Clauses of a query that hold in one of several equivalent schedules.

In: a problem, the transfers that can happen at all, a clause over them. Out: whether the clause follows when, of a
schedule and its images under exchanges of two ranks or two chunks, only the first is looked at: the one that is
greatest when its transfers are read as bits, by step, chunk and link. Every exchange maps links to links,
resources to resources and chunks to chunks, which is checked here, so images of schedules are schedules; one
schedule of each kind is the greatest of all its images at once, so all such clauses together lose nothing. Shares
no code with what makes these clauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from hetesynth.model.problem import Problem

Send = tuple[int, int, int]  # chunk, link, step
Mapping = tuple[tuple[int, ...], tuple[int, ...]]  # of chunks, of links
LONGEST = 8  # transfers compared


@dataclass
class Symmetries:
    """``possible``: whether a transfer can be part of a schedule of ``steps`` steps at all."""

    problem: Problem
    steps: int
    possible: Callable[[int, int, int], bool]
    _maps: dict[tuple[str, int, int], Mapping | None] = field(default_factory=dict)
    _moved: dict[Mapping, list[Send]] = field(default_factory=dict)

    def allow(self, yes: set[Send], no: set[Send]) -> bool:
        """Whether the clause that one of ``yes`` happens, or one of ``no`` does not, loses no schedule."""
        return any(self._first_difference(mapping, yes, no) for mapping in self._candidates(yes, no))

    def _candidates(self, yes: set[Send], no: set[Send]) -> Iterator[Mapping]:
        """Exchanges that could have led to the clause."""
        arcs, pre = self.problem.arcs, self.problem.collective.pre
        pairs: set[tuple[str, int, int]] = set()
        for send in sorted(yes):
            for image in sorted(no):
                a, b = arcs[send[1]], arcs[image[1]]
                pairs |= {
                    ("ranks", a.src, b.src),
                    ("ranks", a.dst, b.dst),
                    ("chunks", send[0], image[0]),
                }
                if len(pre[send[0]]) == len(pre[image[0]]) == 1:
                    (first,), (second,) = pre[send[0]], pre[image[0]]
                    pairs.add(("ranks", first, second))
        for kind, first, second in sorted((kind, min(u, v), max(u, v)) for kind, u, v in pairs):
            key = kind, first, second
            if key not in self._maps:
                self._maps[key] = self._ranks(first, second) if kind == "ranks" else self._chunks(first, second)
            mapping = self._maps[key]
            if mapping is not None:
                yield mapping

    def _chunks(self, chunk: int, other: int) -> Mapping | None:
        collective = self.problem.collective
        if (collective.pre[chunk], collective.post[chunk]) != (collective.pre[other], collective.post[other]):
            return None
        chunks = list(range(len(collective.chunks)))
        chunks[chunk], chunks[other] = other, chunk
        return tuple(chunks), tuple(range(len(self.problem.arcs)))

    def _ranks(self, rank: int, other: int) -> Mapping | None:
        """None unless everything looks the same after the exchange."""
        problem = self.problem
        new = list(range(problem.ranks))
        new[rank], new[other] = other, rank
        links = _matched([(a.src, a.dst) for a in problem.arcs], [(new[a.src], new[a.dst]) for a in problem.arcs])
        starts = list(zip(problem.collective.pre, problem.collective.post, strict=True))
        moved = [(frozenset(new[r] for r in pre), frozenset(new[r] for r in post)) for pre, post in starts]
        chunks = _matched(starts, moved)
        if links is None or chunks is None:
            return None
        before = Counter((frozenset(r.arcs), r.capacity) for r in problem.resources)
        after = Counter((frozenset(links[a] for a in r.arcs), r.capacity) for r in problem.resources)
        return (chunks, links) if before == after else None

    def _first_difference(self, mapping: Mapping, yes: set[Send], no: set[Send]) -> bool:
        """As long as transfers and images agree, the next transfer happens or its image does not."""
        chunks, links = mapping
        for send in self._first_moved(mapping):
            image = chunks[send[0]], links[send[1]], send[2]
            if send in yes and image in no:
                return True
            if send not in yes and image not in no:
                return False
        return False

    def _first_moved(self, mapping: Mapping) -> list[Send]:
        if mapping not in self._moved:
            chunks, links = mapping
            moved = (
                (k, a, t)
                for t in range(self.steps)
                for k in range(len(chunks))
                for a in range(len(links))
                if (chunks[k], links[a]) > (k, a) and self.possible(k, a, t)  # the smaller are images of these
            )
            self._moved[mapping] = list(islice(moved, LONGEST))
        return self._moved[mapping]


def _matched(things: Sequence[Hashable], images: Sequence[Hashable]) -> tuple[int, ...] | None:
    """A one-to-one map of indices that takes each thing to an equal of its image; None when there is none.

    Equals are taken in their order, so that of an exchange the map is its own inverse."""
    unused: dict[Hashable, list[int]] = {}
    for i in reversed(range(len(things))):
        unused.setdefault(things[i], []).append(i)
    matched: list[int] = []
    for image in images:
        if not unused.get(image):
            return None
        matched.append(unused[image].pop())
    return tuple(matched)
