"""The cardinality encoding: how a solver is told that at most so many of some variables are true.

In: clauses, variables and a limit. Out: the clauses say so. Certificates state the limits themselves, whatever the
encoding. Other encodings and their times: docs/decisions.md, 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetesynth.search.smt.clauses import Clauses

CardinalityEncoding = Callable[[Clauses, Sequence[int], int], None]


def native(clauses: Clauses, variables: Sequence[int], limit: int) -> None:
    """A cardinality constraint, left to the solver."""
    clauses.at_most(variables, limit)
