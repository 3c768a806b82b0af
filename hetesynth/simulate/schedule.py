"""A schedule as tasks: every transfer is one, and waits for what it sends."""

from bisect import bisect_right, insort
from collections import defaultdict
from math import inf

from hetesynth.model.cost import Costs
from hetesynth.model.schedule import Schedule
from hetesynth.simulate.graph_builder import SizedTasks, TaskList


def schedule_tasks(schedule: Schedule, costs: Costs) -> SizedTasks:
    """The tasks of ``schedule``; the first ``len(schedule.transfers)`` are its transfers in their order.

    A transfer waits for all that brought the chunk to its sender in earlier ticks, and its bytes (not its alpha)
    for the bytes of earlier ticks on each of its resources. A reduction takes gamma x bytes of the receiver after
    the last byte (HeteCCL 4.2: tau_c). A schedule runs as some program, so it starts no sooner than a kernel with
    the protocol that starts first; how many thread blocks copy is not settled, and they are taken to suffice.

    Raises ValueError when the schedule uses links that ``costs`` does not have or is too large.
    """
    if any(t.link >= len(costs.link_ends) for t in schedule.transfers):
        raise ValueError("the schedule is one of another topology")
    tasks = TaskList(costs, costs.launch)
    arrivals: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # (end, task) by chunk and rank
    users: dict[int, list[tuple[int, int]]] = defaultdict(list)  # the same by resource
    meetings: dict[int, tuple[int, int, int]] = {}  # of a resource the last: its tick, task (-1: none) and users
    numbers = []
    for t in schedule.transfers:
        src, dst = costs.link_ends[t.link]
        brought = arrivals[t.chunk, src]
        before = [task for _, task in brought[: bisect_right(brought, (t.start, inf))]]
        waits = [tasks.add(before, alpha_of=t.link, units=0.0)]
        for resource in costs.link_resources[t.link]:
            tick, meeting, so_far = meetings.get(resource, (-1, -1, 0))
            if tick != t.start:  # all that ended by its tick
                count = bisect_right(users[resource], (t.start, inf))
                if count > so_far:
                    since = [task for _, task in users[resource][so_far:count]]
                    meeting = tasks.add(since if meeting < 0 else [meeting, *since])
                meetings[resource] = t.start, meeting, count
            waits += [meeting] if meeting >= 0 else []
        number = tasks.add(waits, link=t.link)
        numbers.append(number)
        for resource in costs.link_resources[t.link]:
            insort(users[resource], (t.end, number))
        gamma = costs.gamma[dst] if t.reduce else 0.0
        insort(arrivals[t.chunk, dst], (t.end, tasks.add([number], after=gamma) if gamma else number))
    return tasks.sized(first=numbers)
