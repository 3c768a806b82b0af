"""What counterexample-guided synthesis did: an entry for each checkpoint, its counterexamples, Z3's answer.

Append-only. Seconds are wall time, so two traces differ in them and in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Action = Literal["seed", "fill", "solve", "whole"]
CALLED = ("sat", "unsat", "unknown")  # answers of Z3; a linear program says infeasible before
Sent = tuple[int, int, int]  # chunk, link, step


@dataclass(frozen=True, slots=True)
class CegisEntry:
    """One iteration, with so many ``steps`` asked for.

    ``action``: ``seed``: the first candidate was verified; ``fill``: a step was filled greedily; ``solve``: Z3
    chose what scarce links carry in a step; ``whole``: all steps from the ``checkpoint`` on, the earliest with a
    counterexample. ``number``: of counterexamples, only the first of which are kept in words. ``laws``: told to
    Z3. ``sends``: Send variables; ``units``: of Z3. ``snapshot``: the schedule so far, where small. ``phase``: of
    an allreduce."""

    steps: int
    action: Action
    checkpoint: int | None
    counterexamples: tuple[str, ...] = ()
    number: int = 0
    laws: int = 0
    sends: int = 0
    answer: str | None = None
    units: int = 0
    seconds: float = 0.0
    snapshot: tuple[Sent, ...] | None = None
    phase: str = ""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        entry = asdict(self)
        if self.snapshot is None:
            del entry["snapshot"]
        return entry


@dataclass
class CegisTrace:
    """The entries; with ``phase`` those of one phase, which parts write into the same list."""

    phase: str = ""
    entries: list[CegisEntry] = field(default_factory=list)

    def inside(self, phase: str) -> CegisTrace:
        """The part for ``phase``."""
        return CegisTrace(f"{self.phase}, {phase}" if self.phase else phase, self.entries)

    def note(self, entry: CegisEntry) -> None:
        """Append one entry, as of this phase."""
        self.entries.append(replace(entry, phase=self.phase))

    @property
    def own(self) -> tuple[CegisEntry, ...]:
        """The entries of this phase and of parts of it."""
        inside = f"{self.phase}, " if self.phase else ""
        return tuple(e for e in self.entries if e.phase == self.phase or e.phase.startswith(inside))


def totals(entries: Sequence[CegisEntry]) -> dict[str, Any]:
    """Of ``entries``, for JSON. ``first``: with a counterexample. ``calls``: of Z3, which spent ``units``.
    ``largest_model``: Send variables."""
    first = next((entry for entry in entries if entry.counterexamples), None)
    return {
        "iterations": len(entries),
        "counterexamples": sum(entry.number for entry in entries),
        "first": first
        and {
            "phase": first.phase,
            "steps": first.steps,
            "checkpoint": first.checkpoint,
            "counterexample": first.counterexamples[0],
        },
        "calls": sum(entry.answer in CALLED for entry in entries),
        "units": sum(entry.units for entry in entries),
        "largest_model": max((entry.sends for entry in entries), default=0),
        "seconds": round(sum(entry.seconds for entry in entries), 6),
    }
