"""How fast rings through all ranks can be at best, whatever rings and however many: a linear program.

In: prices of links, servers. Out: seconds a byte that goes all around takes at least. A mix of rings enters and
leaves every rank once and every set of ranks at least once; sets are the servers, then the narrowest of each
solution (Dantzig, Fulkerson and Johnson, 1954).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.topology import Rank
from hetesynth.search.bounds.flow import maximum_flow

_WHOLE = 1_000_000
"""Of a ring, in the integers of a maximum flow."""


@lru_cache(maxsize=16)
def ring_seconds(prices: Costs, servers: tuple[tuple[Rank, ...], ...]) -> float:
    """Seconds a byte around all rings takes at least; infinite where there is no ring."""
    program = _Mixes(prices)
    sets: Sequence[Iterable[Rank]] = servers
    while sets:
        for inside in sets:
            program.leave(frozenset(inside))
        solution = program.solved()
        if solution is None:
            return float("inf")
        seconds, flow = solution
        # sets that less than a ring leaves: what a maximum flow from rank 0 to another one is stopped by
        carried = np.rint(np.asarray(flow) * _WHOLE).astype(np.int64).tolist()
        edges = [(*ends, wide) for ends, wide in zip(prices.link_ends, carried, strict=True)]
        ranks = 1 + max(map(max, prices.link_ends))
        flows = [maximum_flow(ranks, edges, 0, rank) for rank in range(1, ranks)]
        narrow = {frozenset(side) for value, side in flows if value < _WHOLE * (1 - 1e-3)}
        sets = sorted(narrow, key=sorted)
    return seconds * (1 - 1e-6)  # the solver's optimum may be so much above the true one


class _Mixes:
    """The linear program: how much of a ring goes over each link, and the seconds of the fullest resource."""

    def __init__(self, prices: Costs) -> None:
        import highspy

        self._ends, self._infinite = prices.link_ends, highspy.kHighsInf
        self._optimal = highspy.HighsModelStatus.kOptimal
        make: Any = highspy.Highs
        self._solver = make()
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
            self._solver.setOptionValue(option, value)
        for cost in (*(0.0 for _ in self._ends), 1.0):
            self._solver.addCol(cost, 0.0, self._infinite, 0, [], [])
        users: list[list[int]] = [[] for _ in prices.resource_rate]
        for link, used in enumerate(prices.link_resources):
            for resource in used:
                users[resource].append(link)
        self._unit = min(prices.resource_rate)
        for links, rate in zip(users, prices.resource_rate, strict=True):
            self._row(-self._infinite, 0.0, links, -rate / self._unit)
        self._ranks = frozenset(rank for ends in self._ends for rank in ends)
        for rank in self._ranks:
            for side in (0, 1):
                self._row(1.0, 1.0, [link for link, ends in enumerate(self._ends) if ends[side] == rank])

    def _row(self, least: float, most: float, links: list[int], seconds: float = 0.0) -> None:
        places = np.array([*links, len(self._ends)], dtype=np.int32)
        self._solver.addRow(least, most, len(places), places, np.array([*(1.0 for _ in links), seconds]))

    def leave(self, inside: frozenset[Rank]) -> None:
        if inside < self._ranks:
            leaving = [link for link, (a, b) in enumerate(self._ends) if a in inside and b not in inside]
            self._row(1.0, self._infinite, leaving)

    def solved(self) -> tuple[float, list[float]] | None:
        """Seconds, and the share of each link; None where there is no such mix."""
        self._solver.run()
        if self._solver.getModelStatus() != self._optimal:
            return None
        flow = list(self._solver.getSolution().col_value)
        return flow[-1] / self._unit, flow[:-1]
