"""What a build decides by."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class BuildingPolicy(Record):
    """What a build decides by."""

    worse: float = threshold(
        0.01,
        "share of the time",
        "A newer program that takes longer than the older one by more, in the geometric mean over the sizes of "
        "its cell, is kept aside. Both are simulated, without noise. A range of an atlas may lose as much; less "
        "is not worth a schedule that was made for another cluster. Not measured.",
    )
