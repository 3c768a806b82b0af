"""Greedy rounds and direct exchange."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class GreedyPolicy(Record):
    """Greedy rounds and direct exchange."""

    max_rounds: int = threshold(400, "rounds", "The most rounds of one search. Not measured.")
    min_rounds: int = threshold(4, "rounds", "The fewest rounds that a large problem is given. Not measured.")
    round_work: int = threshold(
        1_500_000,
        "deliveries over all rounds",
        "Divided by the deliveries of the problem it gives the number of rounds, between these two. Not measured.",
    )
    patience_work: int = threshold(
        200_000,
        "deliveries over rounds without improvement",
        "Divided by the deliveries of the problem it gives the number of rounds in a row without a better "
        "schedule after which the search ends. Not measured.",
    )
    min_patience: int = threshold(12, "rounds", "The least number of such rounds. Not measured.")
    max_patience: int = threshold(120, "rounds", "The largest number of such rounds. Not measured.")
    abandon_ratio: float = threshold(
        1.5,
        "times the makespan of the best schedule",
        "A round that becomes longer is abandoned. Not measured.",
    )
    extension_seconds: float = threshold(
        20.0,
        "seconds",
        "The first round may run so long whatever the time limit, unless the deadline is strict: without it the "
        "search would have no schedule at all. Not measured.",
    )
    hop_price: float = threshold(
        1e-3,
        "price",
        "What a link costs beside its resources, so that fewer hops win where nothing is scarce. Not measured.",
    )
    new_peer_price: float = threshold(
        2e-3,
        "price",
        "What a first transfer between two ranks costs more: it needs one more connection. Steps do not depend on "
        "it. Not measured.",
    )
    scarcity: float = threshold(
        1.2,
        "exponent",
        "In the first round of a multicast a resource costs 1 / capacity to this power, otherwise 1 / capacity. "
        "Not measured.",
    )
    price_growth: float = threshold(
        0.5, "share of the price", "By how much the busiest resource becomes dearer after a round. Not measured."
    )
    price_exponent: int = threshold(
        2,
        "exponent",
        "Of the share of the busiest resource's use, by which the others become dearer after a round. Not "
        "measured.",
    )
    full_price: float = threshold(
        2.0,
        "times its price",
        "What a resource costs that is full in the present step; an empty one costs one time its price less. Not "
        "measured.",
    )
    noise: tuple[float, ...] = threshold(
        (0.05, 0.0, 0.2), "share of a gain", "Random factors on gains, one value a round in turn. Not measured."
    )
    urgency: tuple[float, ...] = threshold(
        (1.0, 2.0),
        "exponents",
        "Of distances in gains, one value a round in turn; the larger one serves far chunks first. Not measured.",
    )
    list_length: int = threshold(
        16,
        "deliveries",
        "How many deliveries an ingress queues at a time. It bounds the queue; another value changes which of "
        "equally good deliveries goes first, and so gives another schedule. Not measured.",
    )
    stale_share: float = threshold(
        0.6,
        "share of the gain when queued",
        "A delivery whose gain fell below it is queued anew instead of made. Not measured.",
    )
    work_per_chunk: int = threshold(
        8,
        "deliveries",
        "How many deliveries a chunk counts like when the work of a round is estimated, as every ingress looks at "
        "every chunk. Only the choice of machine code depends on it. Not measured.",
    )
    direct_work: int = threshold(
        600_000,
        "chunks x steps",
        "Larger direct exchanges are not tried: their programs take longer than greedy rounds. Not measured.",
    )
    direct_more_steps: int = threshold(
        2, "steps", "How far above the work of the busiest resource a direct exchange is tried. Not measured."
    )
    direct_least_seconds: float = threshold(
        1e-3, "seconds", "What the integer program of one step gets at least when time runs out. Not measured."
    )
    direct_nodes: int = threshold(
        200, "nodes", "Of the branch and bound of one step; without an answer by then there is none. Not measured."
    )
