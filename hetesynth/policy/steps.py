"""What strategy auto, which counts steps, tries after what."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class StepsPolicy(Record):
    """What strategy auto, which counts steps, tries after what."""

    max_sends: int = threshold(
        60_000, "Send variables", "Up to here auto hands the model of all steps to Z3. Not measured."
    )
    few_sends: int = threshold(
        10_000,
        "Send variables",
        "Up to here a model is small: auto spends more on it, and needs no neighbourhood search. Not measured.",
    )
    cegis_rlimit: int = threshold(
        2_000_000, "solver resource units", "What auto spends on one number of steps. Not measured."
    )
    cegis_rlimit_small: int = threshold(
        30_000_000, "solver resource units", "The same where the model is small. Not measured."
    )
    checkpoint_work: int = threshold(
        3_000_000,
        "ranks",
        "Deliveries times ranks or steps up to which auto fills steps from checkpoints. Not measured.",
    )
    checkpoint_targets: int = threshold(
        2, "numbers of steps", "How many auto tries from checkpoints, from the bound upwards. Not measured."
    )
    checkpoint_attempts: int = threshold(
        40, "attempts", "Of one number of steps from checkpoints in auto: 4 at effort 1. Not measured."
    )
    checkpoint_rlimit: int = threshold(
        40_000_000,
        "solver resource units",
        "What auto spends on a number of steps from checkpoints. Not measured.",
    )
    checkpoint_share: float = threshold(
        0.5, "share of the time left", "What a number of steps from checkpoints gets in auto. Not measured."
    )
    neighbourhood_rlimit: int = threshold(
        10_000_000, "solver resource units", "What auto spends on neighbourhood search. Not measured."
    )
    neighbourhood_share: float = threshold(
        0.5, "share of the time left", "What neighbourhood search gets where CEGIS is to follow. Not measured."
    )
    max_deliveries: int = threshold(
        200_000,
        "deliveries",
        "Of a problem for neighbourhood search; past it building one takes too long. Not measured.",
    )
    max_sends_requested: int = threshold(
        2_000_000, "Send variables", "Of a model that is built when the user names the strategy. Not measured."
    )
    first_phase_share: float = threshold(
        0.5, "share of the budget", "What the first phase of an allreduce gets at most. Not measured."
    )
    first_schedule_seconds: float = threshold(
        1e-3,
        "seconds",
        "What the second phase of an allreduce gets after Ctrl-C: the first schedule and no more. Not measured.",
    )
