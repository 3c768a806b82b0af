"""How much work goes into lower bounds."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class BoundsPolicy(Record):
    """How much work goes into lower bounds."""

    cut_every_region_arcs: int = threshold(
        20_000,
        "arcs",
        "Up to here the cut bound tries every candidate region, past it one of the regions of the same size, "
        "number of arcs, capacity and number of peers. Not measured.",
    )
    region_levels: int = threshold(
        12,
        "distinct capacities",
        "The largest capacities of arcs by which ranks are grouped into candidate regions. Not measured.",
    )
    flow_edges: int = threshold(
        600_000,
        "edges",
        "Of one time-expanded graph of vertex classes; a flow bound that needs a larger graph ends with what it "
        "has. Not measured.",
    )
    flow_work: int = threshold(
        3_000_000,
        "edges over all flows",
        "Past it the remaining destinations of a flow bound are not tried. On all examples a flow bound takes "
        "0.001 to 0.02 CPU seconds, 0.3 on a heterogeneous mesh without symmetry (docs/decisions.md, 5).",
    )
    plain_flow_edges: int = threshold(
        12_000,
        "edges",
        "Up to here the plain loops of a maximum flow take less time than importing scipy: 0.2 s of imports were "
        "saved on 16 GPUs (docs/decisions.md, 5). The number itself: not measured.",
    )
    growth_arcs: int = threshold(20_000, "arcs", "Past it the growth bound is left out. Not measured.")
    price_rounds: int = threshold(
        60, "rounds", "Rounds of multiplicative weights that the price bound makes. Not measured."
    )
    price_ranks: int = threshold(
        256,
        "ranks",
        "Past it the price bound, whose rounds take cubic time in the ranks, is left out. Not measured.",
    )
    price_step: float = threshold(
        0.3,
        "share of its price",
        "By how much the busiest resource becomes dearer in a round of the price bound. Not measured.",
    )
    cut_sinks: int = threshold(
        128,
        "ranks",
        "The ranks, those that least bandwidth leads to, for which the cut bound in seconds seeks a narrowest "
        "cut. Not measured.",
    )
    volume_tiers: int = threshold(
        4, "rates", "The highest rates of links by which the volume bound in seconds groups ranks. Not measured."
    )
    volume_parts: int = threshold(
        256,
        "parts",
        "A partition into more parts is left out of the volume bound in seconds, as each part takes a maximum "
        "flow. Not measured.",
    )
    tree_price_ranks: int = threshold(256, "ranks", "Past it the price bound of trees is left out. Not measured.")
    tree_price_gap: float = threshold(
        1e-3,
        "share of the steps",
        "A packing of trees into steps that is proved to be as near to the optimum has the prices. Not measured.",
    )
    tree_price_scale: int = threshold(
        72_072_000, "price", "Of the dearest resource, a multiple of 1 to 24: how finely prices are rounded."
    )
    packing_ranks: int = threshold(
        256,
        "ranks",
        "Past it the bound in seconds from prices is left out. For 256 ranks, all different, it takes 2 s for an "
        "allgather and 4 to 13 s for an allreduce, as long as the bounds by cuts and by volume.",
    )
    packing_gap: float = threshold(
        1e-6,
        "share of the seconds",
        "A packing that is proved to be as near to the optimum has the prices for a bound. Not measured.",
    )
    packing_rounds: int = threshold(
        400,
        "rounds",
        "How often trees or paths are asked for at most for a bound in seconds. The examples take 3 to 45, a "
        "broadcast to 48 ranks whose NICs all differ 43.",
    )
