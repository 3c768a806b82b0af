"""Cardinality encodings that the compiler does not use: a totalizer and a sequential counter.

In: clauses, variables and a limit. Out: the clauses say that at most so many of the variables are true. The
solutions are those of ``native``, which the compiler uses; docs/decisions.md, 4 compares the times.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.search.smt.clauses import Clauses
from hetesynth.search.smt.step_model import CardinalityEncoding, native


def totalizer(clauses: Clauses, variables: Sequence[int], limit: int) -> None:
    """A tree of unary sums, cut off above ``limit`` (Bailleux and Boufkhad, CP 2003)."""
    clauses.at_most(variables, limit, native=False)
    total = _sum(clauses, variables, limit + 1)
    if len(total) > limit:
        clauses.tell((-total[limit],))


def _sum(clauses: Clauses, variables: Sequence[int], most: int) -> list[int]:
    """Outputs of which the i-th is true when more than i of ``variables`` are."""
    if len(variables) <= 1:
        return [*variables]
    half = len(variables) // 2
    left, right = _sum(clauses, variables[:half], most), _sum(clauses, variables[half:], most)
    outputs = [clauses.variable() for _ in range(min(most, len(left) + len(right)))]
    for i in range(len(left) + 1):
        for j in range(len(right) + 1):
            if i + j > 0:
                causes = [-left[i - 1]] * (i > 0) + [-right[j - 1]] * (j > 0)
                clauses.tell((*causes, outputs[min(i + j, len(outputs)) - 1]))
    return outputs


def sequential(clauses: Clauses, variables: Sequence[int], limit: int) -> None:
    """A counter handed from variable to variable (Sinz, CP 2005)."""
    clauses.at_most(variables, limit, native=False)
    before: list[int] = []
    for variable in variables:
        if len(before) == limit:
            clauses.tell((-variable, *(-counted for counted in before[-1:])))
        now = [clauses.variable() for _ in range(min(limit, len(before) + 1))]
        for i, counted in enumerate(before):
            clauses.tell((-counted, now[i]))
            if i + 1 < len(now):
                clauses.tell((-counted, -variable, now[i + 1]))
        if now:
            clauses.tell((-variable, now[0]))
        before = now


CARDINALITY_ENCODINGS: dict[str, CardinalityEncoding] = {
    "native": native,
    "totalizer": totalizer,
    "sequential": sequential,
}
