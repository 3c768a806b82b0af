"""The record of a cell as values: what gates, comparisons and checks read of it.

In: a record, of a result or of an index that anybody may have edited. Out: ``Figures``, or a ValueError that says
what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetesynth.report.words import size_text


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """What the program takes for ``size`` bytes. ``no_rings``: why there is no ``factor_over_rings``."""

    size: int
    program_us: float
    percent_of_limit: float | None
    factor_over_rings: float | None
    no_rings: str

    @property
    def text(self) -> str:
        """``12.33 us for 64 KB``."""
        return f"{self.program_us:,.4g} us for {size_text(self.size)}"


@dataclass(frozen=True, slots=True)
class Figures:
    """``calls``: the sizes for which a runtime selects the programs; ``sizes``: in order."""

    calls: tuple[int, ...]
    ranks: int
    root: int | None
    chunks: int
    steps: int
    proven_optimal: bool
    sizes: tuple[SizeFigures, ...]

    def at(self, size: int) -> SizeFigures | None:
        """What holds at ``size``."""
        return next((row for row in self.sizes if row.size == size), None)


def figures(record: object) -> Figures:
    """The figures in ``record``, which may be anything. Raises ValueError where it is no record of a cell."""
    if not isinstance(record, Mapping):
        raise ValueError("it has no record")
    rows = _list(record, "sizes")
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("its record has no sizes")
    calls = _list(record, "calls")
    if not all(_is_count(number) for number in calls):
        raise ValueError("calls is no pair of sizes")
    root = record.get("root")
    return Figures(
        tuple(calls),
        _count(record, "ranks"),
        None if root is None else _count(record, "root"),
        _count(record, "chunks"),
        _count(record, "steps"),
        record.get("proven_optimal") is True,
        tuple(_size(row) for row in rows),
    )


def _size(row: Mapping[str, Any]) -> SizeFigures:
    microseconds = _number(row, "program_us")
    if microseconds is None or microseconds <= 0:
        raise ValueError("its record has no time at a size")
    reason = row.get("no_rings")
    return SizeFigures(
        _count(row, "size"),
        microseconds,
        _number(row, "percent_of_limit"),
        _number(row, "factor_over_rings"),
        reason if isinstance(reason, str) else "",
    )


def _list(record: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = record.get(key)
    if not isinstance(value, list):
        raise ValueError(f"its record has no {key}")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(record: Mapping[str, Any], key: str) -> int:
    value = record.get(key)
    if not isinstance(value, int) or not _is_count(value):
        raise ValueError(f"{key} is no number in its record")
    return value


def _number(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} is no number in its record")
    return float(value)
