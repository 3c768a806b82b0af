"""Numbers in words, the same in every report."""

import math
from collections.abc import Collection, Iterable, Sequence

from hetesynth.model.runtime_costs import RuntimeCosts

_BINARY = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
NAMED_CUTS = 3  # decisions of the clock that a text names


def clock_line(places: Sequence[str]) -> str:
    """Return one line with the first ``NAMED_CUTS`` of the ``places`` where the clock decided something."""
    first = "; ".join(places[:NAMED_CUTS])
    more = f"; and {len(places) - NAMED_CUTS} more (--json lists all)" if len(places) > NAMED_CUTS else ""
    return f"decided by the clock, so another run may differ: {first}{more}"


def counted(number: int, what: str) -> str:
    """Return ``number`` with the noun ``what``, to which an s is added unless the number is 1: ``2 steps``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def microseconds(seconds: float) -> str:
    """Return ``seconds`` in microseconds with four digits, or all before the point: ``1,234 us``."""
    return f"{seconds * 1e6:,.4g} us" if seconds < 9_999.5e-6 else f"{seconds * 1e6:,.0f} us"


def whole_percent(percent: float) -> str:
    """Return ``percent`` rounded down, but for the noise of floats: nothing less than 100 is called 100."""
    return str(math.floor(percent * (1 + 1e-9)))


def short_time(seconds: float) -> str:
    """Return ``seconds`` with a fitting unit and three digits: ``725 us``, ``44.7 ms``."""
    unit, name = next(((u, n) for u, n in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * u), (1e-6, "us"))
    return f"{float(f'{seconds / unit:.3g}'):g} {name}"


def runtime_words(runtime: RuntimeCosts | None) -> str:
    """Return words that say if runtime costs (copy rates and starts) are counted."""
    return "runtime costs left out" if runtime is None else "runtime costs counted"


EXACT = 6
"""Digits of a size that somebody chose."""


def size_text(size: int, digits: int = 4) -> str:
    """Return ``64 MB``, or ``64 MiB`` where that is whole; up to ``digits`` digits, bytes below a kilobyte."""
    for unit, name in _BINARY:
        if size >= unit and size % unit == 0 and size % 1000:
            return f"{size // unit} {name}"
    for unit, name in _UNITS:
        if float(text := f"{size / unit:.{digits}g}") >= 1:
            return f"{text} {name}"
    return f"{size} B"


def told_apart(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in their order, the second and later of equal ones numbered: ``a->b``, ``a->b (2)``."""
    used: set[str] = set()
    apart: list[str] = []
    for name in names:
        fresh, number = name, 1
        while fresh in used:
            number += 1
            fresh = f"{name} ({number})"
        used.add(fresh)
        apart.append(fresh)
    return tuple(apart)


def table(rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = "") -> list[str]:
    """Return a line for each row, columns of equal width, those of ``right`` to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(indent + "  ".join(cells).rstrip())
    return lines
