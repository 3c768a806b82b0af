"""What ``strategies`` prints: the registry as a table, and as plain values.

In: rows of the registry. Out: text or values for JSON. Loads no strategy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from hetesynth.model.collective import COLLECTIVE_NAMES, PERSONALIZED
from hetesynth.search.registry import TO_EVERYBODY

if TYPE_CHECKING:
    from hetesynth.model.collective import CollectiveName
    from hetesynth.search.registry import Objective, StrategyRow

HEADER = ("name", "counts", "collectives", "--size", "s/transfer", "what it does", "source")
COUNTS = {"steps": "steps", "time": "seconds"}


class StrategyDocument(TypedDict):
    """``needs_size``: the buffer's size has to be given; ``candidate``: auto tries it where a size is given.
    ``seconds_per_transfer``: of its search, on one core."""

    name: str
    objective: Objective
    collectives: list[CollectiveName]
    needs_size: bool
    candidate: bool
    library: bool
    seconds_per_transfer: float | None
    summary: str
    source: str


def strategies_document(rows: Sequence[StrategyRow]) -> list[StrategyDocument]:
    """One object a row."""
    return [
        {
            "name": row.name,
            "objective": row.objective,
            "collectives": list(row.accepts),
            "needs_size": row.objective == "time",
            "candidate": row.candidate,
            "library": row.library,
            "seconds_per_transfer": row.cost,
            "summary": row.summary,
            "source": row.source,
        }
        for row in rows
    ]


def strategies_report(rows: Sequence[StrategyRow]) -> str:
    """A table with a line for each row."""
    lines = [HEADER, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cells(row: StrategyRow) -> tuple[str, ...]:
    return (
        row.name,
        COUNTS[row.objective],
        accepted(row),
        "auto" if row.candidate else "-",
        "-" if row.cost is None else f"1e{round(math.log10(row.cost))}",
        row.summary,
        row.source,
    )


def accepted(row: StrategyRow) -> str:
    """The collectives that a strategy takes, in a few words."""
    groups = {COLLECTIVE_NAMES: "all", PERSONALIZED: "personalized", TO_EVERYBODY: "to everybody"}
    return groups.get(row.accepts) or ", ".join(row.accepts)
