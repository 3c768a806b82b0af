"""What Z3 is given: models, resource units, neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class SmtPolicy(Record):
    """What Z3 is given: models, resource units, neighbourhoods."""

    cegis_rlimit: int = threshold(
        20_000_000,
        "solver resource units",
        "What strategy cegis spends on one number of steps; Z3 spends 300,000 a second on hard models.",
    )
    laws_at_their_step: int = threshold(
        0,
        "1: yes, 0: no",
        "Whether a law that is learned holds at the step where it was broken, as in HeteCCL 5.2, or at every one. "
        "Measured in docs/decisions.md, 17.",
    )
    frozen_share: int = threshold(
        4,
        "divisor",
        "A check with frozen steps gets the remaining units divided by this, as it may have no answer that helps. "
        "Not measured.",
    )
    frozen_seed: float = threshold(
        0.5,
        "share of the steps",
        "The first steps of strategy cegis that are frozen as the best schedule so far has them. Not measured.",
    )
    frozen_kept: float = threshold(
        0.5,
        "share of the frozen steps",
        "The first of them that stay frozen after a check without an answer. Not measured.",
    )
    monolithic_rlimit: int = threshold(
        200_000_000,
        "solver resource units",
        "What strategy monolithic spends on one number of steps: ten times as much as cegis, as it states every "
        "law from the start. Not measured.",
    )
    symmetry_depth: int = threshold(
        3,
        "positions",
        "How many positions of the lexicographic comparison with an exchanged schedule are stated. Measured in "
        "docs/decisions.md, 4.",
    )
    neighbourhood_rlimit: int = threshold(
        40_000_000, "solver resource units", "What strategy lns spends on all neighbourhoods. Not measured."
    )
    neighbourhood_check_rlimit: int = threshold(
        3_000_000,
        "solver resource units",
        "What one check of a neighbourhood may spend; a larger neighbourhood is often easier than a hard one. "
        "Not measured.",
    )
    neighbourhood_unanswered: int = threshold(
        2, "checks", "After so many without an answer another step is removed. Not measured."
    )
    neighbourhood_sends: int = threshold(
        40_000, "Send variables", "Larger neighbourhoods are not given to Z3. Not measured."
    )
    neighbourhood_removed_steps: int = threshold(
        6,
        "steps",
        "How many steps of one schedule are removed in turn, the last and the first included. Not measured.",
    )
    neighbourhood_growth: int = threshold(
        8, "deliveries", "By how many a neighbourhood grows at least. Not measured."
    )
    neighbourhood_relays: int = threshold(
        4,
        "ranks",
        "How many ranks may pass on a free chunk that they do not want. Relays close v100_fail_one8 alltoall "
        "(docs/decisions.md, 4); their number was not measured.",
    )
    checkpoint_attempts: int = threshold(
        16, "attempts", "Of cegis from checkpoint to checkpoint, each with other ties. Not measured."
    )
    checkpoint_frozen_attempts: int = threshold(
        2,
        "attempts",
        "The first of them that keep the steps before the first candidate's checkpoint. Not measured.",
    )
    checkpoint_checks: int = threshold(
        4,
        "checks",
        "At one checkpoint, before all regions may receive anew, not only those that break a law. Not measured.",
    )
    checkpoint_check_rlimit: int = threshold(
        300_000, "solver resource units", "What one check at a checkpoint may spend, besides. Not measured."
    )
    checkpoint_send_rlimit: int = threshold(
        700,
        "solver resource units a Send variable",
        "The same for each variable: Z3 spends 450 of them before it begins to search (h20_4x2p8, 4 chunks).",
    )
    checkpoint_plain_attempts: int = threshold(
        3, "attempts", "The first of them in which the last steps are not unfrozen. Not measured."
    )
    checkpoint_nodes: int = threshold(
        100,
        "nodes",
        "Of branch and bound where the linear program of a step is not whole; nearly all need 1.",
    )
    checkpoint_model_sends: int = threshold(
        6_000,
        "Send variables",
        "Larger models of a step are only shown to Z3 as far as the linear program uses them: 65,056 took all of "
        "20 million units and had no answer (h20_8x8).",
    )
    sample_steps: int = threshold(
        4, "steps", "A region is first offered the rarest of its chunks, what can enter in so many. Not measured."
    )
    sample_senders: int = threshold(
        4, "senders", "For each of them and each receiver Z3 is first offered so many. Not measured."
    )
    checkpoint_unfrozen: int = threshold(
        3, "steps", "So many at the end, at most, are unfrozen together. Not measured."
    )
    checkpoint_sends: int = threshold(
        60_000, "Send variables", "Of a model of the last steps that are unfrozen together. Not measured."
    )
    whole_sends: int = threshold(
        300_000, "Send variables", "Up to here cegis gives all steps to Z3 where checkpoints fail. Not measured."
    )
    trace_counterexamples: int = threshold(
        3, "counterexamples", "Of one iteration that the trace keeps in words. Not measured."
    )
    snapshot_sends: int = threshold(
        2_000, "sends", "Of a schedule that the trace keeps as a snapshot. Not measured."
    )
