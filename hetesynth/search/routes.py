"""Routes of chunks and what they load.

In: a copying problem. Out: the arcs between ranks, and the load of resources as arcs are taken. Knows no order in
time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hetesynth.search.copy_problem import CopyProblem

Routes = Sequence[Sequence[int]]
"""For every chunk the arcs it takes."""


class NoRoute(Exception):
    """The graph lacks what this way of routing needs; says what in words."""


class Load:
    """How much every resource carries already, in steps; for choosing what is loaded least."""

    def __init__(self, tables: CopyProblem) -> None:
        self.tables = tables
        self.carried = [0] * len(tables.resources)

    def after(self, arc: int) -> float:
        """Steps of work on the busiest resource of ``arc`` if one more chunk took it."""
        resources = self.tables.resources
        return max((self.carried[r] + 1) / resources[r].capacity for r in self.tables.resources_of[arc])

    def take(self, arc: int) -> None:
        """One more chunk on ``arc``."""
        for r in self.tables.resources_of[arc]:
            self.carried[r] += 1


def arcs_between(tables: CopyProblem) -> Mapping[tuple[int, int], list[int]]:
    """The arcs that join each pair of ranks."""
    table: dict[tuple[int, int], list[int]] = defaultdict(list)
    for a, arc in enumerate(tables.problem.arcs):
        table[arc.src, arc.dst].append(a)
    return table
