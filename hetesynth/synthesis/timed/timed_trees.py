"""Balanced trees in seconds: for rates that are no whole multiples of each other.

In: a copying problem whose chunks go to everybody, what its links cost in seconds. Out: a schedule of the step
model. Routes are those of ``trees``, balanced by seconds of work instead of chunks per step, so that 8, 12.5 and
16 GB/s count as what they are; deliveries are then listed in seconds, those that can begin first and are most
urgent (Graham 1966). Urgency: the work still waiting for the busiest resource at or below a delivery.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, schedule_of
from hetesynth.synthesis.trees.balanced_trees import TreeRouting, precedence, refuses

SWEEPS = 8
TIGHTER = 0.97  # of the busiest resource's work: what a sweep tries to come down to
URGENT = 0.05  # seconds that a delivery may go ahead of another for each second that waits on it more
EPOCHS = 60  # times that urgencies are worked out anew


def timed_trees_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest schedule of a few sweeps, in its own reckoning."""

    def improve(search: Search) -> None:
        if refuses(search.problem) is not None:
            return
        tables = CopyProblem(search.problem)
        clock = rates.link_times(tables)
        best: TimedRoutes | None = None
        rng = np.random.default_rng(search.budget.seed)
        routing = TreeRouting(search.problem, 1, rng)
        routing.capacity = 1.0 / np.array(clock.busy)
        share = len(search.problem.collective.chunks) * (search.problem.ranks - 1)
        target = share / routing.capacity.sum()
        for number in range(SWEEPS):
            if best is not None and search.out_of_time():
                break
            routing.target = target
            if not routing.sweep():
                return
            target = TIGHTER * float((routing.load / routing.capacity).max())
            if number < SWEEPS // 2 and number != 1:
                continue
            found = _Listing(tables, clock, routing.trees, routing.load).run()
            if best is None or found.seconds < best.seconds:
                best = found
        if best is not None:
            search.offer(schedule_of(tables, best), "timed-trees")

    return Strategy("timed-trees", improve, refuses)


@dataclass
class _Listing:
    """One list schedule of fixed trees."""

    tables: CopyProblem
    clock: LinkTimes
    trees: list[list[tuple[int, int, int]]]
    load: np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # deliveries over each resource

    def run(self) -> TimedRoutes:
        """Begin times of all deliveries."""
        tasks = [(k, a) for k, tree in enumerate(self.trees) for _, _, a in tree]
        self.uses = [self.tables.resources_of[a] for _, a in tasks]
        self.flow = [
            self.clock.alpha[a] + max((self.clock.busy[r] for r in used), default=0.0)
            for (_, a), used in zip(tasks, self.uses, strict=True)
        ]
        below, self.parent = precedence(self.trees)
        self.done = [False] * len(tasks)
        self.left = [n * b for n, b in zip(self.load.tolist(), self.clock.busy, strict=True)]
        free = [0.0] * len(self.left)
        ready = dict.fromkeys(below[-1], 0.0)
        start: dict[tuple[int, int], float] = {}
        last, epoch = 0.0, max(self.left, default=0.0) / EPOCHS
        until = epoch
        while ready:
            urgency = self._urgency()
            heap = [
                (max([r, *(free[x] for x in self.uses[i])]) - URGENT * urgency[i], -urgency[i], i)
                for i, r in ready.items()
            ]
            heapify(heap)
            until = max(until, heap[0][0] + epoch)
            while heap and heap[0][0] <= until:
                begins, key, i = heappop(heap)
                now = max([ready[i], *(free[x] for x in self.uses[i])])
                if now - URGENT * urgency[i] > begins + 1e-15:
                    heappush(heap, (now - URGENT * urgency[i], key, i))
                    continue
                for x in self.uses[i]:
                    free[x] = now + self.clock.busy[x]
                    self.left[x] -= self.clock.busy[x]
                self.done[i] = True
                del ready[i]
                start[tasks[i]] = now
                arrives = now + self.flow[i]
                last = max(last, arrives)
                for child in below[i]:
                    ready[child] = arrives
                    heappush(heap, (arrives - URGENT * urgency[child], -urgency[child], child))
        return TimedRoutes(start, self.left, last)

    def _urgency(self) -> list[float]:
        """Seconds that each delivery stands before."""
        urgency = [0.0] * len(self.uses)
        for i in range(len(self.uses) - 1, -1, -1):
            if self.done[i]:
                continue
            urgency[i] = max([urgency[i], *(self.left[r] for r in self.uses[i])])
            p = self.parent[i]
            if p >= 0:
                urgency[p] = max(urgency[p], urgency[i] + self.flow[i])
        return urgency
