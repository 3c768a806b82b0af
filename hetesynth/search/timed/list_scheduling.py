"""Fixed routes to start times in seconds: list scheduling, what the most work waits for first.

In: a copying problem, what its links cost, the arcs that each chunk takes. Out: when each begins. Sources: Graham
(1966); Jackson (1955): on one machine, the longest tail first. Routes should come balanced; their schedule is then
hardly longer than the work of the busiest resource.

This is the one list scheduling in seconds, with a rule for each of its callers: ``by_start`` for negotiated loads
and for very many paths, ``by_urgent_start`` for trees, ``by_path`` for paths. In steps it is another thing
(``synthesis.list_scheduling``): there a resource has a number of transfers in a step, not a time when it is free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.machine_code import most_interpreted
from hetesynth.search.timed.earliest_arrival import LinkTimes, TimedRoutes
from hetesynth.search.timed.kernel_records import Floats, Ints, rows, run_kernel
from hetesynth.search.timed.list_scheduling_kernel import (
    Deliveries,
    Paths,
    QueueProgress,
    QueueRules,
    ScanProgress,
    ScanRules,
    run_queue,
    run_scan,
)

NEVER = 2**62  # deliveries
Route = Sequence[tuple[int, int]]  # deliveries (chunk, arc) in an order in which they could be made


def by_start(
    tables: CopyProblem,
    link_times: LinkTimes,
    deliveries: Route,
    pressure: float,
    policy: Policy,
) -> TimedRoutes:
    """Begin times: what can begin first goes first, of those that begin at the same time the most urgent.

    ``pressure``: seconds of urgency for each second of work that a resource still has before it; 0: only the
    longest path behind a delivery counts.
    """
    shortest = min((b for b in link_times.busy if b > 0), default=1e-9)
    update = max(1, len(deliveries) // policy.timed.urgency_updates)
    rules = QueueRules(pressure, policy.timed.same_start * shortest, 0.0, update, np.inf)
    return _by_queue(tables, link_times, deliveries, rules, None, policy)


def by_urgent_start(
    tables: CopyProblem, link_times: LinkTimes, deliveries: Route, load: Floats, policy: Policy
) -> TimedRoutes:
    """Begin times: what can begin first goes first, where the urgent may go ahead of what can begin before it.

    ``load``: seconds of work of each resource.
    """
    update = max(load.tolist(), default=0.0) / policy.timed.urgency_updates
    rules = QueueRules(1.0, 0.0, policy.timed.urgent_lead, NEVER, update)
    return _by_queue(tables, link_times, deliveries, rules, load, policy)


def _by_queue(
    tables: CopyProblem,
    link_times: LinkTimes,
    deliveries: Route,
    rules: QueueRules,
    load: Floats | None,
    policy: Policy,
) -> TimedRoutes:
    record = records(tables, link_times, deliveries)
    if load is None:
        load = np.zeros(len(record.busy))
        np.add.at(load, record.uses, record.busy[record.uses])
    number = len(deliveries)
    none: Ints = np.full(number, -1)
    progress = QueueProgress(
        left=load.copy(), free=np.zeros(len(load)), begins=np.zeros(number), ready=np.zeros(number),
        done=np.zeros(number, dtype=np.bool_), urgency=np.zeros(number), child=none, sibling=none.copy(),
    )  # fmt: skip
    compiled = number > most_interpreted(run_queue, policy.machine_code.list_scheduling)
    seconds = run_kernel(run_queue, record, rules, progress, compiled=compiled)
    start = dict(zip(deliveries, progress.begins.tolist(), strict=True))
    return TimedRoutes(start, load.tolist(), float(seconds))


def by_path(
    tables: CopyProblem,
    link_times: LinkTimes,
    paths: Sequence[Route],
    load: Floats,
    rules: ScanRules,
    *,
    compiled: bool,
) -> TimedRoutes:
    """Begin times of the deliveries of ``paths``, of which none is empty; ``load``: seconds of work of each
    resource."""
    deliveries = [delivery for path in paths for delivery in path]
    record = records(tables, link_times, deliveries)
    end: Ints = np.cumsum([len(path) for path in paths], dtype=np.int64)
    at: Ints = end - np.array([len(path) for path in paths], dtype=np.int64)
    tail = np.zeros(len(deliveries))
    for first, last in zip(at.tolist(), end.tolist(), strict=True):
        for i in range(last - 2, first - 1, -1):
            tail[i] = tail[i + 1] + record.flow[i + 1]
    progress = ScanProgress(
        left=load.copy(), free=np.zeros(len(load)), begins=np.zeros(len(deliveries)), ready=np.zeros(len(paths)),
        at=at, open_paths=np.arange(len(paths)),
    )  # fmt: skip
    seconds = run_kernel(run_scan, record, Paths(end, tail), rules, progress, compiled=compiled)
    start = dict(zip(deliveries, progress.begins.tolist(), strict=True))
    return TimedRoutes(start, load.tolist(), float(seconds))


def records(tables: CopyProblem, link_times: LinkTimes, deliveries: Route) -> Deliveries:
    """Deliveries as a kernel reads them."""
    arcs = tables.problem.arcs
    brought: dict[tuple[int, int], int] = {}
    parent: Ints = np.full(len(deliveries), -1, dtype=np.int64)
    for i, (k, a) in enumerate(deliveries):
        parent[i] = brought.get((k, arcs[a].src), -1)
        brought[k, arcs[a].dst] = i
    starts, uses = rows([tables.resources_of[a] for _, a in deliveries])
    seconds = link_times.transfer_seconds(tables)
    flow = np.array([seconds[a] for _, a in deliveries])
    return Deliveries(parent, starts, uses, flow, np.array(link_times.busy))
