"""The figures of a cell that reports show, at the middle one of its sizes, beside the limit and the last run.

In: records, which may come from files of anybody. Out: numbers that are finite, or None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetesynth.deploy.outcome import CellReport, Status
from hetesynth.model.words import size_text

SHOWN_PERCENT = 0.05
"""Changes below this many percent are shown as none: one decimal is."""

_UNDECIDED: frozenset[Status] = frozenset({"stale", "missing", "invalid", "unfinished"})


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one program at one size of the buffer, in bytes; microseconds. None: not known."""

    size: int
    program_us: float | None
    limit_us: float | None
    percent_of_limit: float | None
    factor_over_library: float | None
    steps: int | None
    proven_optimal: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """The same as texts; empty where there is nothing to say."""

    size: str = ""
    time: str = ""
    percent: str = ""
    factor: str = ""
    change: str = ""


def figures(record: Mapping[str, Any] | None) -> Figures | None:
    """What ``record`` says at the middle one of its sizes; None where it says nothing of use."""
    rows = record.get("sizes") if isinstance(record, Mapping) else None
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    sized = [row for row in rows if isinstance(row.get("size"), int) and row["size"] > 0]
    sized = [row for row in sized if row.get("program_us")] or sized
    if record is None or not sized:
        return None
    row, steps = sized[len(sized) // 2], record.get("steps")
    return Figures(
        row["size"],
        _positive(row.get("program_us")),
        _positive(row.get("limit_us")),
        _positive(row.get("percent_of_limit")),
        _positive(row.get("factor_over_library")),
        steps if isinstance(steps, int) and not isinstance(steps, bool) else None,
        record.get("proven_optimal") is True,
    )


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def change_percent(report: CellReport) -> float | None:
    """By how much the program's time differs from that of the last run; None: one of the two is not known, or
    nothing was decided in this run."""
    if report.status in _UNDECIDED:
        return None
    return _difference(figures(report.record), figures(report.previous))


def candidate_percent(report: CellReport) -> float | None:
    """By how much what was made and not deployed differs from what stands; None: nothing else was made."""
    if report.candidate == report.record:
        return None
    return _difference(figures(report.candidate), figures(report.record))


def _difference(now: Figures | None, before: Figures | None) -> float | None:
    if now is None or before is None or now.size != before.size:
        return None
    if now.program_us is None or before.program_us is None:
        return None
    percent = 100.0 * (now.program_us / before.program_us - 1.0)
    return percent if math.isfinite(percent) else None


def percent_text(percent: float) -> str:
    """``-3.1 %``, ``same``."""
    return "same" if abs(percent) < SHOWN_PERCENT else f"{percent:+.1f} %"


def change_text(report: CellReport) -> str:
    """Against the last run: ``-3.1 %``, ``same``, ``new``; empty where nothing stands."""
    percent = change_percent(report)
    if percent is not None:
        return percent_text(percent)
    is_new = report.status in ("built", "cached") and report.record is not None and report.previous is None
    return "new" if is_new else ""


def shown(report: CellReport) -> Shown:
    """The figures of what stands, as texts."""
    at = figures(report.record)
    if at is None:
        return Shown(change=change_text(report))
    return Shown(
        size_text(at.size),
        "" if at.program_us is None else time_text(at.program_us),
        "" if at.percent_of_limit is None else f"{math.floor(at.percent_of_limit * 10 + 1e-6) / 10:.1f} %",
        "" if at.factor_over_library is None else f"{at.factor_over_library:.2f}",
        change_text(report),
    )


def time_text(us: float) -> str:
    """``152.6 us``, ``1,425 us``."""
    return f"{us:,.0f} us" if us >= 1_000 else f"{us:.4g} us"


def properties(report: CellReport) -> dict[str, str]:
    """Every figure that is known, by its name: for tools that keep pairs of names and values."""
    at = figures(report.record)
    if at is None:
        return {}
    change = change_percent(report)
    values: dict[str, float | int | None] = {
        "size": at.size, "program_us": at.program_us, "limit_us": at.limit_us,
        "percent_of_limit": at.percent_of_limit, "factor_over_library": at.factor_over_library, "steps": at.steps,
        "change_percent": change,
    }  # fmt: skip
    return {name: _number(value) for name, value in values.items() if value is not None}


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
