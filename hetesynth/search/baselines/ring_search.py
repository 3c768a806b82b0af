"""Rings through all ranks as NCCL's graph search has them: server after server, one a NIC.

In: links with what they draw from, and servers. Out: sets of 1, 2, 3, ... rings of links. A ring enters a server
by one rank and leaves it by another where it has several, so on two modules with a NIC each in by one and out by
the other. All rings carry equally much. Every ring is the cheapest at prices that rise steeply with the load of
what a link draws from, and is searched again while the others stay, as nets are rerouted in PathFinder. NCCL's own
search (src/graph/search.cc) tries fixed rates, the highest first, and takes the first paths that it can place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.topology import Rank
from hetesynth.policy.baselines import BaselinesPolicy
from hetesynth.search.baselines.cycle_patching import patched_cycle
from hetesynth.search.baselines.server_paths import ServerPaths
from hetesynth.search.portable_math import power
from hetesynth.search.routes import NoRoute

Ring = tuple[int, ...]
"""Links in the order of travel; the first leaves the first rank of its first server's path."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Wiring:
    """Links as (source, destination), the resources that each draws from, their rates, and the servers."""

    ends: tuple[tuple[Rank, Rank], ...]
    uses: tuple[tuple[int, ...], ...]
    rates: tuple[float, ...]
    servers: tuple[tuple[Rank, ...], ...]


@dataclass(frozen=True, slots=True)
class RingSet:
    """Rings that carry equally much, and the load of the fullest resource over its rate where each carries one."""

    rings: tuple[Ring, ...]
    fullest: float

    @property
    def cost(self) -> float:
        """Of a unit that is spread over all rings."""
        return self.fullest / len(self.rings)


@lru_cache(maxsize=8)
def ring_sets(wiring: Wiring, policy: BaselinesPolicy) -> tuple[RingSet, ...]:
    """Sets of growing numbers of rings, until several more rings cost no less. NoRoute: there is no ring.

    Where servers cannot be passed one after the other, the ranks of all are taken for one server's.
    """
    try:
        return _sets(_RingSearch(wiring, policy), policy)
    except NoRoute:
        if len(wiring.servers) == 1:
            raise
    together = tuple(rank for ranks in wiring.servers for rank in ranks)
    return _sets(_RingSearch(replace(wiring, servers=(together,)), policy), policy)


def _sets(search: _RingSearch, policy: BaselinesPolicy) -> tuple[RingSet, ...]:
    sets: list[RingSet] = []
    least, best = float("inf"), 0
    while len(sets) < policy.max_rings and len(sets) - best <= policy.ring_patience:
        try:
            search.add()
        except NoRoute:
            if not sets:
                raise
            break
        sets.append(search.settled())
        if sets[-1].cost < least * policy.ring_gain:
            least, best = sets[-1].cost, len(sets)
    return tuple(sets)


def orders(wiring: Wiring, rings: Sequence[Ring]) -> tuple[tuple[Rank, ...], ...]:
    """The ranks of each ring in the order of travel."""
    return tuple(tuple(wiring.ends[a][0] for a in ring) for ring in rings)


class _RingSearch:
    """Rings so far and the load of resources."""

    def __init__(self, wiring: Wiring, policy: BaselinesPolicy) -> None:
        self.wiring, self.policy = wiring, policy
        self.rings: list[Ring] = []
        rates = np.asarray(wiring.rates, dtype=np.float64)
        self._time = rates.min() / rates  # of one unit, in that of the slowest resource
        self._load = np.zeros(len(rates))
        self._flat = np.asarray([r for used in wiring.uses for r in used], dtype=np.int64)
        self._link = np.repeat(np.arange(len(wiring.uses)), [len(used) for used in wiring.uses])
        self._ends = np.asarray(wiring.ends, dtype=np.int64).reshape(-1, 2)
        self._ranks = sum(map(len, wiring.servers))
        self._slowest = float(rates.min())
        self._servers = self._in_a_circle([np.asarray(s, dtype=np.int64) for s in wiring.servers])
        self._paths = [ServerPaths(policy, range(len(s) if len(self._servers) > 1 else 1)) for s in self._servers]

    def add(self) -> None:
        """One more ring."""
        self.rings.append(self._cheapest())
        self._book(self.rings[-1], 1)

    def settled(self) -> RingSet:
        """The best that searching each ring again gives; the rings stay as they were last."""
        best = self._set()
        for _ in range(self.policy.ring_sweeps):
            before = tuple(self.rings)
            for k, ring in enumerate(before):
                self._book(ring, -1)
                with suppress(NoRoute):  # the search for a cycle through many ranks is no exact one
                    self.rings[k] = self._cheapest()
                self._book(self.rings[k], 1)
            if tuple(self.rings) == before:
                break
            again = self._set()
            if again.fullest >= best.fullest:
                break
            best = again
        if best.rings != tuple(self.rings):
            self._load[:] = 0
            self.rings = list(best.rings)
            for ring in self.rings:
                self._book(ring, 1)
        return best

    def _set(self) -> RingSet:
        return RingSet(tuple(self.rings), float((self._load * self._time).max()) / self._slowest)

    def _book(self, ring: Ring, number: int) -> None:
        for a in ring:
            for r in self.wiring.uses[a]:
                self._load[r] += number

    def _cheapest(self) -> Ring:
        """The cheapest ring at the prices of now."""
        # for each pair of ranks the price of its cheapest link, and that link
        exponent = self.policy.load_exponent
        price = power((self._load + 1) * self._time, exponent) - power(self._load * self._time, exponent)
        prices = np.bincount(self._link, price[self._flat], len(self.wiring.ends))
        dearest_first = np.argsort(-prices, kind="stable")
        source, target = self._ends[dearest_first].T
        cost = np.full((self._ranks, self._ranks), np.inf)
        link = np.full((self._ranks, self._ranks), -1, dtype=np.int64)
        cost[source, target] = prices[dearest_first]
        link[source, target] = dearest_first
        order = self._circle(cost) if len(self._servers) > 1 else self._cycle(cost)
        return tuple(int(link[u, v]) for u, v in zip(order, [*order[1:], order[0]], strict=True))

    def _cycle(self, cost: Floats) -> list[int]:
        """Through one server and back."""
        ranks, paths = self._servers[0], self._paths[0]
        inside = cost[np.ix_(ranks, ranks)]
        cycle: list[int] | None = None
        if paths.exact(inside):
            paths.price(inside)
            closed = paths.cost + inside.T
            first, last = np.unravel_index(int(np.argmin(closed)), closed.shape)
            if np.isfinite(closed[first, last]):
                cycle = paths.path(int(first), int(last))
        else:
            patched = patched_cycle(inside, self.policy.patching_tries, self.policy.patched_cycles)
            local = {int(rank): i for i, rank in enumerate(ranks)}
            back = [[local[self.wiring.ends[a][1]] for a in reversed(ring)] for ring in self.rings]
            cycles = back if patched is None else [patched, *back]  # and whatever the rings so far are backwards
            prices = [float(inside[c, np.roll(c, -1)].sum()) for c in cycles]
            cheapest = min(range(len(cycles)), key=prices.__getitem__, default=-1)
            if cheapest >= 0 and np.isfinite(prices[cheapest]):
                cycle = cycles[cheapest]
        if cycle is None:
            raise NoRoute("no ring through all ranks was found")
        return [int(ranks[i]) for i in cycle]

    def _circle(self, cost: Floats) -> list[int]:
        """Around all servers: by which ranks each is entered and left."""
        number = len(self._servers)
        exits: list[NDArray[np.int64]] = []  # [s][entry, next entry]: by which rank server s is left
        passed: list[Floats] = []
        for s, (ranks, paths) in enumerate(zip(self._servers, self._paths, strict=True)):
            paths.price(cost[np.ix_(ranks, ranks)])
            across = cost[np.ix_(ranks, self._servers[(s + 1) % number])]
            whole = paths.cost[:, :, None] + across[None, :, :]
            exits.append(whole.argmin(axis=1))
            passed.append(whole.min(axis=1))
        so_far, entries = passed[0], []
        for step in passed[1:]:
            whole = so_far[:, :, None] + step[None, :, :]
            entries.append(whole.argmin(axis=1))
            so_far = whole.min(axis=1)
        start = int(np.argmin(np.diagonal(so_far)))
        if not np.isfinite(so_far[start, start]):
            raise NoRoute("no ring through all servers was found")
        enters = [start]  # backwards: the entry of the first server again, of the last, of the one before it, ...
        for choice in reversed(entries):
            enters.append(int(choice[start, enters[-1]]))
        enters = [start, *reversed(enters[1:]), start]
        order: list[int] = []
        for s, paths in enumerate(self._paths):
            left = int(exits[s][enters[s], enters[s + 1]])
            order += [int(self._servers[s][i]) for i in paths.path(enters[s], left)]
        return order

    def _in_a_circle(self, servers: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The servers in an order in which links lead from each to the next: as they come, where that is one."""
        if len(servers) == 1:
            return servers
        home = {int(r): s for s, ranks in enumerate(servers) for r in ranks}
        joined = {(home[u], home[v]) for u, v in self.wiring.ends}
        order = next(_circles(len(servers), joined, self.policy.path_tries), None)
        if order is None:
            raise NoRoute("no order of servers was found in which links lead from each to the next")
        return [servers[s] for s in order]


def _circles(number: int, joined: set[tuple[int, int]], tries: int) -> Iterator[list[int]]:
    """Orders of servers from the first on, each joined to the next and the last to the first; in numeric order."""
    stack: list[list[int]] = [[0]]
    while stack and tries > 0:
        tries -= 1
        order = stack.pop()
        if len(order) == number:
            if (order[-1], 0) in joined:
                yield order
            continue
        onward = [s for s in range(1, number) if s not in order and (order[-1], s) in joined]
        stack += [[*order, s] for s in reversed(onward)]
