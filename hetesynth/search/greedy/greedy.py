"""Greedy rounds with negotiated prices.

Step by step, the delivery that brings its chunk closest to all ranks still lacking it goes first (the
refinement of GREEDYHEURISTIC in HeteCCL appendix H, which only saturates links). Closeness is measured with
prices on resources, so a chunk is not sent twice into a region whose ingress is scarce. After each round the
resources that were used most against their capacity become dearer and the round is repeated: the negotiated
congestion of PathFinder (McMurchie and Ebeling 1995), applied to schedules. Later rounds break ties at random.

In: a copying problem. Out: schedules that keep every capacity, better and better.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from hetesynth.errors import InternalError
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import GreedyPolicy
from hetesynth.search.copy_problem import CopyProblem, start_arrays, without_useless
from hetesynth.search.effort import scaled
from hetesynth.search.greedy.kernel import STUCK, Network, Progress, Rules, run_round
from hetesynth.search.machine_code import Floats, Ints, Kernel, machine_code, pays, rows
from hetesynth.search.portable_math import dearer, power
from hetesynth.search.search import Search, Strategy

HOP_PRICE = 1e-3
"""What a link costs beside its resources, so that fewer hops win where nothing is scarce."""


def improve(search: Search, rounds: int | None = None, enough: int = 0) -> None:
    """Offer better and better schedules until the bound is met, the rounds are used up or time is out."""
    arrays = _Arrays(CopyProblem(search.problem))
    rng = np.random.default_rng(search.budget.seed)
    collective, policy = search.problem.collective, search.policy.greedy
    price = power(1.0 / arrays.capacity, 1.2 if any(len(post) > 1 for post in collective.post) else 1.0)
    deliveries = max(1, collective.deliveries)
    share, most = policy.rounds, policy.most_rounds
    patience = min(most, max(12, min(scaled(120, share), scaled(200_000, share) // deliveries)))
    most_rounds = min(most, max(4, min(scaled(400, share), scaled(1_500_000, share) // deliveries)))
    # about as long as a round takes interpreted: it looks at ranks for each delivery, and more for each chunk
    seconds = 5e-6 * (deliveries + 8 * len(collective.chunks)) * search.problem.ranks
    rounds_in_vain = 0
    last = 0.0  # seconds of the last round; no round is begun that would not end in time
    for number in range(rounds or most_rounds):
        if search.reached(enough) or rounds_in_vain >= patience or (number and search.out_of_time(last)):
            return
        began = search.elapsed()
        limit = 0 if search.best is None else int(1.5 * search.best.makespan)  # longer rounds are abandoned
        kernel = machine_code(run_round) if pays(run_round, seconds) else run_round
        with _deadline(search) as stop:
            schedule, used = _round(arrays, price, rng, policy, number, limit, kernel, stop)
        better = schedule is not None and search.offer(schedule, "greedy")
        rounds_in_vain = 0 if better else rounds_in_vain + 1
        last = search.elapsed() - began
        # dearer by how close a resource came to being the busiest; the sum of prices stays what it was
        steps_used = used / arrays.capacity
        if steps_used.max() > 0:
            raised = dearer(price, steps_used / steps_used.max(), 0.5, 2)
            price = raised * ((1.0 / arrays.capacity).sum() / raised.sum())


@contextmanager
def _deadline(search: Search) -> Iterator[Ints]:
    """What stops a round when time is out; the first schedule of all gets 20 seconds at least, where the budget
    has no strict deadline."""
    stop: Ints = np.zeros(1, dtype=np.int64)
    left = search.remaining()
    if left is None:
        yield stop
        return
    least = 20.0 if search.best is None and not search.budget.strict_deadline else 0.0
    watch = threading.Timer(max(left, least), stop.fill, (1,))
    watch.daemon = True
    watch.start()
    try:
        yield stop
    finally:
        watch.cancel()
        if stop[0]:
            search.clock_decisions.note("greedy round")


def _round(
    arrays: _Arrays,
    price: Floats,
    rng: np.random.Generator,
    policy: GreedyPolicy,
    number: int,
    most_steps: int,
    kernel: Kernel,
    stop: Ints,
) -> tuple[Schedule | None, Floats]:
    """Pass ``number`` over the steps with fixed prices: its schedule (None: far behind the best) and the uses."""
    problem = arrays.tables.problem
    ranks = problem.ranks
    # all-pairs distances, a link costing the prices of its resources (Floyd-Warshall)
    cost = np.full(len(arrays.src), HOP_PRICE)
    np.add.at(cost, arrays.arc_of_use, price[arrays.uses])
    closest: Floats = np.full((ranks, ranks), np.inf)
    np.fill_diagonal(closest, 0.0)
    np.minimum.at(closest, (arrays.src, arrays.dst), cost)
    for m in range(ranks):
        np.minimum(closest, closest[:, m : m + 1] + closest[m : m + 1, :], out=closest)
    closest = power(closest, policy.urgency[number % len(policy.urgency)])
    holds, lacks = start_arrays(problem)
    noise = 1.0 + (0.05, 0.0, 0.2)[number % 3] * rng.random(holds.shape)
    network = Network(
        arrays.src,
        arrays.into,
        *arrays.ingresses,
        *arrays.sender_sets,
        *arrays.egresses,
        arrays.uses,
        arrays.uses_start,
        arrays.capacity,
        price,
        closest,
        np.ascontiguousarray(closest.T),
        noise,
        rng.random(len(arrays.src)) * HOP_PRICE,
    )
    peers = ranks if problem.max_peers is None else problem.max_peers
    rules = Rules(problem.exclusive_reduction, peers, most_steps, policy.stale_share)
    progress = Progress(
        (arrays.members @ holds.T.astype(np.float64)).astype(np.int64),
        (holds.astype(np.float64) @ arrays.egresses[-1]).astype(np.int64),
        holds,
        lacks,
        np.stack([closest[sorted(pre)].min(axis=0) for pre in problem.collective.pre]),
        np.zeros(len(price)),
        np.zeros((holds.size, 3), dtype=np.int64),
    )
    count, steps = kernel(network, rules, progress, stop)
    if steps == STUCK and problem.max_peers is None:
        raise InternalError("greedy cannot move although every rank can be reached")
    if steps < 0:
        return None, progress.used
    moved = [Transfer(t, t + 1, k, a) for t, k, a in progress.transfers[:count].tolist()]
    return without_useless(problem, moved, steps), progress.used


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
        self.src, self.dst = tables.ends
        self.uses_start, _ = rows(tables.resources_of)
        self.arc_of_use, self.uses = tables.uses
        ingress_of, egress_of = self._most_shared(self.dst), self._most_shared(self.src)
        self.into: Ints = np.lexsort((np.arange(len(arcs)), ingress_of, self.dst)).astype(np.int64)
        dst, ingress = self.dst[self.into], ingress_of[self.into]
        fresh = np.ones(len(dst), dtype=np.bool_)
        fresh[1:] = (dst[1:] != dst[:-1]) | (ingress[1:] != ingress[:-1])
        begins = np.flatnonzero(fresh)
        starts = np.append(begins, len(dst)).astype(np.int64)
        of_rank = np.searchsorted(dst[begins], np.arange(ranks + 1)).astype(np.int64)
        self.ingresses = ingress[begins], starts, of_rank
        # egress resources of equal capacity and as many arcs are of one class
        pairs = np.unique(np.stack([egress_of, self.src], axis=1), axis=0)
        pairs = pairs[pairs[:, 0] >= 0]
        class_of: dict[tuple[int, int], int] = {}
        classes = np.full(len(self.capacity), -1, dtype=np.int64)
        for r in np.unique(pairs[:, 0]).tolist():
            resource = tables.resources[r]
            classes[r] = class_of.setdefault((resource.capacity, len(resource.arcs)), len(class_of))
        counts = np.zeros((ranks, max(1, len(class_of))), dtype=np.int64)
        np.add.at(counts, (pairs[:, 1], classes[pairs[:, 0]]), 1)
        leaving = np.searchsorted(pairs[:, 0], np.arange(len(self.capacity) + 1)).astype(np.int64)
        of_arc = np.where(egress_of >= 0, classes[egress_of], -1)[self.into]
        least, most = np.minimum.reduceat(of_arc, begins), np.maximum.reduceat(of_arc, begins)
        of_ingress = np.where(least == most, most, -1).astype(np.int64)
        self.egresses = classes, of_ingress, pairs[:, 1].copy(), leaving, counts

        index: dict[frozenset[int], int] = {}
        sources = np.split(self.src[self.into], begins[1:])
        set_of = [index.setdefault(frozenset(senders.tolist()), len(index)) for senders in sources]
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


STRATEGY = Strategy("greedy", improve)
