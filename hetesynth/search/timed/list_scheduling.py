"""Fixed routes to start times in seconds: list scheduling, what the most work waits for first.

Sources: Graham (1966); Jackson (1955): on one machine, the longest tail first. Routes should come balanced; their
schedule is then hardly longer than the work of the busiest resource. ``by_start`` is for trees, negotiated loads
and very many paths; ``Paths`` looks at every path before each choice. In steps it is another thing
(``search.list_scheduling``): there a resource has a number of transfers in a step, not a time when it is free.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from hetesynth.machine_code import Floats, Ints, rows, run_kernel
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.peers import stranded
from hetesynth.search.portable_math import exp
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed import kernels
from hetesynth.search.timed.earliest_arrival import (
    LinkTimes,
    Rates,
    TimedRoutes,
    earliest_arrival,
    network_of,
    quickest,
)
from hetesynth.search.trees import packed_trees


def timed_trees_strategy(rates: Rates) -> Strategy:
    """Return a strategy that offers the quickest list schedule of trees from a few sweeps.

    Routes are those of ``trees``, balanced by seconds of work instead of chunks per step, so that 8, 12.5 and 16
    GB/s count as what they are; deliveries are then list-scheduled in seconds, those that can begin first and are
    most urgent (Graham 1966). Urgency: the work still waiting for the busiest resource at or below a delivery.
    """

    def rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> Iterator[TimedRoutes]:
        rng = np.random.default_rng(search.budget.seed)
        routing = packed_trees.TreeRouting(search.problem, 1, rng, search.policy)
        routing.capacity = 1.0 / np.array(link_times.busy)
        deliveries = len(search.problem.collective.chunks) * (search.problem.ranks - 1)
        target = deliveries / routing.capacity.sum()
        for number in range(8):
            if number > 1 and search.out_of_time():
                return
            routing.target = target
            if not routing.sweep():
                return
            target = 0.97 * float((routing.load / routing.capacity).max())
            if number in (0, 2, 3):  # still uneven; but there is a schedule soon
                continue
            every = [(k, a) for k, tree in enumerate(routing.trees) for _, _, a in tree]
            yield by_start(tables, link_times, every, 1.0, routing.load * np.array(link_times.busy))

    return quickest("timed-trees", rates, rounds, packed_trees.refuses)


def negotiated_strategy(rates: Rates) -> Strategy:
    """Return a strategy that offers the quickest list schedule of a few rounds, by predicted seconds.

    Rounds of earliest arrival (``timed``) find routes under prices. A resource that has to work longer than the
    busiest one should becomes dearer, another cheaper (PathFinder's negotiation with a Lagrangian's step), so that
    the load evens out at the cost of latency. List scheduling finds a better order for the same routes, hardly
    longer than the work of the busiest resource. Where no two links share anything, transfers that share a step
    would only slow each other, so each has a step of its own.
    """

    def rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> Iterator[TimedRoutes]:
        busy, tried = np.array(link_times.busy), list[TimedRoutes]()
        scarcity = np.ones(len(busy))
        least, began = np.inf, search.elapsed()
        for number in range(10):
            if number and search.out_of_time(2 * (search.elapsed() - began) / number):
                break
            tried.append(earliest_arrival(tables, link_times, (16.0 * scarcity * busy).tolist()))
            if tried[-1].busiest <= 0.0:
                break
            least = min(least, tried[-1].busiest)
            scarcity *= exp(2.0 * (np.array(tried[-1].load) / (0.96 * least) - 1.0))
            scarcity = np.maximum(scarcity, 1.0)
        # rounds, and list schedules of those with the least work of a busiest resource
        tried.sort(key=lambda routes: routes.busiest)
        yield from tried
        best = min(routes.seconds for routes in tried)
        for number, routes in enumerate(tried):
            enough = number >= 2 and len(routes.start) > 20_000
            if enough or best <= routes.busiest or (number and search.out_of_time()):
                return
            order = sorted((begins, k, a) for (k, a), begins in routes.start.items())
            again = by_start(tables, link_times, [(k, a) for _, k, a in order], 1.0)
            best = min(best, again.seconds)
            yield again

    return quickest("negotiated", rates, rounds, full_speed=True)


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Return the reason why the problem is no exchange, or is too large; None if it is one."""
    collective = problem.collective
    if any(len(pre) > 1 or len(post - pre) > 1 for pre, post in collective.ends):
        return "some chunk has several origins or targets"
    # an alltoall of 256 GPUs has 65,280
    if len(collective.chunks) > (20_000 if collective.chunks_per_rank > 1 else 70_000):
        return "it is too large"
    return stranded(problem, policy)


def exchange_strategy(rates: Rates) -> Strategy:
    """Return a strategy that offers the quickest of a few list schedules of balanced paths.

    A chunk may take any path; a resource costs exponentially more the nearer its work is to the busiest one's
    (Aspnes et al. 1997), and chunks are rerouted in turn until the work is even. A list schedule follows: always
    what can begin first, of that what has the longest path before it (Jackson 1955: on one machine, the longest
    tail first), so that scarce links begin with what must be relayed behind them and end with what need not.
    """

    def rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> Iterator[TimedRoutes]:
        paths = Paths(tables, link_times, search.budget.seed)
        for number, sharpness in enumerate(SHARPNESS):
            if number and search.out_of_time():
                break
            if not paths.sweep(sharpness):
                return
        for number, pressure in enumerate(PRESSURES):
            if number and search.out_of_time():
                return
            yield paths.list_schedule(pressure)

    return quickest("exchange", rates, rounds, refuses)


SHARPNESS = (8.0, 16.0, 32.0, 64.0, 128.0)
"""How steeply prices rise with the load, one sweep of rerouting for each."""
PRESSURES = (0.0, 0.05, 1.0)
"""Seconds of urgency for each second of work left, one list schedule of balanced paths for each."""


class Paths:
    """A path for every chunk that has to move, and the seconds of work they put on every resource."""

    def __init__(self, tables: CopyProblem, link_times: LinkTimes, seed: int) -> None:
        self.tables, self.link_times = tables, link_times
        problem = tables.problem
        ends = enumerate(problem.collective.ends)
        moved = [(k, min(pre), min(post - pre)) for k, (pre, post) in ends if post - pre]
        self.chunk = [k for k, _, _ in moved]
        self.origin: Ints = np.array([u for _, u, _ in moved], dtype=np.int64)
        self.goal: Ints = np.array([v for _, _, v in moved], dtype=np.int64)
        self.network = network_of(tables, link_times)
        resources, ranks = len(self.network.busy), problem.ranks
        self.routing = kernels.Routing(
            length=np.zeros(len(moved), dtype=np.int64),
            paths=np.zeros(len(moved) * ranks, dtype=np.int64),
            load=np.zeros(resources),
            price=np.zeros(resources),
            cost=np.zeros(ranks),
            by=np.zeros(ranks, dtype=np.int64),
            above=np.zeros(ranks, dtype=np.int64),
            done=np.zeros(ranks, dtype=np.bool_),
        )
        self.load: Floats = self.routing.load  # seconds of work of each resource
        self.rng = np.random.default_rng(seed)

    @property
    def paths(self) -> list[list[int]]:
        """The arcs that each moving chunk takes, in order."""
        ranks = self.tables.problem.ranks
        arcs, length = self.routing.paths.tolist(), self.routing.length.tolist()
        return [arcs[i * ranks : i * ranks + n] for i, n in enumerate(length)]

    def sweep(self, sharpness: float) -> bool:
        """Reroute every chunk once, in random order; return False if one has no path."""
        order, fullest = self.rng.permutation(len(self.chunk)), float(self.load.max(initial=0.0))
        target, steep = (fullest, sharpness) if fullest else (1.0, 0.0)  # at first all take the shortest path
        sweep = kernels.Sweep(self.origin, self.goal, order, target, steep)
        seconds = 3e-6 * len(self.chunk) * len(self.network.arc_src)
        return bool(run_kernel(kernels.run_sweep, self.network, sweep, self.routing, seconds=seconds))

    def list_schedule(self, pressure: float) -> TimedRoutes:
        """Return when each chunk begins to cross each arc of its path, by list scheduling with ``pressure``."""
        routes = [[(k, a) for a in path] for k, path in zip(self.chunk, self.paths, strict=True)]
        deliveries = [delivery for route in routes for delivery in route]
        if len(routes) > 20_000:  # looking at all before each choice takes quadratic time
            return by_start(self.tables, self.link_times, deliveries, pressure)
        record = records(self.tables, self.link_times, deliveries)
        end: Ints = np.cumsum([len(path) for path in routes], dtype=np.int64)
        at: Ints = end - np.array([len(path) for path in routes], dtype=np.int64)
        tail = np.zeros(len(deliveries))
        for first, last in zip(at.tolist(), end.tolist(), strict=True):
            for i in range(last - 2, first - 1, -1):
                tail[i] = tail[i + 1] + record.flow[i + 1]
        progress = kernels.ScanProgress(
            left=self.load.copy(),
            free=np.zeros(len(self.load)),
            begins=np.zeros(len(deliveries)),
            ready=np.zeros(len(routes)),
            at=at,
            open_paths=np.arange(len(routes)),
        )
        rules = kernels.ScanRules(pressure, 1e-3 * float(record.busy.min()) if len(record.busy) else 0.0)
        estimate = 1e-6 * len(deliveries) * len(routes)
        seconds = run_kernel(kernels.run_scan, record, kernels.Paths(end, tail), rules, progress, seconds=estimate)
        start = dict(zip(deliveries, progress.begins.tolist(), strict=True))
        return TimedRoutes(start, self.load.tolist(), float(seconds))


Route = Sequence[tuple[int, int]]  # deliveries (chunk, arc) in an order in which they could be made


def by_start(
    tables: CopyProblem, link_times: LinkTimes, deliveries: Route, pressure: float, load: Floats | None = None
) -> TimedRoutes:
    """Return begin times: the delivery that can begin first goes first, at equal times the most urgent; with
    ``load``, the seconds of work of each resource, an urgent one may go ahead of one that can begin before."""
    record, number = records(tables, link_times, deliveries), len(deliveries)
    if load is None:
        shortest = min((b for b in link_times.busy if b > 0), default=1e-9)
        rules = kernels.QueueRules(pressure, 1e-3 * shortest, 0.0, max(1, number // 60), np.inf)
        load = np.zeros(len(record.busy))
        np.add.at(load, record.uses, record.busy[record.uses])
    else:
        rules = kernels.QueueRules(pressure, 0.0, 0.05, 2**62, max(load.tolist(), default=0.0) / 60)
    progress = kernels.QueueProgress(
        left=load.copy(),
        free=np.zeros(len(load)),
        begins=np.zeros(number),
        ready=np.zeros(number),
        done=np.zeros(number, dtype=np.bool_),
        urgency=np.zeros(number),
        child=np.zeros(number, dtype=np.int64),
        sibling=np.zeros(number, dtype=np.int64),
    )
    seconds = run_kernel(kernels.run_queue, record, rules, progress, seconds=1.5e-4 * number)
    start = dict(zip(deliveries, progress.begins.tolist(), strict=True))
    return TimedRoutes(start, load.tolist(), float(seconds))


def records(tables: CopyProblem, link_times: LinkTimes, deliveries: Route) -> kernels.Deliveries:
    """Return ``deliveries``, with their resources and seconds, as arrays for a kernel."""
    arcs = tables.problem.arcs
    brought: dict[tuple[int, int], int] = {}
    parent: Ints = np.full(len(deliveries), -1, dtype=np.int64)
    for i, (k, a) in enumerate(deliveries):
        parent[i] = brought.get((k, arcs[a].src), -1)
        brought[k, arcs[a].dst] = i
    starts, uses = rows([tables.resources_of[a] for _, a in deliveries])
    seconds = link_times.transfer_seconds(tables)
    flow = np.array([seconds[a] for _, a in deliveries])
    return kernels.Deliveries(parent, starts, uses, flow, np.array(link_times.busy))
