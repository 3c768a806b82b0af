"""Negotiated prices: what a resource costs in the next round, by how busy it was in this one.

The negotiated congestion of PathFinder (McMurchie and Ebeling 1995). The greedy rounds keep the sum of the prices
after it, earliest arrival keeps the least one; each scales by itself.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Price = TypeVar("Price", float, NDArray[np.float64])


def dearer(price: Price, share: Price, growth: float, exponent: int) -> Price:
    """``price`` raised by a power of ``share``, the load over that of the busiest resource."""
    raised: Price = price * (1.0 + growth * share**exponent)
    return raised
