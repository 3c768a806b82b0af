"""The deterministic limits of searches at an effort: rounds and solver units, scaled.

In: a policy, an effort. Out: a policy whose searches end sooner or later; without an effort the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from hetesynth.policy import Policy
from hetesynth.policy.greedy import GreedyPolicy
from hetesynth.policy.policy import StepsPolicy
from hetesynth.policy.smt import SmtPolicy

Section = TypeVar("Section", GreedyPolicy, SmtPolicy, StepsPolicy)


def for_steps(policy: Policy, effort: float | None) -> Policy:
    """What searches that count steps get. No limit exceeds that of ``policy`` times the effort, and none of a
    strategy that is stated is less at effort 1."""
    if effort is None:
        return policy
    rounds, solver = 0.1 * effort, 0.1 * effort
    stated = "cegis_rlimit", "monolithic_rlimit", "neighbourhood_rlimit", "checkpoint_attempts"
    greedy = "max_rounds", "round_work", "max_patience", "patience_work"
    steps = (
        "checkpoint_attempts", "checkpoint_rlimit", "cegis_rlimit", "cegis_rlimit_small", "neighbourhood_rlimit",
    )  # fmt: skip
    return replace(
        policy,
        smt=_with_scaled(policy.smt, effort, stated),
        greedy=_with_scaled(policy.greedy, rounds, greedy),
        steps=_with_scaled(policy.steps, solver, steps),
    )


def for_size(policy: Policy, effort: float | None) -> Policy:
    """What the search of one candidate for a size gets: few greedy rounds, as candidates are many."""
    if effort is None:
        return policy
    greedy = policy.greedy
    rounds = _scaled(6, effort)
    limited = replace(
        greedy,
        max_rounds=min(greedy.max_rounds, rounds),
        min_rounds=min(greedy.min_rounds, rounds),
        max_patience=min(greedy.max_patience, rounds),
        min_patience=min(greedy.min_patience, rounds),
    )
    return replace(policy, greedy=limited)


def _with_scaled(section: Section, factor: float, names: Iterable[str]) -> Section:
    """``section`` with the limits ``names`` times ``factor``."""
    limits: dict[str, Any] = {name: _scaled(getattr(section, name), factor) for name in names}
    return replace(section, **limits)


def _scaled(limit: int, factor: float) -> int:
    return max(1, int(limit * factor))
