"""The record of a cell as values: what gates, comparisons and checks read of it.

In: a record, of a result or of an index that anybody may have edited. Out: ``Figures``, or a ValueError that says
what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetesynth.deploy.folder.records import check_record
from hetesynth.model.words import size_text


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """What the program takes for ``size`` bytes, None: there is none, the call is left to the library, which takes
    ``library_us``. ``no_library``: why there is no ``factor_over_library``."""

    size: int
    program_us: float | None
    percent_of_limit: float | None
    factor_over_library: float | None
    no_library: str
    library_us: float | None = None

    @property
    def us(self) -> float:
        """What a call takes: by the program, else by the library."""
        return self.program_us or self.library_us or math.inf

    @property
    def text(self) -> str:
        """``12.33 us for 64 KB``."""
        whose = "" if self.program_us else "the library's "
        return f"{whose}{self.us:,.4g} us for {size_text(self.size)}"


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
    check_record(record)
    values: dict[str, Any] = dict(record)  # type: ignore[call-overload]
    if not values["sizes"]:
        raise ValueError("its record has no sizes")
    try:
        return Figures(
            tuple(values["calls"]), values["ranks"], values.get("root"), values["chunks"], values["steps"],
            values.get("proven_optimal") is True, tuple(map(_size, values["sizes"])),
        )  # fmt: skip
    except KeyError as error:
        raise ValueError(f"its record has no {error.args[0]}") from None


def _size(row: Mapping[str, Any]) -> SizeFigures:
    microseconds, library = row.get("program_us"), row.get("library_us")
    left = microseconds is None and "program" in row
    if not left and (microseconds is None or microseconds <= 0):
        raise ValueError("its record has no time at a size")
    percent, factor, reason = (row.get(name) for name in ("percent_of_limit", "factor_over_library", "no_library"))
    if isinstance(percent, str | bool) or isinstance(factor, str | bool):
        raise ValueError("a share at a size is no number in its record")
    why = reason if isinstance(reason, str) else ""
    return SizeFigures(row["size"], microseconds, percent, factor, why, library)
