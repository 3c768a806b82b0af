"""Deliveries in steps: each as early, or as late, as its chunk and the room of its resources allow.

In: the deliveries of all chunks, senders before receivers, and an urgency for each. Out: the step of each (serial
schedule generation; Kolisch 1996). Late is early with time and precedence turned around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem


@dataclass(frozen=True, slots=True)
class Task:
    """Chunk ``chunk`` over link ``arc``. ``reduce``: it is added; ``start``: of the old schedule."""

    chunk: int
    arc: int
    reduce: bool
    start: int


@dataclass
class Tasks:
    """Deliveries, senders before receivers, with what each waits for."""

    tables: CopyProblem
    tasks: Sequence[Task]

    def __post_init__(self) -> None:
        problem = self.tables.problem
        self.before: list[list[int]] = [[] for _ in self.tasks]
        self.behind: list[list[int]] = [[] for _ in self.tasks]
        arrivals: dict[tuple[int, int], list[int]] = {}
        for i, task in enumerate(self.tasks):
            arc = problem.arcs[task.arc]
            for j in arrivals.get((task.chunk, arc.src), ()):
                self.before[i].append(j)
                self.behind[j].append(i)
            arrivals.setdefault((task.chunk, arc.dst), []).append(i)
        self.uses = [self.tables.resources_of[task.arc] for task in self.tasks]
        self.capacity = [resource.capacity for resource in self.tables.resources]
        self.sharing = [self._sharing(task) for task in self.tasks]

    def _sharing(self, task: Task) -> tuple[int, int] | None:
        """Deliveries that share this are in different steps (HeteCCL eq. 8): additions to a chunk at a rank, or,
        of the reversed problem, copies of a chunk from one."""
        problem = self.tables.problem
        if not problem.exclusive_reduction or (problem.collective.reduces and not task.reduce):
            return None
        arc = problem.arcs[task.arc]
        return task.chunk, arc.dst if problem.collective.reduces else arc.src

    def heights(self) -> list[int]:
        """For each delivery, how many the longest path behind it has."""
        height = [0] * len(self.tasks)
        for i in range(len(height) - 1, -1, -1):
            height[i] = max((height[j] + 1 for j in self.behind[i]), default=0)
        return height

    def early(self, urgency: Sequence[float]) -> list[int]:
        """The step of each, as early as possible, the least ``urgency`` first of those that can go."""
        return self._placed(urgency, self.before, self.behind)

    def late(self, begin: Sequence[float]) -> list[int]:
        """The same as late as possible, what began last first."""
        turned = self._placed([-b for b in begin], self.behind, self.before)
        last = max(turned, default=0)
        return [last - step for step in turned]

    def _placed(
        self, urgency: Sequence[float], before: Sequence[Sequence[int]], behind: Sequence[Sequence[int]]
    ) -> list[int]:  # fmt: skip
        room = _Room(self.capacity)
        waiting = [len(others) for others in before]
        queue: list[tuple[float, int]] = []
        for i, number in enumerate(waiting):
            if not number:
                heappush(queue, (urgency[i], i))
        step, ready = [0] * len(waiting), [0] * len(waiting)
        while queue:
            _, i = heappop(queue)
            step[i] = room.take(self.uses[i], ready[i], self.sharing[i])
            for j in behind[i]:
                ready[j] = max(ready[j], step[i] + 1)
                waiting[j] -= 1
                if not waiting[j]:
                    heappush(queue, (urgency[j], j))
        return step

    def schedule(self, begin: Sequence[int]) -> Schedule:
        """With each delivery in its step."""
        return Schedule.of(
            Transfer(step, step + 1, task.chunk, task.arc, task.reduce)
            for task, step in zip(self.tasks, begin, strict=True)
        )


class _Room:
    """What every resource carries in every step so far."""

    def __init__(self, capacity: Sequence[int]) -> None:
        self.capacity = capacity
        self.load: list[list[int]] = [[] for _ in capacity]
        self.full_until = [0] * len(capacity)
        self.shared: set[tuple[int, int, int]] = set()

    def take(self, uses: Sequence[int], ready: int, sharing: tuple[int, int] | None) -> int:
        """The first step from ``ready`` on that has room, which is then used."""
        load, capacity = self.load, self.capacity
        step = ready
        for r in uses:
            if self.full_until[r] > step:
                step = self.full_until[r]
        while any(step < len(load[r]) and load[r][step] >= capacity[r] for r in uses) or (
            sharing is not None and (*sharing, step) in self.shared
        ):
            step += 1
        if sharing is not None:
            self.shared.add((*sharing, step))
        for r in uses:
            row = load[r]
            if len(row) <= step:
                row.extend([0] * (step + 1 - len(row)))
            row[step] += 1
            while self.full_until[r] < len(row) and row[self.full_until[r]] >= capacity[r]:
                self.full_until[r] += 1
        return step
