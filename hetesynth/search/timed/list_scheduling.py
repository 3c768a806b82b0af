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
from dataclasses import dataclass

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.machine_code import Floats, Ints, most_interpreted, rows, run_kernel
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.portable_math import exp
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed.balanced_paths_kernel import Chunks, Network, Prices, Routing, run_sweep
from hetesynth.search.timed.earliest_arrival import (
    LinkTimes,
    Rates,
    TimedRoutes,
    earliest_arrival,
    full_speed_transfers,
    schedule_of,
)
from hetesynth.search.timed.list_scheduling_kernel import (
    Deliveries,
    QueueProgress,
    QueueRules,
    ScanProgress,
    ScanRules,
    run_queue,
    run_scan,
)
from hetesynth.search.timed.list_scheduling_kernel import Paths as PathRows
from hetesynth.search.trees import balanced_trees
from hetesynth.search.trees.balanced_trees import TreeRouting


def timed_trees_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest schedule of a few sweeps, as it predicts them itself.

    Routes are those of ``trees``, balanced by seconds of work instead of chunks per step, so that 8, 12.5 and 16
    GB/s count as what they are; deliveries are then list-scheduled in seconds, those that can begin first and are
    most urgent (Graham 1966). Urgency: the work still waiting for the busiest resource at or below a delivery.
    """

    def improve(search: Search) -> None:
        policy = search.policy
        if balanced_trees.refuses(search.problem, policy) is not None:
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
            every = [(k, a) for k, tree in enumerate(routing.trees) for _, _, a in tree]
            timed = by_urgent_start(tables, link_times, every, routing.load * np.array(link_times.busy), policy)
            if best is None or timed.seconds < best.seconds:
                best = timed
        if best is not None:
            search.offer(schedule_of(tables, best), "timed-trees")

    return Strategy("timed-trees", improve, balanced_trees.refuses)


def negotiated_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest list schedule of a few rounds, as it predicts them itself.

    Rounds of earliest arrival (``timed``) find routes under prices. A resource that has to work longer than the
    busiest one should becomes dearer, another cheaper (PathFinder's negotiation with a Lagrangian's step), so that
    the load evens out at the cost of latency. The order of a round is dropped: list scheduling finds a better one
    for the same routes, hardly longer than the work of the busiest resource. Where no two links share anything,
    transfers that share a step would only slow each other, so each has a step of its own.
    """

    def improve(search: Search) -> None:
        tables = within_peers(search.problem)
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

    return Strategy("negotiated", improve, stranded)


def _rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> list[TimedRoutes]:
    """Routes of several rounds, those with the least work of a busiest resource first; at least of one."""
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


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Why the problem is no exchange, or None."""
    collective = problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    if any(len(pre) > 1 or len(post - pre) > 1 for pre, post in pairs):
        return "some chunk has several origins or targets"
    timed = policy.timed
    most = timed.path_chunks if collective.chunks_per_rank > 1 else timed.path_single_chunks
    if len(collective.chunks) > most:
        return "it is too large"
    return stranded(problem, policy)


def exchange_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest of a few list schedules of balanced paths, as it predicts them.

    A chunk may take any path; a resource costs exponentially more the nearer its work is to the busiest one's
    (Aspnes et al. 1997), and chunks are rerouted in turn until the work is even. A list schedule follows: always
    what can begin first, of that what has the longest path before it (Jackson 1955: on one machine, the longest
    tail first), so that scarce links begin with what must be relayed behind them and end with what need not.
    """

    def improve(search: Search) -> None:
        tables, policy = within_peers(search.problem), search.policy.timed
        if tables is None or refuses(search.problem, search.policy) is not None:
            return
        paths = Paths(tables, rates.link_times(tables), search.budget.seed, search.policy)
        for number, sharpness in enumerate(policy.path_sharpness):
            if number and search.out_of_time():
                break
            if not paths.sweep(sharpness):
                return
        best: TimedRoutes | None = None
        for number, pressure in enumerate(policy.path_pressures):
            if number and search.out_of_time():
                break
            timed = paths.list_schedule(pressure)
            if best is None or timed.seconds < best.seconds:
                best = timed
        if best is not None:
            search.offer(schedule_of(tables, best), "exchange")

    return Strategy("exchange", improve, refuses)


@dataclass
class Paths:
    """A path for every chunk that has to move, and the seconds of work they put on every resource."""

    tables: CopyProblem
    link_times: LinkTimes
    seed: int
    policy: Policy

    def __post_init__(self) -> None:
        problem = self.tables.problem
        collective = problem.collective
        moved = [
            (k, min(pre), min(post - pre))
            for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True))
            if post - pre
        ]
        self.chunk = [k for k, _, _ in moved]
        self.origin: Ints = np.array([u for _, u, _ in moved], dtype=np.int64)
        self.goal: Ints = np.array([v for _, _, v in moved], dtype=np.int64)
        self.network = self._network()
        resources, ranks = len(self.network.busy), problem.ranks
        self.routing = Routing(
            length=np.zeros(len(moved), dtype=np.int64),
            paths=np.zeros(len(moved) * ranks, dtype=np.int64),
            load=np.zeros(resources),
            price=np.zeros(resources),
            cost=np.zeros(ranks),
            by=np.zeros(ranks, dtype=np.int64),
            above=np.zeros(ranks, dtype=np.int64),
            done=np.zeros(ranks, dtype=np.bool_),
        )
        self.rng = np.random.default_rng(self.seed)
        most = most_interpreted(run_sweep, self.policy.machine_code.balanced_paths)
        self.large = len(moved) * len(problem.arcs) > most

    def _network(self) -> Network:
        arcs = self.tables.problem.arcs
        return Network(
            np.array([arc.dst for arc in arcs], dtype=np.int64),
            *rows(self.tables.out_of),
            *rows(self.tables.resources_of),
            np.array(self.link_times.transfer_seconds(self.tables)),
            np.array(self.link_times.busy),
        )

    @property
    def load(self) -> Floats:
        """Seconds of work of each resource."""
        load: Floats = self.routing.load
        return load

    @property
    def paths(self) -> list[list[int]]:
        """The arcs that each chunk takes."""
        ranks = self.tables.problem.ranks
        arcs, length = self.routing.paths.tolist(), self.routing.length.tolist()
        return [arcs[i * ranks : i * ranks + n] for i, n in enumerate(length)]

    def sweep(self, sharpness: float) -> bool:
        """Reroute every chunk once, in random order; False when one has no path."""
        target = float(self.load.max(initial=0.0))
        if not self.load.any():  # as if all took the shortest path
            sharpness, target = 0.0, 1.0
        chunks = Chunks(self.origin, self.goal, self.rng.permutation(len(self.chunk)))
        prices = Prices(target, sharpness, self.policy.timed.path_weight)
        return bool(run_kernel(run_sweep, self.network, chunks, prices, self.routing, compiled=self.large))

    def list_schedule(self, pressure: float) -> TimedRoutes:
        """When each chunk takes each arc of its path."""
        routes = [[(k, a) for a in path] for k, path in zip(self.chunk, self.paths, strict=True)]
        policy, busy = self.policy.timed, self.network.busy
        if len(self.chunk) > policy.scanned_paths:
            deliveries = [delivery for route in routes for delivery in route]
            return by_start(self.tables, self.link_times, deliveries, pressure, self.policy)
        rules = ScanRules(pressure, policy.same_start * float(busy.min()) if len(busy) else 0.0)
        return by_path(self.tables, self.link_times, routes, self.load, rules, compiled=self.large)


NEVER = 2**62  # deliveries
Route = Sequence[tuple[int, int]]  # deliveries (chunk, arc) in an order in which they could be made


def by_start(
    tables: CopyProblem, link_times: LinkTimes, deliveries: Route, pressure: float, policy: Policy
) -> TimedRoutes:
    """Begin times: what can begin first goes first, of those that begin at the same time the most urgent."""
    shortest = min((b for b in link_times.busy if b > 0), default=1e-9)
    update = max(1, len(deliveries) // policy.timed.urgency_updates)
    rules = QueueRules(pressure, policy.timed.same_start * shortest, 0.0, update, np.inf)
    return _by_queue(tables, link_times, deliveries, rules, None, policy)


def by_urgent_start(
    tables: CopyProblem, link_times: LinkTimes, deliveries: Route, load: Floats, policy: Policy
) -> TimedRoutes:
    """Begin times: what can begin first goes first, where the urgent may go ahead of what can begin before it."""
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
    seconds = run_kernel(run_scan, record, PathRows(end, tail), rules, progress, compiled=compiled)
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
