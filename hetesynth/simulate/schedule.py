"""A schedule as tasks: every transfer is one, and waits for what it sends.

In: a schedule, costs, what a step means. Out: tasks for any chunk size; task i is transfer i.
Knows nothing of channels, thread blocks and FIFOs: simulate.program does.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from hetesynth.model.cost import Costs
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.simulate.graph_builder import SizedTasks, TaskList

StepReading = Literal["data", "order", "barrier"]
STEP_READINGS: tuple[StepReading, ...] = get_args(StepReading)


def schedule_tasks(schedule: Schedule, costs: Costs, steps: StepReading = "data") -> SizedTasks:
    """The tasks of ``schedule``; the first ``len(schedule.transfers)`` are its transfers in their order.

    A transfer waits for all that brought the chunk to its sender in earlier ticks. ``steps``: what more it waits
    for: ``data`` nothing, ``order`` the transfers of earlier ticks that share a resource with it, ``barrier`` all
    of earlier ticks. A reduction takes gamma x bytes of the receiver after the last byte (HeteCCL 4.2: tau_c).

    Raises ValueError when the schedule uses links that ``costs`` does not have.
    """
    if any(t.link >= len(costs.link_ends) for t in schedule.transfers):
        raise ValueError("the schedule is one of another topology")
    reads = _Reads(costs)
    shared: dict[StepReading, Callable[[Transfer], Sequence[int]]] = {
        "data": lambda _: (),
        "order": lambda t: costs.link_resources[t.link],
        "barrier": lambda _: (0,),
    }
    order = _Order(len(schedule.transfers), shared[steps])
    tasks = TaskList(costs)
    for index, t in enumerate(schedule.transfers):
        gamma = costs.gamma[costs.link_ends[t.link][1]] if t.reduce else 0.0
        tasks.send(t.link, 1.0, [*reads.before(t), *order.before(t)], after=gamma)
        reads.add(index, t)
        order.add(index, t)
    order.finish(tasks)
    return tasks.sized()


class _Reads:
    """Which transfers have brought a chunk to a rank so far; transfers come by start, then end."""

    def __init__(self, costs: Costs) -> None:
        self._ends = costs.link_ends
        self._brought: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def before(self, t: Transfer) -> list[int]:
        arrived = self._brought.get((t.chunk, self._ends[t.link][0]), ())
        return [index for end, index in arrived if end <= t.start]

    def add(self, index: int, t: Transfer) -> None:
        self._brought.setdefault((t.chunk, self._ends[t.link][1]), []).append((t.end, index))


class _Order:
    """What a transfer waits for besides its data: meeting points, numbered after the transfers.

    A meeting point ends when every transfer of its group that ended by its tick has ended.
    """

    def __init__(self, transfers: int, groups: Callable[[Transfer], Sequence[int]]) -> None:
        self._groups = groups
        self._next = transfers
        self._meetings: dict[tuple[int, int], int] = {}
        self._members: dict[int, list[tuple[int, int]]] = {}

    def before(self, t: Transfer) -> list[int]:
        waits = []
        for group in self._groups(t):
            members = self._members.get(group)
            if members is None or members[0][0] > t.start:
                continue
            if (group, t.start) not in self._meetings:
                self._meetings[group, t.start] = self._next
                self._next += 1
            waits.append(self._meetings[group, t.start])
        return waits

    def add(self, index: int, t: Transfer) -> None:
        for group in self._groups(t):
            insort(self._members.setdefault(group, []), (t.end, index))

    def finish(self, tasks: TaskList) -> None:
        """Create the meeting points: each waits for its group's last one and for what ended since."""
        last: dict[int, tuple[int, int]] = {}
        for (group, start), meeting in self._meetings.items():
            before, previous = last.get(group, (0, -1))
            members = self._members[group]
            upto = bisect_right(members, start, key=lambda member: member[0])
            waits = [index for _, index in members[before:upto]]
            tasks.local(0.0, waits if previous < 0 else [previous, *waits])
            last[group] = (upto, meeting)
