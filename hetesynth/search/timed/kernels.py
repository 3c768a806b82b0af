"""The inner loops of strategies that count seconds, interpreted or compiled.

``run_round``: one round of earliest arrival first; out come transfers in the order in which they were chosen.
``run_sweep``: one sweep of rerouting of balanced paths. ``run_queue`` and ``run_scan``: list scheduling, when each
delivery begins. ``run_queue`` keeps all that are ready in one queue and computes urgencies anew now and then: for
any routes, and quick for many deliveries. ``run_scan`` looks at every path before each choice, so that its
urgencies are always those of the moment: for paths only, and quadratic in their number.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from hetesynth.machine_code import Row
from hetesynth.search.portable_math import exponential

ROUNDING = 1e-15  # seconds by which an entry of a queue may be too early


class Network(NamedTuple):
    """The A arcs, R resources and n ranks that a kernel reads."""

    arc_src: Row  # A
    arc_dst: Row  # A
    out_start: Row  # n + 1: where the arcs that leave each rank begin in ``out_arcs``
    out_arcs: Row
    uses_start: Row  # A + 1: where the resources of each arc begin in ``uses``
    uses: Row
    flow: Row  # A: seconds of a transfer
    busy: Row  # R: seconds that a transfer keeps the resource busy


def earliest_start(uses_start: Row, uses: Row, free: Row, i: int, ready: float) -> float:
    """Return when transfer ``i`` can begin: its chunk is there at ``ready``, and its resources are free."""
    start = ready
    for j in range(uses_start[i], uses_start[i + 1]):
        if free[uses[j]] > start:
            start = free[uses[j]]
    return start


def book(uses_start: Row, uses: Row, busy: Row, free: Row, left: Row, i: int, start: float) -> None:
    """Keep the resources of transfer ``i`` busy from ``start`` on, and take the seconds off ``left``."""
    for j in range(uses_start[i], uses_start[i + 1]):
        r = uses[j]
        free[r] = start + busy[r]
        left[r] -= busy[r]


# -- earliest arrival first


class Arrival(NamedTuple):
    """The prices and distances that ``run_round`` reads besides the network."""

    cost: Row  # A: price of a transfer
    distance: Row  # n x n: seconds from a rank to another along the quickest arcs


class Round(NamedTuple):
    """The state that ``run_round`` changes, for K chunks. The n entries of a chunk in a K x n row are adjacent."""

    holds: Row  # K x n: when a rank holds the chunk, infinite where it does not
    lacks: Row  # K x n
    nearest: Row  # K x n: seconds from the nearest holder to a rank that lacks the chunk; of others negative
    lacking: Row  # K: ranks that lack the chunk
    free: Row  # R: when the resource is free
    left: Row  # R: seconds of work, less than zero
    chunks: Row  # chunk, arc and begin of each transfer
    arcs: Row
    begins: Row


def come_nearer(distance: Row, from_rank: int, nearest: Row, of_chunk: int, ranks: int) -> None:
    """Lower ``nearest`` of a chunk, from ``of_chunk`` on, to its new holder's distances, from ``from_rank`` on."""
    for v in range(ranks):
        if distance[from_rank + v] < nearest[of_chunk + v]:
            nearest[of_chunk + v] = distance[from_rank + v]


def farthest_served(distance: Row, from_rank: int, nearest: Row, of_chunk: int, ranks: int) -> float:
    """Return the seconds to the farthest rank that lacks the chunk and to which no holder is as near."""
    farthest = 0.0
    for v in range(ranks):
        seconds = distance[from_rank + v]
        if seconds < nearest[of_chunk + v] and seconds > farthest:
            farthest = seconds
    return farthest


def run_round(n: Network, m: Arrival, p: Round) -> tuple[int, float]:
    """Fill ``chunks``, ``arcs`` and ``begins``; return the number of transfers and when the last one arrives."""
    ranks = len(n.out_start) - 1
    # a heap of (key, chunk, arc) for the arcs that leave holders; keys are computed when an entry comes up
    queue = [(0.0, 0, 0)]
    queue.pop()
    open_chunks = 0
    for k in range(len(p.lacking)):
        row = k * ranks
        for v in range(ranks):
            p.nearest[row + v] = -1.0
            if p.lacks[row + v]:
                p.lacking[k] += 1
                p.nearest[row + v] = np.inf
        if p.lacking[k] > 0:
            open_chunks += 1
        for u in range(ranks):
            if p.holds[row + u] < np.inf:
                come_nearer(m.distance, u * ranks, p.nearest, row, ranks)
                for i in range(n.out_start[u], n.out_start[u + 1]):
                    queue.append((-np.inf, k, n.out_arcs[i]))  # noqa: PERF401 - a loop that numba takes
    heapify(queue)
    count, last = 0, 0.0
    while open_chunks > 0 and len(queue) > 0:
        key, k, a = heappop(queue)
        dst = n.arc_dst[a]
        if p.lacking[k] == 0 or p.holds[k * ranks + dst] < np.inf:
            continue
        start = earliest_start(n.uses_start, n.uses, p.free, a, p.holds[k * ranks + n.arc_src[a]])
        served = farthest_served(m.distance, dst * ranks, p.nearest, k * ranks, ranks)
        now = start + n.flow[a] + m.cost[a] - served
        if now > key + ROUNDING:
            heappush(queue, (now, k, a))
            continue
        book(n.uses_start, n.uses, n.busy, p.free, p.left, a, start)
        arrives = start + n.flow[a]
        last = max(last, arrives)
        p.chunks[count], p.arcs[count], p.begins[count] = k, a, start
        count += 1
        p.holds[k * ranks + dst] = arrives
        come_nearer(m.distance, dst * ranks, p.nearest, k * ranks, ranks)
        p.nearest[k * ranks + dst] = -1.0
        if p.lacks[k * ranks + dst]:
            p.lacks[k * ranks + dst] = False
            p.lacking[k] -= 1
            if p.lacking[k] == 0:
                open_chunks -= 1
        for i in range(n.out_start[dst], n.out_start[dst + 1]):
            if p.holds[k * ranks + n.arc_dst[n.out_arcs[i]]] == np.inf:
                heappush(queue, (-np.inf, k, n.out_arcs[i]))
    return count, last


# -- balanced paths


class Sweep(NamedTuple):
    """The K chunks to reroute; a resource of load ``target`` costs 8 times busy, below exponentially less."""

    origin: Row  # K
    goal: Row  # K
    order: Row  # K: chunks in the order in which they are rerouted
    target: float
    sharpness: float


class Routing(NamedTuple):
    """The paths, loads and prices that ``run_sweep`` changes."""

    length: Row  # K: arcs of the path
    paths: Row  # K x n: its arcs
    load: Row  # R: seconds of work
    price: Row  # R
    cost: Row  # n: of the cheapest path found so far
    by: Row  # n: its last arc
    above: Row  # n: where that begins
    done: Row  # n


def price_of(s: Sweep, busy: float, load: float) -> float:
    """Return the price of a resource for one more chunk (``busy`` seconds) at its present ``load``."""
    return 8.0 * busy * exponential(s.sharpness * ((load + busy) / s.target - 1.0))


def reach_goal(n: Network, p: Routing, origin: int, goal: int) -> bool:
    """Return True if ``goal`` is reachable; ``by`` and ``above`` lead back on a cheapest path (Dijkstra 1959)."""
    cost, done, price = p.cost, p.done, p.price
    for v in range(len(cost)):
        cost[v] = np.inf
        done[v] = False
    cost[origin] = 0.0
    at = origin
    while at != goal:
        done[at] = True
        for i in range(n.out_start[at], n.out_start[at + 1]):
            a = n.out_arcs[i]
            to = n.arc_dst[a]
            if done[to]:
                continue
            c = cost[at] + n.flow[a]
            for j in range(n.uses_start[a], n.uses_start[a + 1]):
                c += price[n.uses[j]]
            if c < cost[to]:
                cost[to] = c
                p.by[to] = a
                p.above[to] = at
        at = -1  # the rank that is reached most cheaply of those not done
        least = np.inf
        for v in range(len(cost)):
            if not done[v] and cost[v] < least:
                least = cost[v]
                at = v
        if at < 0:
            return False
    return True


def put(n: Network, s: Sweep, p: Routing, a: int, sign: float) -> None:
    """Add a chunk to the loads and prices of arc ``a`` (``sign`` 1), or take one away (-1)."""
    for j in range(n.uses_start[a], n.uses_start[a + 1]):
        r = n.uses[j]
        p.load[r] += sign * n.busy[r]
        p.price[r] = price_of(s, n.busy[r], p.load[r])


def add_path(n: Network, s: Sweep, p: Routing, k: int, origin: int, goal: int) -> None:
    """Put chunk ``k`` on the path that ``reach_goal`` found last, and add its load."""
    hops = 0
    at = goal
    while at != origin:
        hops += 1
        at = p.above[at]
    p.length[k] = hops
    place = k * (len(n.out_start) - 1) + hops
    at = goal
    while at != origin:
        place -= 1
        a = p.by[at]
        p.paths[place] = a
        at = p.above[at]
        put(n, s, p, a, 1.0)


def run_sweep(n: Network, s: Sweep, p: Routing) -> bool:
    """Reroute every chunk once by the cheapest path at the present load; return False if a goal is unreachable."""
    for r in range(len(n.busy)):
        p.price[r] = price_of(s, n.busy[r], p.load[r])
    for k in s.order:
        first = k * (len(n.out_start) - 1)
        for i in range(first, first + p.length[k]):
            put(n, s, p, p.paths[i], -1.0)
        if not reach_goal(n, p, s.origin[k], s.goal[k]):
            return False
        add_path(n, s, p, k, s.origin[k], s.goal[k])
    return True


# -- list scheduling


class Deliveries(NamedTuple):
    """The N deliveries and R resources that ``run_queue`` and ``run_scan`` read."""

    parent: Row  # N: the delivery that brings the chunk to the sender, -1: it is there; parents come first
    uses_start: Row  # N + 1: where the resources of each delivery begin in ``uses``
    uses: Row  # resources, delivery after delivery
    flow: Row  # N: seconds that it takes
    busy: Row  # R: seconds that a delivery keeps the resource busy


class QueueRules(NamedTuple):
    """The rules of ``run_queue``: the first that is ready to begin goes first, of equals the most urgent."""

    pressure: float  # seconds of urgency for each second of work that a resource of the delivery still has
    same_start: float  # seconds: starts are rounded to multiples of it; 0: they are not
    lead: float  # seconds that a delivery may go ahead of another for each second that it is more urgent
    update_deliveries: int  # urgencies are computed anew after so many deliveries
    update_seconds: float  # and after so many seconds


class ScanRules(NamedTuple):
    """The rules of ``run_scan``: the most urgent that begins within ``same_start`` seconds of the first goes."""

    pressure: float  # seconds of urgency for each second of work that a resource of the rest of its path still has
    same_start: float


class QueueProgress(NamedTuple):
    """The times, urgencies and waiting deliveries that ``run_queue`` changes."""

    left: Row  # R: seconds of work that the resource still has
    free: Row  # R: when the resource is free
    begins: Row  # N: the result
    ready: Row  # N: when the sender has the chunk
    done: Row  # N
    urgency: Row  # N
    child: Row  # N: the first delivery that waits for this one, -1: none does
    sibling: Row  # N: the next that waits for the same one


class Paths(NamedTuple):
    """The K paths, as rows of deliveries, that ``run_scan`` reads."""

    end: Row  # K: one past the last delivery of the path
    tail: Row  # N: seconds from the end of the delivery until its chunk is at its goal, on idle links


class ScanProgress(NamedTuple):
    """The times and the places in paths that ``run_scan`` changes."""

    left: Row  # R
    free: Row  # R
    begins: Row  # N: the result
    ready: Row  # K: when the chunk is where its next delivery begins
    at: Row  # K: the next delivery of the path
    open_paths: Row  # K: paths with deliveries left; the first entries


def set_urgencies(d: Deliveries, p: QueueProgress, pressure: float) -> None:
    """Set each urgency: the most seconds of work and flow of a delivery and of those that wait for it."""
    for i in range(len(d.parent)):
        p.urgency[i] = 0.0
    for i in range(len(d.parent) - 1, -1, -1):
        if p.done[i]:
            continue
        for j in range(d.uses_start[i], d.uses_start[i + 1]):
            p.urgency[i] = max(p.urgency[i], pressure * p.left[d.uses[j]])
        above = d.parent[i]
        if above >= 0:
            p.urgency[above] = max(p.urgency[above], p.urgency[i] + d.flow[i])


def queue_key(rules: QueueRules, start: float, urgency: float) -> float:
    """Return the sort key in the queue of a delivery that can begin at ``start``."""
    if rules.same_start > 0.0:
        return float(int(start / rules.same_start + 0.5))
    return start - rules.lead * urgency


def run_queue(d: Deliveries, rules: QueueRules, p: QueueProgress) -> float:
    """Fill ``begins``; return the seconds until all has arrived."""
    for i in range(len(d.parent)):
        p.child[i] = -1
        p.sibling[i] = -1
    for i in range(len(d.parent) - 1, -1, -1):
        if d.parent[i] >= 0:
            p.sibling[i] = p.child[d.parent[i]]
            p.child[d.parent[i]] = i
    count, last, until = 0, 0.0, 0.0
    while count < len(d.parent):
        set_urgencies(d, p, rules.pressure)
        # a heap of the deliveries whose senders have the chunk
        queue = [(0.0, 0.0, 0)]
        queue.pop()
        for i in range(len(d.parent)):
            if not p.done[i] and (d.parent[i] < 0 or p.done[d.parent[i]]):
                start = earliest_start(d.uses_start, d.uses, p.free, i, p.ready[i])
                queue.append((queue_key(rules, start, p.urgency[i]), -p.urgency[i], i))
        heapify(queue)
        until = max(until, max(rules.update_seconds, queue[0][0] + rules.update_seconds))
        most = count + rules.update_deliveries
        while count < most and len(queue) > 0 and queue[0][0] <= until:
            key, second, i = heappop(queue)
            start = earliest_start(d.uses_start, d.uses, p.free, i, p.ready[i])
            now = queue_key(rules, start, p.urgency[i])
            if now > key + ROUNDING:
                heappush(queue, (now, second, i))
                continue
            book(d.uses_start, d.uses, d.busy, p.free, p.left, i, start)
            p.begins[i] = start
            p.done[i] = True
            count += 1
            end = start + d.flow[i]
            last = max(last, end)
            c = p.child[i]
            while c >= 0:
                p.ready[c] = end
                heappush(queue, (queue_key(rules, end, p.urgency[c]), -p.urgency[c], c))
                c = p.sibling[c]
    return last


def next_path(d: Deliveries, paths: Paths, rules: ScanRules, p: ScanProgress, count: int) -> int:
    """Return the place in ``open_paths`` of the path whose next delivery goes first. One function on arrays:
    called with records it took three times as long compiled, with arrays 1.4 times."""
    uses_start, uses, free, left, ready, at = d.uses_start, d.uses, p.free, p.left, p.ready, p.at
    open_paths, end, tail = p.open_paths, paths.end, paths.tail
    same_start, pressure = rules.same_start, rules.pressure
    first = np.inf
    most = -np.inf
    best = -1
    for place in range(count):
        k = open_paths[place]
        start = ready[k]
        if start > first + same_start:
            continue
        i = at[k]
        for j in range(uses_start[i], uses_start[i + 1]):
            if free[uses[j]] > start:
                start = free[uses[j]]
        if start > first + same_start:
            continue
        work = 0.0
        for j in range(uses_start[i], uses_start[end[k]]):
            if left[uses[j]] > work:
                work = left[uses[j]]
        urgency = pressure * work + tail[i]
        if start < first - same_start or urgency > most or (urgency == most and k < open_paths[best]):
            first = min(first, start)
            most = urgency
            best = place
    return best


def run_scan(d: Deliveries, paths: Paths, rules: ScanRules, p: ScanProgress) -> float:
    """Fill ``begins``; return the seconds until all has arrived."""
    count, last = len(paths.end), 0.0
    while count > 0:
        place = next_path(d, paths, rules, p, count)
        k = p.open_paths[place]
        i = p.at[k]
        start = earliest_start(d.uses_start, d.uses, p.free, i, p.ready[k])
        book(d.uses_start, d.uses, d.busy, p.free, p.left, i, start)
        p.begins[i] = start
        p.ready[k] = start + d.flow[i]
        p.at[k] += 1
        if p.at[k] == paths.end[k]:
            last = max(last, p.ready[k])
            count -= 1
            p.open_paths[place] = p.open_paths[count]
    return last
