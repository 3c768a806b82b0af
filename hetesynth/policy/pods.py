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
