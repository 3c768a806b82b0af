"""From schedules to programs."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class LoweringPolicy(Record):
    """From schedules to programs in steady state."""

    steady_least_piece: int = threshold(
        1 << 19,
        "bytes",
        "Programs in steady state cut chunks into pieces of no less. 2 MiB take 5 % more time than 0.5 MiB on "
        "MI250, H20 and DGX-2 (1 GB, 16 to 32 GPUs). On generated cluster 206 a plan takes 20 % more with 1 MiB.",
    )
