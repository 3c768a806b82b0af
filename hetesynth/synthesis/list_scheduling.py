"""Fixed routes to a schedule: list scheduling under all capacity laws.

In: a copying problem and, for every chunk, the arcs of a tree from one of its holders. Out: a schedule in which
every transfer starts as soon as its sender holds the chunk and there is room; of those that compete, the one
with the longest way still before it goes first. Knows nothing of where the routes come from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from hetesynth.errors import InternalError
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.routes import Routes


def list_schedule(
    tables: CopyProblem, routes: Routes, ended: Callable[[], bool] = lambda: False
) -> Schedule | None:  # fmt: skip
    """The schedule of ``routes``; None when ``ended`` says so, which is asked before each step."""
    return _Scheduler(tables, routes).run(ended)


class _Scheduler:
    def __init__(self, tables: CopyProblem, routes: Routes) -> None:
        self.tables = tables
        self.below: list[dict[int, list[int]]] = []  # per chunk: rank -> arcs that leave it
        self.height: list[dict[int, int]] = []  # per chunk: arc -> arcs on the longest way from there on
        self.ready: dict[int, list[tuple[int, int]]] = defaultdict(list)  # arc -> heap of (-height, chunk)
        self.left = sum(len(route) for route in routes)
        for k, route in enumerate(routes):
            leaving: dict[int, list[int]] = defaultdict(list)
            for a in route:
                leaving[tables.problem.arcs[a].src].append(a)
            self.below.append(leaving)
            self.height.append(_heights(tables, leaving, tables.problem.collective.pre[k]))
            for rank in sorted(tables.problem.collective.pre[k]):
                self._holds(k, rank)

    def _holds(self, k: int, rank: int) -> None:
        for a in self.below[k].get(rank, ()):
            heappush(self.ready[a], (-self.height[k][a], k))

    def run(self, ended: Callable[[], bool]) -> Schedule | None:
        transfers: list[Transfer] = []
        step = 0
        while self.left:
            if ended():
                return None
            sent = self._step()
            if not sent:
                raise InternalError("routes that do not hang together")
            transfers += [Transfer(step, step + 1, k, a) for k, a in sent]
            for k, a in sent:
                self._holds(k, self.tables.problem.arcs[a].dst)
            self.left -= len(sent)
            step += 1
        return Schedule.of(transfers, step)

    def _step(self) -> list[tuple[int, int]]:
        """What one step carries: in turn a chunk for every arc with room, until there is none."""
        room = [r.capacity for r in self.tables.resources]
        once: set[tuple[int, int]] = set()
        sent: list[tuple[int, int]] = []
        waiting = sorted((a for a, heap in self.ready.items() if heap), key=lambda a: (self.ready[a][0][0], a))
        while waiting:
            again = []
            for a in waiting:
                k = self._next(a, once) if all(room[r] for r in self.tables.resources_of[a]) else None
                if k is None:
                    continue
                sent.append((k, a))
                once.add((k, self.tables.problem.arcs[a].src))
                for r in self.tables.resources_of[a]:
                    room[r] -= 1
                if self.ready[a]:
                    again.append(a)
            waiting = again
        return sent

    def _next(self, a: int, once: set[tuple[int, int]]) -> int | None:
        """The chunk that goes over ``a`` now, taken out of its heap."""
        heap, src = self.ready[a], self.tables.problem.arcs[a].src
        held_back: list[tuple[int, int]] = []
        chosen = None
        while heap and chosen is None:
            entry = heappop(heap)
            if self.tables.problem.exclusive_reduction and (entry[1], src) in once:
                held_back.append(entry)
            else:
                chosen = entry[1]
        for entry in held_back:
            heappush(heap, entry)
        return chosen


def _heights(tables: CopyProblem, leaving: Mapping[int, list[int]], origins: frozenset[int]) -> dict[int, int]:
    """For every arc of a tree, how many arcs the longest way that begins with it has."""
    arcs = tables.problem.arcs
    order: list[int] = []
    stack = [a for rank in sorted(origins) for a in leaving.get(rank, ())]
    while stack:
        a = stack.pop()
        order.append(a)
        stack += leaving.get(arcs[a].dst, ())
        if len(order) > len(arcs):
            raise InternalError("routes that are no tree")
    heights: dict[int, int] = {}
    for a in reversed(order):
        heights[a] = 1 + max((heights[b] for b in leaving.get(arcs[a].dst, ())), default=0)
    return heights
