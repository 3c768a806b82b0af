"""How fast rings through all ranks can be at best, whatever rings and however many: a linear program.

In: prices of links, servers. Out: seconds a byte that goes all around takes at least. A mix of rings enters and
leaves every rank once and every set of ranks at least once; sets are the servers, then the narrowest of each
solution (Dantzig, Fulkerson and Johnson, 1954).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.baselines.ring_search import Wiring
from hetesynth.search.bounds.flow import maximum_flow
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.copy_problem import transposed
from hetesynth.search.server_groups import ring_servers

_WHOLE = 1_000_000
"""Of a ring, in the integers of a maximum flow."""


def ring_wiring(topology: Topology, prices: Costs) -> Wiring:
    """What rings are searched on: of the links between two ranks those that programs use, the fastest."""
    best: dict[tuple[Rank, Rank], tuple[float, float]] = {}
    speeds = [(prices.link_rate[i], -prices.link_alpha[i]) for i in range(len(prices.link_ends))]
    for ends, speed in zip(prices.link_ends, speeds, strict=True):
        best[ends] = max(best.get(ends, speed), speed)
    used = [i for i, ends in enumerate(prices.link_ends) if speeds[i] == best[ends]]
    problem = chunk(topology).problem(collective("broadcast", topology.ranks, 1, 0))  # for its servers
    return Wiring(
        ends=tuple(prices.link_ends[i] for i in used),
        uses=tuple(prices.link_resources[i] for i in used),
        rates=prices.resource_rate,
        servers=tuple(ring_servers(problem)),
    )


@lru_cache(maxsize=16)
def ring_seconds(prices: Costs, servers: tuple[tuple[Rank, ...], ...]) -> float:
    """Seconds a byte around all rings takes at least; infinite where there is no ring."""
    import highspy

    # how much of a ring goes over each link, and the seconds of the fullest resource
    make: Any = highspy.Highs
    solver, infinite, ends = make(), highspy.kHighsInf, prices.link_ends
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    for cost in (*(0.0 for _ in ends), 1.0):
        solver.addCol(cost, 0.0, infinite, 0, [], [])

    def add_row(least: float, most: float, links: list[int], seconds: float = 0.0) -> None:
        places = np.array([*links, len(ends)], dtype=np.int32)
        solver.addRow(least, most, len(places), places, np.array([*(1.0 for _ in links), seconds]))

    users = transposed(prices.link_resources, len(prices.resource_rate))
    slowest = min(prices.resource_rate)
    for links, rate in zip(users, prices.resource_rate, strict=True):
        add_row(-infinite, 0.0, links, -rate / slowest)
    everyone = frozenset(rank for pair in ends for rank in pair)
    for rank in everyone:
        for side in (0, 1):
            add_row(1.0, 1.0, [link for link, pair in enumerate(ends) if pair[side] == rank])
    sets: Sequence[Iterable[Rank]] = servers
    seconds = 0.0
    while sets:
        for inside in map(frozenset, sets):
            if inside < everyone:
                leaving = [link for link, (a, b) in enumerate(ends) if a in inside and b not in inside]
                add_row(1.0, infinite, leaving)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return float("inf")
        *flow, seconds = solver.getSolution().col_value
        # sets that less than a ring leaves: what a maximum flow from rank 0 to another one is stopped by
        carried = np.rint(np.asarray(flow) * _WHOLE).astype(np.int64).tolist()
        edges = [(*pair, wide) for pair, wide in zip(ends, carried, strict=True) if wide]
        ranks = 1 + max(everyone)
        flows = [maximum_flow(ranks, edges, 0, rank) for rank in range(1, ranks)]
        narrow = {frozenset(side) for value, side in flows if value < _WHOLE * (1 - 1e-3)}
        sets = sorted(narrow, key=sorted)
    return seconds / slowest * (1 - 1e-6)  # the solver's optimum may be so much above the true one
