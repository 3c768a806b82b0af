"""Repair of a schedule after a change of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class RepairPolicy(Record):
    """Repair of a schedule after a change of the cluster."""

    sharpness: float = threshold(
        8.0,
        "exponent",
        "How steeply a resource becomes dearer with its load's share of the bound's steps. Not measured.",
    )
    overload: float = threshold(
        4.0, "share of the bound's steps", "A resource loaded more is as dear as one with this load. Not measured."
    )
    joined_at_once: int = threshold(
        8, "ranks", "Joined to a tree before costs of links are worked out anew. Not measured."
    )
    relief_passes: int = threshold(
        4, "passes", "Over the deliveries that cross overfull resources, at most. Not measured."
    )
    cheaper: float = threshold(
        0.05, "share of a cost", "A delivery moves to another link that is cheaper by this. Not measured."
    )
    justifications: int = threshold(
        6, "times", "A mended schedule is pushed late and early again, as long as it gets shorter. Not measured."
    )
    near_share: float = threshold(
        0.1,
        "share of the bound",
        "One step more than the bound is enough where that is no larger a part of it; else greedy rounds follow. "
        "Rounds down to the bound took an allreduce on 64 H20 without a GPU 0.4 s of the processor more, and "
        "saved no step.",
    )
    near_steps: int = threshold(
        1, "steps", "A schedule so near to the bound is not repaired from checkpoints. Not measured."
    )
    greedy_work: int = threshold(
        20_000,
        "deliveries over all rounds",
        "Of greedy where what is mended is not near the bound: divided by the deliveries of the problem it gives "
        "the rounds, between these two. With 4 rounds an allreduce on 24 V100 without a NIC took 15 steps, with "
        "36 it takes 14; a fresh run, 13.",
    )
    min_greedy_rounds: int = threshold(4, "rounds", "Of greedy, on large problems. Not measured.")
    max_greedy_rounds: int = threshold(60, "rounds", "Of greedy, on small problems. Not measured.")
    fresh_deliveries: int = threshold(
        4_000,
        "deliveries",
        "Up to here the search of a fresh run follows where a repaired schedule is two steps or more above the "
        "bound; on larger problems only where these are a larger part of it than is near. Not measured.",
    )
    checkpoint_work: int = threshold(
        400_000, "ranks", "Deliveries times ranks up to which steps are filled from checkpoints. Not measured."
    )
    checkpoint_attempts: int = threshold(1, "attempts", "Of one number of steps from checkpoints. Not measured.")
    checkpoint_rlimit: int = threshold(
        2_000_000, "solver resource units", "Of one number of steps from checkpoints. Not measured."
    )
    near_limit: float = threshold(
        0.98, "share of the limit", "A program made like the old one that is so near to it is taken. Not measured."
    )
    far_from_limit: float = threshold(
        0.8,
        "share of the limit",
        "A program made like the old one that is farther from it is far off. Not measured.",
    )
    explored_transfers: int = threshold(
        4_000,
        "transfers of one chunk per rank",
        "Up to here the other programs that a fresh choice opens with are tried where one like the old one is not "
        "near the limit. Of 56 losses on two clusters of 12 and 16 GPUs, seven were 2 to 43 % slower than fresh "
        "without them, and none with them.",
    )
    explored_far: int = threshold(
        10_000, "transfers of one chunk per rank", "The same where that is far from the limit. Not measured."
    )
