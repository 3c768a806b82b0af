"""How much greedy rounds, trees and Z3 try, and what they prefer."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class GreedyPolicy(Record):
    """Greedy rounds."""

    rounds: float = threshold(
        1.0, "share of the rounds", "Of all rounds, and of those in vain; an effort sets it. Not measured."
    )
    most_rounds: int = threshold(
        400, "rounds", "The most of one search, and in vain; an effort for a size sets it. Not measured."
    )
    urgency: tuple[float, ...] = threshold(
        (1.0, 2.0),
        "exponents",
        "Of distances in gains, one value a round in turn; the larger one serves far chunks first. Its half or "
        "double changed programs: one of 8 out of 115 thresholds.",
    )
    stale_share: float = threshold(
        0.6,
        "share of the gain when queued",
        "A delivery whose gain fell below it is queued anew instead of made. Its half or double changed programs: "
        "one of 8 out of 115 thresholds.",
    )


@dataclass(init=False, repr=False, eq=False)
class SmtPolicy(Record):
    """What Z3 may spend."""

    units: float = threshold(
        1.0,
        "share of the solver's units",
        "Of cegis, lns and monolithic where they are stated; an effort sets it. Not measured.",
    )
    units_in_auto: float = threshold(
        1.0, "share of the solver's units", "The same inside strategy auto. Not measured."
    )


@dataclass(init=False, repr=False, eq=False)
class TreesPolicy(Record):
    """Balanced trees and tree packing."""

    depth_cost: float = threshold(
        0.3,
        "share of its cost",
        "How much dearer a link is for each link before it in the tree. Its half or double changed programs: one "
        "of 8 out of 115 thresholds.",
    )
    packing_sharpness: float = threshold(
        32.0,
        "exponent",
        "How steeply a resource becomes dearer with the share of what tree packing allows it to carry. Its half "
        "or double changed programs: one of 8 out of 115 thresholds.",
    )
    packing_scarcity: float = threshold(
        0.3,
        "share of its price for each chunk per step too much",
        "How much dearer for good an overfull resource becomes after a sweep. Its half or double changed "
        "programs: one of 8 out of 115 thresholds.",
    )
