"""Links that are free matched at random with chunks that their receivers lack, as time goes on.

Source: TACOS (MICRO 2024). For direct networks, where a rank has few neighbours and what one is sent, another may
send as well: no tree is kept, so that no link waits for what comes down a long path while a chunk is there that it
could bring. Of the chunks that a link could carry it takes one that the fewest other neighbours of the receiver
could bring, which keeps these supplied; ties are decided at random, once a trial.
"""

import math
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from hetesynth.machine_code import Row, run_kernel
from hetesynth.model.problem import Problem
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem, start_arrays
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, network_of, quickest
from hetesynth.search.timed.kernels import Network


def refuses(problem: Problem, policy: Policy) -> str | None:
    """Return the reason why matchings do not suit the problem, or None if they do."""
    if any(len(post) < problem.ranks for post in problem.collective.post):
        return "some chunk is not for everybody"
    tables = within_peers(problem)
    if tables is not None and any(len(resource.arcs) > 1 for resource in tables.resources):
        return "links share wires, which matchings would not spare"
    if tables is not None and all(len(arcs) <= 2 for arcs in tables.out_of):
        return "ranks have two neighbours or fewer"
    return stranded(problem, policy)


def matching_strategy(rates: Rates) -> Strategy:
    """Return a strategy that offers the quickest of several trials of random matching (TACOS)."""

    def rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> Iterator[TimedRoutes]:
        rng = np.random.default_rng(search.budget.seed)
        chunks = len(tables.problem.collective.chunks)
        looks = tables.problem.collective.deliveries * chunks  # at chunks; links that wait look again
        for number in range(max(1, min(32, 10_000_000 // max(1, looks)))):
            if number and search.out_of_time():
                return
            yield matched(tables, link_times, rng)

    return quickest("matching", rates, rounds, refuses, full_speed=True)


def matched(tables: CopyProblem, link_times: LinkTimes, rng: np.random.Generator) -> TimedRoutes:
    """Return the routes of one trial of matching free links with chunks; ``rng`` decides ties."""
    network, arcs = network_of(tables, link_times), len(tables.problem.arcs)
    starts, lacks = start_arrays(tables.problem)
    progress = Matched(
        holds=np.where(starts, 0.0, np.inf).ravel(),
        lacks=lacks.ravel(),
        offers=np.zeros(starts.size, dtype=np.int64),
        free=np.zeros(len(network.busy)),
        load=np.zeros(len(network.busy)),
        wakes=np.full(arcs, np.inf),
        chunks=np.zeros(starts.size, dtype=np.int64),
        arcs=np.zeros(starts.size, dtype=np.int64),
        begins=np.zeros(starts.size),
    )
    same_time = 1e-3 * min((b for b in link_times.busy if b > 0), default=1e-9)
    lots = Lots(rng.permutation(arcs), rng.random(starts.size), same_time)
    estimate = 1e-6 * tables.problem.collective.deliveries * len(starts)
    count, seconds = run_kernel(run_matching, network, lots, progress, seconds=estimate)
    transfers = zip(progress.chunks[:count].tolist(), progress.arcs[:count].tolist(), strict=True)
    start = dict(zip(transfers, progress.begins[:count].tolist(), strict=True))
    return TimedRoutes(start, progress.load.tolist(), float(seconds))


class Lots(NamedTuple):
    """The random draws of a trial; ``same_time``: times that many seconds apart count as one."""

    order: Row  # A: arcs that wake at the same time choose in this order
    tie: Row  # K x n: of chunks that the receiver could get equally well the least goes first
    same_time: float


class Matched(NamedTuple):
    """The state that ``run_matching`` changes."""

    holds: Row  # K x n: when a rank holds the chunk, infinite where it does not and none is on its way
    lacks: Row  # K x n: it wants the chunk, and none is on its way
    offers: Row  # K x n: arcs into the rank from those that hold the chunk or will
    free: Row  # R: when the resource is free
    load: Row  # R: seconds of work
    wakes: Row  # A: when the arc looks for a chunk next
    chunks: Row  # chunk, arc and begin of each transfer
    arcs: Row
    begins: Row


def offer_on(n: Network, p: Matched, chunk_row: int, u: int) -> None:
    """Count rank ``u``, which holds a chunk or will, as one more offer to each of its neighbors."""
    for i in range(n.out_start[u], n.out_start[u + 1]):
        p.offers[chunk_row + n.arc_dst[n.out_arcs[i]]] += 1


def wake(lots: Lots, p: Matched, queue: list[tuple[float, int, int]], a: int, seconds: float) -> None:
    """Queue arc ``a`` to look for a chunk at ``seconds``, unless it does so before."""
    number = math.floor(seconds / lots.same_time + 0.5)
    if number < p.wakes[a]:
        p.wakes[a] = number
        heappush(queue, (float(number), lots.order[a], a))


def choose(n: Network, lots: Lots, p: Matched, a: int, now: float) -> tuple[int, float]:
    """Return the row offset of the chunk that arc ``a`` carries at ``now``, or -1, and when the next could go."""
    ranks = len(n.out_start) - 1
    best = -1
    soonest = np.inf
    fewest = 0
    least = 0.0
    src = n.arc_src[a]
    dst = n.arc_dst[a]
    for row in range(0, len(p.lacks), ranks):
        if not p.lacks[row + dst]:
            continue
        if p.holds[row + src] > now:
            soonest = min(soonest, p.holds[row + src])
            continue
        offers = p.offers[row + dst]
        tie = lots.tie[row + dst]
        if best < 0 or offers < fewest or (offers == fewest and tie < least):
            best = row
            fewest = offers
            least = tie
    return best, soonest


def run_matching(n: Network, lots: Lots, p: Matched) -> tuple[int, float]:
    """Fill ``chunks``, ``arcs`` and ``begins``; return the number of transfers and when the last one arrives."""
    ranks = len(n.out_start) - 1
    missing = 0
    for row in range(0, len(p.lacks), ranks):
        for u in range(ranks):
            if p.lacks[row + u]:
                missing += 1
            if p.holds[row + u] < np.inf:
                offer_on(n, p, row, u)
    # a heap of (number of the time, place in the order, arc)
    queue = [(0.0, 0, 0)]
    queue.pop()
    for a in n.out_arcs:
        wake(lots, p, queue, a, 0.0)
    count, last = 0, 0.0
    while missing > 0 and len(queue) > 0:
        number, _, a = heappop(queue)
        now = (number + 0.5) * lots.same_time
        if number != p.wakes[a]:
            continue
        p.wakes[a] = np.inf
        start = 0.0
        for j in range(n.uses_start[a], n.uses_start[a + 1]):
            start = max(start, p.free[n.uses[j]])
        if start > now:
            wake(lots, p, queue, a, start)
            continue
        row, soonest = choose(n, lots, p, a, now)
        if row < 0:
            if soonest < np.inf:
                wake(lots, p, queue, a, soonest)
            continue
        start = max(start, p.holds[row + n.arc_src[a]])
        next_free = start
        for j in range(n.uses_start[a], n.uses_start[a + 1]):
            r = n.uses[j]
            p.free[r] = start + n.busy[r]
            p.load[r] += n.busy[r]
            next_free = max(next_free, p.free[r])
        wake(lots, p, queue, a, next_free)
        dst = n.arc_dst[a]
        arrives = start + n.flow[a]
        p.chunks[count], p.arcs[count], p.begins[count] = row // ranks, a, start
        count += 1
        missing -= 1
        last = max(last, arrives)
        p.lacks[row + dst] = False
        p.holds[row + dst] = arrives
        offer_on(n, p, row, dst)
        for i in range(n.out_start[dst], n.out_start[dst + 1]):
            wake(lots, p, queue, n.out_arcs[i], arrives)
    return count, last
