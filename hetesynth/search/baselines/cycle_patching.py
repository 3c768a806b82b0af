"""A cheap cycle through all ranks where each has few links: a grid, a torus (Karp 1979).

In: the price of going from each rank to each other, infinite where no link leads. Out: a cycle. The cheapest
assignment of a successor to each rank is a set of cycles; two become one where their links can be exchanged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def patched_cycle(prices: Floats, tries: int, enough: int) -> list[int] | None:
    """The ranks in the order of the cheapest of ``enough`` cycles; None where ``tries`` assignments give none."""
    rng = np.random.default_rng(len(prices))
    both_ways = np.maximum(prices, prices.T)
    # at prices alike both ways the cheapest assignment is of pairs, which can be joined in either direction
    if not np.isfinite(both_ways).any(axis=1).all():
        both_ways = prices
    never = float(prices[np.isfinite(prices)].max(initial=0.0) + 1.0) * prices.size
    cycles: list[tuple[float, list[int]]] = []
    for _ in range(tries):
        noise = rng.random(prices.shape)
        noisy = np.where(np.isfinite(both_ways), both_ways * (1.0 + noise + noise.T), never)
        # the successor of each rank, all different
        from scipy.optimize import linear_sum_assignment

        np.fill_diagonal(noisy, never)
        rows, columns = linear_sum_assignment(noisy)
        successor = None if (noisy[rows, columns] >= never).any() else np.asarray(columns, dtype=np.int64)
        cycle = None if successor is None else _joined(prices, successor)
        if cycle is None:
            continue
        cycles += [(float(prices[c, np.roll(c, -1)].sum()), c) for c in (cycle, cycle[::-1])]
        if len(cycles) >= 2 * enough:
            break
    return min(cycles)[1] if cycles else None


def _joined(prices: Floats, successor: Ints) -> list[int] | None:
    """One cycle out of all: the two that are cheapest to join first, one of them turned around where need be."""
    cycles = [0] * len(prices)
    while True:
        number = _numbered(successor, cycles)
        if number == 1:
            return _cycle_of(successor, 0)
        of = np.asarray(cycles)
        now = prices[np.arange(len(of)), successor]
        apart = np.where(of[:, None] != of[None, :], 0.0, np.inf) - now[:, None] - now[None, :]
        back = prices[successor, np.arange(len(of))]
        turning = np.asarray([(back - now)[of == c].sum() for c in range(number)])[of]
        turning = np.where(np.isnan(turning), np.inf, turning)
        straight = (
            apart + prices[:, successor] + prices[:, successor].T
        )  # a -> a', b -> b' become a -> b', b -> a'
        # or a -> b and b' -> a', with the cycle of b turned around, which then has no link b' -> b
        saved = np.where(np.isfinite(turning), turning - np.where(np.isfinite(back), back - now, 0.0), np.inf)
        turned = apart + prices + prices[np.ix_(successor, successor)].T + saved[None, :]
        if not np.isfinite(min(straight.min(), turned.min())):
            return None
        if straight.min() <= turned.min():
            a, b = np.unravel_index(int(np.argmin(straight)), straight.shape)
            successor[a], successor[b] = successor[b], successor[a]
        else:
            a, b = np.unravel_index(int(np.argmin(turned)), turned.shape)
            after, around = successor[a], _cycle_of(successor, int(successor[b]))  # b', ..., b
            for at, before in zip(around[1:], around, strict=False):
                successor[at] = before
            successor[a], successor[around[0]] = b, after


def _numbered(successor: Ints, cycles: list[int]) -> int:
    """The number of cycles; ``cycles`` gets that of each rank."""
    left, number = set(range(len(successor))), 0
    while left:
        for rank in (cycle := _cycle_of(successor, min(left))):
            cycles[rank] = number
        left.difference_update(cycle)
        number += 1
    return number


def _cycle_of(successor: Ints, start: int) -> list[int]:
    cycle, at = [start], int(successor[start])
    while at != start:
        cycle.append(at)
        at = int(successor[at])
    return cycle
