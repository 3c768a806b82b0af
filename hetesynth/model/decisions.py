"""What a search or a tuning run decided, in order: each rule and candidate, what became of it, and why.

The rules write here while they are applied, so the record says what happened and not what should have.
Append-only. Holds no wall times: two runs that no clock cut short have equal records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OVER_EFFORT = "transfers to try are more than"
"""In the reason of what a higher effort would try."""
Verdict = Literal["applied", "tried", "skipped", "refused", "dropped", "chosen"]


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision. ``stage``: where it was made; ``what``: the rule or candidate; ``why``: the reason or result.

    Rules are applied or skipped; candidates are tried, skipped or refused, and one is chosen.
    """

    stage: str
    what: str
    verdict: Verdict
    why: str

    def plain(self) -> dict[str, str]:
        """Return the decision for JSON."""
        return {"stage": self.stage, "what": self.what, "verdict": self.verdict, "why": self.why}


@dataclass
class Decisions:
    """The record of all decisions; with ``stage`` the part for that stage, which appends to the same list."""

    stage: str = ""
    entries: list[Decision] = field(default_factory=list)

    def note(self, what: str, verdict: Verdict, why: str) -> None:
        """Append a decision of this stage."""
        self.entries.append(Decision(self.stage, what, verdict, why))

    def inside(self, stage: str) -> Decisions:
        """Return the part of the record for ``stage``."""
        return Decisions(f"{self.stage}, {stage}" if self.stage else stage, self.entries)
