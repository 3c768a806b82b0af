"""The inner loop of balanced paths, interpreted or compiled: one sweep of rerouting.

In: arcs, resources and chunks as records of arrays. Out: paths, and the load that they put on resources.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hetesynth.search.machine_code import Row

PER_UNIT = float.fromhex("0x1.71547652b82fep+0")  # 1 / log 2, and log 2 as a sum whose first part has few digits
HIGH, LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
TERMS = 14  # of the series


class Network(NamedTuple):
    """A arcs, R resources, n ranks."""

    arc_dst: Row  # A
    out_start: Row  # n + 1: where the arcs that leave each rank begin in ``out_arcs``
    out_arcs: Row
    uses_start: Row  # A + 1: where the resources of each arc begin in ``uses``
    uses: Row
    flow: Row  # A: seconds of a transfer
    busy: Row  # R: seconds that a transfer keeps the resource busy


class Chunks(NamedTuple):
    """K chunks."""

    origin: Row  # K
    goal: Row  # K
    order: Row  # K: chunks in the order in which they are rerouted


class Prices(NamedTuple):
    """What a resource costs: ``weight`` x busy where its load is ``target`` seconds, exponentially less below."""

    target: float
    sharpness: float
    weight: float


class Routing(NamedTuple):
    """What a sweep changes."""

    length: Row  # K: arcs of the path
    paths: Row  # K x n: its arcs
    load: Row  # R: seconds of work
    price: Row  # R
    cost: Row  # n: of the cheapest path found so far
    by: Row  # n: its last arc
    above: Row  # n: where that begins
    done: Row  # n


def price_of(s: Prices, busy: float, load: float) -> float:
    """The price of a resource at its present load."""
    return s.weight * busy * exponential(s.sharpness * ((load + busy) / s.target - 1.0))


def exponential(x: float) -> float:
    """e to the power of ``x``, to the bit the same interpreted, compiled and on every processor."""
    if x > 709.0:
        return math.inf
    if x < -745.0:
        return 0.0
    nearest = math.floor(x * PER_UNIT + 0.5)
    rest = (x - nearest * HIGH) - nearest * LOW
    series = 1.0
    for k in range(TERMS, 0, -1):
        series = 1.0 + series * rest / k
    return math.ldexp(series, nearest)


def remove_path(n: Network, s: Prices, p: Routing, k: int) -> None:
    """Chunk ``k`` loads no resource any more."""
    first = k * (len(n.out_start) - 1)
    for i in range(first, first + p.length[k]):
        a = p.paths[i]
        for j in range(n.uses_start[a], n.uses_start[a + 1]):
            r = n.uses[j]
            p.load[r] -= n.busy[r]
            p.price[r] = price_of(s, n.busy[r], p.load[r])


def reach_goal(n: Network, p: Routing, origin: int, goal: int) -> bool:
    """Whether ``goal`` can be reached; ``by`` and ``above`` lead back along a cheapest path (Dijkstra 1959)."""
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
        at = cheapest_open(cost, done)
        if at < 0:
            return False
    return True


def cheapest_open(cost: Row, done: Row) -> int:
    """The rank that is reached most cheaply of those not done; -1: none is reached."""
    best = -1
    least = np.inf
    for v in range(len(cost)):
        if not done[v] and cost[v] < least:
            least = cost[v]
            best = v
    return best


def add_path(n: Network, s: Prices, p: Routing, k: int, origin: int, goal: int) -> None:
    """Chunk ``k`` takes the path that was found last."""
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
        for j in range(n.uses_start[a], n.uses_start[a + 1]):
            r = n.uses[j]
            p.load[r] += n.busy[r]
            p.price[r] = price_of(s, n.busy[r], p.load[r])


def run_sweep(n: Network, chunks: Chunks, s: Prices, p: Routing) -> bool:
    """Reroute every chunk once by the cheapest path at the present load. False: some goal cannot be reached."""
    for r in range(len(n.busy)):
        p.price[r] = price_of(s, n.busy[r], p.load[r])
    for k in chunks.order:
        remove_path(n, s, p, k)
        if not reach_goal(n, p, chunks.origin[k], chunks.goal[k]):
            return False
        add_path(n, s, p, k, chunks.origin[k], chunks.goal[k])
    return True
