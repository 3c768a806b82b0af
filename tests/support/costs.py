"""What the prices of a cluster say of one transfer that has its links to itself."""

from __future__ import annotations

from hetesynth.model.cost import Costs


def primitive(costs: Costs, link: int, size: float, *, reduces: bool = False) -> float:
    """tau_c of HeteCCL 4.2: seconds that ``size`` bytes take over ``link`` when nobody else uses it."""
    reduction = size * costs.gamma[costs.link_ends[link][1]] if reduces else 0.0
    return costs.link_alpha[link] + size / costs.link_rate[link] + reduction
