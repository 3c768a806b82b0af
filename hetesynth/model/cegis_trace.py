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
    """An iteration of the synthesis, in which a schedule of ``steps`` steps was asked for.

    ``action``: ``seed``: the first candidate was verified; ``fill``: a step was filled greedily; ``solve``: Z3
    chose what scarce links carry in a step; ``whole``: all steps from the ``checkpoint`` on, the earliest with a
    counterexample. ``number``: counterexamples, only the first of which are kept in words. ``laws``: laws told to
    Z3. ``sends``: Send variables; ``units``: units that Z3 spent. ``snapshot``: the schedule so far, where small.
    ``phase``: the phase of an allreduce."""

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
        """Return the entry for JSON, without ``snapshot`` where there is none."""
        entry = asdict(self)
        if self.snapshot is None:
            del entry["snapshot"]
        return entry


@dataclass
class CegisTrace:
    """The entries of a run, to which a trace of one ``phase`` appends as well: all traces share one list."""

    phase: str = ""
    entries: list[CegisEntry] = field(default_factory=list)

    def inside(self, phase: str) -> CegisTrace:
        """Return a trace for ``phase`` that appends to the same list."""
        return CegisTrace(f"{self.phase}, {phase}" if self.phase else phase, self.entries)

    def note(self, entry: CegisEntry) -> None:
        """Append ``entry`` under the phase of this trace."""
        self.entries.append(replace(entry, phase=self.phase))

    @property
    def own(self) -> tuple[CegisEntry, ...]:
        """The entries of this phase and of the phases inside it."""
        inside = f"{self.phase}, " if self.phase else ""
        return tuple(e for e in self.entries if e.phase == self.phase or e.phase.startswith(inside))


def totals(entries: Sequence[CegisEntry]) -> dict[str, Any]:
    """Return the totals of ``entries`` for JSON. ``first``: the first entry with a counterexample. ``calls``: of
    Z3, which spent ``units``. ``largest_model``: the most Send variables of an entry."""
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
