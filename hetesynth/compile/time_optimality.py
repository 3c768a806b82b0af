"""What a schedule costs at one size, and how near that is to what is possible.

In: a topology, a problem, its schedule, a size. Out: a ``TimeOptimality``: the prediction and the tightest bound
in seconds, which another part of the program has rechecked. Synthesis, atlas and compare all say time in these
terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hetesynth.errors import InternalError
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import bandwidths, chunk_bytes
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.time_bound import TimeBound, tightest
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import Policy
from hetesynth.policy.bounds import BoundsPolicy


@dataclass(frozen=True, slots=True)
class Bounds:
    """The time bounds of a collective on a topology, each rechecked from its witness."""

    name: CollectiveName
    ranks: int
    bounds: tuple[TimeBound, ...]

    def at(self, size: int) -> TimeBound:
        """The one that says most for ``size`` bytes."""
        return tightest(self.bounds, size)

    def seconds(self, size: int) -> float:
        """No schedule is quicker for ``size`` bytes."""
        return float(self.at(size).seconds(size))


@dataclass(frozen=True, slots=True)
class TimeOptimality:
    """A schedule's time for ``size`` bytes beside ``bound``; both None where nobody looked."""

    size: int
    name: CollectiveName
    ranks: int
    seconds: float | None
    bound: TimeBound | None

    @property
    def bound_seconds(self) -> float | None:
        """No schedule is quicker."""
        return None if self.bound is None else float(self.bound.seconds(self.size))

    @property
    def percent(self) -> float | None:
        """Of the bound: 100 is optimal."""
        least = self.bound_seconds
        return None if not self.seconds or least is None else 100.0 * least / self.seconds

    def figures(self) -> dict[str, Any]:
        """What ``--json`` says: microseconds, and 10^9 bytes per second; null where nothing was simulated."""
        reached = None if self.seconds is None else bandwidths(self.name, self.ranks, self.size, self.seconds)
        return {
            "size": self.size,
            "predicted_us": None if self.seconds is None else self.seconds * 1e6,
            "algbw_GBps": None if reached is None else reached.algorithm / 1e9,
            "busbw_GBps": None if reached is None else reached.bus / 1e9,
            "bound_us": None if self.bound_seconds is None else self.bound_seconds * 1e6,
            "percent_of_bound": self.percent,
            "time_bound": None if self.bound is None else self.bound.kind,
            "time_bound_proof": None if self.bound is None else self.bound.proof,
        }


@lru_cache(maxsize=8)
def rechecked_bounds(topology: Topology, name: CollectiveName, root: Rank | None, policy: BoundsPolicy) -> Bounds:
    """Every time bound of the collective. Raises InternalError when the judge of bounds refuses one."""
    from hetesynth.bounds.throughput import time_bounds
    from hetesynth.verify.bounds.time_bounds import time_bound_violations

    bounds = time_bounds(topology, name, root, policy)
    for bound in bounds:
        wrong = time_bound_violations(topology, name, root, bound)
        if wrong:
            raise InternalError(f"the time bound by {bound.kind} does not verify: {wrong[0].message}")
    return Bounds(name, topology.ranks, bounds)


def implied_size(problem: Problem, bytes_of_chunk: int) -> int:
    """The buffer that chunks of ``bytes_of_chunk`` make."""
    collective = problem.collective
    whole = 1 / chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, 1)  # chunks of a buffer
    return bytes_of_chunk * round(whole)


def time_optimality(
    topology: Topology, problem: Problem, schedule: Schedule, size: int,
    policy: Policy, most: int | None = None,
) -> TimeOptimality:  # fmt: skip
    """The time of a schedule that was not made for a size; not simulated past ``most`` transfers,
    by default those of the policy."""
    collective = problem.collective
    most = policy.compile.max_predicted_unasked if most is None else most
    if len(schedule.transfers) > most:
        return TimeOptimality(size, collective.name, collective.ranks, None, None)
    from hetesynth.compile.predictors import CostOptions, predict

    bound = rechecked_bounds(topology, collective.name, collective.root, policy.bounds).at(size)
    seconds = predict(topology, problem, schedule, size, CostOptions(policy=policy)).seconds
    return TimeOptimality(size, collective.name, collective.ranks, seconds, bound)
