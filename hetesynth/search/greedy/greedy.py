"""Greedy rounds with negotiated prices: schedules of a copying problem, better and better.

Step by step, the delivery that brings its chunk closest to all ranks still lacking it goes first (the refinement
of GREEDYHEURISTIC in HeteCCL appendix H, which only saturates links). Closeness is measured with prices on
resources, so a chunk is not sent twice into a region whose ingress is scarce. After each round the resources that
were used most against their capacity become dearer and the round is repeated: the negotiated congestion of
PathFinder (McMurchie and Ebeling 1995), applied to schedules. Later rounds break ties at random.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.random import Generator

from hetesynth.machine_code import Floats, Ints, Kernel, machine_code, pays, rows
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem, distances, start_arrays, without_useless
from hetesynth.search.effort import scaled
from hetesynth.search.greedy.kernel import Network, Progress, Rules, run_round
from hetesynth.search.portable_math import dearer, power
from hetesynth.search.search import Search, Strategy

HOP_PRICE = 1e-3
"""The price of a link beside its resources, so that fewer hops win where nothing is scarce."""


def improve(search: Search, rounds: int | None = None, enough: int = 0) -> None:
    """Offer better and better schedules until the bound is met, the rounds are used up or time is out."""
    arrays = _arrays(CopyProblem(search.problem))
    capacity = arrays[1].capacity
    rng = np.random.default_rng(search.budget.seed)
    collective, policy = search.problem.collective, search.policy.greedy
    price = power(1.0 / capacity, 1.2 if any(len(post) > 1 for post in collective.post) else 1.0)
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
        kernel = machine_code(run_round) if pays(run_round, seconds) else run_round
        with _deadline(search) as stop:
            schedule, used = _round(search, arrays, price, rng, number, kernel, stop)
        better = schedule is not None and search.offer(schedule, "greedy")
        rounds_in_vain = 0 if better else rounds_in_vain + 1
        last = search.elapsed() - began
        # dearer by how close a resource came to being the busiest; the sum of prices stays what it was
        steps_used = used / capacity
        if steps_used.max() > 0:
            raised = dearer(price, steps_used / steps_used.max(), 0.5, 2)
            price = raised * ((1.0 / capacity).sum() / raised.sum())


@contextmanager
def _deadline(search: Search) -> Iterator[Ints]:
    """Yield a flag that is set when time is out, for a first schedule 20 s at least, but for a strict deadline."""
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


Arrays = tuple[CopyProblem, Network, Floats]
"""A problem, its arrays for the kernel without prices, and sender sets x ranks, 1 for members."""


def _round(
    search: Search, arrays: Arrays, price: Floats, rng: Generator, number: int, kernel: Kernel, stop: Ints
) -> tuple[Schedule | None, Floats]:
    """Return the schedule of round ``number`` at fixed prices (None: it gave up) and the uses of each resource."""
    (tables, network, members), policy, problem = arrays, search.policy.greedy, search.problem
    ranks, (src, dst), (arc, resource) = problem.ranks, tables.ends, tables.uses
    cost = np.full(len(src), HOP_PRICE)
    np.add.at(cost, arc, price[resource])
    closest = power(distances(ranks, src, dst, cost), policy.urgency[number % len(policy.urgency)])
    holds, lacks = start_arrays(problem)
    noise = 1.0 + (0.05, 0.0, 0.2)[number % 3] * rng.random(holds.shape)
    by_link = rng.random(len(src)) * HOP_PRICE
    towards = np.ascontiguousarray(closest.T)
    network = network._replace(price=price, closest=closest, towards=towards, noise=noise, arc_noise=by_link)
    peers = ranks if problem.max_peers is None else problem.max_peers
    limit = 0 if search.best is None else int(1.5 * search.best.makespan)  # longer rounds are abandoned
    rules = Rules(problem.exclusive_reduction, peers, limit, policy.stale_share)
    progress = Progress(
        (members @ holds.T.astype(np.float64)).astype(np.int64),
        (holds.astype(np.float64) @ network.egresses).astype(np.int64),
        holds,
        lacks,
        np.stack([closest[sorted(pre)].min(axis=0) for pre in problem.collective.pre]),
        np.zeros(len(price)),
        np.zeros((holds.size, 3), dtype=np.int64),
    )
    count, steps = kernel(network, rules, progress, stop)
    if steps < 0:
        return None, progress.used
    moved = [Transfer(t, t + 1, k, a) for t, k, a in progress.transfers[:count].tolist()]
    return without_useless(problem, moved, steps), progress.used


def _arrays(tables: CopyProblem) -> Arrays:
    ranks, (src, dst_of), (_, uses) = tables.problem.ranks, tables.ends, tables.uses
    capacity: Ints = np.array([r.capacity for r in tables.resources], dtype=np.int64)
    ingress_of, egress_of = _most_shared(tables, dst_of), _most_shared(tables, src)
    into: Ints = np.lexsort((np.arange(len(src)), ingress_of, dst_of)).astype(np.int64)
    dst, ingress = dst_of[into], ingress_of[into]
    fresh = np.ones(len(dst), dtype=np.bool_)
    fresh[1:] = (dst[1:] != dst[:-1]) | (ingress[1:] != ingress[:-1])
    begins = np.flatnonzero(fresh)
    # egress resources of equal capacity and as many arcs are of one class
    pairs = np.unique(np.stack([egress_of, src], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] >= 0]
    class_of: dict[tuple[int, int], int] = {}
    classes = np.full(len(capacity), -1, dtype=np.int64)
    for r in np.unique(pairs[:, 0]).tolist():
        resource = tables.resources[r]
        classes[r] = class_of.setdefault((resource.capacity, len(resource.arcs)), len(class_of))
    egresses = np.zeros((ranks, max(1, len(class_of))), dtype=np.int64)
    np.add.at(egresses, (pairs[:, 1], classes[pairs[:, 0]]), 1)
    of_arc = np.where(egress_of >= 0, classes[egress_of], -1)[into]
    least, most = np.minimum.reduceat(of_arc, begins), np.maximum.reduceat(of_arc, begins)

    index: dict[frozenset[int], int] = {}
    sources = np.split(src[into], begins[1:])
    set_of = [index.setdefault(frozenset(senders.tolist()), len(index)) for senders in sources]
    members = np.zeros((len(index), ranks))
    for senders, c in index.items():
        members[c, sorted(senders)] = 1.0
    sets_start, sets = rows([np.flatnonzero(of_rank).tolist() for of_rank in members.T])
    unknown, table = np.zeros(0), np.zeros((0, 0))
    network = Network(
        arc_src=src,
        into=into,
        ingress=ingress[begins],
        ingress_start=np.append(begins, len(dst)).astype(np.int64),
        ingresses_of=np.searchsorted(dst[begins], np.arange(ranks + 1)).astype(np.int64),
        sender_set=np.array(set_of, dtype=np.int64),
        sets_of=sets,
        sets_start=sets_start,
        egress_class=classes,
        ingress_class=np.where(least == most, most, -1).astype(np.int64),
        leavers=pairs[:, 1].copy(),
        leavers_start=np.searchsorted(pairs[:, 0], np.arange(len(capacity) + 1)).astype(np.int64),
        egresses=egresses,
        uses=uses,
        uses_start=rows(tables.resources_of)[0],
        capacity=capacity,
        price=unknown,
        closest=table,
        towards=table,
        noise=table,
        arc_noise=unknown,
    )
    return tables, network, members


def _most_shared(tables: CopyProblem, end: Ints) -> Ints:
    """For each arc, the resource that most arcs at its end (a rank) share with it; -1 without one."""
    arc, resource = tables.uses
    shared = np.zeros((tables.problem.ranks, len(tables.resources)), dtype=np.int64)
    np.add.at(shared, (end[arc], resource), 1)
    weight = shared[end[arc], resource]
    rising = np.lexsort((-resource, weight))  # the last entry of an arc wins: most shared, lowest index
    most = np.full(len(end), -1, dtype=np.int64)
    most[arc[rising]] = resource[rising]
    return most


STRATEGY = Strategy("greedy", improve)
