"""Searches whose schedules the judge accepts.

In: a strategy, a budget, a policy. Out: a ``Solver`` with the judge of schedules as its oracle, which strategies
do not know.
"""

from __future__ import annotations

from functools import partial

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget
from hetesynth.policy import Policy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solver


def verified_solver(strategy: Strategy, budget: Budget, policy: Policy) -> Solver:
    """The solver that offers what ``strategy`` finds to the judge, both by ``policy``."""
    return Solver(strategy, budget, partial(schedule_violations, policy=policy.verify), policy=policy)
