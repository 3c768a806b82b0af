"""How a solver is told that at most so many of some variables are true.

In: clauses, variables and a limit. Out: the clauses say so. In certificates counts stand as they are meant,
whatever the solver was told. Other encodings and their times: docs/decisions/0004-encodings.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetesynth.synthesis.smt.clauses import Clauses

Counting = Callable[[Clauses, Sequence[int], int], None]


def native(clauses: Clauses, variables: Sequence[int], limit: int) -> None:
    """A cardinality constraint, left to the solver."""
    clauses.at_most(variables, limit)
