"""Covering links by resources: how much a set of links can carry in a step, with the resources that say so."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from hetesynth.model.problem import Problem


@dataclass(frozen=True, slots=True)
class Cover:
    """Resources that together contain every link asked about; ``capacity`` is the sum of theirs."""

    resources: tuple[str, ...]
    capacity: int


class Coverer:
    """Finds small covers; built once per problem."""

    def __init__(self, problem: Problem) -> None:
        self.resources = problem.binding_resources
        self.of_arc: list[list[int]] = [[] for _ in problem.arcs]
        for r, resource in enumerate(self.resources):
            for a in resource.arcs:
                self.of_arc[a].append(r)

    def cover(self, arcs: Iterable[int]) -> Cover:
        """A cover of ``arcs`` by greedy weighted set cover: least capacity per newly covered link first."""
        open_arcs = set(arcs)
        news: dict[int, int] = {}
        for a in open_arcs:
            for r in self.of_arc[a]:
                news[r] = news.get(r, 0) + 1
        queue = [(self.resources[r].capacity / count, r, count) for r, count in sorted(news.items())]
        heapq.heapify(queue)
        chosen: list[int] = []
        while open_arcs:
            _, r, count = heapq.heappop(queue)
            now = sum(1 for a in self.resources[r].arcs if a in open_arcs)
            if now == 0:
                continue
            if now < count:
                heapq.heappush(queue, (self.resources[r].capacity / now, r, now))
                continue
            chosen.append(r)
            open_arcs.difference_update(self.resources[r].arcs)
        names = tuple(sorted(self.resources[r].name for r in chosen))
        return Cover(names, sum(self.resources[r].capacity for r in chosen))
