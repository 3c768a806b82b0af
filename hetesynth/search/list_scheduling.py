"""Fixed routes to a schedule: list scheduling in steps, under all capacity laws (Graham 1966).

In: a copying problem and, for every chunk, the deliveries of a tree from one of its holders. Out: a schedule in
which every transfer starts as soon as its sender holds the chunk and there is room. Of those that compete, arcs
take turns, each with the chunk that has the longest path behind it.

The step LP (``trees.packed_trees``) is no list scheduling: it chooses all deliveries of a step together. In
seconds (``timed.list_scheduling``) resources have times when they are free and there are no steps.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence

from hetesynth.errors import InternalError
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem, Routes

Tree = list[tuple[int, int, int]]  # (sender, receiver, arc), senders before receivers


class StepRoom:
    """What one step still carries."""

    def __init__(self, tables: CopyProblem) -> None:
        self.uses = tables.resources_of
        self.exclusive = tables.problem.exclusive_reduction
        self.left = [r.capacity for r in tables.resources]
        self.sending: set[tuple[int, int]] = set()  # (chunk, rank) that sends it in this step

    def fits(self, arc: int) -> bool:
        """Whether ``arc`` carries one chunk more."""
        left = self.left
        return all(left[r] > 0 for r in self.uses[arc])

    def may_send(self, chunk: int, rank: int) -> bool:
        """Whether ``rank`` may send ``chunk``: with exclusive reductions to one peer a step (eq. 8)."""
        return not self.exclusive or (chunk, rank) not in self.sending

    def book(self, chunk: int, rank: int, arc: int) -> None:
        """``rank`` sends ``chunk`` over ``arc``."""
        self.sending.add((chunk, rank))
        for r in self.uses[arc]:
            self.left[r] -= 1


class Deliveries:
    """Those of trees, numbered tree after tree, senders before receivers.

    ``all``: (chunk, sender, arc). ``parent``: what makes each possible, -1: the start; ``below``: those
    that each makes possible; ``height``: how many the longest path behind each has.
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.all: list[tuple[int, int, int]] = []
        self.below: dict[int, list[int]] = {-1: []}
        self.parent: list[int] = []
        for k, tree in enumerate(trees):
            brought: dict[int, int] = {}
            for u, v, a in tree:
                number = len(self.parent)
                self.all.append((k, u, a))
                self.parent.append(brought.get(u, -1))
                self.below[number] = []
                self.below[self.parent[number]].append(number)
                brought[v] = number
        self.height = [0] * len(self.parent)
        for i in range(len(self.parent) - 1, -1, -1):
            if self.parent[i] >= 0:
                self.height[self.parent[i]] = max(self.height[self.parent[i]], self.height[i] + 1)


def list_schedule(
    tables: CopyProblem, routes: Routes, ended: Callable[[], bool] = lambda: False
) -> Schedule | None:
    """The schedule of ``routes``, arcs in turn; None when ``ended`` says so, which is asked before each step."""
    arcs = tables.problem.arcs
    trees: list[Tree] = []
    for route, origins in zip(routes, tables.problem.collective.pre, strict=True):
        leaving: dict[int, list[int]] = defaultdict(list)
        for a in route:
            leaving[arcs[a].src].append(a)
        tree: Tree = []
        stack = [a for rank in sorted(origins) for a in leaving.get(rank, ())]
        while stack and len(tree) <= len(route):
            a = stack.pop()
            tree.append((arcs[a].src, arcs[a].dst, a))
            stack += leaving.get(arcs[a].dst, ())
        if len(tree) != len(route):
            raise InternalError("routes that are no tree")
        trees.append(tree)
    deliveries = Deliveries(trees)
    ready: dict[int, list[tuple[int, int]]] = defaultdict(list)  # arc -> (-height, delivery), sorted
    transfers: list[Transfer] = []
    released, step = deliveries.below[-1], 0
    while len(transfers) < len(deliveries.all):
        for i in released:
            insort(ready[deliveries.all[i][2]], (-deliveries.height[i], i))
        if ended():
            return None
        room, sent = StepRoom(tables), list[int]()
        waiting = sorted((a for a, queue in ready.items() if queue), key=lambda a: (ready[a][0][0], a))
        while waiting:  # in turn a chunk for every arc with room, until there is none
            again = []
            for a in waiting:
                queue = ready[a] if room.fits(a) else []
                for place, (_, i) in enumerate(queue):
                    if room.may_send(*deliveries.all[i][:2]):
                        del queue[place]
                        sent.append(i)
                        room.book(*deliveries.all[i])
                        if queue:
                            again.append(a)
                        break
            waiting = again
        if not sent:
            raise InternalError("routes that do not hang together")
        transfers += [Transfer(step, step + 1, deliveries.all[i][0], deliveries.all[i][2]) for i in sent]
        released = [j for i in sent for j in deliveries.below[i]]
        step += 1
    return Schedule.of(transfers, step)


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
