"""Greedy seed with negotiated prices.

Step by step, the delivery that brings its chunk closest to all ranks still lacking it goes first (the
refinement of GREEDYHEURISTIC in HeteCCL appendix H, which only saturates links). Closeness is measured with
prices on resources, so a chunk is not sent twice into a region whose ingress is scarce. After each round the
resources that were used most against their capacity become dearer and the round is repeated: the negotiated
congestion of PathFinder (McMurchie and Ebeling 1995), applied to schedules. Later rounds break ties at random.

In: a copying problem. Out: schedules that keep every capacity, better and better.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetesynth.errors import InternalError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.synthesis.dissemination import Dissemination, without_useless
from hetesynth.synthesis.search import Search

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

HOP_PRICE = 1e-3  # a link costs something even where nothing is scarce
MIN_GAIN = 1e-9
STALE = 0.6  # a queued delivery whose gain fell below this share of what it was is queued anew
NOISE = 0.1
GIVE_UP = 1.5  # a round this many times longer than the best schedule is abandoned
MAX_ROUNDS = 80
ROUND_WORK = 1_500_000  # deliveries over all rounds
PATIENCE = 40  # rounds without improvement


def improve(search: Search, rounds: int | None = None) -> None:
    """Offer better and better schedules until the bound is met, the rounds are used up or time is out.

    ``rounds`` defaults to as many as the size of the problem allows.
    """
    tables = Dissemination(search.problem)
    rng = random.Random(search.budget.seed)
    capacity = np.array([float(r.capacity) for r in tables.resources])
    price = 1.0 / capacity
    stale = 0
    for number in range(rounds or _rounds(search.problem)):
        if search.done or stale >= PATIENCE or (number and search.out_of_time()):
            return
        one = _Round(tables, price, rng, noise=NOISE if number else 0.0)
        schedule = one.run(search)
        better = schedule is not None and search.offer(schedule, "greedy")
        stale = 0 if better else stale + 1
        price = _repriced(price, one.used / capacity, capacity)


def _rounds(problem: Problem) -> int:
    deliveries = sum(len(post) for post in problem.collective.post)
    return max(4, min(MAX_ROUNDS, ROUND_WORK // max(1, deliveries)))


def _repriced(price: Floats, steps_used: Floats, capacity: Floats) -> Floats:
    """Dearer by how close a resource came to being the busiest; the sum of prices stays what it was."""
    busiest = steps_used.max()
    if busiest <= 0:
        return price
    raised = price * (1.0 + 0.5 * (steps_used / busiest) ** 2)
    scaled: Floats = raised * ((1.0 / capacity).sum() / raised.sum())
    return scaled


@dataclass
class _Round:
    """One pass over the steps with fixed prices."""

    tables: Dissemination
    price: Floats
    rng: random.Random
    noise: float
    used: Floats = field(init=False)

    def __post_init__(self) -> None:
        problem = self.tables.problem
        self.used = np.zeros(len(self.tables.resources))
        self.capacity = [r.capacity for r in self.tables.resources]
        self.closest = _priced_distances(self.tables, self.price)
        chunks = len(problem.collective.chunks)
        self.holds: Bools = np.zeros((chunks, problem.ranks), dtype=bool)
        self.lacks: Bools = np.zeros((chunks, problem.ranks), dtype=bool)
        for k in range(chunks):
            self.holds[k, sorted(problem.collective.pre[k])] = True
            self.lacks[k, sorted(problem.collective.post[k])] = True
        self.lacks &= ~self.holds
        self.distance: Floats = np.stack([self.closest[sorted(pre)].min(axis=0) for pre in problem.collective.pre])

    def run(self, search: Search) -> Schedule | None:
        """The schedule of this round, or None when it was given up: far behind the best, or out of time."""
        transfers: list[Transfer] = []
        step = 0
        while self.lacks.any():
            if search.best is not None and (step > GIVE_UP * search.best.makespan or search.out_of_time()):
                return None
            before = len(transfers)
            self._step(step, transfers)
            if len(transfers) == before:
                raise InternalError("greedy cannot move although every rank can be reached")
            step += 1
        return without_useless(self.tables.problem, transfers, step)

    def _step(self, step: int, transfers: list[Transfer]) -> None:
        """Fill one step: deliveries by falling gain, each over the least loaded cheap link."""
        self.residual = list(self.capacity)
        self.sent: set[tuple[int, int]] = set()
        self.will_hold: Bools = self.holds.copy()
        gains = self._gains()
        queue = self._queue(gains)
        while queue:
            promised, k, v = heapq.heappop(queue)
            if self.will_hold[k, v]:
                continue
            gain = float(gains[k, v])
            if gain <= MIN_GAIN:
                continue
            if gain < -promised * STALE:
                heapq.heappush(queue, (-gain, k, v))
                continue
            arc = self._arc_into(k, v)
            if arc is None:
                continue
            self._take(k, arc)
            self.will_hold[k, v] = True
            self.lacks[k, v] = False
            transfers.append(Transfer(step, step + 1, k, arc))
            np.minimum(self.distance[k], self.closest[v], out=self.distance[k])
            gains[k] = self._gain(k)
        self.holds = self.will_hold

    def _gain(self, k: int) -> Floats:
        """For each rank, how much closer chunk k comes to all that lack it once the rank holds it."""
        lacking = np.flatnonzero(self.lacks[k])
        saved = self.distance[k, lacking][None, :] - self.closest[:, lacking]
        gain: Floats = np.maximum(saved, 0.0).sum(axis=1)
        gain[self.will_hold[k]] = 0.0
        return gain

    def _gains(self) -> Floats:
        gains = np.zeros(self.holds.shape)
        for k in np.flatnonzero(self.lacks.any(axis=1)):
            gains[k] = self._gain(int(k))
        return gains

    def _queue(self, gains: Floats) -> list[tuple[float, int, int]]:
        chunks, ranks = np.nonzero(gains > MIN_GAIN)
        promised = gains[chunks, ranks]
        if self.noise:
            promised = promised * np.array([1.0 + self.noise * self.rng.random() for _ in range(len(chunks))])
        queue = list(zip((-promised).tolist(), chunks.tolist(), ranks.tolist(), strict=True))
        heapq.heapify(queue)
        return queue

    def _arc_into(self, k: int, v: int) -> int | None:
        """The cheapest link with room that brings chunk k to rank v; fuller resources cost more."""
        best: tuple[float, int] | None = None
        arcs = self.tables.problem.arcs
        holders = self.holds[k]
        exclusive = self.tables.problem.exclusive_reduction
        for a in self.tables.into[v]:
            if not holders[arcs[a].src] or (exclusive and (k, arcs[a].src) in self.sent):
                continue
            cost = self.rng.random() * HOP_PRICE
            for r in self.tables.resources_of[a]:
                left = self.residual[r]
                if left <= 0:
                    break
                cost += self.price[r] * (2.0 - left / self.capacity[r])
            else:
                if best is None or cost < best[0]:
                    best = (cost, a)
        return None if best is None else best[1]

    def _take(self, k: int, arc: int) -> None:
        self.sent.add((k, self.tables.problem.arcs[arc].src))
        for r in self.tables.resources_of[arc]:
            self.residual[r] -= 1
            self.used[r] += 1


def _priced_distances(tables: Dissemination, price: Floats) -> Floats:
    """All-pairs distances, ranks x ranks, a link costing the prices of its resources (Floyd-Warshall)."""
    problem = tables.problem
    closest: Floats = np.full((problem.ranks, problem.ranks), np.inf)
    np.fill_diagonal(closest, 0.0)
    for a, arc in enumerate(problem.arcs):
        cost = HOP_PRICE + sum(price[r] for r in tables.resources_of[a])
        closest[arc.src, arc.dst] = min(closest[arc.src, arc.dst], cost)
    for m in range(problem.ranks):
        np.minimum(closest, closest[:, m : m + 1] + closest[m : m + 1, :], out=closest)
    return closest
