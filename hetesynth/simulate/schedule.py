"""A schedule as tasks: every transfer is one, and waits for what it sends."""

from __future__ import annotations

from bisect import bisect_right, insort

from hetesynth.model.cost import Costs
from hetesynth.model.runtime_costs import OURS
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.simulate.graph_builder import SizedTasks, TaskList


def schedule_tasks(schedule: Schedule, costs: Costs) -> SizedTasks:
    """The tasks of ``schedule``; the first ``len(schedule.transfers)`` are its transfers in their order.

    A transfer waits for all that brought the chunk to its sender in earlier ticks, and its bytes (not its alpha)
    for the bytes of earlier ticks on each of its resources. A reduction takes gamma x bytes of the receiver after
    the last byte (HeteCCL 4.2: tau_c). A schedule runs as some program, so it starts no sooner than a kernel with
    the protocol of our programs; how many thread blocks copy is not settled, and they are taken to suffice.

    Raises ValueError when the schedule uses links that ``costs`` does not have or is too large.
    """
    if any(t.link >= len(costs.link_ends) for t in schedule.transfers):
        raise ValueError("the schedule is one of another topology")
    tasks = TaskList(costs, costs.start(OURS))
    arrivals, earlier = _Arrivals(costs), _Earlier(tasks, costs)
    numbers = []
    for t in schedule.transfers:
        gamma = costs.gamma[costs.link_ends[t.link][1]] if t.reduce else 0.0
        delay = tasks.add(arrivals.before(t), alpha_of=t.link, units=0.0)
        numbers.append(tasks.add([delay, *earlier.before(t)], link=t.link))
        earlier.add(t, numbers[-1])
        arrivals.add(t, tasks.add(numbers[-1:], after=gamma) if gamma else numbers[-1])
    return tasks.sized(first=numbers)


class _Arrivals:
    """Which tasks brought a chunk to a rank; transfers come by start, so those that ended are there."""

    def __init__(self, costs: Costs) -> None:
        self._ends = costs.link_ends
        self._brought: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def before(self, t: Transfer) -> list[int]:
        arrived = self._brought.get((t.chunk, self._ends[t.link][0]), [])
        return [task for _, task in arrived[: bisect_right(arrived, t.start, key=lambda x: x[0])]]

    def add(self, t: Transfer, task: int) -> None:
        insort(self._brought.setdefault((t.chunk, self._ends[t.link][1]), []), (t.end, task))


class _Earlier:
    """Meeting points: one ends when all on a resource that ended by its tick have ended."""

    def __init__(self, tasks: TaskList, costs: Costs) -> None:
        self._tasks, self._resources = tasks, costs.link_resources
        self._members: dict[int, list[tuple[int, int]]] = {}
        self._last: dict[int, tuple[int, int, int]] = {}  # the last meeting point: its tick, task and members

    def before(self, t: Transfer) -> list[int]:
        meetings = []
        for group in self._resources[t.link]:
            tick, task, earlier = self._last.get(group, (-1, -1, 0))
            if tick != t.start:
                members = self._members.get(group, [])
                count = bisect_right(members, (t.start, len(self._tasks)))
                if count > earlier:
                    waits = [member for _, member in members[earlier:count]]
                    task = self._tasks.add(waits if task < 0 else [task, *waits])
                self._last[group] = (t.start, task, count)
            meetings += [task] if task >= 0 else []
        return meetings

    def add(self, t: Transfer, task: int) -> None:
        for group in self._resources[t.link]:
            insort(self._members.setdefault(group, []), (t.end, task))
