"""Fixed routes to a schedule: list scheduling in steps, under all capacity laws (Graham 1966).

In: a copying problem and, for every chunk, the deliveries of a tree from one of its holders. Out: a schedule in
which every transfer starts as soon as its sender holds the chunk and there is room. Of those that compete, one of
two rules says which goes first:

- ``list_schedule``: arcs take turns, each with the chunk that has the longest path behind it. Priorities never
change, so each arc keeps its own queue; for baselines. - ``list_schedule_by_work``: what the most work waits for,
computed anew in each step; for balanced trees, where a resource that falls behind is what costs steps.

The step LP (``trees.packed_trees``) is no list scheduling: it chooses all deliveries of a step together. In
seconds (``timed.list_scheduling``) resources have times when they are free and there are no steps.
"""

from __future__ import annotations

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
    below, parent = precedence(trees)
    deliveries = [(k, u, a) for k, tree in enumerate(trees) for u, _, a in tree]
    height = heights(parent)
    ready: dict[int, list[tuple[int, int]]] = defaultdict(list)  # arc -> heap of (-height, delivery)

    def release(released: Iterable[int]) -> None:
        for i in released:
            heappush(ready[deliveries[i][2]], (-height[i], i))

    def first_of(arc: int, room: _StepRoom) -> int | None:
        """Take out of its heap the delivery that goes over ``arc`` now."""
        postponed: list[tuple[int, int]] = []
        first: int | None = None
        while ready[arc] and first is None:
            entry = heappop(ready[arc])
            if room.may_send(*deliveries[entry[1]][:2]):
                first = entry[1]
            else:
                postponed.append(entry)
        for entry in postponed:
            heappush(ready[arc], entry)
        return first

    def choose(room: _StepRoom) -> list[int]:
        """In turn a chunk for every arc with room, until there is none."""
        sent: list[int] = []
        waiting = sorted((a for a, heap in ready.items() if heap), key=lambda a: (ready[a][0][0], a))
        while waiting:
            again = []
            for a in waiting:
                i = first_of(a, room) if room.has_room(a) else None
                if i is not None:
                    sent.append(i)
                    room.book(*deliveries[i])
                    if ready[a]:
                        again.append(a)
            waiting = again
        return sent

    return _in_steps(tables, deliveries, below, release, choose, ended)


def list_schedule_by_work(
    tables: CopyProblem,
    trees: Sequence[Tree],
    noise: float,
    rng: np.random.Generator,
    ended: Ended = lambda: False,
) -> Schedule | None:
    """The schedule of ``trees``, what the most work waits for first; None when ``ended`` says so. ``noise``: the
    share of a random change of priorities."""
    below, parent = precedence(trees)
    deliveries = [(k, u, a) for k, tree in enumerate(trees) for u, _, a in tree]
    factor = (1.0 + noise * rng.random(len(deliveries))).tolist()
    uses = [tables.resources_of[a] for _, _, a in deliveries]
    capacity = np.array([r.capacity for r in tables.resources], dtype=np.float64)
    left = np.zeros(len(capacity))  # deliveries that each resource still has to carry
    for used in uses:
        for r in used:
            left[r] += 1
    done = [False] * len(deliveries)
    ready: set[int] = set()

    def urgencies() -> list[float]:
        """For each delivery the longest wait it stands before: the steps that the busiest resource of it, or of a
        delivery below it, still takes, and a step for each link to there."""
        busy = (left / capacity).tolist()
        urgency = [0.0] * len(uses)
        for i in range(len(uses) - 1, -1, -1):
            if not done[i]:
                urgency[i] = max([urgency[i], *(busy[r] for r in uses[i])])
                p = parent[i]
                if p >= 0:
                    urgency[p] = max(urgency[p], urgency[i] + 1.0)
        return urgency

    def choose(room: _StepRoom) -> list[int]:
        urgency = urgencies()
        sent: list[int] = []
        for i in sorted(ready, key=lambda i: (-urgency[i] * factor[i], i)):
            k, u, a = deliveries[i]
            if room.has_room(a) and room.may_send(k, u):
                room.book(k, u, a)
                done[i] = True
                for r in uses[i]:
                    left[r] -= 1
                ready.discard(i)
                sent.append(i)
        return sent

    return _in_steps(tables, deliveries, below, ready.update, choose, ended)


def _in_steps(
    tables: CopyProblem,
    deliveries: Sequence[tuple[int, int, int]],
    below: dict[int, list[int]],
    release: Callable[[Iterable[int]], None],
    choose: Callable[[_StepRoom], list[int]],
    ended: Ended,
) -> Schedule | None:
    """A schedule, step by step: ``release`` hears of deliveries whose senders hold their chunks, ``choose`` books
    those of a step."""
    transfers: list[Transfer] = []
    step = 0
    release(below[-1])
    while len(transfers) < len(deliveries):
        if ended():
            return None
        sent = choose(_StepRoom(tables))
        if not sent:
            raise InternalError("routes that do not hang together")
        transfers += [Transfer(step, step + 1, deliveries[i][0], deliveries[i][2]) for i in sent]
        release(j for i in sent for j in below[i])
        step += 1
    return Schedule.of(transfers, step)


class _StepRoom:
    """What one step still carries."""

    def __init__(self, tables: CopyProblem) -> None:
        self.uses = tables.resources_of
        self.exclusive = tables.problem.exclusive_reduction
        self.room = [r.capacity for r in tables.resources]
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


class Room:
    """What every resource carries in every step so far, for deliveries that are placed one after the other."""

    def __init__(self, capacity: Sequence[int]) -> None:
        self.capacity = capacity
        self.load: list[list[int]] = [[] for _ in capacity]
        self.full_until = [0] * len(capacity)
        self.shared: set[tuple[int, int, int]] = set()

    def take(self, uses: Sequence[int], ready: int, sharing: tuple[int, int] | None) -> int:
        """The first step from ``ready`` on that has room, which is then used. Deliveries that are ``sharing`` the
        same are in different steps."""
        load, capacity = self.load, self.capacity
        step = max([ready, *(self.full_until[r] for r in uses)])
        while any(step < len(load[r]) and load[r][step] >= capacity[r] for r in uses) or (
            sharing is not None and (*sharing, step) in self.shared
        ):
            step += 1
        if sharing is not None:
            self.shared.add((*sharing, step))
        for r in uses:
            row = load[r]
            row.extend([0] * (step + 1 - len(row)))
            row[step] += 1
            while self.full_until[r] < len(row) and row[self.full_until[r]] >= capacity[r]:
                self.full_until[r] += 1
        return step


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


def _tree(tables: CopyProblem, route: Sequence[int], origins: frozenset[int]) -> Tree:
    """The arcs of a tree from ``origins``, senders before receivers."""
    arcs = tables.problem.arcs
    leaving: dict[int, list[int]] = defaultdict(list)
    for a in route:
        leaving[arcs[a].src].append(a)
    tree: Tree = []
    stack = [a for rank in sorted(origins) for a in leaving.get(rank, ())]
    while stack:
        a = stack.pop()
        tree.append((arcs[a].src, arcs[a].dst, a))
        stack += leaving.get(arcs[a].dst, ())
        if len(tree) > len(route):
            raise InternalError("routes that are no tree")
    if len(tree) < len(route):
        raise InternalError("routes that do not hang together")
    return tree
