"""Balanced paths in seconds: alltoall, gather and scatter where some links are scarce.

In: a copying problem in which every chunk has one origin and one target, what its links cost in seconds. Out: a
schedule of the step model. A chunk may take any path; a resource costs exponentially more the nearer its work is
to the busiest one's (Aspnes et al. 1997), and chunks are rerouted in turn until the work is even. A list schedule
follows: always what can begin first, of that what has the longest path before it (Jackson 1955: on one machine,
the longest tail first), so that scarce links begin with what must be relayed behind them and end with what need
not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.machine_code import most_interpreted
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.search import Search
from hetesynth.search.strategy import Strategy
from hetesynth.search.timed.balanced_paths_kernel import Chunks, Network, Prices, Routing, run_sweep
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, schedule_of
from hetesynth.search.timed.kernel_records import Floats, Ints, rows, run_kernel
from hetesynth.search.timed.list_scheduling import by_path, by_start
from hetesynth.search.timed.list_scheduling_kernel import ScanRules


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
    return stranded(problem, policy.bounds)


def exchange_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest of a few list schedules of balanced paths, as it predicts them."""

    def improve(search: Search) -> None:
        tables, policy = within_peers(search.problem, search.policy.bounds), search.policy.timed
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
