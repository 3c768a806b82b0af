"""The deterministic limits of searches at an effort: rounds and solver units, scaled."""

from dataclasses import replace

from hetesynth.policy import Policy


def scaled(limit: int, share: float) -> int:
    """``share`` of ``limit``, at least 1."""
    return max(1, int(limit * share))


def for_steps(policy: Policy, effort: float | None) -> Policy:
    """The policy of searches that count steps: ``auto`` and greedy rounds get a tenth, a stated strategy all."""
    if effort is None:
        return policy
    return replace(
        policy,
        smt=replace(policy.smt, units=effort, units_in_auto=0.1 * effort),
        greedy=replace(policy.greedy, rounds=0.1 * effort),
    )


def for_size(policy: Policy, effort: float | None) -> Policy:
    """The policy of the search of one candidate for a size: few greedy rounds, as candidates are many."""
    if effort is None:
        return policy
    most = min(policy.greedy.most_rounds, scaled(6, effort))
    return replace(policy, greedy=replace(policy.greedy, most_rounds=most))
