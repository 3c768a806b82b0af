"""A table as tasks: every message is one, and waits for both its ranks to have ended their rounds before.

A round costs each of its messages the executor's own seconds beside the latency. Sums follow as their values come;
how many thread blocks copy is the library's choice, and they are taken to suffice.
"""

from collections import defaultdict
from dataclasses import replace

from hetesynth.model.cost import Costs
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank
from hetesynth.simulate.graph_builder import Links, SizedTasks, TaskList


def table_tasks(table: Table, costs: Costs, round_seconds: float) -> SizedTasks:
    """The tasks of ``table``, its messages first; the unit is a chunk. ValueError where it uses links that
    ``costs`` does not have."""
    delays = tuple(lag + round_seconds for lag in costs.lags("Simple"))
    priced, links = replace(costs, link_alpha=delays), Links(costs)
    tasks, turns = TaskList(priced, costs.launch), defaultdict[tuple[Rank, Rank], int](int)
    ended: dict[Rank, int] = {}  # the task after which a rank's latest round is over
    numbers: list[int] = []
    for messages in table.rounds:
        of_rank: dict[Rank, list[int]] = defaultdict(list)
        for m in messages:
            link = links.fastest(m.src, m.dst, turns[m.src, m.dst])
            turns[m.src, m.dst] += 1
            waits = [ended[rank] for rank in (m.src, m.dst) if rank in ended]
            gamma = 0.0 if m.added is None else costs.gamma[m.dst]
            task = tasks.add(waits, link=link, alpha_of=link, units=m.count, after=gamma)
            numbers.append(task)
            of_rank[m.src].append(task)
            of_rank[m.dst].append(task)
        for rank, own in of_rank.items():
            ended[rank] = own[0] if len(own) == 1 else tasks.add(own)
    return tasks.sized(first=numbers)
