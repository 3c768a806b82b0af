"""Fixed routes to a schedule: list scheduling in steps, under all capacity laws (Graham 1966).

In: a copying problem and, for every chunk, the deliveries of a tree from one of its holders. Out: a schedule in
which every transfer starts as soon as its sender holds the chunk and there is room. Of those that compete, one of
two rules says which goes first:

- ``list_schedule``: arcs take turns, each with the chunk that has the longest path behind it. Priorities never
  change, so each arc keeps its own queue; for baselines.
- ``list_schedule_by_work``: what the most work waits for, computed anew in each step; for balanced trees, where a
  resource that falls behind is what costs steps.

The step LP (``trees.step_lp``) is no list scheduling: it chooses all deliveries of a step together. In seconds
(``timed.list_scheduling``) resources have times when they are free and there are no steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

import numpy as np

from hetesynth.errors import InternalError
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem, Routes

Tree = list[tuple[int, int, int]]  # (sender, receiver, arc), senders before receivers
Ended = Callable[[], bool]


def list_schedule(tables: CopyProblem, routes: Routes, ended: Ended = lambda: False) -> Schedule | None:
    """The schedule of ``routes``, arcs in turn; None when ``ended`` says so, which is asked before each step."""
    trees = [_tree(tables, route, pre) for route, pre in zip(routes, tables.problem.collective.pre, strict=True)]
    return _ArcsInTurn(tables, trees).run(ended)


def list_schedule_by_work(
    tables: CopyProblem,
    trees: Sequence[Tree],
    noise: float,
    rng: np.random.Generator,
    ended: Ended = lambda: False,
) -> Schedule | None:
    """The schedule of ``trees``, what the most work waits for first; None when ``ended`` says so. ``noise``: the
    share of a random change of priorities."""
    return _MostWorkFirst(tables, trees, noise, rng).run(ended)


def precedence(trees: Sequence[Tree]) -> tuple[dict[int, list[int]], list[int]]:
    """For each delivery those it makes possible, and the one that makes it possible; -1 is the start. Deliveries
    are numbered tree after tree, senders before receivers."""
    below: dict[int, list[int]] = {-1: []}
    parent: list[int] = []
    for tree in trees:
        brought: dict[int, int] = {}
        for u, v, _ in tree:
            number = len(parent)
            parent.append(brought.get(u, -1))
            below[number] = []
            below[parent[number]].append(number)
            brought[v] = number
    return below, parent


def heights(parent: Sequence[int]) -> list[int]:
    """For each delivery, how many deliveries the longest path behind it has."""
    height = [0] * len(parent)
    for i in range(len(parent) - 1, -1, -1):
        if parent[i] >= 0:
            height[parent[i]] = max(height[parent[i]], height[i] + 1)
    return height


class _StepRoom:
    """What one step still carries."""

    def __init__(self, tables: CopyProblem, capacity: Sequence[int]) -> None:
        self.uses = tables.resources_of
        self.exclusive = tables.problem.exclusive_reduction
        self.room = list(capacity)
        self.sending: set[tuple[int, int]] = set()  # (chunk, rank) that sends it in this step

    def has_room(self, arc: int) -> bool:
        room = self.room
        return all(room[r] for r in self.uses[arc])

    def may_send(self, chunk: int, rank: int) -> bool:
        return not self.exclusive or (chunk, rank) not in self.sending

    def book(self, chunk: int, rank: int, arc: int) -> None:
        self.sending.add((chunk, rank))
        for r in self.uses[arc]:
            self.room[r] -= 1


class _InSteps(ABC):
    """List scheduling, step by step. A rule says what a step carries."""

    def __init__(self, tables: CopyProblem, trees: Sequence[Tree]) -> None:
        self.tables = tables
        self.deliveries = [(k, u, a) for k, tree in enumerate(trees) for u, _, a in tree]
        self.below, self.parent = precedence(trees)
        self.capacity = [r.capacity for r in tables.resources]

    @abstractmethod
    def release(self, deliveries: Iterable[int]) -> None:
        """The senders of ``deliveries`` hold their chunks."""

    @abstractmethod
    def choose(self, room: _StepRoom) -> list[int]:
        """The deliveries of one step, which are booked and no longer ready."""

    def run(self, ended: Ended) -> Schedule | None:
        """The schedule, or None when it was ended."""
        transfers: list[Transfer] = []
        step = 0
        self.release(self.below[-1])
        while len(transfers) < len(self.deliveries):
            if ended():
                return None
            sent = self.choose(_StepRoom(self.tables, self.capacity))
            if not sent:
                raise InternalError("routes that do not hang together")
            for i in sent:
                k, _, a = self.deliveries[i]
                transfers.append(Transfer(step, step + 1, k, a))
            self.release(j for i in sent for j in self.below[i])
            step += 1
        return Schedule.of(transfers, step)


class _ArcsInTurn(_InSteps):
    """In turn a chunk for every arc with room, until there is none."""

    def __init__(self, tables: CopyProblem, trees: Sequence[Tree]) -> None:
        super().__init__(tables, trees)
        self.height = heights(self.parent)
        self.ready: dict[int, list[tuple[int, int]]] = defaultdict(list)  # arc -> heap of (-height, delivery)

    def release(self, deliveries: Iterable[int]) -> None:
        for i in deliveries:
            heappush(self.ready[self.deliveries[i][2]], (-self.height[i], i))

    def choose(self, room: _StepRoom) -> list[int]:
        sent: list[int] = []
        waiting = sorted((a for a, heap in self.ready.items() if heap), key=lambda a: (self.ready[a][0][0], a))
        while waiting:
            again = []
            for a in waiting:
                i = self._next(a, room) if room.has_room(a) else None
                if i is None:
                    continue
                sent.append(i)
                room.book(*self.deliveries[i])
                if self.ready[a]:
                    again.append(a)
            waiting = again
        return sent

    def _next(self, arc: int, room: _StepRoom) -> int | None:
        """The delivery that goes over ``arc`` now, taken out of its heap."""
        heap = self.ready[arc]
        postponed: list[tuple[int, int]] = []
        first: int | None = None
        while heap and first is None:
            entry = heappop(heap)
            k, u, _ = self.deliveries[entry[1]]
            if room.may_send(k, u):
                first = entry[1]
            else:
                postponed.append(entry)
        for entry in postponed:
            heappush(heap, entry)
        return first


class _MostWorkFirst(_InSteps):
    """All that fits, what the most work waits for first."""

    def __init__(self, tables: CopyProblem, trees: Sequence[Tree], noise: float, rng: np.random.Generator) -> None:
        super().__init__(tables, trees)
        self.factor = (1.0 + noise * rng.random(len(self.deliveries))).tolist()
        self.uses = [tables.resources_of[a] for _, _, a in self.deliveries]
        self.left = np.zeros(len(self.capacity))  # deliveries that each resource still has to carry
        for used in self.uses:
            for r in used:
                self.left[r] += 1
        self.done = [False] * len(self.deliveries)
        self.ready: set[int] = set()

    def release(self, deliveries: Iterable[int]) -> None:
        self.ready.update(deliveries)

    def choose(self, room: _StepRoom) -> list[int]:
        urgency, factor = self._urgencies(), self.factor
        sent: list[int] = []
        for i in sorted(self.ready, key=lambda i: (-urgency[i] * factor[i], i)):
            k, u, a = self.deliveries[i]
            if not room.has_room(a) or not room.may_send(k, u):
                continue
            room.book(k, u, a)
            self.done[i] = True
            for r in self.uses[i]:
                self.left[r] -= 1
            self.ready.discard(i)
            sent.append(i)
        return sent

    def _urgencies(self) -> list[float]:
        """For each delivery the longest wait it stands before: the steps that the busiest resource of it, or of a
        delivery below it, still takes, and a step for each link to there."""
        busy = (self.left / np.array(self.capacity, dtype=np.float64)).tolist()
        urgency = [0.0] * len(self.uses)
        for i in range(len(self.uses) - 1, -1, -1):
            if self.done[i]:
                continue
            urgency[i] = max([urgency[i], *(busy[r] for r in self.uses[i])])
            p = self.parent[i]
            if p >= 0:
                urgency[p] = max(urgency[p], urgency[i] + 1.0)
        return urgency


def _tree(tables: CopyProblem, route: Iterable[int], origins: frozenset[int]) -> Tree:
    """The arcs of a tree from ``origins``, senders before receivers."""
    arcs = tables.problem.arcs
    leaving: dict[int, list[int]] = defaultdict(list)
    number = 0
    for a in route:
        leaving[arcs[a].src].append(a)
        number += 1
    tree: Tree = []
    stack = [a for rank in sorted(origins) for a in leaving.get(rank, ())]
    while stack:
        a = stack.pop()
        tree.append((arcs[a].src, arcs[a].dst, a))
        stack += leaving.get(arcs[a].dst, ())
        if len(tree) > number:
            raise InternalError("routes that are no tree")
    if len(tree) < number:
        raise InternalError("routes that do not hang together")
    return tree
