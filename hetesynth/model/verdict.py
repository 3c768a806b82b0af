"""What judges and strategies answer."""

from dataclasses import dataclass
from typing import Literal

from hetesynth.model.schedule import Schedule

_OfTransfers = Literal["no-such-link", "no-such-chunk", "not-held", "already-held", "received-twice"]
_OfSchedules = Literal["contribution-twice", "overloaded", "not-exclusive", "too-many-peers", "not-delivered"]
_OfPrograms = Literal["syntax", "attribute", "limit", "range", "connection", "dependence", "deadlock", "race"]
_OfData = Literal["wrong-data", "undefined-data", "missing-gpu"]
ViolationKind = Literal[_OfTransfers, _OfSchedules, "wrong-tick", _OfPrograms, _OfData, "certificate", "file"]
"""``certificate``: of a lower bound; ``file``: of one among others, and of one that cannot be judged."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A thing that is wrong, with the evidence: its place, and what was found.

    Fields that do not apply are None. ``message`` is one sentence; other fields are for programs. ``rule``: the
    stable id of the check (docs/verify.md), where there is one.
    """

    kind: ViolationKind
    message: str
    step: int | None = None
    chunk: int | None = None
    rank: int | None = None
    link: int | None = None
    resource: str | None = None
    thread_block: int | None = None
    line: int | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Synthesized:
    """The answer of a search that found a schedule."""

    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The proved answer that no schedule exists within ``steps`` steps (``None``: at all)."""

    reason: str
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The answer that nothing is known: the budget ended first. Never to be read as ``Infeasible``."""

    reason: str
    seconds: float


Outcome = Synthesized | Infeasible | GaveUp
