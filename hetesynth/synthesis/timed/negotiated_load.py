"""Routes whose load is negotiated in seconds, then listed: for large buffers on links of unequal rates.

In: a copying problem, what its links cost in seconds. Out: a schedule of the step model. Rounds of earliest
arrival (``timed``) find routes under prices. A resource that has to work longer than the busiest one should
becomes dearer, another cheaper (PathFinder's negotiation with a Lagrangian's step), so that the load evens out
while latency pays for it. The order of a round is forgotten: ``listing`` makes a better one from the same routes,
hardly longer than the work of the busiest resource. Where no two links share anything, transfers that share a step
would only slow each other, so each has a step of its own.
"""

from __future__ import annotations

import numpy as np

from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.peers import stranded, within_peers
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.timed.earliest_arrival import (
    LinkTimes,
    Rates,
    TimedRoutes,
    earliest_arrival,
    schedule_of,
    seats,
)
from hetesynth.synthesis.timed.list_scheduling import listed

ROUNDS = 10
WEIGHT = 16.0  # seconds that a second of work costs at first
STEP = 2.0  # exponent on a resource's share of what it should work at most
TIGHTER = 0.96  # of the least work of a busiest resource so far: what the next round should need
LISTED = 2  # rounds, those with the least work of a busiest resource, whose routes are listed
FEW = 20_000  # deliveries of a problem of which all rounds are


def negotiated_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest listing of a few rounds, in its own reckoning."""

    def improve(search: Search) -> None:
        tables = within_peers(search.problem)
        if tables is None:
            return
        clock = rates.link_times(tables)
        found = sorted(_rounds(search, tables, clock), key=_busiest)
        best = min(found, key=lambda timed: timed.seconds)
        for number, routes in enumerate(found):
            enough = number >= LISTED and len(routes.start) > FEW
            if enough or best.seconds <= _busiest(routes) or (number and search.out_of_time()):
                break
            order = sorted((begins, k, a) for (k, a), begins in routes.start.items())
            again = listed(tables, clock, [(k, a) for _, k, a in order])
            best = min((best, again), key=lambda timed: timed.seconds)
        apart = all(len(resource.arcs) == 1 for resource in tables.resources)
        search.offer(schedule_of(tables, best, seats(tables, clock) if apart else None), "negotiated")

    return Strategy("negotiated", improve, stranded)


def _rounds(search: Search, tables: CopyProblem, clock: LinkTimes) -> list[TimedRoutes]:
    """Routes of several rounds, at least of one; a round is not begun that would leave no time to list."""
    busy = np.array(clock.busy)
    scarcity = np.ones(len(busy))
    found: list[TimedRoutes] = []
    least, began = np.inf, search.elapsed()
    for number in range(ROUNDS):
        if number and search.out_of_time(LISTED * (search.elapsed() - began) / number):
            break
        routes = earliest_arrival(tables, clock, (WEIGHT * scarcity * busy).tolist())
        found.append(routes)
        if _busiest(routes) <= 0.0:
            break
        least = min(least, _busiest(routes))
        scarcity *= np.exp(STEP * (np.array(routes.load) / (TIGHTER * least) - 1.0))
        scarcity = np.maximum(scarcity, 1.0)
    return found


def _busiest(routes: TimedRoutes) -> float:
    return max(routes.load, default=0.0)
