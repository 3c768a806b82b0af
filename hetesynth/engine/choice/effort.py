"""Effort: how much is tried for a size, counted in work units, which are the same on every machine.

In: a budget, the number of ranks. Out: an ``Effort`` for each stage, which refuses what would exceed it. A unit is
about a second of the search of a small cluster on one core; what work takes is estimated from transfers before it
is begun, so neither load nor the clock decides what is tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetesynth.model.decisions import OVER_EFFORT
from hetesynth.model.problem import Budget
from hetesynth.policy.effort import EffortPolicy
from hetesynth.search import registry


@dataclass
class Effort:
    """Work units that a stage may spend; ``allotted`` infinite: all there is to try."""

    allotted: float
    spent: float = 0.0

    def exceeded_by(self, work: float) -> str | None:
        """Why ``work`` is not begun, or None. The first is begun whatever it is."""
        if not self.spent or self.spent + work <= self.allotted:
            return None
        return f"{work:.2g} {OVER_EFFORT} the {max(0.0, self.allotted - self.spent):.2g} that are left"

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.allotted

    def spend(self, work: float) -> None:
        """``work`` is done."""
        self.spent += work


@dataclass(frozen=True)
class Efforts:
    """The effort of each stage of the choice for a size."""

    steady: Effort
    schedules: Effort
    programs: Effort


def efforts(budget: Budget, ranks: int, policy: EffortPolicy) -> Efforts:
    """What ``budget`` allots to the stages on a cluster of ``ranks``. Programs in steady state have a limit in any
    case, as there are many alike."""
    if budget.effort is None:
        return Efforts(Effort(policy.steady_unlimited), Effort(math.inf), Effort(math.inf))
    whole = budget.effort * (policy.base + policy.per_rank * ranks)
    shares = (policy.share_steady, policy.share_schedules, policy.share_programs)
    return Efforts(*(Effort(whole * share) for share in shares))


def work_of(name: str, transfers: int, policy: EffortPolicy) -> float:
    """Work units of a candidate of strategy ``name``."""
    cost = next((row.cost for row in registry.ROWS if row.name == name), None)
    return policy.candidate + ((policy.uncosted if cost is None else cost) + policy.prediction) * transfers
