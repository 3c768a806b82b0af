"""Rings through all ranks as NCCL's graph search has them: server after server, one a NIC.

In: links with what they draw from, and servers. Out: sets of 1, 2, 3, ... rings of links that all carry equally
much. A ring enters a server by one rank and leaves it by another where it has several. Every ring is the cheapest
at prices that rise steeply with the load of what a link draws from, and is searched again while the others stay,
as nets are rerouted in PathFinder. NCCL's own search (src/graph/search.cc) tries fixed rates, the highest first,
and takes the first paths that it can place.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import Floats, Ints
from hetesynth.model.topology import Rank
from hetesynth.search.copy_problem import NoRoute, cheapest_links
from hetesynth.search.portable_math import power


def patched_cycle(prices: Floats) -> list[int] | None:
    """The ranks in the order of a cheap cycle; None where 32 assignments of a successor to each rank give none. A
    cheapest assignment is a set of cycles; two become one where their links can be exchanged."""
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(len(prices))
    both_ways = np.maximum(prices, prices.T)
    # at prices alike both ways the cheapest assignment is of pairs, which can be joined in either direction
    if not np.isfinite(both_ways).any(axis=1).all():
        both_ways = prices
    never = float(prices[np.isfinite(prices)].max(initial=0.0) + 1.0) * prices.size
    for _ in range(32):
        noise = rng.random(prices.shape)
        noisy = np.where(np.isfinite(both_ways), both_ways * (1.0 + noise + noise.T), never)
        np.fill_diagonal(noisy, never)
        rows, columns = linear_sum_assignment(noisy)  # the successor of each rank, all different
        if (noisy[rows, columns] < never).all():
            cycle = _joined(prices, np.asarray(columns, dtype=np.int64))
            if cycle is not None:
                return min((float(prices[c, np.roll(c, -1)].sum()), c) for c in (cycle, cycle[::-1]))[1]
    return None


def _joined(prices: Floats, successor: Ints) -> list[int] | None:
    """Join all cycles into one, the two cheapest to join first, one of them turned around where need be."""
    ranks = np.arange(len(prices))
    while True:
        of, number = np.full(len(prices), -1), 0  # the cycle of each rank
        while (of < 0).any():
            of[_cycle_of(successor, int((of < 0).argmax()))] = number
            number += 1
        if number == 1:
            return _cycle_of(successor, 0)
        now, back = prices[ranks, successor], prices[successor, ranks]
        apart = np.where(of[:, None] != of[None, :], 0.0, np.inf) - now[:, None] - now[None, :]
        turning = np.asarray([(back - now)[of == c].sum() for c in range(number)])[of]
        turning = np.where(np.isnan(turning), np.inf, turning)
        # a -> a', b -> b' become a -> b', b -> a'
        straight = apart + prices[:, successor] + prices[:, successor].T
        # or a -> b and b' -> a', with the cycle of b turned around, which then has no link b' -> b
        saved = np.where(np.isfinite(turning), turning - np.where(np.isfinite(back), back - now, 0.0), np.inf)
        turned = apart + prices + prices[np.ix_(successor, successor)].T + saved[None, :]
        if not np.isfinite(min(straight.min(), turned.min())):
            return None
        if straight.min() <= turned.min():
            a, b = np.unravel_index(int(np.argmin(straight)), straight.shape)
            successor[a], successor[b] = successor[b], successor[a]
        else:
            a, b = np.unravel_index(int(np.argmin(turned)), turned.shape)
            after, around = successor[a], _cycle_of(successor, int(successor[b]))  # b', ..., b
            for at, before in zip(around[1:], around, strict=False):
                successor[at] = before
            successor[a], successor[around[0]] = b, after


def _cycle_of(successor: Ints, start: int) -> list[int]:
    cycle, at = [start], int(successor[start])
    while at != start:
        cycle.append(at)
        at = int(successor[at])
    return cycle


class ServerPaths:
    """Paths through one server: ``cost[e, x]`` from rank e to rank x. Exact for few ranks (Held and Karp 1962) and
    where all paths from the first ``starts`` ranks can be listed; else the nearest rank comes next."""

    def __init__(self, prices: Floats, starts: int) -> None:
        if len(prices) <= 8:  # the table doubles with each rank
            self.cost, self._parents = _held_karp(prices)
            return
        listed = _listed(np.isfinite(prices).tobytes(), len(prices), starts)
        self._paths = paths = _nearest_next(prices) if listed is None else listed
        costs = prices[paths[:, :-1], paths[:, 1:]].sum(axis=1)
        self.cost, self._choice = cheapest_links(len(prices), paths[:, 0], paths[:, -1], costs)

    def path(self, first: int, last: int) -> list[int]:
        """The path whose price is ``cost[first, last]``, which is finite."""
        if len(self.cost) > 8:
            path: list[int] = self._paths[self._choice[first, last]].tolist()
            return path
        backwards, ranks = [last], (1 << len(self.cost)) - 1
        while len(backwards) < len(self.cost):
            at = backwards[-1]
            backwards.append(int(self._parents[ranks, at, first]))
            ranks ^= 1 << at
        return backwards[::-1]


@lru_cache(maxsize=16)
def _listed(joined: bytes, number: int, starts: int) -> Ints | None:
    """All paths over these links from the first ``starts`` ranks on, one a row; None where they are too many."""
    links = np.frombuffer(joined, dtype=np.bool_).reshape(number, number)
    onward: list[list[int]] = [np.flatnonzero(row).tolist() for row in links]
    paths: list[list[int]] = []
    stack = [([rank], 1 << rank) for rank in range(starts)]
    for _ in range(20_000):  # partial paths
        if not stack:
            return np.asarray(paths, dtype=np.int64).reshape(-1, number)
        path, visited = stack.pop()
        if len(path) == number:
            paths.append(path)
        else:
            stack += [([*path, v], visited | 1 << v) for v in onward[path[-1]] if not visited >> v & 1]
    return None


@lru_cache(maxsize=64)
def _paths(prices: bytes, ranks: int, starts: int) -> ServerPaths:
    """Return the paths at these prices; cached, as from ring to ring the prices of few servers change."""
    return ServerPaths(np.frombuffer(prices, dtype=np.float64).reshape(ranks, ranks), starts)


def _held_karp(prices: Floats) -> tuple[Floats, NDArray[np.int8]]:
    """Costs [first, last] of the cheapest paths, and [visited, last, first] the rank before the last one."""
    number = len(prices)
    best = np.full((1 << number, number, number), np.inf)
    before = np.zeros((1 << number, number, number), dtype=np.int8)
    for rank in range(number):
        best[1 << rank, rank, rank] = 0.0
    visited = np.arange(1 << number)
    sizes = np.asarray([int(v).bit_count() for v in visited])
    for size in range(1, number):
        of_size = visited[sizes == size]
        for rank in range(number):
            without = of_size[(of_size >> rank) & 1 == 0]
            if not len(without):
                continue
            reached = best[without] + prices[:, rank][None, :, None]
            best[without | 1 << rank, rank] = reached.min(axis=1)
            before[without | 1 << rank, rank] = reached.argmin(axis=1)
    return best[-1].T.copy(), before


def _nearest_next(prices: Floats) -> Ints:
    """Return a path from each rank to each: whatever is cheapest to reach next, the last rank last."""
    number = len(prices)
    first, last = (ends.ravel() for ends in np.indices((number, number)))
    different = first != last
    first, last = first[different], last[different]
    rows = np.arange(len(first))
    free = np.ones((len(first), number), dtype=np.bool_)
    free[rows, first] = free[rows, last] = False
    steps = [first]
    for _ in range(number - 2):
        reach = np.where(free, prices[steps[-1]], np.inf)
        following = reach.argmin(axis=1)
        # where nothing can be reached the path is priced as infinite: it takes a rank that no link leads to
        stuck = ~np.isfinite(reach[rows, following])
        following[stuck] = free[stuck].argmax(axis=1)
        free[rows, following] = False
        steps.append(following)
    return np.stack([*steps, last], axis=1)


Ring = tuple[int, ...]
"""Links in the order of travel; the first leaves the first rank of its first server's path."""


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
        """The load of the fullest resource, over its rate, where a unit is spread over all rings."""
        return self.fullest / len(self.rings)


@lru_cache(maxsize=8)
def ring_sets(wiring: Wiring) -> tuple[RingSet, ...]:
    """Sets of growing numbers of rings, 16 at most, until four more rings cost no less. NoRoute: there is none."""
    sets: list[RingSet] = []
    least, best = float("inf"), 0
    try:
        search = _RingSearch(wiring)
        while len(sets) < 16 and len(sets) - best <= 4:
            search.add()
            sets.append(search.settled())
            if sets[-1].cost < least * 0.999:
                least, best = sets[-1].cost, len(sets)
    except NoRoute:
        if not sets and len(wiring.servers) == 1:
            raise
    together = tuple(rank for ranks in wiring.servers for rank in ranks)
    return tuple(sets) or ring_sets(replace(wiring, servers=(together,)))


def orders(wiring: Wiring, rings: Sequence[Ring]) -> tuple[tuple[Rank, ...], ...]:
    """The ranks of each ring in the order of travel."""
    return tuple(tuple(wiring.ends[a][0] for a in ring) for ring in rings)


class _RingSearch:
    """A search for rings: the rings so far and the load of resources."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
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

    def add(self) -> None:
        self.rings.append(self._cheapest())
        self._book(self.rings[-1], 1)

    def settled(self) -> RingSet:
        """Return the best set that searching each ring again gives; the search goes on from its rings."""
        best = self._set()
        for _ in range(4):
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
        """Return the cheapest ring at the present prices."""
        price = power((self._load + 1) * self._time, 8.0) - power(self._load * self._time, 8.0)
        prices: Floats = np.bincount(self._link, price[self._flat], len(self.wiring.ends)).astype(np.float64)
        cost, link = cheapest_links(self._ranks, self._ends[:, 0], self._ends[:, 1], prices)
        order = self._circle(cost) if len(self._servers) > 1 else self._cycle(cost)
        return tuple(int(link[u, v]) for u, v in zip(order, [*order[1:], order[0]], strict=True))

    def _cycle(self, cost: Floats) -> list[int]:
        """Return the ranks of a ring through the only server. NoRoute: none was found."""
        ranks = self._servers[0]
        inside = cost[np.ix_(ranks, ranks)]
        cycle: list[int] | None = None
        if len(ranks) <= 8 or _listed(np.isfinite(inside).tobytes(), len(ranks), 1) is not None:
            paths = _paths(inside.tobytes(), len(ranks), 1)
            closed = paths.cost + inside.T
            first, last = np.unravel_index(int(np.argmin(closed)), closed.shape)
            if np.isfinite(closed[first, last]):
                cycle = paths.path(int(first), int(last))
        else:
            patched = patched_cycle(inside)
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
        """Return the ranks of a ring around all servers, each entered and left where that is cheapest."""
        number = len(self._servers)
        exits: list[Ints] = []  # [s][entry, next entry]: by which rank server s is left
        passed: list[Floats] = []
        every = [_paths(cost[np.ix_(s, s)].tobytes(), len(s), len(s)) for s in self._servers]
        for s, (ranks, paths) in enumerate(zip(self._servers, every, strict=True)):
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
        for s, paths in enumerate(every):
            left = int(exits[s][enters[s], enters[s + 1]])
            order += [int(self._servers[s][i]) for i in paths.path(enters[s], left)]
        return order

    def _in_a_circle(self, servers: list[Ints]) -> list[Ints]:
        """Return the servers in an order with links from each to the next: as given, if that is one."""
        if len(servers) == 1:
            return servers
        home = {int(r): s for s, ranks in enumerate(servers) for r in ranks}
        joined = {(home[u], home[v]) for u, v in self.wiring.ends}
        stack, tries = [[0]], 20_000  # orders from the first on, in numeric order
        while stack and tries > 0:
            tries -= 1
            order = stack.pop()
            if len(order) == len(servers) and (order[-1], 0) in joined:
                return [servers[s] for s in order]
            onward = [s for s in range(1, len(servers)) if s not in order and (order[-1], s) in joined]
            stack += [[*order, s] for s in reversed(onward)]
        raise NoRoute("no order of servers was found in which links lead from each to the next")
