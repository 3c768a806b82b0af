"""Fixed routes to start times in seconds: list scheduling, what the most work waits for first.

In: a copying problem, what its links cost, the arcs that each chunk takes. Out: when each begins. Sources: Graham
(1966); Jackson (1955): on one machine, the longest tail first. Routes should come balanced; what is made of them
is then hardly longer than the work of the busiest resource.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetesynth.machine_code import most_interpreted
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import MachineCodePolicy
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.timed.earliest_arrival import LinkTimes, TimedRoutes, rows
from hetesynth.synthesis.timed.list_scheduling_kernel import compiled, run_list_scheduling

EPOCHS = 60  # times that urgencies are worked out anew
ALIKE = 1e-3  # of the shortest stay on a resource: starts that differ by less are the same


def listed(
    tables: CopyProblem,
    clock: LinkTimes,
    deliveries: Sequence[tuple[int, int]],
    pressure: float = 1.0,
    policy: MachineCodePolicy = DEFAULT.machine_code,
) -> TimedRoutes:
    """Begin times of ``deliveries`` (chunk, arc), which stand in an order in which they could be made.

    ``pressure``: seconds of urgency for each second of work that a resource still has before it; 0: only the
    longest way behind a delivery counts.
    """
    arcs = tables.problem.arcs
    brought: dict[tuple[int, int], int] = {}
    parent = np.full(len(deliveries), -1, dtype=np.int64)
    for i, (k, a) in enumerate(deliveries):
        parent[i] = brought.get((k, arcs[a].src), -1)
        brought[k, arcs[a].dst] = i
    busy = np.array(clock.busy)
    starts, uses = rows([tables.resources_of[a] for _, a in deliveries])
    load = np.zeros(len(busy))
    np.add.at(load, uses, busy[uses])
    stays = [max((clock.busy[r] for r in used), default=0.0) for used in tables.resources_of]
    flow = np.array([clock.alpha[a] + stays[a] for _, a in deliveries])
    begins = np.zeros(len(deliveries))
    large = len(deliveries) > most_interpreted(run_list_scheduling, policy.list_scheduling)
    kernel = compiled() if large else run_list_scheduling
    alike = ALIKE * min((b for b in clock.busy if b > 0), default=1e-9)
    seconds = kernel(parent, starts, uses, flow, busy, pressure, EPOCHS, alike, load.copy(), begins)
    return TimedRoutes(dict(zip(deliveries, begins.tolist(), strict=True)), load.tolist(), float(seconds))
