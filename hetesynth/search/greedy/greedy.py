"""Greedy rounds with negotiated prices.

Step by step, the delivery that brings its chunk closest to all ranks still lacking it goes first (the
refinement of GREEDYHEURISTIC in HeteCCL appendix H, which only saturates links). Closeness is measured with
prices on resources, so a chunk is not sent twice into a region whose ingress is scarce. After each round the
resources that were used most against their capacity become dearer and the round is repeated: the negotiated
congestion of PathFinder (McMurchie and Ebeling 1995), applied to schedules. Later rounds break ties at random.

In: a copying problem. Out: schedules that keep every capacity, better and better.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hetesynth.errors import InternalError
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy.greedy import GreedyPolicy
from hetesynth.search.copy_problem import CopyProblem, start_arrays, without_useless
from hetesynth.search.greedy.kernel import STUCK, Floats, Ints, Network, Progress, Rules, compiled, run_round
from hetesynth.search.machine_code import most_interpreted, rows
from hetesynth.search.portable_math import dearer, power
from hetesynth.search.search import Search, Strategy


def improve(search: Search, rounds: int | None = None, enough: int = 0) -> None:
    """Offer better and better schedules until the bound is met, the rounds are used up or time is out."""
    arrays = _Arrays(CopyProblem(search.problem))
    rng = np.random.default_rng(search.budget.seed)
    multicast = any(len(post) > 1 for post in search.problem.collective.post)
    policy = search.policy.greedy
    price = power(1.0 / arrays.capacity, policy.scarcity if multicast else 1.0)
    deliveries = max(1, search.problem.collective.deliveries)
    # ranks that a round looks at: for each delivery, and several times for each chunk
    work = (deliveries + policy.work_per_chunk * len(search.problem.collective.chunks)) * search.problem.ranks
    large = work > most_interpreted(run_round, search.policy.machine_code.greedy_work)
    most_seconds = most_interpreted(run_round, search.policy.machine_code.greedy_seconds)
    interpreted = 0.0
    patience = max(policy.min_patience, min(policy.max_patience, policy.patience_work // deliveries))
    most_rounds = max(policy.min_rounds, min(policy.max_rounds, policy.round_work // deliveries))
    rounds_in_vain = 0
    last = 0.0  # seconds of the last round; no round is begun that would not end in time
    for number in range(rounds or most_rounds):
        if search.reached(enough) or rounds_in_vain >= patience or (number and search.out_of_time(last)):
            return
        began, computed = search.elapsed(), time.process_time()
        limit = 0 if search.best is None else int(policy.abandon_ratio * search.best.makespan)
        large = large or interpreted > most_seconds
        kernel = compiled() if large else run_round
        with _deadline(search) as stop:
            schedule, used = _round(arrays, price, rng, policy, number, limit, kernel, stop)
        better = schedule is not None and search.offer(schedule, "greedy")
        rounds_in_vain = 0 if better else rounds_in_vain + 1
        last = search.elapsed() - began
        interpreted += 0.0 if large else time.process_time() - computed
        price = _repriced(price, used / arrays.capacity, arrays.capacity, policy)


def one_round(search: Search) -> None:
    """One pass over the steps: a schedule soon, not the shortest."""
    improve(search, rounds=1)


@contextmanager
def _deadline(search: Search) -> Iterator[Ints]:
    """What stops a round when time is out; the first schedule of all gets ``extension_seconds`` at least, where
    the budget has no strict deadline."""
    stop: Ints = np.zeros(1, dtype=np.int64)
    left = search.remaining()
    if left is None:
        yield stop
        return
    extended = search.best is None and not search.budget.strict_deadline
    least = search.policy.greedy.extension_seconds if extended else 0.0
    watch = threading.Timer(max(left, least), stop.fill, (1,))
    watch.daemon = True
    watch.start()
    try:
        yield stop
    finally:
        watch.cancel()
        if stop[0]:
            search.clock_decisions.note("greedy round")


def _repriced(price: Floats, steps_used: Floats, capacity: Ints, policy: GreedyPolicy) -> Floats:
    """Dearer by how close a resource came to being the busiest; the sum of prices stays what it was."""
    busiest = steps_used.max()
    if busiest <= 0:
        return price
    raised = dearer(price, steps_used / busiest, policy.price_growth, policy.price_exponent)
    scaled: Floats = raised * ((1.0 / capacity).sum() / raised.sum())
    return scaled


def _round(
    arrays: _Arrays, price: Floats, rng: np.random.Generator, policy: GreedyPolicy, number: int, most_steps: int,
    kernel: Callable[..., Any], stop: Ints,
) -> tuple[Schedule | None, Floats]:  # fmt: skip
    """Pass ``number`` over the steps with fixed prices: its schedule (None: far behind the best) and the uses."""
    problem = arrays.tables.problem
    closest = power(arrays.distances(price, policy.hop_price), policy.urgency[number % len(policy.urgency)])
    holds, lacks = start_arrays(problem)
    distance: Floats = np.stack([closest[sorted(pre)].min(axis=0) for pre in problem.collective.pre])
    noise = 1.0 + policy.noise[number % len(policy.noise)] * rng.random(holds.shape)
    transfers: Ints = np.zeros((holds.size, 3), dtype=np.int64)
    used: Floats = np.zeros(len(price))
    egress_count = (holds.astype(np.float64) @ arrays.egresses[-1]).astype(np.int64)
    network = Network(
        arrays.src, arrays.into, *arrays.ingresses, *arrays.sender_sets, *arrays.egresses,
        arrays.uses, arrays.uses_start, arrays.capacity, price, closest, np.ascontiguousarray(closest.T),
        noise, rng.random(len(arrays.src)) * policy.hop_price,
    )  # fmt: skip
    peers = problem.ranks if problem.max_peers is None else problem.max_peers
    rules = Rules(
        problem.exclusive_reduction, peers, policy.new_peer_price, most_steps,
        policy.list_length, policy.stale_share, policy.full_price,
    )  # fmt: skip
    senders_holding = (arrays.members @ holds.T.astype(np.float64)).astype(np.int64)
    progress = Progress(senders_holding, egress_count, holds, lacks, distance, used, transfers)
    count, steps = kernel(network, rules, progress, stop)
    if steps == STUCK and problem.max_peers is None:
        raise InternalError("greedy cannot move although every rank can be reached")
    if steps < 0:
        return None, used
    moved = [Transfer(t, t + 1, k, a) for t, k, a in transfers[:count].tolist()]
    return without_useless(problem, moved, steps), used


class _Arrays:
    """A copying problem as the kernel reads it.

    ``into``: arcs by destination, then by ingress. ``ingresses``: the resource of each, where its arcs begin in
    ``into``, where those of each rank begin. ``egresses``: the class of each resource (-1: no egress resource) and
    of each ingress (-1: mixed), ranks that leave by each resource and where they begin, egress resources of each
    class per rank. ``sender_sets``: of each ingress, of each rank, and where these begin; ``members``: sender
    sets x ranks.
    """

    def __init__(self, tables: CopyProblem) -> None:
        self.tables = tables
        arcs, ranks = tables.problem.arcs, tables.problem.ranks
        self.capacity: Ints = np.array([r.capacity for r in tables.resources], dtype=np.int64)
        self.src: Ints = np.array([arc.src for arc in arcs], dtype=np.int64)
        self.dst: Ints = np.array([arc.dst for arc in arcs], dtype=np.int64)
        self.uses_start, self.uses = rows(tables.resources_of)
        self.arc_of_use = np.repeat(np.arange(len(arcs)), np.diff(self.uses_start))
        ingress_of, egress_of = self._most_shared(self.dst), self._most_shared(self.src)
        self.into: Ints = np.lexsort((np.arange(len(arcs)), ingress_of, self.dst)).astype(np.int64)
        dst, ingress = self.dst[self.into], ingress_of[self.into]
        fresh = np.ones(len(dst), dtype=np.bool_)
        fresh[1:] = (dst[1:] != dst[:-1]) | (ingress[1:] != ingress[:-1])
        begins = np.flatnonzero(fresh)
        starts = np.append(begins, len(dst)).astype(np.int64)
        of_rank = np.searchsorted(dst[begins], np.arange(ranks + 1)).astype(np.int64)
        self.ingresses = ingress[begins], starts, of_rank
        self.egresses = self._egresses(egress_of, starts)

        sources = self.src[self.into].tolist()
        index: dict[frozenset[int], int] = {}
        set_of = [
            index.setdefault(frozenset(sources[begin:end]), len(index))
            for begin, end in itertools.pairwise(starts.tolist())
        ]
        self.members = np.zeros((len(index), ranks))
        sets_of: list[list[int]] = [[] for _ in range(ranks)]
        for senders, c in index.items():
            self.members[c, sorted(senders)] = 1.0
            for rank in senders:
                sets_of[rank].append(c)
        sets_start, sets = rows(sets_of)
        self.sender_sets = np.array(set_of, dtype=np.int64), sets, sets_start

    def _most_shared(self, end: Ints) -> Ints:
        """For each arc, the resource that most arcs at its end (a rank) share with it; -1 without one."""
        shared = np.zeros((self.tables.problem.ranks, len(self.capacity)), dtype=np.int64)
        np.add.at(shared, (end[self.arc_of_use], self.uses), 1)
        weight = shared[end[self.arc_of_use], self.uses]
        rising = np.lexsort((-self.uses, weight))  # the last entry of an arc wins: most shared, lowest index
        most = np.full(len(self.src), -1, dtype=np.int64)
        most[self.arc_of_use[rising]] = self.uses[rising]
        return most

    def _egresses(self, egress_of: Ints, ingress_starts: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        pairs = np.unique(np.stack([egress_of, self.src], axis=1), axis=0)
        pairs = pairs[pairs[:, 0] >= 0]
        class_of: dict[tuple[int, int], int] = {}
        classes = np.full(len(self.capacity), -1, dtype=np.int64)
        for r in np.unique(pairs[:, 0]).tolist():
            resource = self.tables.resources[r]
            classes[r] = class_of.setdefault((resource.capacity, len(resource.arcs)), len(class_of))
        counts = np.zeros((self.tables.problem.ranks, max(1, len(class_of))), dtype=np.int64)
        np.add.at(counts, (pairs[:, 1], classes[pairs[:, 0]]), 1)
        starts = np.searchsorted(pairs[:, 0], np.arange(len(self.capacity) + 1)).astype(np.int64)
        of_arc = np.where(egress_of >= 0, classes[egress_of], -1)[self.into]
        least = np.minimum.reduceat(of_arc, ingress_starts[:-1])
        most = np.maximum.reduceat(of_arc, ingress_starts[:-1])
        of_ingress = np.where(least == most, most, -1).astype(np.int64)
        return classes, of_ingress, pairs[:, 1].copy(), starts, counts

    def distances(self, price: Floats, hop_price: float) -> Floats:
        """All-pairs distances, ranks x ranks, a link costing the prices of its resources (Floyd-Warshall)."""
        ranks = self.tables.problem.ranks
        cost = np.full(len(self.src), hop_price)
        np.add.at(cost, self.arc_of_use, price[self.uses])
        closest: Floats = np.full((ranks, ranks), np.inf)
        np.fill_diagonal(closest, 0.0)
        np.minimum.at(closest, (self.src, self.dst), cost)
        for m in range(ranks):
            np.minimum(closest, closest[:, m : m + 1] + closest[m : m + 1, :], out=closest)
        return closest


STRATEGY = Strategy("greedy", improve)
