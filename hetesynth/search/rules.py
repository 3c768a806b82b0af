"""Rules: what is done in an order, each unless one of its conditions gives a reason against it.

In: rules, what their conditions look at, and a record of decisions. Out: the rules that apply, in order; what is
skipped is noted with the reason. ``auto`` has rules by steps (``search/auto.py``) and by time
(``engine/choice/rules.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from hetesynth.model.decisions import Decisions

Situation = TypeVar("Situation")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Rule(Generic[Situation, Outcome]):
    """``unless``: conditions, in this order; the first reason counts. ``run``: what the rule does otherwise."""

    name: str
    unless: tuple[Callable[[Situation], str | None], ...]
    run: Callable[[Situation], Outcome]

    def reason_against(self, situation: Situation) -> str | None:
        """Why the rule does not apply, or None."""
        return next((why for condition in self.unless if (why := condition(situation)) is not None), None)


def applicable(
    rules: Iterable[Rule[Situation, Outcome]], situation: Situation, decisions: Decisions
) -> Iterator[Rule[Situation, Outcome]]:  # fmt: skip
    """The rules that apply. The conditions of one are asked when those before it have been run."""
    for rule in rules:
        reason = rule.reason_against(situation)
        if reason is None:
            yield rule
        else:
            decisions.note(rule.name, "skipped", reason)
