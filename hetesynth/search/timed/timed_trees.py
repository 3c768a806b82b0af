"""Balanced trees in seconds: for rates that are no whole multiples of each other.

In: a copying problem whose chunks go to everybody, what its links cost in seconds. Out: a schedule of the step
model. Routes are those of ``trees``, balanced by seconds of work instead of chunks per step, so that 8, 12.5 and
16 GB/s count as what they are; deliveries are then list-scheduled in seconds, those that can begin first and are
most urgent (Graham 1966). Urgency: the work still waiting for the busiest resource at or below a delivery.
"""

from __future__ import annotations

import numpy as np

from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search
from hetesynth.search.strategy import Strategy
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, schedule_of
from hetesynth.search.timed.list_scheduling import by_urgent_start
from hetesynth.search.trees.balanced_trees import TreeRouting, refuses


def timed_trees_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest schedule of a few sweeps, as it predicts them itself."""

    def improve(search: Search) -> None:
        policy = search.policy
        if refuses(search.problem, policy) is not None:
            return
        tables = CopyProblem(search.problem)
        link_times = rates.link_times(tables)
        best: TimedRoutes | None = None
        rng = np.random.default_rng(search.budget.seed)
        routing = TreeRouting(search.problem, 1, rng, policy)
        routing.capacity = 1.0 / np.array(link_times.busy)
        deliveries = len(search.problem.collective.chunks) * (search.problem.ranks - 1)
        target = deliveries / routing.capacity.sum()
        unscheduled = int(policy.timed.tree_unscheduled * policy.timed.tree_sweeps)
        for number in range(policy.timed.tree_sweeps):
            if best is not None and search.out_of_time():
                break
            routing.target = target
            if not routing.sweep():
                return
            target = policy.timed.tree_goal * float((routing.load / routing.capacity).max())
            if number < unscheduled and number != policy.timed.tree_early_schedule:
                continue
            timed = _list_schedule(tables, link_times, routing, policy)
            if best is None or timed.seconds < best.seconds:
                best = timed
        if best is not None:
            search.offer(schedule_of(tables, best), "timed-trees")

    return Strategy("timed-trees", improve, refuses)


def _list_schedule(
    tables: CopyProblem, link_times: LinkTimes, routing: TreeRouting, policy: Policy
) -> TimedRoutes:
    """Begin times of all deliveries."""
    deliveries = [(k, a) for k, tree in enumerate(routing.trees) for _, _, a in tree]
    return by_urgent_start(tables, link_times, deliveries, routing.load * np.array(link_times.busy), policy)
