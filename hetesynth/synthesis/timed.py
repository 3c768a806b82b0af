"""Earliest arrival first, in seconds: routes for a given chunk size, from the fewest hops to the least load.

In: a copying problem, seconds of latency per arc, seconds a chunk keeps each resource busy. Out: routes with start
times, and a schedule of the step model with these routes. A delivery is chosen by when it would arrive, the sooner
the farther it leads, plus a price for the resources it uses; without prices chunks take the quickest way (small
buffers), with prices they cross scarce resources once and spread (large buffers). Prices are negotiated over
rounds: what was busiest becomes dearer.

Sources: TACOS (MICRO 2024), matching over time; PathFinder's negotiated congestion. A transfer keeps a resource
busy for the chunk's bytes at the resource's own rate, so that a wide port serves several slow flows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.synthesis.dissemination import Dissemination, without_useless
from hetesynth.synthesis.routing import Routes
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy

Floats = NDArray[np.float64]

ROUNDS = 4
GROWTH = 0.5  # how much dearer the busiest resource becomes in a round


@dataclass(frozen=True, slots=True)
class Clockwork:
    """Seconds: ``alpha[a]`` of arc a before its bytes flow, ``busy[r]`` that a chunk takes of resource r alone."""

    alpha: Sequence[float]
    busy: Sequence[float]


@dataclass(frozen=True, slots=True)
class TimedRoutes:
    """For every chunk its arcs; ``start[k, a]`` and ``seconds`` in the greedy's own reckoning."""

    routes: Routes
    start: dict[tuple[int, int], float]
    load: list[float]
    seconds: float


def schedule_of(tables: Dissemination, timed: TimedRoutes) -> Schedule:
    """The routes in the step model: every resource serves its transfers in the order of their start times."""
    problem = tables.problem
    at = [0] * len(tables.resources)  # the step that a resource is filling
    room = [r.capacity for r in tables.resources]
    held = {(k, rank): 0 for k, pre in enumerate(problem.collective.pre) for rank in pre}
    sent: dict[tuple[int, int], int] = {}
    transfers = []
    for _, k, a in sorted((begins, k, a) for (k, a), begins in timed.start.items()):
        arc, used = problem.arcs[a], tables.resources_of[a]
        step = max([held[k, arc.src], *(at[r] + (room[r] == 0) for r in used)])
        if problem.exclusive_reduction:
            step = max(step, sent.get((k, arc.src), -1) + 1)
        for r in used:
            room[r] = (room[r] if at[r] == step else tables.resources[r].capacity) - 1
            at[r] = step
        held[k, arc.dst], sent[k, arc.src] = step + 1, step
        transfers.append(Transfer(step, step + 1, k, a))
    return without_useless(problem, transfers, max((t.end for t in transfers), default=0))


def rounds(
    tables: Dissemination, clock: Clockwork, weight: float, number: int, ended: Callable[[], bool]
) -> list[TimedRoutes]:
    """Up to ``number`` rounds with prices of ``weight`` times the seconds a resource is kept busy."""
    scarcity = [1.0] * len(tables.resources)
    found: list[TimedRoutes] = []
    while len(found) < number and not (found and ended()):
        price = [weight * s * b for s, b in zip(scarcity, clock.busy, strict=True)]
        timed = earliest_arrival(tables, clock, price)
        found.append(timed)
        most = max(timed.load, default=0.0) or 1.0
        scarcity = [s * (1 + GROWTH * (used / most) ** 2) for s, used in zip(scarcity, timed.load, strict=True)]
        least = min(scarcity, default=1.0)
        scarcity = [s / least for s in scarcity]
    return found


def earliest_arrival(tables: Dissemination, clock: Clockwork, price: Sequence[float]) -> TimedRoutes:
    """One round: always the delivery with the least arrival time plus price of its resources."""
    return _Round(tables, clock, price).run()


def _distances(tables: Dissemination, flow: Sequence[float]) -> Floats:
    """Seconds from every rank to every other along the quickest arcs, nothing else under way."""
    n = tables.problem.ranks
    distance = np.full((n, n), np.inf)
    np.fill_diagonal(distance, 0.0)
    for arc, seconds in zip(tables.problem.arcs, flow, strict=True):
        distance[arc.src, arc.dst] = min(distance[arc.src, arc.dst], seconds)
    for via in range(n):
        np.minimum(distance, distance[:, via, None] + distance[None, via, :], out=distance)
    return distance


class _Round:
    def __init__(self, tables: Dissemination, clock: Clockwork, price: Sequence[float]) -> None:
        self.tables = tables
        self.clock = clock
        problem = tables.problem
        arcs = range(len(problem.arcs))
        self.cost = [sum(price[r] for r in tables.resources_of[a]) for a in arcs]
        self.flow = [
            clock.alpha[a] + max((clock.busy[r] for r in tables.resources_of[a]), default=0.0) for a in arcs
        ]
        self.free = [0.0] * len(tables.resources)
        self.load = [0.0] * len(tables.resources)
        self.held = [dict.fromkeys(pre, 0.0) for pre in problem.collective.pre]
        self.lacking = [
            set(post - pre) for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True)
        ]
        self.queue: list[tuple[float, int, int]] = []
        self.distance = _distances(tables, self.flow)
        self.nearest = [self.distance[sorted(pre)].min(axis=0) for pre in problem.collective.pre]
        for k, lacking in enumerate(self.lacking):
            wanted = np.zeros(problem.ranks, dtype=bool)
            wanted[sorted(lacking)] = True
            self.nearest[k][~wanted] = -1.0  # whoever has it, or does not want it, is no reason to hurry

    def run(self) -> TimedRoutes:
        for k, held in enumerate(self.held):
            for rank in sorted(held):
                self._offer(k, rank)
        heapify(self.queue)
        routes: list[list[int]] = [[] for _ in self.held]
        start: dict[tuple[int, int], float] = {}
        last = 0.0
        left = sum(1 for wanted in self.lacking if wanted)
        while left:
            key, k, a = heappop(self.queue)
            dst = self.tables.problem.arcs[a].dst
            if dst in self.held[k] or not self.lacking[k]:
                continue
            begins = self._begins(k, a)
            now = self._key(k, a)
            if now > key + 1e-15:
                heappush(self.queue, (now, k, a))
                continue
            self._commit(k, a, begins)
            routes[k].append(a)
            start[k, a] = begins
            last = max(last, self.held[k][dst])
            self.lacking[k].discard(dst)
            left -= not self.lacking[k]
            self._offer(k, dst)
        return TimedRoutes(routes, start, self.load, last)

    def _ahead(self, k: int, dst: int) -> float:
        """Seconds still to go, once ``dst`` has chunk k, to the farthest rank that it is then the nearest to."""
        left = self.distance[dst]
        return float(left[left < self.nearest[k]].max(initial=0.0))

    def _key(self, k: int, a: int) -> float:
        """When it would arrive, the price of it, and the sooner the farther it leads."""
        return self._begins(k, a) + self.flow[a] + self.cost[a] - self._ahead(k, self.tables.problem.arcs[a].dst)

    def _begins(self, k: int, a: int) -> float:
        ready = self.held[k][self.tables.problem.arcs[a].src]
        return max(ready, *(self.free[r] for r in self.tables.resources_of[a]))

    def _commit(self, k: int, a: int, begins: float) -> None:
        for r in self.tables.resources_of[a]:
            self.free[r] = begins + self.clock.busy[r]
            self.load[r] += self.clock.busy[r]
        dst = self.tables.problem.arcs[a].dst
        self.held[k][dst] = begins + self.flow[a]
        np.minimum(self.nearest[k], self.distance[dst], out=self.nearest[k])
        self.nearest[k][dst] = -1.0

    def _offer(self, k: int, rank: int) -> None:
        """Everything that ``rank`` could send on now that it holds chunk k."""
        for a in self.tables.out_of[rank]:
            if self.tables.problem.arcs[a].dst not in self.held[k]:
                heappush(self.queue, (self._key(k, a), k, a))


@dataclass(frozen=True, slots=True)
class Rates:
    """What arcs cost: ``alpha[a]`` seconds, ``resources[a]`` the physical resources behind arc a, ``rate`` theirs
    in bytes per second, and the bytes of a chunk."""

    alpha: Sequence[float]
    resources: Sequence[Sequence[int]]
    rate: Sequence[float]
    chunk_bytes: float

    def clockwork(self, tables: Dissemination) -> Clockwork:
        """The seconds of a problem on these links: a law is as fast as the slowest resource all its arcs use."""
        busy = []
        for resource in tables.resources:
            common = set(self.resources[resource.arcs[0]]).intersection(
                *(self.resources[a] for a in resource.arcs)
            )
            slowest = min((self.rate[r] for r in common), default=float("inf"))
            busy.append(self.chunk_bytes / slowest)
        return Clockwork(self.alpha, busy)


def timed_strategy(rates: Rates, weight: float) -> Strategy:
    """A strategy that offers the quickest of a few rounds, in its own reckoning."""

    def improve(search: Search) -> None:
        tables = Dissemination(search.problem)
        found = rounds(tables, rates.clockwork(tables), weight, ROUNDS if weight else 1, search.out_of_time)
        best = min(found, key=lambda timed: timed.seconds)
        search.offer(schedule_of(tables, best), "timed")

    return Strategy("timed", "earliest arrival first", improve)
