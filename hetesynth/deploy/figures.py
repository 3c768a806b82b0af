"""The record of a cell as values, and the gates of its cell against them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hetesynth.deploy.folder.cells import check_record
from hetesynth.deploy.manifest.values import Cell
from hetesynth.engine.lowering import EQUAL
from hetesynth.engine.time_verdict import ALIKE
from hetesynth.engine.verify import Question, judge_file
from hetesynth.model.words import microseconds, size_text


def named(words: Sequence[str]) -> str:
    """The first of ``words`` and how many more there are."""
    more = f"; and {len(words) - 3} more" if len(words) > 3 else ""
    return "; ".join(words[:3]) + more


def errors_of(path: Path, question: Question) -> list[str]:
    """Return the errors that the judge finds in the file at ``path``, each message once."""
    findings = judge_file(path, question).findings
    return list(dict.fromkeys(f.violation.message for f in findings if f.level == "error"))


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """The times of a call of ``size`` bytes. ``program_us``: None where no program runs and the call is left to
    the library, which takes ``library_us``. ``no_library``: why there is no ``factor_over_library``."""

    size: int
    program_us: float | None
    percent_of_limit: float | None
    factor_over_library: float | None
    no_library: str
    library_us: float | None = None

    @property
    def us(self) -> float:
        """The microseconds of a call: of the program, else of the library; infinite where neither is known."""
        return self.program_us or self.library_us or math.inf

    @property
    def text(self) -> str:
        """``12.33 us for 64 KB``."""
        whose = "" if self.program_us else "the library's "
        return f"{whose}{microseconds(self.us * 1e-6)} for {size_text(self.size)}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a cell. ``steps``: of the longest schedule; ``sizes``: in order."""

    steps: int
    proven_optimal: bool
    sizes: tuple[SizeFigures, ...]


def figures(record: object) -> Figures:
    """The figures in ``record``, which may be anything. Raises ValueError where it is no record of a cell."""
    check_record(record)
    values: dict[str, Any] = dict(record)  # type: ignore[call-overload]
    sizes = []
    for row in values["sizes"]:
        microseconds = row.get("program_us")
        left = microseconds is None and "program" in row
        if not left and (microseconds is None or microseconds <= 0):
            raise ValueError("its record has no time at a size")
        percent, factor, why = map(row.get, ("percent_of_limit", "factor_over_library", "no_library"))
        sizes.append(
            SizeFigures(row["size"], microseconds, percent, factor, str(why or ""), row.get("library_us"))
        )
    if not sizes or "steps" not in values:
        raise ValueError("its record has no sizes or steps")
    return Figures(values["steps"], values.get("proven_optimal") is True, tuple(sizes))


class GateVerdict(NamedTuple):
    """``failures``: gates that are not met; ``notes``: those that do not apply, and why."""

    failures: tuple[str, ...]
    notes: tuple[str, ...]


def gate_verdict(cell: Cell, figures: Figures) -> GateVerdict:
    """Return the gates of ``cell`` that ``figures`` fail over sizes with programs, and those that do not apply."""
    gates, left = cell.gates, [row for row in figures.sizes if row.program_us is None]
    failures: list[str] = []
    notes = [f"left to the library: {', '.join(size_text(row.size) for row in left)}"] if left else []
    rows = [row for row in figures.sizes if row not in left]
    for row in rows:
        size, percent, factor = size_text(row.size), row.percent_of_limit, row.factor_over_library
        if (least := gates.percent_of_limit) is not None and (percent or 0.0) < least * (1 - EQUAL):
            reached = "is not known" if percent is None else f"{percent:.6g} is less than {least:g}"
            failures.append(f"percent_of_limit at {size}: {reached}")
        if (least := gates.factor_over_library) is not None and factor is None:
            notes.append(f"factor_over_library does not apply at {size}: {row.no_library}")
        elif least is not None and factor is not None and factor < least * (1 - ALIKE):
            # by more than simulations can tell
            failures.append(f"factor_over_library at {size}: {factor:.6g} is less than {least:g}")
    if gates.steps is not None and figures.steps > gates.steps:
        failures.append(f"steps {figures.steps} is more than {gates.steps}")
    nearest = max((row.percent_of_limit or 0.0 for row in rows), default=100.0)
    if gates.proven and not figures.proven_optimal and nearest < 100 * (1 - EQUAL):
        failures.append("neither its steps nor its time are proved to be the least")
    return GateVerdict(tuple(failures), tuple(notes))
