"""Links as a dense matrix over pairs of ranks: the cheapest of parallel links, and trees back to links.

In: the ends of links and a price of each. Out: cost matrices, and the links that have these costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of ranks that links join: ``order`` sorts links by pair, ``start`` says where each pair
    begins."""

    ranks: int
    order: Ints
    start: Ints
    pair: Ints

    @classmethod
    def of(cls, ranks: int, src: Ints, dst: Ints) -> Pairs:
        """The pairs of links from ``src[i]`` to ``dst[i]``."""
        key = src * ranks + dst
        order = np.argsort(key, kind="stable")
        pair, start = np.unique(key[order], return_index=True)
        return cls(ranks, order, start, pair)

    def cheapest(self, prices: Floats) -> tuple[Floats, Ints]:
        """The least price between every two ranks (infinite without a link), and the link that has it (or -1)."""
        n = self.ranks
        sorted_prices = prices[self.order]
        least = np.minimum.reduceat(sorted_prices, self.start)
        width = np.diff(np.append(self.start, len(self.order)))
        first = np.flatnonzero(sorted_prices == np.repeat(least, width))
        group = np.repeat(np.arange(len(self.start)), width)[first]
        place = first[np.unique(group, return_index=True)[1]]
        costs = np.full(n * n, np.inf)
        links = np.full(n * n, -1, dtype=np.int64)
        costs[self.pair] = least
        links[self.pair] = self.order[place]
        return costs.reshape(n, n), links.reshape(n, n)
