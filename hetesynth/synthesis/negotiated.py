"""Routes whose load is negotiated in seconds, then listed: for large buffers on links of unequal rates.

In: a copying problem, what its links cost in seconds. Out: a schedule of the step model. Rounds of earliest arrival
(``timed``) find routes under prices. A resource that has to work longer than the busiest one should becomes
dearer, another cheaper (PathFinder's negotiation with a Lagrangian's step), so that the load evens out while
latency pays for it. The order of a round is forgotten: ``listing`` makes a better one from the same routes, hardly
longer than the work of the busiest resource.
"""

from __future__ import annotations

import numpy as np

from hetesynth.synthesis.dissemination import Dissemination
from hetesynth.synthesis.listing import listed
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.timed import Rates, TimedRoutes, earliest_arrival, schedule_of, seats

ROUNDS = 10
WEIGHT = 16.0  # seconds that a second of work costs at first
STEP = 2.0  # exponent on a resource's share of what it should work at most
TIGHTER = 0.96  # of the least work of a busiest resource so far: what the next round should need


def negotiated_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest listing of a few rounds, in its own reckoning."""

    def improve(search: Search) -> None:
        tables = Dissemination(search.problem)
        clock = rates.clockwork(tables)
        busy = np.array(clock.busy)
        scarcity = np.ones(len(busy))
        best: TimedRoutes | None = None
        least, last = np.inf, 0.0
        for number in range(ROUNDS):
            began = search.elapsed()
            if number and search.out_of_time(last):
                break
            found = earliest_arrival(tables, clock, (WEIGHT * scarcity * busy).tolist())
            most = max(found.load, default=0.0)
            if most <= 0.0:
                best = found
                break
            least = min(least, most)
            scarcity *= np.exp(STEP * (np.array(found.load) / (TIGHTER * least) - 1.0))
            scarcity = np.maximum(scarcity, 1.0)
            if best is None or most < best.seconds:
                order = sorted((begins, k, a) for (k, a), begins in found.start.items())
                again = listed(tables, clock, [(k, a) for _, k, a in order])
                best = min((best or found, found, again), key=lambda timed: timed.seconds)
            last = search.elapsed() - began
        if best is not None:
            search.offer(schedule_of(tables, best, seats(tables, clock)), "negotiated")

    return Strategy("negotiated", "balanced loads in seconds, listed", improve)
