"""The deterministic limits of searches at an effort: rounds and solver units, scaled."""

from __future__ import annotations

from dataclasses import replace

from hetesynth.policy import Policy


def scaled(limit: int, share: float) -> int:
    """``share`` of ``limit``, at least 1."""
    return max(1, int(limit * share))


def for_steps(policy: Policy, effort: float | None) -> Policy:
    """The policy of searches that count steps: ``auto`` and greedy rounds get the shares that ``policy.effort``
    says, a strategy that is stated all its units at effort 1; without an effort the same policy."""
    if effort is None:
        return policy
    solver = policy.effort.solver * effort
    return replace(
        policy,
        smt=replace(policy.smt, units=effort, units_in_auto=solver),
        greedy=replace(policy.greedy, rounds=policy.effort.greedy_rounds * effort),
    )


def for_size(policy: Policy, effort: float | None) -> Policy:
    """The policy of the search of one candidate for a size: few greedy rounds, as candidates are many."""
    if effort is None:
        return policy
    most = min(policy.greedy.most_rounds, scaled(policy.effort.greedy_rounds_sized, effort))
    return replace(policy, greedy=replace(policy.greedy, most_rounds=most))
