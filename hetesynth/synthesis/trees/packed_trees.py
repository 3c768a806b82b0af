"""Packed trees, step by step filled: the strategy for many chunks that go to everybody.

In: a copying problem. Out: a schedule, most often as long as the busiest resource needs and a step more for the
last delivery. ``packing`` finds the trees, ``filling`` their steps. For large buffers there is a variant with a
pause, which takes a step more and hides latencies.
"""

from __future__ import annotations

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.trees import balanced_trees as trees
from hetesynth.synthesis.trees.step_lp import filled
from hetesynth.synthesis.trees.tree_packing import packed

EXTENSION = 10.0  # seconds more, where some schedule is better than a strict_deadline nothing


def refuses(problem: Problem) -> str | None:
    """Why the problem is not for trees to everybody, or None."""
    return trees.refuses(problem)


def improve(search: Search, pause: int = 0) -> None:
    """Offer the schedule of packed trees, if they can be had in time; ``pause``: see ``filling``."""
    if refuses(search.problem) is not None:
        return
    grace = 0.0 if search.budget.strict_deadline else EXTENSION

    def ended() -> bool:
        return search.out_of_time(-grace)

    rng = np.random.default_rng(search.budget.seed)
    packing = packed(search.problem, search.target, rng, ended)
    if packing is None:
        return
    schedule = filled(CopyProblem(search.problem), packing.trees, packing.copy, pause, ended)
    if schedule is not None:
        search.offer(schedule, "tree-packing")


def forwarding_delay_strategy() -> Strategy:
    """The variant whose ranks pass a chunk on one step later than they could."""

    def improve_with_forwarding_delay(search: Search) -> None:
        improve(search, 1)

    return Strategy("tree-packing", improve_with_forwarding_delay, refuses)


STRATEGY = Strategy("tree-packing", improve, refuses)
