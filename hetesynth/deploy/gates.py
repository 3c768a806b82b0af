"""The gates of a cell against its figures.

In: what the manifest demands, figures. Out: a ``GateVerdict``. A gate on rings where none were simulated does not
apply, which is said: the cell can do nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetesynth.deploy.figures import Figures
from hetesynth.deploy.manifest.values import Cell, Gates
from hetesynth.engine.fused_receives import EQUAL
from hetesynth.engine.time_verdict import ALIKE
from hetesynth.model.words import size_text


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """``failures``: gates that are not met; ``notes``: those that do not apply, and why."""

    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def met(self) -> bool:
        """Whether all that apply are met."""
        return not self.failures


def gate_verdict(cell: Cell, figures: Figures) -> GateVerdict:
    """Whether ``figures`` reach what ``cell`` demands at every size that has a program."""
    gates, left = cell.gates, [row for row in figures.sizes if row.program_us is None]
    figures = replace(figures, sizes=tuple(row for row in figures.sizes if row not in left))
    failures = [*_too_far(gates, figures), *_too_slow(gates, figures)]
    if gates.steps is not None and figures.steps > gates.steps:
        failures.append(f"steps {figures.steps} is more than {gates.steps}")
    if gates.proven and figures.sizes and not _proven(figures):
        failures.append("neither its steps nor its time are proved to be the least")
    notes = [f"left to the library: {', '.join(size_text(row.size) for row in left)}"] if left else []
    return GateVerdict(tuple(failures), (*notes, *_not_beside_rings(gates, figures)))


def _too_far(gates: Gates, figures: Figures) -> Iterator[str]:
    """Sizes at which the proved limit is too far."""
    least = gates.percent_of_limit
    for row in figures.sizes if least is not None else ():
        if row.percent_of_limit is None:
            yield f"percent_of_limit at {size_text(row.size)} is not known"
        elif least is not None and row.percent_of_limit < least * (1 - EQUAL):
            yield _below("percent_of_limit", row.percent_of_limit, row.size, least)


def _too_slow(gates: Gates, figures: Figures) -> Iterator[str]:
    """Sizes at which the library is too near, or quicker, by more than simulations can tell."""
    least = gates.factor_over_library
    for row in figures.sizes if least is not None else ():
        factor = row.factor_over_library
        if least is not None and factor is not None and factor < least * (1 - ALIKE):
            yield _below("factor_over_library", factor, row.size, least)


def _not_beside_rings(gates: Gates, figures: Figures) -> Iterator[str]:
    if gates.factor_over_library is None:
        return
    for row in figures.sizes:
        if row.factor_over_library is None:
            reason = f": {row.no_library}" if row.no_library else ""
            yield f"factor_over_library does not apply at {size_text(row.size)}{reason}"


def _below(name: str, value: float, size: int, least: float) -> str:
    """``percent_of_limit 74.1 at 1 KB is less than 80``, with as many digits as tell the two apart."""
    digits = next((n for n in range(3, 12) if float(f"{value:.{n}g}") < least), 12)
    return f"{name} {value:.{digits}g} at {size_text(size)} is less than {least:g}"


def _proven(figures: Figures) -> bool:
    """The step model proves it, or a program is at the limit at some size."""
    shares = [row.percent_of_limit or 0.0 for row in figures.sizes]
    return figures.proven_optimal or max(shares) >= 100 * (1 - EQUAL)
