"""Balanced paths in seconds: alltoall, gather and scatter where some links are scarce.

In: a copying problem in which every chunk has one origin and one target, what its links cost in seconds. Out: a
schedule of the step model. A chunk may take any path; a resource costs exponentially more the nearer its work is
to the busiest one's (Aspnes et al. 1997), and chunks are rerouted in turn until the work is even. Paths are then
listed: always what can begin first, of that what has the longest way before it (Jackson 1955: on one machine, the
longest tail first), so that scarce links begin with what must be relayed behind them and end with what need not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetesynth.machine_code import most_interpreted
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import MachineCodePolicy
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.peers import stranded, within_peers
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.timed.balanced_paths_kernel import (
    Floats,
    Ints,
    compiled_list_scheduling,
    compiled_sweep,
    run_list_scheduling,
    run_sweep,
)
from hetesynth.synthesis.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, rows, schedule_of
from hetesynth.synthesis.timed.list_scheduling import listed

SHARPNESS = (8.0, 16.0, 32.0, 64.0, 128.0)  # of prices, sweep by sweep
WEIGHT = 8.0  # seconds that a second of the busiest resource costs on a path
PRESSURES = (0.0, 0.05, 1.0)  # seconds of tail that a second of work left counts
ALIKE = 1e-3  # of a chunk's shortest stay: starts that differ by less are the same
MAX_CHUNKS = 20_000  # where ranks exchange several chunks
MAX_SINGLE_CHUNKS = 70_000  # where they exchange one
MAX_SCANNED = 20_000  # chunks that are listed by looking at all that wait each time


def refuses(problem: Problem) -> str | None:
    """Why the problem is no exchange, or None."""
    collective = problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    if any(len(pre) > 1 or len(post - pre) > 1 for pre, post in pairs):
        return "some chunk has several origins or targets"
    if len(collective.chunks) > (MAX_CHUNKS if collective.chunks_per_rank > 1 else MAX_SINGLE_CHUNKS):
        return "it is too large"
    return stranded(problem)


def exchange_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the quickest of a few listings of balanced paths, in its own reckoning."""

    def improve(search: Search) -> None:
        tables = within_peers(search.problem)
        if tables is None or refuses(search.problem) is not None:
            return
        paths = Paths(tables, rates.link_times(tables), search.budget.seed)
        for number, sharpness in enumerate(SHARPNESS):
            if number and search.out_of_time():
                break
            if not paths.sweep(sharpness):
                return
        best: TimedRoutes | None = None
        for number, pressure in enumerate(PRESSURES):
            if number and search.out_of_time():
                break
            found = paths.listed(pressure)
            if best is None or found.seconds < best.seconds:
                best = found
        if best is not None:
            search.offer(schedule_of(tables, best), "exchange")

    return Strategy("exchange", improve, refuses)


@dataclass
class Paths:
    """A path for every chunk that has to move, and the seconds of work they put on every resource."""

    tables: CopyProblem
    clock: LinkTimes
    seed: int
    policy: MachineCodePolicy = DEFAULT.machine_code

    def __post_init__(self) -> None:
        tables, problem = self.tables, self.tables.problem
        collective = problem.collective
        moved = [
            (k, min(pre), min(post - pre))
            for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True))
            if post - pre
        ]
        self.chunk: Ints = np.array([k for k, _, _ in moved], dtype=np.int64)
        self.origin: Ints = np.array([u for _, u, _ in moved], dtype=np.int64)
        self.goal: Ints = np.array([v for _, _, v in moved], dtype=np.int64)
        self.arc_dst: Ints = np.array([arc.dst for arc in problem.arcs], dtype=np.int64)
        self.out, self.uses = rows(tables.out_of), rows(tables.resources_of)
        self.busy: Floats = np.array(self.clock.busy)
        self.flow: Floats = np.array([
            alpha + max((self.clock.busy[r] for r in used), default=0.0)
            for alpha, used in zip(self.clock.alpha, tables.resources_of, strict=True)
        ])  # fmt: skip
        self.length: Ints = np.zeros(len(moved), dtype=np.int64)
        self.paths: Ints = np.zeros((len(moved), problem.ranks), dtype=np.int64)
        self.load: Floats = np.zeros(len(self.busy))
        self.rng = np.random.default_rng(self.seed)
        self.large = len(moved) * len(problem.arcs) > most_interpreted(run_sweep, self.policy.balanced_paths)

    def sweep(self, sharpness: float) -> bool:
        """Reroute every chunk once, in random order; False when one has no path."""
        kernel = compiled_sweep() if self.large else run_sweep
        target = self.load.max(initial=0.0)
        if not self.load.any():  # as if all took the shortest way
            sharpness, target = 0.0, 1.0
        reached = kernel(
            self.arc_dst, *self.out, *self.uses, self.flow, self.busy, self.origin, self.goal,
            self.rng.permutation(len(self.length)), target, sharpness, WEIGHT, self.length, self.paths, self.load,
        )  # fmt: skip
        return bool(reached)

    def listed(self, pressure: float) -> TimedRoutes:
        """When each chunk takes each arc of its path."""
        if len(self.chunk) > MAX_SCANNED:
            moves = zip(self.chunk.tolist(), self.length.tolist(), self.paths, strict=True)
            order = [(k, a) for k, n, path in moves for a in path[:n].tolist()]
            return listed(self.tables, self.clock, order, pressure)
        kernel = compiled_list_scheduling() if self.large else run_list_scheduling
        tail = self._tails()
        begins = np.zeros(self.paths.shape)
        alike = ALIKE * float(self.busy.min()) if len(self.busy) else 0.0
        seconds = kernel(
            *self.uses, self.flow, self.busy, self.length, self.paths, tail, pressure, alike, self.load.copy(),
            begins,
        )  # fmt: skip
        start = {
            (int(k), int(a)): float(t)
            for k, n, path, times in zip(self.chunk, self.length, self.paths, begins, strict=True)
            for a, t in zip(path[:n], times[:n], strict=True)
        }
        return TimedRoutes(start, self.load.tolist(), float(seconds))

    def _tails(self) -> Floats:
        tail = np.zeros(self.paths.shape)
        for i, n in enumerate(self.length.tolist()):
            for h in range(n - 2, -1, -1):
                tail[i, h] = tail[i, h + 1] + self.flow[self.paths[i, h + 1]]
        return tail
