"""Routes whose load is negotiated in seconds, then list-scheduled: for large buffers on links of unequal rates.

In: a copying problem, what its links cost in seconds. Out: a schedule of the step model. Rounds of earliest
arrival (``timed``) find routes under prices. A resource that has to work longer than the busiest one should
becomes dearer, another cheaper (PathFinder's negotiation with a Lagrangian's step), so that the load evens out
at the cost of latency. The order of a round is dropped: list scheduling finds a better one for the same routes,
hardly longer than the work of the busiest resource. Where no two links share anything, transfers that share a step
would only slow each other, so each has a step of its own.
"""

from __future__ import annotations

import numpy as np

from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.peers import within_peers, without_peers
from hetesynth.search.portable_math import exp
from hetesynth.search.search import Search
from hetesynth.search.strategy import Strategy
from hetesynth.search.timed.earliest_arrival import (
    LinkTimes,
    Rates,
    TimedRoutes,
    earliest_arrival,
    full_speed_transfers,
    schedule_of,
)
from hetesynth.search.timed.list_scheduling import by_start


def negotiated_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest list schedule of a few rounds, as it predicts them itself."""

    def improve(search: Search) -> None:
        tables = within_peers(search.problem, search.policy.bounds)
        if tables is None:
            return
        link_times = rates.link_times(tables)
        # the quickest of rounds and of list schedules of those with the least work of a busiest resource
        rounds = _rounds(search, tables, link_times)
        policy = search.policy.timed
        best = min(rounds, key=lambda timed: timed.seconds)
        for number, routes in enumerate(rounds):
            enough = number >= policy.negotiated_scheduled and len(routes.start) > policy.negotiated_all_scheduled
            if enough or best.seconds <= _busiest(routes) or (number and search.out_of_time()):
                break
            order = sorted((begins, k, a) for (k, a), begins in routes.start.items())
            deliveries, pressure = [(k, a) for _, k, a in order], policy.negotiated_pressure
            again = by_start(tables, link_times, deliveries, pressure, search.policy)
            best = min((best, again), key=lambda timed: timed.seconds)
        apart = all(len(resource.arcs) == 1 for resource in tables.resources)
        most = full_speed_transfers(tables, link_times) if apart else None
        search.offer(schedule_of(tables, best, most), "negotiated")

    return Strategy("negotiated", improve, without_peers)


def _rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> list[TimedRoutes]:
    """Routes of several rounds, those with the least work of a busiest resource first; at least of one. A round is
    not begun that would leave no time for list schedules."""
    policy = search.policy.timed
    busy = np.array(link_times.busy)
    scarcity = np.ones(len(busy))
    rounds: list[TimedRoutes] = []
    least, began = np.inf, search.elapsed()
    for number in range(policy.negotiated_rounds):
        if number and search.out_of_time(policy.negotiated_scheduled * (search.elapsed() - began) / number):
            break
        price = (policy.negotiated_weight * scarcity * busy).tolist()
        routes = earliest_arrival(tables, link_times, price, search.policy)
        rounds.append(routes)
        if _busiest(routes) <= 0.0:
            break
        least = min(least, _busiest(routes))
        goal = policy.negotiated_goal * least
        scarcity *= exp(policy.negotiated_step * (np.array(routes.load) / goal - 1.0))
        scarcity = np.maximum(scarcity, 1.0)
    return sorted(rounds, key=_busiest)


def _busiest(routes: TimedRoutes) -> float:
    return max(routes.load, default=0.0)
