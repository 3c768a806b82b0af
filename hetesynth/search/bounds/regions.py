"""Candidate regions for cuts: single ranks, and groups of ranks joined by wide links (servers, modules)."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.search.copy_problem import CopyProblem, grouped


@dataclass(frozen=True, slots=True)
class Cover:
    """Resources that together contain every link asked about; ``capacity`` is the sum of theirs."""

    resources: tuple[str, ...]
    capacity: int


class Coverer:
    """Finds small covers; built once per problem."""

    def __init__(self, problem: Problem) -> None:
        self.resources = problem.binding_resources
        self.of_arc = CopyProblem(problem).resources_of
        self.arcs_of = [frozenset(resource.arcs) for resource in self.resources]
        ends = [[problem.arcs[a] for a in resource.arcs] for resource in self.resources]
        self.at_receiver = [len({arc.dst for arc in arcs}) <= len({arc.src for arc in arcs}) for arcs in ends]

    def cover(self, arcs: Iterable[int]) -> Cover:
        """The least of three covers of ``arcs``: any resources, those at receivers first, at senders first."""
        uncovered = sorted(set(arcs))
        covers = [self._greedy(uncovered, preferred) for preferred in (None, True, False)]
        return min(covers, key=lambda c: c.capacity)

    def _greedy(self, arcs: list[int], receivers: bool | None) -> Cover:
        """Greedy weighted set cover, least capacity per newly covered arc first; then what is redundant goes."""
        open_arcs = set(arcs)
        touching = dict.fromkeys(r for a in arcs for r in self.of_arc[a])
        newly_covered = {r: len(open_arcs & self.arcs_of[r]) for r in touching}

        def rank(r: int, count: int) -> tuple[bool, float, int, int]:
            other_side = receivers is not None and self.at_receiver[r] is not receivers
            return other_side, self.resources[r].capacity / count, r, count

        queue = [rank(r, count) for r, count in sorted(newly_covered.items())]
        heapq.heapify(queue)
        cover: list[int] = []
        while open_arcs:
            *_, r, count = heapq.heappop(queue)
            now = len(open_arcs & self.arcs_of[r])
            if now == 0:
                continue
            if now < count:
                heapq.heappush(queue, rank(r, now))
                continue
            cover.append(r)
            open_arcs -= self.arcs_of[r]
        within = set(arcs)
        carried = {r: within & self.arcs_of[r] for r in cover}
        covered = Counter(chain.from_iterable(carried.values()))
        kept: list[int] = []
        for r in sorted(cover, key=lambda r: (-self.resources[r].capacity, r)):
            if all(covered[a] > 1 for a in carried[r]):
                covered.subtract(carried[r])
            else:
                kept.append(r)
        names = tuple(sorted(self.resources[r].name for r in kept))
        return Cover(names, sum(self.resources[r].capacity for r in kept))


Region = tuple[Rank, ...]


def partitions(problem: Problem) -> list[list[Region]]:
    """Partitions of the ranks, finest first: into single ranks, then into the components that remain when only
    links of at least a given capacity are kept, for each capacity. The trivial partition is left out."""
    levels = sorted({arc.capacity for arc in problem.arcs}, reverse=True)[:12]
    distinct: list[list[Region]] = [[(r,) for r in range(problem.ranks)]] if problem.ranks > 1 else []
    for level in levels:
        wide = ((arc.src, arc.dst) for arc in problem.arcs if arc.capacity >= level)
        parts = components(problem.ranks, wide)
        if len(parts) > 1 and parts not in distinct:
            distinct.append(parts)
    return distinct


def components(ranks: int, pairs: Iterable[tuple[Rank, Rank]]) -> list[Region]:
    """Return the sets of ranks that ``pairs``, taken in both directions, join, in the order of first ranks."""
    leader = list(range(ranks))

    def find(r: int) -> int:
        while leader[r] != r:
            leader[r] = leader[leader[r]]
            r = leader[r]
        return r

    for u, v in pairs:
        a, b = find(u), find(v)
        leader[max(a, b)] = min(a, b)
    return [tuple(part) for part in grouped(map(find, range(ranks))).values()]
