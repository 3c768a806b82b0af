"""The deterministic limits of searches at an effort: rounds and solver units, scaled.

In: a policy, an effort. Out: a policy whose searches end sooner or later; without an effort the same one.
"""

from __future__ import annotations

from dataclasses import replace

from hetesynth.policy import Policy


def for_steps(policy: Policy, effort: float | None) -> Policy:
    """What searches that count steps get. No limit exceeds that of ``policy`` times the effort, and none of a
    strategy that is stated is less at effort 1."""
    if effort is None:
        return policy
    rounds, solver = policy.effort.greedy_rounds * effort, policy.effort.solver * effort
    greedy, steps, smt = policy.greedy, policy.steps, policy.smt
    return replace(
        policy,
        smt=replace(
            smt,
            cegis_rlimit=_scaled(smt.cegis_rlimit, effort),
            monolithic_rlimit=_scaled(smt.monolithic_rlimit, effort),
            neighbourhood_rlimit=_scaled(smt.neighbourhood_rlimit, effort),
            checkpoint_attempts=_scaled(smt.checkpoint_attempts, effort),
        ),
        greedy=replace(
            greedy,
            max_rounds=_scaled(greedy.max_rounds, rounds),
            round_work=_scaled(greedy.round_work, rounds),
            max_patience=_scaled(greedy.max_patience, rounds),
            patience_work=_scaled(greedy.patience_work, rounds),
        ),
        steps=replace(
            steps,
            checkpoint_attempts=_scaled(steps.checkpoint_attempts, solver),
            checkpoint_rlimit=_scaled(steps.checkpoint_rlimit, solver),
            cegis_rlimit=_scaled(steps.cegis_rlimit, solver),
            cegis_rlimit_small=_scaled(steps.cegis_rlimit_small, solver),
            neighbourhood_rlimit=_scaled(steps.neighbourhood_rlimit, solver),
        ),
    )


def for_size(policy: Policy, effort: float | None) -> Policy:
    """What the search of one candidate for a size gets: few greedy rounds, as candidates are many."""
    if effort is None:
        return policy
    greedy = policy.greedy
    rounds = _scaled(policy.effort.greedy_rounds_sized, effort)
    limited = replace(
        greedy,
        max_rounds=min(greedy.max_rounds, rounds),
        min_rounds=min(greedy.min_rounds, rounds),
        max_patience=min(greedy.max_patience, rounds),
        min_patience=min(greedy.min_patience, rounds),
    )
    return replace(policy, greedy=limited)


def _scaled(limit: int, factor: float) -> int:
    return max(1, int(limit * factor))
