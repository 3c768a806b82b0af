"""Pushing a schedule to one end: every delivery as early, or as late, as its chunk and the room allow.

In: a copying problem and a schedule of it that verifies. Out: one that verifies, of the same deliveries over the
same links in as many steps; the step at its other end is as empty as moving one delivery at a time makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem


@dataclass
class _Room:
    """What is left of every resource in every step, and who sent what to whom (eq. 8)."""

    tables: CopyProblem
    used: dict[tuple[int, int], int] = field(default_factory=dict)
    sent: set[tuple[int, int, int]] = field(default_factory=set)

    def take(self, chunk: int, arc: int, step: int) -> bool:
        """Use ``arc`` in ``step`` if there is room."""
        resources = self.tables.resources_of[arc]
        sending = (chunk, self.tables.problem.arcs[arc].src, step)
        if self.tables.problem.exclusive_reduction and sending in self.sent:
            return False
        if any(self.used.get((r, step), 0) >= self.tables.resources[r].capacity for r in resources):
            return False
        self.sent.add(sending)
        for r in resources:
            self.used[r, step] = self.used.get((r, step), 0) + 1
        return True


def early(tables: CopyProblem, schedule: Schedule) -> Schedule:
    """Every delivery as early as possible, in the order of the schedule."""
    problem, room = tables.problem, _Room(tables)
    ready = {(k, r): 0 for k, pre in enumerate(problem.collective.pre) for r in pre}
    moved: list[Transfer] = []
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        at = next(s for s in range(ready[t.chunk, arc.src], t.start + 1) if room.take(t.chunk, t.link, s))
        ready[t.chunk, arc.dst] = at + 1
        moved.append(Transfer(at, at + 1, t.chunk, t.link))
    return Schedule.of(moved, schedule.makespan)


def late(tables: CopyProblem, schedule: Schedule) -> Schedule:
    """Every delivery as late as possible, in the reverse order of the schedule."""
    problem, room = tables.problem, _Room(tables)
    due: dict[tuple[int, int], int] = {}
    moved: list[Transfer] = []
    for t in reversed(schedule.transfers):
        arc = problem.arcs[t.link]
        last = due.get((t.chunk, arc.dst), schedule.makespan) - 1
        at = next(s for s in range(last, t.start - 1, -1) if room.take(t.chunk, t.link, s))
        due[t.chunk, arc.src] = min(at, due.get((t.chunk, arc.src), schedule.makespan))
        moved.append(Transfer(at, at + 1, t.chunk, t.link))
    return Schedule.of(moved, schedule.makespan)


def without_step(
    problem: Problem, schedule: Schedule, step: int
) -> tuple[dict[tuple[int, int], tuple[int, int]], set[tuple[int, int]]]:
    """Where each (chunk, rank) is delivered, as (link, step), when ``step`` is cut out; and what it delivered."""
    placed: dict[tuple[int, int], tuple[int, int]] = {}
    cut: set[tuple[int, int]] = set()
    for t in schedule.transfers:
        delivery = (t.chunk, problem.arcs[t.link].dst)
        if t.start == step:
            cut.add(delivery)
        else:
            placed[delivery] = (t.link, t.start - (t.start > step))
    return placed, cut
