"""Symbolic values of chunks: which ranks' contributions a chunk of memory holds, and the sum of two.

In: values, and a way to report. Out: values. The judges of programs and of plans share them: what a chunk holds
does not depend on who moved it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

Value = tuple[int, int]
"""(chunk of the input buffer, set of the ranks whose input is summed, as a bit mask)."""

BROKEN: Value = (-1, 0)
"""The outcome of an operation that was already reported."""

SHOWN_RANKS = 12
SumDefect = Literal["different chunks", "added twice"]


def named(value: Value | None) -> str:
    """The value in words: ``chunk 3 of ranks 0,2`` (chunks of the input buffer)."""
    if value is None:
        return "nothing"
    if value == BROKEN:
        return "spoilt data"
    chunk, mask = value
    ranks = [r for r in range(mask.bit_length()) if mask >> r & 1]
    text = ",".join(map(str, ranks[:SHOWN_RANKS])) + (",..." if len(ranks) > SHOWN_RANKS else "")
    return f"input chunk {chunk} of rank{'s' if len(ranks) != 1 else ''} {text}"


def added(a: Sequence[Value], b: Sequence[Value], report: Callable[[SumDefect, str], None]) -> list[Value]:
    """Sums chunk by chunk. Different chunks, or a contribution that both sides hold, are reported with a
    sentence."""
    total: list[Value] = []
    for x, y in zip(a, b, strict=True):
        if x == BROKEN or y == BROKEN:
            total.append(BROKEN)
        elif x[0] != y[0]:
            report("different chunks", f"adds {named(x)} to {named(y)}: different chunks")
            total.append(BROKEN)
        elif x[1] & y[1]:
            twice = named((x[0], x[1] & y[1]))
            report("added twice", f"contribution added twice: both sides already hold {twice}")
            total.append(BROKEN)
        else:
            total.append((x[0], x[1] | y[1]))
    return total
