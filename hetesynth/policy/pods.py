"""How schedules of pods are composed."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class PodsPolicy(Record):
    """How schedules of pods are composed."""

    flat_ranks: int = threshold(
        1024,
        "GPUs",
        "Above, strategy auto composes a cluster of several pods. A flat allgather of 1024 GPUs takes 77 s and "
        "1.6 GB (docs/benchmarks.md); the links between GPUs grow with their square.",
    )
    program_ranks: int = threshold(
        128,
        "GPUs",
        "Up to here programs of a composition are tried; past it NCCL's rings are not simulated either. "
        "Not measured.",
    )
    max_slots: int = threshold(
        64,
        "chunks",
        "How long the pattern of gates may be by which chunks enter a pod; above, the rates of gates are rounded. "
        "Not measured.",
    )
    max_moves: int = threshold(
        2_000_000,
        "moves between pods",
        "Of one candidate. A ring of 512 pods has 261,632 and is composed, timed and judged in some 20 s.",
    )
    max_moves_in_parts: int = threshold(
        20_000,
        "moves between pods",
        "Of a ring that sends less than a block at once: what entered is spread sooner, which counts where rounds "
        "are few. Not measured.",
    )
    inside_share: float = threshold(
        0.5, "share of the budget", "What the searches inside pods get together. Not measured."
    )
    inside_seconds: float = threshold(
        20.0, "seconds", "The same where no budget is stated, for each pod type. Not measured."
    )
