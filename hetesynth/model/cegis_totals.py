"""What the entries of a CEGIS trace come to.

In: entries, as they were noted. Out: counts and sums. Seconds are wall time; all else is the same in every run
with the same seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from hetesynth.model.cegis_trace import CALLED, CegisEntry


@dataclass(frozen=True, slots=True)
class CegisTotals:
    """``first``: the first entry with a counterexample. ``moved_back``: how often a checkpoint was earlier than
    the one before it. ``laws``: that Z3 was told, each counted once. ``calls``: of Z3, which spent ``units``.
    ``largest_model``: Send variables."""

    iterations: int
    counterexamples: int
    first: CegisEntry | None
    moved_back: int
    laws: int
    calls: int
    units: int
    largest_model: int
    seconds: float

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        first = self.first and {
            "phase": self.first.phase,
            "steps": self.first.steps,
            "checkpoint": self.first.checkpoint,
            "counterexample": self.first.counterexamples[0],
        }
        return {**asdict(self), "first": first}


def totals(entries: Sequence[CegisEntry]) -> CegisTotals:
    """Of ``entries``, in their order."""
    return CegisTotals(
        iterations=len(entries),
        counterexamples=sum(entry.number for entry in entries),
        first=next((entry for entry in entries if entry.counterexamples), None),
        moved_back=sum(_moved_back(before, after) for before, after in pairwise(entries)),
        laws=_laws(entries),
        calls=sum(entry.answer in CALLED for entry in entries),
        units=sum(entry.units for entry in entries),
        largest_model=max((entry.sends for entry in entries), default=0),
        seconds=round(sum(entry.seconds for entry in entries), 6),
    )


def _moved_back(before: CegisEntry, after: CegisEntry) -> bool:
    """Whether the checkpoint is earlier, in the same search for the same number of steps."""
    if (before.phase, before.steps) != (after.phase, after.steps):
        return False
    return before.checkpoint is not None and after.checkpoint is not None and after.checkpoint < before.checkpoint


def _laws(entries: Iterable[CegisEntry]) -> int:
    """Each entry counts the laws of its own loop; where there are fewer than before, another loop began."""
    total, before, loop = 0, 0, None
    for entry in entries:
        if (entry.phase, entry.steps) != loop or entry.laws < before:
            before, loop = 0, (entry.phase, entry.steps)
        total += entry.laws - before
        before = entry.laws
    return total
