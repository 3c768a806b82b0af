"""SCALE-CCL (INET4AI 2025): chunks forwarded between data centres event by event, no route known beforehand.

In: a copying problem whose chunks are for all, and what its links cost. Out: when each chunk crosses each arc. An
arc is the paper's cut-through path over border routers, T_CT = sum of alphas + bytes over the slowest rate; GPUs
store and forward, T_SF = the sum of those. A router copies nothing here, as a message of a program has one
receiver: a chunk enters a site once, at one GPU, which broadcasts it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from hetesynth.machine_code import Ints
from hetesynth.model.problem import Problem
from hetesynth.model.topology import WAN_LATENCY
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.bounds.regions import components
from hetesynth.search.copy_problem import CopyProblem, distances
from hetesynth.search.peers import stranded
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, quickest

Group = int


def sites(problem: Problem, alpha: Sequence[float]) -> list[list[int]]:
    """Return the ranks of each data center, which links of less latency ``alpha`` than a WAN's join."""
    near = [(arc.src, arc.dst) for arc, a in zip(problem.arcs, alpha, strict=True) if a < float(WAN_LATENCY)]
    return sorted(sorted(site) for site in components(problem.ranks, near))


def entered(tables: CopyProblem, rates: Rates) -> tuple[list[list[tuple[Group, list[int]]]], list[set[Group]]]:
    """Return for each rank its outgoing arcs by the largest group that they enter, and the groups that it is in:
    its site, its server without the resources that lead to other sites, and itself. Arcs within such a server that
    use these resources are left out."""
    problem, servers = tables.problem, rates.servers or tables.problem.servers or ("",) * tables.problem.ranks
    site_of = {rank: site for site, ranks in enumerate(sites(problem, rates.alpha)) for rank in ranks}
    ends = [(arc.src, arc.dst) for arc in problem.arcs]
    scarce = {r for a in tables.arcs if site_of[ends[a][0]] != site_of[ends[a][1]] for r in tables.resources_of[a]}
    inside = {
        ends[a]
        for a in tables.arcs
        if scarce.isdisjoint(tables.resources_of[a]) and len({(site_of[v], servers[v]) for v in ends[a]}) == 1
    }
    number_of = {rank: n for n, joined in enumerate(components(problem.ranks, sorted(inside))) for rank in joined}
    within = [(-1 - site_of[v], problem.ranks + number_of[v], v) for v in range(problem.ranks)]
    onward: list[dict[Group, list[int]]] = [{} for _ in within]
    for a in tables.arcs:
        src, dst = ends[a]
        group = next(into for out_of, into in zip(within[src], within[dst], strict=True) if out_of != into)
        if group != dst or scarce.isdisjoint(tables.resources_of[a]):
            onward[src].setdefault(group, []).append(a)
    return [[*groups.items()] for groups in onward], [{*groups} for groups in within]


class _Events:
    """A simulation that makes the schedule. Transmission start and reception completion are entries of its heap;
    a transmission's completion is ``free`` of what it used, and its reception's start is inside of an arc."""

    def __init__(self, tables: CopyProblem, link_times: LinkTimes, rates: Rates) -> None:
        self.onward, self.groups = entered(tables, rates)
        self.arcs, self.uses = tables.problem.arcs, tables.resources_of
        self.alpha, self.busy = link_times.alpha, link_times.busy
        self.flow = link_times.transfer_seconds(tables)
        self.free = [0.0] * len(self.busy)  # when what was started has left
        self.queued = [0.0] * len(self.busy)  # seconds of work of what waits
        self.arc_of: dict[tuple[int, Group], int] = {}  # who is to bring a chunk into a group
        self.brought: dict[int, set[Group]] = defaultdict(set)  # where a chunk is, or is on its way to
        self.held = [0] * tables.problem.ranks  # chunks that a rank has
        self.start: dict[tuple[int, int], float] = {}
        # a heap: when, whether it is a start, the number of the entry, chunk, and rank or group
        self.heap: list[tuple[float, bool, int, int, int]] = []
        self.entries = 0

    def _push(self, when: float, chunk: int, place: int, *, start: bool) -> None:
        self.entries += 1
        heappush(self.heap, (when, start, self.entries, chunk, place))

    def _queue(self, a: int, sign: int) -> None:
        for r in self.uses[a]:
            self.queued[r] += sign * self.busy[r]

    def _arrival(self, a: int, now: float) -> float:
        """Return when a chunk queued last for arc ``a`` arrives (T + Delta of algorithm 1)."""
        return max(max(self.free[r], now) + self.queued[r] + self.busy[r] for r in self.uses[a]) + self.alpha[a]

    def receive(self, chunk: int, rank: int, now: float) -> None:
        """Queue a received chunk for each group that lacks it, on the arc by which it is there first, unless
        another rank's queue is sooner (load-aware neighbor forwarding, algorithm 1: each is in one queue)."""
        self.held[rank] += 1
        brought = self.brought[chunk]
        for group, arcs in self.onward[rank]:
            if group in brought:
                continue
            old = self.arc_of.get((chunk, group))
            if old is not None:
                self._queue(old, -1)
            others = arcs if old is None else [old, *arcs]
            best = min(others, key=lambda a: (self._arrival(a, now), self.held[self.arcs[a].dst]))
            self._queue(best, 1)
            self.arc_of[chunk, group] = best
            if best != old:
                self._push(now, chunk, group, start=True)

    def run(self, origins: Sequence[frozenset[int]]) -> TimedRoutes:
        """Return the routes of the whole simulation; ``origins``: the ranks that hold each chunk at first."""
        for chunk, ranks in enumerate(origins):
            for rank in sorted(ranks):
                self.brought[chunk].update(self.groups[rank])
                self._push(0.0, chunk, rank, start=False)
        last, work = 0.0, [0.0] * len(self.busy)
        while self.heap:
            now, start, _, chunk, place = heappop(self.heap)
            if not start:
                self.receive(chunk, place, now)
                last = now
                continue
            if place in self.brought[chunk]:
                continue
            a = self.arc_of[chunk, place]
            begin = max(now, *(self.free[r] for r in self.uses[a]))
            if begin > now:
                self._push(begin, chunk, place, start=True)
                continue
            self._queue(a, -1)
            for r in self.uses[a]:
                self.free[r] = now + self.busy[r]
                work[r] += self.busy[r]
            self.start[chunk, a] = now
            self.brought[chunk].update(self.groups[self.arcs[a].dst])
            self._push(now + self.flow[a], chunk, self.arcs[a].dst, start=False)
        return TimedRoutes(self.start, work, last)


def event_driven(tables: CopyProblem, link_times: LinkTimes, rates: Rates) -> TimedRoutes:
    """Return when chunks cross arcs; some deliveries are missing if a server's links lead one way only."""
    return _Events(tables, link_times, rates).run(tables.problem.collective.pre)


def wan_strategy(rates: Rates) -> Strategy:
    """Return a strategy that offers the schedule of SCALE-CCL, on clusters of several sites."""

    def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
        if len(sites(problem, rates.alpha)) < 2:
            return f"no links of {float(WAN_LATENCY * 10**6):g} us or more join data centres"
        return stranded(problem, policy)

    def rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> Iterator[TimedRoutes]:
        arcs, flow = tables.problem.arcs, np.array(link_times.transfer_seconds(tables))
        usable: Ints = np.array(tables.arcs, dtype=np.int64)
        src, dst = (ends[usable] for ends in tables.ends)
        least = distances(tables.problem.ranks, src, dst, flow[usable])
        quick = frozenset(a for a in tables.arcs if flow[a] <= 1.001 * least[arcs[a].src, arcs[a].dst])
        without_long = CopyProblem(tables.problem, quick)  # than a way over another site
        for used in (tables, without_long) if len(quick) < len(usable) else (tables,):
            timed = event_driven(used, link_times, rates)
            if len(timed.start) == tables.problem.collective.deliveries:
                yield timed

    return quickest("wan", rates, rounds, refuses)
