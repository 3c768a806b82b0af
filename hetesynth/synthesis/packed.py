"""Packed trees, step by step filled: the strategy for many chunks that go to everybody.

In: a copying problem. Out: a schedule, most often as long as the busiest resource needs and a step more for the
last delivery. ``packing`` finds the trees, ``filling`` their steps.
"""

from __future__ import annotations

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.synthesis import trees
from hetesynth.synthesis.dissemination import Dissemination
from hetesynth.synthesis.filling import filled
from hetesynth.synthesis.packing import packed
from hetesynth.synthesis.search import Search

GRACE = 10.0  # seconds more, where some schedule is better than a punctual nothing


def refuses(problem: Problem) -> str | None:
    """Why the problem is not for trees to everybody, or None."""
    return trees.refuses(problem)


def improve(search: Search) -> None:
    """Offer the schedule of packed trees, if they can be had in time."""
    if refuses(search.problem) is not None:
        return
    grace = 0.0 if search.budget.punctual else GRACE

    def ended() -> bool:
        return search.out_of_time(-grace)

    rng = np.random.default_rng(search.budget.seed)
    packing = packed(search.problem, search.target, rng, ended)
    if packing is None:
        return
    schedule = filled(Dissemination(search.problem), packing.trees, packing.copy, ended)
    if schedule is not None:
        search.offer(schedule, "packed")
