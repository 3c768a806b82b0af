"""What a schedule costs at one size, and how near that is to what is possible.

In: a topology, a problem, its schedule, a size. Out: a ``TimeOptimality``: the prediction and the tightest bound
in seconds, which another part of the program has rechecked. Synthesis, atlas and compare all say time in these
terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hetesynth.errors import InternalError
from hetesynth.model.calibration import calibrated
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import bandwidths, chunk_bytes
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.time_bound import TimeBound, of_scope, tightest
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import Policy

if TYPE_CHECKING:
    from hetesynth.engine.predictors import CostOptions


@dataclass(frozen=True, slots=True)
class Bounds:
    """The time bounds of a collective on a topology, each rechecked from its witness.

    ``bounds`` hold for every algorithm; ``tree_based``: those that say more of algorithms that follow trees.
    ``launch``: seconds that every program takes before anything moves. ``start``: the same for programs with the
    protocol of ours, as predictions of schedules and programs count it. ``stated``: those of every algorithm at
    the rates that the topology states, where ``bounds`` are at others.
    """

    name: CollectiveName
    ranks: int
    bounds: tuple[TimeBound, ...]
    tree_based: tuple[TimeBound, ...] = ()
    launch: float = 0.0
    start: float = 0.0
    stated: tuple[TimeBound, ...] = ()

    def at(self, size: int) -> TimeBound:
        """The one that says most for ``size`` bytes."""
        return tightest(self.bounds, size)

    def seconds(self, size: int) -> float:
        """No schedule is quicker for ``size`` bytes, whatever runs it."""
        return self.launch + float(self.at(size).seconds(size))

    def stated_seconds(self, size: int) -> float:
        """The same on hardware that carries what the topology states."""
        return self.launch + float(tightest(self.stated or self.bounds, size).seconds(size))

    def least_predicted(self, size: int) -> float:
        """No prediction for ``size`` bytes is less: our programs start no sooner than ``start``."""
        return self.start + float(self.at(size).seconds(size))

    def optimality(self, size: int, seconds: float | None) -> TimeOptimality:
        """``seconds`` for ``size`` bytes beside the bounds."""
        bound = self.at(size)
        trees = max(self.tree_based, key=lambda b: b.seconds(size), default=None)
        if trees is not None and trees.seconds(size) <= bound.seconds(size):
            trees = None
        return TimeOptimality(size, self.name, self.ranks, seconds, bound, self.launch, trees)


@dataclass(frozen=True, slots=True)
class TimeOptimality:
    """A schedule's time for ``size`` bytes beside ``bound``; both None where nobody looked. ``launch``: as in
    ``Bounds``. ``tree_bound``: where algorithms that follow trees are known to take longer than ``bound``."""

    size: int
    name: CollectiveName
    ranks: int
    seconds: float | None
    bound: TimeBound | None
    launch: float = 0.0
    tree_bound: TimeBound | None = None

    @property
    def bound_seconds(self) -> float | None:
        """No schedule is quicker."""
        return None if self.bound is None else self.launch + float(self.bound.seconds(self.size))

    @property
    def tree_bound_seconds(self) -> float | None:
        """No algorithm along trees is quicker, where that is known to be more."""
        return None if self.tree_bound is None else self.launch + float(self.tree_bound.seconds(self.size))

    @property
    def proof(self) -> str | None:
        """Why no schedule is quicker."""
        if self.bound is None or not self.launch:
            return None if self.bound is None else self.bound.proof
        return f"{self.bound.proof}, once the kernel has started ({self.launch * 1e6:g} us)"

    @property
    def percent(self) -> float | None:
        """Of the bound: 100 is optimal."""
        return self._percent_of(self.bound_seconds)

    def _percent_of(self, least: float | None) -> float | None:
        return None if not self.seconds or least is None else 100.0 * least / self.seconds

    def figures(self) -> dict[str, Any]:
        """What ``--json`` says: microseconds, and 10^9 bytes per second; null where nothing was simulated."""
        trees = self.tree_bound_seconds
        reached = None if self.seconds is None else bandwidths(self.name, self.ranks, self.size, self.seconds)
        return {
            "size": self.size,
            "predicted_us": None if self.seconds is None else self.seconds * 1e6,
            "algbw_GBps": None if reached is None else reached.algorithm / 1e9,
            "busbw_GBps": None if reached is None else reached.bus / 1e9,
            "bound_us": None if self.bound_seconds is None else self.bound_seconds * 1e6,
            "percent_of_bound": self.percent,
            "time_bound": None if self.bound is None else self.bound.kind,
            "time_bound_proof": self.proof,
            "tree_bound_us": None if trees is None else trees * 1e6,
            "percent_of_tree_bound": self._percent_of(trees),
        }


@lru_cache(maxsize=8)
def rechecked_bounds(topology: Topology, name: CollectiveName, root: Rank | None, policy: Policy) -> Bounds:
    """Every time bound of the collective. Raises InternalError when the judge of bounds refuses one."""
    from hetesynth.judge.bounds.time_bounds import time_bound_violations
    from hetesynth.search.bounds.throughput import time_bounds

    bounds = time_bounds(topology, name, root, policy)
    for bound in bounds:
        wrong = time_bound_violations(topology, name, root, bound)
        if wrong:
            raise InternalError(f"the time bound by {bound.kind} does not verify: {wrong[0].message}")
    return Bounds(name, topology.ranks, of_scope(bounds, "all"), of_scope(bounds, "tree-based"))


def bounds_of(topology: Topology, name: CollectiveName, root: Rank | None, options: CostOptions) -> Bounds:
    """Every time bound of the collective at the rates of ``options``, and what these say that programs take to
    start."""
    bounds = rechecked_bounds(calibrated(topology, options.rates), name, root, options.policy)
    stated = rechecked_bounds(topology, name, root, options.policy).bounds
    return replace(bounds, launch=options.launch(topology), start=options.start(topology), stated=stated)


def implied_size(problem: Problem, bytes_of_chunk: int) -> int:
    """The buffer that chunks of ``bytes_of_chunk`` make."""
    collective = problem.collective
    whole = 1 / chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, 1)  # chunks of a buffer
    return bytes_of_chunk * round(whole)


def time_optimality(
    topology: Topology, problem: Problem, schedule: Schedule, size: int,
    options: CostOptions, most: int | None = None,
) -> TimeOptimality:  # fmt: skip
    """The time of a schedule that was not made for a size; not simulated past ``most`` transfers,
    by default those of the policy."""
    collective = problem.collective
    most = options.policy.compile.max_predicted_unasked if most is None else most
    if len(schedule.transfers) > most:
        return TimeOptimality(size, collective.name, collective.ranks, None, None)
    from hetesynth.engine.predictors import predict

    bounds = bounds_of(topology, collective.name, collective.root, options)
    return bounds.optimality(size, predict(topology, problem, schedule, size, options).seconds)
