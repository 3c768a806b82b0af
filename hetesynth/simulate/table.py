"""A table as tasks: a rank begins a round when its messages of the one before have gone and come, and every
message waits for both its ranks.

Sums follow as their values come; how many thread blocks copy is the library's choice, and they are taken to
suffice.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace

from hetesynth.model.cost import Costs
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank
from hetesynth.simulate.graph_builder import Links, SizedTasks, TaskList


def table_tasks(table: Table, costs: Costs, spent: Callable[[int], float]) -> SizedTasks:
    """The tasks of ``table``, its messages first; the unit is a chunk. ``spent``: seconds that the executor takes
    to begin a round, by the messages of the rank that sends or receives most. ValueError where the table uses
    links that ``costs`` does not have."""
    most = [max((Counter(m.src for m in x) | Counter(m.dst for m in x)).values()) for x in table.rounds]
    place = {number: len(costs.link_ends) + i for i, number in enumerate(sorted({*most}))}
    priced = replace(costs, link_alpha=(*costs.lags("Simple"), *map(spent, place)))  # beginnings after the links
    links, tasks, turns = Links(costs), TaskList(priced, costs.launch), Counter[tuple[Rank, Rank]]()
    before: dict[Rank, list[int]] = defaultdict(list)  # messages of the latest round
    messages: list[int] = []
    for listed, number in zip(table.rounds, most, strict=True):
        ranks = sorted({rank for m in listed for rank in (m.src, m.dst)})
        begun = {rank: tasks.add(before.pop(rank, []), alpha_of=place[number], units=0.0) for rank in ranks}
        for m in listed:
            link = links.fastest(m.src, m.dst, turns[m.src, m.dst])
            turns[m.src, m.dst] += 1
            gamma = 0.0 if m.added is None else costs.gamma[m.dst]
            waits = [begun[m.src], begun[m.dst]]
            messages.append(tasks.add(waits, link=link, alpha_of=link, units=m.count, after=gamma))
            before[m.src].append(messages[-1])
            before[m.dst].append(messages[-1])
    return tasks.sized(first=messages)
