"""Fixed routes to a schedule: list scheduling in steps, under all capacity laws (Graham 1966).

In: a copying problem and, for every chunk, the deliveries of a tree from one of its holders. Out: a schedule in
which every transfer starts as soon as its sender holds the chunk and there is room. Of those that compete, arcs
take turns, each with the chunk that has the longest path behind it (``list_schedule``), or one delivery after the
other is placed in the first step with room (``Tasks``: serial schedule generation; Kolisch 1996).

The step LP (``trees.packed_trees``) is no list scheduling: it chooses all deliveries of a step together. In
seconds (``timed.list_scheduling``) resources have times when they are free and there are no steps.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem, Routes


class StepRoom:
    """The room that is left in one step."""

    def __init__(self, tables: CopyProblem) -> None:
        self.uses = tables.resources_of
        self.exclusive = tables.problem.exclusive_reduction
        self.left = [r.capacity for r in tables.resources]
        self.sending: set[tuple[int, int]] = set()  # (chunk, rank) that sends it in this step

    def fits(self, arc: int) -> bool:
        """Return True if ``arc`` carries one chunk more."""
        left = self.left
        return all(left[r] > 0 for r in self.uses[arc])

    def may_send(self, chunk: int, rank: int) -> bool:
        """Return True if ``rank`` may send ``chunk``: with exclusive reductions to one peer a step (eq. 8)."""
        return not self.exclusive or (chunk, rank) not in self.sending

    def book(self, chunk: int, rank: int, arc: int) -> None:
        """Take the room in which ``rank`` sends ``chunk`` over ``arc``."""
        self.sending.add((chunk, rank))
        for r in self.uses[arc]:
            self.left[r] -= 1


class Task(NamedTuple):
    """A delivery of ``chunk`` over ``arc``. ``reduce``: it is added; ``start``: its step in an older schedule."""

    chunk: int
    arc: int
    reduce: bool = False
    start: int = 0


@dataclass
class Tasks:
    """Deliveries, senders before receivers. ``before``, ``behind``: the deliveries that each waits for, and those
    that wait for it. Placing late is placing early with time and precedence turned around."""

    tables: CopyProblem
    tasks: Sequence[Task]

    def __post_init__(self) -> None:
        self.before: list[list[int]] = [[] for _ in self.tasks]
        self.behind: list[list[int]] = [[] for _ in self.tasks]
        arrivals: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, task in enumerate(self.tasks):
            arc = self.tables.problem.arcs[task.arc]
            for j in arrivals.get((task.chunk, arc.src), ()):
                self.before[i].append(j)
                self.behind[j].append(i)
            arrivals[task.chunk, arc.dst].append(i)

    @property
    def first(self) -> list[int]:
        """The deliveries that wait for no other."""
        return [i for i, others in enumerate(self.before) if not others]

    @cached_property
    def heights(self) -> list[int]:
        """The number of deliveries on the longest path behind each delivery."""
        height = [0] * len(self.tasks)
        for i in range(len(height) - 1, -1, -1):
            height[i] = max((height[j] + 1 for j in self.behind[i]), default=0)
        return height

    @cached_property
    def _sharing(self) -> list[tuple[int, int] | None]:
        """A key of each delivery, or None. Deliveries with one key are in different steps (HeteCCL eq. 8):
        additions to a chunk at a rank or, in the reversed problem, copies of a chunk from a rank."""
        problem, reduces = self.tables.problem, self.tables.problem.collective.reduces
        ranks = [arc.dst if reduces else arc.src for arc in problem.arcs]
        return [
            (t.chunk, ranks[t.arc]) if problem.exclusive_reduction and (t.reduce or not reduces) else None
            for t in self.tasks
        ]

    def early(self, urgency: Sequence[Any]) -> list[int]:
        """Return each delivery's step, as early as possible, the least ``urgency`` first of those that can go."""
        return self._placed(urgency, self.before, self.behind)

    def late(self, begin: Sequence[int]) -> list[int]:
        """Return the step of each delivery, as late as possible, the last to ``begin`` first."""
        turned = self._placed([-b for b in begin], self.behind, self.before)
        last = max(turned, default=0)
        return [last - step for step in turned]

    def _placed(
        self, urgency: Sequence[Any], before: Sequence[Sequence[int]], behind: Sequence[Sequence[int]]
    ) -> list[int]:
        capacity = [resource.capacity for resource in self.tables.resources]
        load: dict[tuple[int, int], int] = defaultdict(int)  # of a resource in a step
        full_until, shared = [0] * len(capacity), set[tuple[tuple[int, int], int]]()
        waiting = [len(others) for others in before]
        queue = [(urgency[i], i) for i, number in enumerate(waiting) if not number]
        heapify(queue)
        begin, ready = [0] * len(waiting), [0] * len(waiting)
        while queue:
            _, i = heappop(queue)
            uses, sharing = self.tables.resources_of[self.tasks[i].arc], self._sharing[i]
            step = max([ready[i], *(full_until[r] for r in uses)])
            while any(load[r, step] >= capacity[r] for r in uses) or (sharing, step) in shared:
                step += 1
            if sharing is not None:
                shared.add((sharing, step))
            for r in uses:
                load[r, step] += 1
                while load[r, full_until[r]] >= capacity[r]:
                    full_until[r] += 1
            begin[i] = step
            for j in behind[i]:
                ready[j] = max(ready[j], step + 1)
                waiting[j] -= 1
                if not waiting[j]:
                    heappush(queue, (urgency[j], j))
        return begin

    def schedule(self, begin: Sequence[int]) -> Schedule:
        """Return the schedule with each delivery in the step that ``begin`` gives it."""
        pairs = zip(self.tasks, begin, strict=True)
        return Schedule.of(Transfer(step, step + 1, t.chunk, t.arc, t.reduce) for t, step in pairs)


def list_schedule(
    tables: CopyProblem, routes: Routes, ended: Callable[[], bool] = lambda: False
) -> Schedule | None:
    """The schedule of ``routes``, arcs in turn; None when ``ended`` says so, which is asked before each step."""
    arcs = tables.problem.arcs
    tasks: list[Task] = []
    for k, (route, origins) in enumerate(zip(routes, tables.problem.collective.pre, strict=True)):
        leaving: dict[int, list[int]] = defaultdict(list)
        for a in route:
            leaving[arcs[a].src].append(a)
        stack = [a for rank in sorted(origins) for a in leaving.pop(rank, ())]
        while stack:
            tasks.append(Task(k, stack.pop()))
            stack += leaving.pop(arcs[tasks[-1].arc].dst, ())
    deliveries = Tasks(tables, tasks)
    ready: dict[int, list[tuple[int, int]]] = defaultdict(list)  # arc -> (-height, delivery), sorted
    transfers: list[Transfer] = []
    released, step = deliveries.first, 0
    while len(transfers) < len(tasks):
        for i in released:
            insort(ready[tasks[i].arc], (-deliveries.heights[i], i))
        if ended():
            return None
        room, sent = StepRoom(tables), list[int]()
        waiting = sorted((a for a, queue in ready.items() if queue), key=lambda a: (ready[a][0][0], a))
        while waiting:  # in turn a chunk for every arc with room, until there is none
            again = []
            for a in waiting:
                queue = ready[a] if room.fits(a) else []
                for place, (_, i) in enumerate(queue):
                    if room.may_send(tasks[i].chunk, arcs[a].src):
                        del queue[place]
                        sent.append(i)
                        room.book(tasks[i].chunk, arcs[a].src, a)
                        if queue:
                            again.append(a)
                        break
            waiting = again
        transfers += [Transfer(step, step + 1, tasks[i].chunk, tasks[i].arc) for i in sent]
        released = [j for i in sent for j in deliveries.behind[i]]
        step += 1
    return Schedule.of(transfers, step)
