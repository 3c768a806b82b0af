"""The cheapest paths through all ranks of a server, from each rank to each.

In: the price of going from each rank to each other, infinite where no link leads. Out: prices of paths, and paths.
Exact for few ranks (Held and Karp 1962) and where links are so few that all paths can be listed; else the nearest
rank comes next.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hetesynth.policy.baselines import BaselinesPolicy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ServerPaths:
    """Paths through one server at the prices given last. ``cost[e, x]``: of the path from rank e to rank x.

    ``starts``: ranks from which paths are searched; costs of others may be missing.
    """

    def __init__(self, policy: BaselinesPolicy, starts: range) -> None:
        self._policy, self._starts = policy, starts
        self._priced: bytes | None = None
        self._listed: Ints | None = None  # every path there is, one a row
        self._links: bytes | None = None
        self.cost: Floats = np.zeros((1, 1))
        self._parents: NDArray[np.int8] | None = None
        self._choice: dict[tuple[int, int], list[int]] = {}

    def price(self, prices: Floats) -> None:
        """Search at these prices."""
        key = prices.tobytes()
        if key == self._priced:
            return
        self._priced, self._parents, self._choice = key, None, {}
        if len(prices) <= self._policy.exact_path_ranks:
            self.cost, self._parents = _held_karp(key, len(prices))
            return
        self._list(prices)
        paths = _nearest_next(prices) if self._listed is None else self._listed
        self._keep_cheapest(prices, paths)

    def exact(self, prices: Floats) -> bool:
        """Whether the cheapest path between two ranks is found where there is one."""
        if len(prices) <= self._policy.exact_path_ranks:
            return True
        self._list(prices)
        return self._listed is not None

    def _list(self, prices: Floats) -> None:
        """All paths over these links, where they can be listed."""
        joined = np.isfinite(prices)
        if joined.tobytes() != self._links:
            self._links, self._listed = (
                joined.tobytes(),
                _every_path(joined, self._policy.path_tries, self._starts),
            )

    def path(self, first: int, last: int) -> list[int]:
        """The path whose price is ``cost[first, last]``, which is finite."""
        if self._parents is None:
            return self._choice[first, last]
        backwards, ranks = [last], (1 << len(self.cost)) - 1
        while len(backwards) < len(self.cost):
            at = backwards[-1]
            backwards.append(int(self._parents[ranks, at, first]))
            ranks ^= 1 << at
        return backwards[::-1]

    def _keep_cheapest(self, prices: Floats, paths: Ints) -> None:
        number = len(prices)
        self.cost = np.full((number, number), np.inf)
        if not len(paths):
            return
        costs = prices[paths[:, :-1], paths[:, 1:]].sum(axis=1)
        for i in np.argsort(-costs, kind="stable"):
            if np.isfinite(costs[i]):
                ends = int(paths[i, 0]), int(paths[i, -1])
                self.cost[ends] = costs[i]
                self._choice[ends] = i
        self._choice = {ends: paths[i].tolist() for ends, i in self._choice.items()}


@lru_cache(maxsize=16)
def _held_karp(key: bytes, number: int) -> tuple[Floats, NDArray[np.int8]]:
    """Costs [first, last] of the cheapest paths, and [visited, last, first] the rank before the last one.

    ``key``: the prices between ``number`` ranks. Servers alike have equal ones most of the time.
    """
    prices = np.frombuffer(key, dtype=np.float64).reshape(number, number)
    best = np.full((1 << number, number, number), np.inf)
    before = np.zeros((1 << number, number, number), dtype=np.int8)
    for rank in range(number):
        best[1 << rank, rank, rank] = 0.0
    visited = np.arange(1 << number)
    sizes = np.asarray([int(v).bit_count() for v in visited])
    for size in range(1, number):
        of_size = visited[sizes == size]
        for rank in range(number):
            without = of_size[(of_size >> rank) & 1 == 0]
            if not len(without):
                continue
            reached = best[without] + prices[:, rank][None, :, None]
            best[without | 1 << rank, rank] = reached.min(axis=1)
            before[without | 1 << rank, rank] = reached.argmin(axis=1)
    cost = best[-1].T.copy()
    for answer in (cost, before):
        answer.setflags(write=False)
    return cost, before


def _every_path(joined: NDArray[np.bool_], tries: int, starts: range) -> Ints | None:
    """All paths from ``starts`` through all ranks, one a row; None where there are too many to be listed."""
    number = len(joined)
    onward = [[int(v) for v in np.flatnonzero(row)] for row in joined]
    paths: list[list[int]] = []
    stack = [([rank], 1 << rank) for rank in starts]
    while stack:
        tries -= 1
        if tries < 0:
            return None
        path, visited = stack.pop()
        if len(path) == number:
            paths.append(path)
            continue
        stack += [([*path, v], visited | 1 << v) for v in onward[path[-1]] if not visited >> v & 1]
    return np.asarray(paths, dtype=np.int64).reshape(-1, number)


def _nearest_next(prices: Floats) -> Ints:
    """From each rank to each: whatever is cheapest to reach next, the last rank last."""
    number = len(prices)
    first, last = (ends.ravel() for ends in np.indices((number, number)))
    different = first != last
    first, last = first[different], last[different]
    rows = np.arange(len(first))
    free = np.ones((len(first), number), dtype=np.bool_)
    free[rows, first] = free[rows, last] = False
    steps = [first]
    for _ in range(number - 2):
        reach = np.where(free, prices[steps[-1]], np.inf)
        following = reach.argmin(axis=1)
        # where nothing can be reached the path is priced as infinite: it takes a rank that no link leads to
        stuck = ~np.isfinite(reach[rows, following])
        following[stuck] = free[stuck].argmax(axis=1)
        free[rows, following] = False
        steps.append(following)
    return np.stack([*steps, last], axis=1)
