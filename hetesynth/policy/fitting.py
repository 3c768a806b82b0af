"""From measurements to figures."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class FittingPolicy(Record):
    """How measurements are fitted, and what is said of them."""

    robust_scale: float = threshold(
        0.05,
        "of a time",
        "Relative residuals beyond this count less and less (Cauchy loss), so that outliers do not decide. 20 "
        "made sets with 5 % noise and 5 % outliers of up to 3 x come within 3 % with it.",
    )
    floor_gain: float = threshold(
        0.5,
        "of the loss",
        "A floor, below which no operation ends however small it is, is a figure of its own only if the loss "
        "per point to spare falls below this share of that without. 0 of 200 made sets without a floor get one.",
    )
    floor_points: int = threshold(
        1,
        "points",
        "A floor needs as many points on it. Eight points of a published table, every second one fitted, need 1: "
        "the other half is then predicted within 2.5 %, with 2 it is 10 % off.",
    )
    least_angle: float = threshold(
        0.05,
        "sine",
        "Two terms whose shares of the times point the same way, with a smaller angle than this, cannot be told "
        "apart: the smaller one keeps what the topology states. Not measured.",
    )
    outlier: float = threshold(
        4.0,
        "deviations",
        "Points further off than this many robust standard deviations are counted as outliers. Not measured.",
    )
    limiting: float = threshold(
        0.98,
        "of a rate",
        "With few channels the fitted rate is that of their thread blocks, unless it reaches this share of what "
        "the topology states for the links. Not measured.",
    )
    most_error: float = threshold(
        0.25,
        "of a figure",
        "A figure whose 95 % interval is wider than this to either side is not written.",
    )
