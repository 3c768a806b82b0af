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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetesynth.errors import InternalError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy.greedy import GreedyPolicy
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.greedy.kernel import (
    STUCK,
    Bools,
    Floats,
    Ints,
    Network,
    Progress,
    Rules,
    compiled,
    run_round,
)
from hetesynth.search.machine_code import most_interpreted
from hetesynth.search.portable_math import dearer, power
from hetesynth.search.search import Search, Strategy


def improve(search: Search, rounds: int | None = None, enough: int = 0) -> None:
    """Offer better and better schedules until the bound is met, the rounds are used up or time is out."""
    arrays = _Arrays(CopyProblem(search.problem))
    rng = np.random.default_rng(search.budget.seed)
    multicast = any(len(post) > 1 for post in search.problem.collective.post)
    policy = search.policy.greedy
    price = power(1.0 / arrays.capacity, policy.scarcity if multicast else 1.0)
    large = _work(search.problem, policy) > most_interpreted(run_round, search.policy.machine_code.greedy_work)
    most_seconds = most_interpreted(run_round, search.policy.machine_code.greedy_seconds)
    interpreted = 0.0
    patience = policy.patience_work // _deliveries(search.problem)
    patience = max(policy.min_patience, min(policy.max_patience, patience))
    rounds_in_vain = 0
    last = 0.0  # seconds of the last round; no round is begun that would not end in time
    for number in range(rounds or _rounds(search.problem, policy)):
        if search.reached(enough) or rounds_in_vain >= patience or (number and search.out_of_time(last)):
            return
        began, computed = search.elapsed(), time.process_time()
        limit = 0 if search.best is None else int(policy.abandon_ratio * search.best.makespan)
        large = large or interpreted > most_seconds
        style = _Style(policy, number, limit, compiled=large)
        with _deadline(search) as stop:
            schedule, used = _round(arrays, price, rng, style, stop)
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


@dataclass(frozen=True, slots=True)
class _Style:
    """How a round is run: its number, steps before it is abandoned (0: never), machine code."""

    policy: GreedyPolicy
    number: int
    limit: int
    compiled: bool

    @property
    def noise(self) -> float:
        return self.policy.noise[self.number % len(self.policy.noise)]

    @property
    def urgency(self) -> float:
        return self.policy.urgency[self.number % len(self.policy.urgency)]


def _rounds(problem: Problem, policy: GreedyPolicy) -> int:
    return max(policy.min_rounds, min(policy.max_rounds, policy.round_work // _deliveries(problem)))


def _deliveries(problem: Problem) -> int:
    return max(1, problem.collective.deliveries)


def _work(problem: Problem, policy: GreedyPolicy) -> int:
    return (_deliveries(problem) + policy.work_per_chunk * len(problem.collective.chunks)) * problem.ranks


def _repriced(price: Floats, steps_used: Floats, capacity: Ints, policy: GreedyPolicy) -> Floats:
    """Dearer by how close a resource came to being the busiest; the sum of prices stays what it was."""
    busiest = steps_used.max()
    if busiest <= 0:
        return price
    raised = dearer(price, steps_used / busiest, policy.price_growth, policy.price_exponent)
    scaled: Floats = raised * ((1.0 / capacity).sum() / raised.sum())
    return scaled


def _round(
    arrays: _Arrays, price: Floats, rng: np.random.Generator, style: _Style, stop: Ints
) -> tuple[Schedule | None, Floats]:
    """One pass over the steps with fixed prices: its schedule (None: far behind the best) and the uses."""
    problem = arrays.tables.problem
    closest = power(_priced_distances(arrays, price, style.policy.hop_price), style.urgency)
    holds, lacks = arrays.start()
    distance: Floats = np.stack([closest[sorted(pre)].min(axis=0) for pre in problem.collective.pre])
    factor = 1.0 + style.noise * rng.random(holds.shape)
    most = len(problem.collective.chunks) * problem.ranks
    transfers: Ints = np.zeros((most, 3), dtype=np.int64)
    used: Floats = np.zeros(len(price))
    kernel = compiled() if style.compiled else run_round
    egress_count = (holds.astype(np.float64) @ arrays.egresses[-1]).astype(np.int64)
    network = Network(
        arrays.src, arrays.into, *arrays.ingresses, *arrays.sender_sets, *arrays.egresses,
        arrays.uses, arrays.uses_start, arrays.capacity, price, closest, np.ascontiguousarray(closest.T),
        factor, rng.random(len(arrays.src)) * style.policy.hop_price,
    )  # fmt: skip
    peers = problem.ranks if problem.max_peers is None else problem.max_peers
    rules = Rules(
        problem.exclusive_reduction, peers, style.policy.new_peer_price, style.limit,
        style.policy.list_length, style.policy.stale_share, style.policy.full_price,
    )  # fmt: skip
    progress = Progress(arrays.senders_holding(holds), egress_count, holds, lacks, distance, used, transfers)
    count, steps = kernel(network, rules, progress, stop)
    if steps == STUCK and problem.max_peers is None:
        raise InternalError("greedy cannot move although every rank can be reached")
    if steps < 0:
        return None, used
    moved = [Transfer(t, t + 1, k, a) for t, k, a in transfers[:count].tolist()]
    return without_useless(problem, moved, steps), used


@dataclass(frozen=True)
class _Arrays:
    """A copying problem as the kernel reads it."""

    tables: CopyProblem

    @cached_property
    def capacity(self) -> Ints:
        return np.array([r.capacity for r in self.tables.resources], dtype=np.int64)

    @cached_property
    def src(self) -> Ints:
        return np.array([arc.src for arc in self.tables.problem.arcs], dtype=np.int64)

    @cached_property
    def dst(self) -> Ints:
        return np.array([arc.dst for arc in self.tables.problem.arcs], dtype=np.int64)

    def _most_shared(self, end: Ints) -> Ints:
        """For each arc, the resource that most arcs at its end (a rank) share with it; -1 without one."""
        shared = np.zeros((self.tables.problem.ranks, len(self.capacity)), dtype=np.int64)
        np.add.at(shared, (end[self.arc_of_use], self.uses), 1)
        weight = shared[end[self.arc_of_use], self.uses]
        rising = np.lexsort((-self.uses, weight))  # the last entry of an arc wins: most shared, lowest index
        most = np.full(len(self.src), -1, dtype=np.int64)
        most[self.arc_of_use[rising]] = self.uses[rising]
        return most

    @cached_property
    def ingress_of(self) -> Ints:
        return self._most_shared(self.dst)

    @cached_property
    def egresses(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Egress resources are those that arcs leave their source by."""
        egress_of = self._most_shared(self.src)
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
        return classes, self._ingress_classes(classes, egress_of), pairs[:, 1].copy(), starts, counts

    def _ingress_classes(self, classes: Ints, egress_of: Ints) -> Ints:
        of_arc = np.where(egress_of >= 0, classes[egress_of], -1)[self.into]
        _, starts, _ = self.ingresses
        least = np.minimum.reduceat(of_arc, starts[:-1])
        most = np.maximum.reduceat(of_arc, starts[:-1])
        return np.where(least == most, most, -1).astype(np.int64)

    @cached_property
    def into(self) -> Ints:
        return np.lexsort((np.arange(len(self.dst)), self.ingress_of, self.dst)).astype(np.int64)

    @cached_property
    def ingresses(self) -> tuple[Ints, Ints, Ints]:
        """The resource of each ingress, where its arcs begin in ``into``, and where those of each rank begin."""
        dst, ingress = self.dst[self.into], self.ingress_of[self.into]
        fresh = np.ones(len(dst), dtype=np.bool_)
        fresh[1:] = (dst[1:] != dst[:-1]) | (ingress[1:] != ingress[:-1])
        begins = np.flatnonzero(fresh)
        starts = np.append(begins, len(dst)).astype(np.int64)
        of_rank = np.searchsorted(dst[begins], np.arange(self.tables.problem.ranks + 1)).astype(np.int64)
        return ingress[begins], starts, of_rank

    @cached_property
    def _different_sender_sets(self) -> tuple[list[frozenset[int]], list[int]]:
        """The different sets of ranks that ingresses receive from, and the set of each ingress."""
        _, starts, _ = self.ingresses
        sources = self.src[self.into].tolist()
        index: dict[frozenset[int], int] = {}
        of_ingress = []
        for begin, end in itertools.pairwise(starts.tolist()):
            members = frozenset(sources[begin:end])
            of_ingress.append(index.setdefault(members, len(index)))
        return list(index), of_ingress

    @cached_property
    def sender_sets(self) -> tuple[Ints, Ints, Ints]:
        """The sender set of each ingress, those of each rank, and where those begin."""
        sets, of_ingress = self._different_sender_sets
        member_of: list[list[int]] = [[] for _ in range(self.tables.problem.ranks)]
        for c, members in enumerate(sets):
            for r in members:
                member_of[r].append(c)
        starts = np.concatenate([[0], np.cumsum([len(x) for x in member_of])]).astype(np.int64)
        flat = np.array([c for x in member_of for c in x], dtype=np.int64)
        return np.array(of_ingress, dtype=np.int64), flat, starts

    def senders_holding(self, holds: Bools) -> Ints:
        """How many of each sender set hold each chunk, sender sets x chunks."""
        sets, _ = self._different_sender_sets
        members = np.zeros((len(sets), holds.shape[1]))
        for c, ranks in enumerate(sets):
            members[c, sorted(ranks)] = 1.0
        return (members @ holds.T.astype(np.float64)).astype(np.int64)

    @cached_property
    def uses(self) -> Ints:
        return np.array([r for used in self.tables.resources_of for r in used], dtype=np.int64)

    @cached_property
    def uses_start(self) -> Ints:
        counts = [len(used) for used in self.tables.resources_of]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def arc_of_use(self) -> Ints:
        return np.repeat(np.arange(len(self.src)), np.diff(self.uses_start))

    def start(self) -> tuple[Bools, Bools]:
        """Who holds and who lacks each chunk at the start, chunks x ranks."""
        collective = self.tables.problem.collective
        holds = np.zeros((len(collective.chunks), self.tables.problem.ranks), dtype=np.bool_)
        lacks = np.zeros_like(holds)
        for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
            holds[k, sorted(pre)] = True
            lacks[k, sorted(post - pre)] = True
        return holds, lacks


def _priced_distances(arrays: _Arrays, price: Floats, hop_price: float) -> Floats:
    """All-pairs distances, ranks x ranks, a link costing the prices of its resources (Floyd-Warshall)."""
    ranks = arrays.tables.problem.ranks
    cost = np.full(len(arrays.src), hop_price)
    np.add.at(cost, arrays.arc_of_use, price[arrays.uses])
    closest: Floats = np.full((ranks, ranks), np.inf)
    np.fill_diagonal(closest, 0.0)
    np.minimum.at(closest, (arrays.src, arrays.dst), cost)
    for m in range(ranks):
        np.minimum(closest, closest[:, m : m + 1] + closest[m : m + 1, :], out=closest)
    return closest


STRATEGY = Strategy("greedy", improve)
