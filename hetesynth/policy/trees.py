"""Balanced trees, tree packing and the step LP."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class TreesPolicy(Record):
    """Balanced trees, tree packing and the step LP."""

    rounds: int = threshold(
        8,
        "rounds",
        "Rounds of balanced trees: docs/strategies.md has the steps that 8 rounds reach. Fewer: not measured.",
    )
    sweeps: int = threshold(
        2, "sweeps", "How often every chunk is rerouted in a round of balanced trees. Not measured."
    )
    sharpness: float = threshold(
        16.0,
        "exponent",
        "How steeply a resource becomes dearer with the share of what the bound allows it to carry. Not measured.",
    )
    depth_cost: float = threshold(
        0.3,
        "share of its cost",
        "How much dearer a link is for each link before it in the tree, which keeps trees shallow. Not measured.",
    )
    noise: float = threshold(
        0.3, "share of a priority", "Random change of priorities from the second round on. Not measured."
    )
    cost_noise: float = threshold(
        0.01,
        "share of a cost",
        "Random change of the cost of every link when a chunk is routed, by which ties are broken. Not measured.",
    )
    max_deliveries: int = threshold(60_000, "deliveries", "More are refused: trees take too long. Not measured.")
    max_ranks: int = threshold(256, "ranks", "More are refused: trees take too long. Not measured.")
    max_arcs: int = threshold(100_000, "arcs", "More are refused: trees take too long. Not measured.")
    routed_of_kind: int = threshold(
        13,
        "chunks",
        "Of chunks that start and end at the same ranks at most so many are routed, the rest take copies of "
        "their trees. Not measured.",
    )
    routed: int = threshold(
        320,
        "chunks",
        "Chunks that tree packing routes, where one of each kind is few enough for that. Not measured.",
    )
    packing_sweeps: int = threshold(100, "sweeps", "Sweeps of tree packing at most. Not measured.")
    packing_below_bound: float = threshold(
        0.5,
        "share of the sweeps",
        "So many of the first sweeps of tree packing aim at a step less than the bound. Not measured.",
    )
    packing_work: int = threshold(
        600_000, "chunks x ranks", "What the sweeps of tree packing look at, all together. Not measured."
    )
    packing_stale: int = threshold(
        25, "sweeps", "Sweeps in a row without a gain that end tree packing once the bound is met. Not measured."
    )
    packing_full_sweep: int = threshold(
        5,
        "sweeps",
        "Every so many sweeps all chunks are routed anew, in the others those that cross an overfull resource. "
        "Not measured.",
    )
    packing_sharpness: float = threshold(
        32.0,
        "exponent",
        "How steeply a resource becomes dearer with the share of what the target allows it to carry. Not "
        "measured.",
    )
    packing_scarcity: float = threshold(
        0.3,
        "share of its price for each chunk per step too much",
        "How much dearer for good an overfull resource becomes after a sweep. Not measured.",
    )
    packing_extension: float = threshold(
        10.0,
        "seconds",
        "How long past a deadline that is not strict tree packing may go on for a first schedule. Not measured.",
    )
    step_lp_growth: int = threshold(
        3,
        "times the steps of the busiest resource",
        "A step LP whose schedule becomes longer than this is given up. Not measured.",
    )
    step_lp_nodes: int = threshold(
        200, "nodes of branch and bound", "For a step whose linear program has no integral solution. Not measured."
    )
