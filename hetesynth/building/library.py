"""Cells whose program is slower, at some size of their range, than what a library would take.

In: cells with their records. Out: a sentence for the operator. A program is made for one size of its range; a
range that is wide has ends where another would be quicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hetesynth.deployment.folder import DeployedCell
from hetesynth.report.words import size_text

WAY_OUT = "state narrower ranges, or gates.factor_over_library = 1, and leave those calls to the library"


def beaten_by_library(cells: Iterable[DeployedCell]) -> str:
    """How many of ``cells`` are, and the worst of them; empty where none is."""
    everyone = list(cells)
    beaten = [rows for rows in (sorted(_slower(cell)) for cell in everyone) if rows]
    if not beaten:
        return ""
    factor, size, name = min(rows[0] for rows in beaten)
    where = f"the worst {name}, {factor:.2f} times as fast for {size_text(size)}"
    how_many = f"{len(beaten)} of {len(everyone)} cells"
    return f"{how_many} are slower than the library somewhere in their range: {where}; {WAY_OUT}"


def _slower(cell: DeployedCell) -> Iterator[tuple[float, int, str]]:
    """Factor, size and name, for each size where ``cell`` is slower. Records may come from files of anybody."""
    rows: Any = cell.record.get("sizes")
    for row in rows if isinstance(rows, list) else []:
        factor, size = (row.get(key) if isinstance(row, dict) else None for key in ("factor_over_library", "size"))
        slower = isinstance(row, dict) and row.get("slower_than_library") is True
        if slower and isinstance(factor, float) and isinstance(size, int):
            yield factor, size, cell.name
