"""Packed trees, step by step filled: the strategy for many chunks that go to everybody.

In: a copying problem. Out: a schedule, most often as long as the busiest resource needs and a step more for the
last delivery. ``tree_packing`` finds the trees, ``step_lp`` their steps. For large buffers there is a variant with
a forwarding delay, which takes a step more and hides latencies.
"""

from __future__ import annotations

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search
from hetesynth.search.strategy import Strategy
from hetesynth.search.trees import balanced_trees as trees
from hetesynth.search.trees.step_lp import StepLp
from hetesynth.search.trees.tree_packing import packed


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Why the problem is not for trees to everybody, or None."""
    return trees.refuses(problem, policy)


def improve(search: Search, forwarding_delay: int = 0) -> None:
    """Offer the schedule of packed trees, if they can be had in time; ``forwarding_delay``: see ``step_lp``."""
    policy = search.policy.trees
    if trees.refuses(search.problem, search.policy) is not None:
        return
    extension = 0.0 if search.budget.strict_deadline else policy.packing_extension

    def ended() -> bool:
        return search.out_of_time(-extension)

    rng = np.random.default_rng(search.budget.seed)
    packing = packed(search.problem, search.target, rng, ended, search.policy)
    if packing is None:
        return
    step_lp = StepLp(CopyProblem(search.problem), packing.trees, packing.copy, forwarding_delay, policy)
    schedule = step_lp.run(ended)
    if schedule is not None:
        search.offer(schedule, "tree-packing")


def forwarding_delay_strategy() -> Strategy:
    """The variant whose ranks pass a chunk on one step later than they could."""

    def improve_with_forwarding_delay(search: Search) -> None:
        improve(search, 1)

    return Strategy("tree-packing", improve_with_forwarding_delay, refuses)


STRATEGY = Strategy("tree-packing", improve, refuses)
