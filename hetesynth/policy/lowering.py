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
        "MI250, H20 and DGX-2 (1 GB, 16 to 32 GPUs). Halved, a plan for generated cluster 201 takes 2.3 % less.",
    )
    steady_plan_pieces: int = threshold(
        16,
        "pieces for each hop of the deepest tree",
        "Of a chunk in an MSCCL++ plan in steady state, at most: a broadcast on h20_4p8 along 4 hops takes 5144 "
        "us with 56 pieces and 5182 with 112.",
    )
