"""What judges and strategies answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetesynth.model.schedule import Schedule

ViolationKind = Literal[
    # of a schedule
    "no-such-link",
    "no-such-chunk",
    "not-held",
    "already-held",
    "received-twice",
    "contribution-twice",
    "overloaded",
    "not-exclusive",
    "too-many-peers",
    "not-delivered",
    "wrong-tick",
    # of a program
    "syntax",
    "attribute",
    "limit",
    "range",
    "connection",
    "dependence",
    "deadlock",
    "race",
    "wrong-data",
    "undefined-data",
    "missing-gpu",
    # of a lower bound
    "certificate",
    # of a file among others, and of one that cannot be judged
    "file",
]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong, with the evidence: where, and what was found.

    Fields that do not apply are None. ``message`` is one sentence; the rest is for programs. ``rule``: the stable
    id of the check (docs/verify.md), where there is one.
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
    """A schedule was found."""

    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Proved: no schedule exists within ``steps`` steps (``None``: at all)."""

    reason: str
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Nothing is known: the budget ended first. Never to be read as Infeasible."""

    reason: str
    seconds: float


Outcome = Synthesized | Infeasible | GaveUp
