"""Collects tasks one by one and makes the arrays of a ``TransferGraph``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.timeline import Floats, Ints, TransferGraph
from hetesynth.model.topology import Rank

MAX_DEPENDENCES = 50_000_000


Copiers = Sequence[tuple[str, float]]
"""The thread blocks that copy what they send, resources beside those of the wires: name and bytes per second."""


class Links:
    """The links of ``costs`` by their ends."""

    def __init__(self, costs: Costs) -> None:
        self._prices: dict[tuple[Rank, Rank], list[tuple[float, float, int]]] = {}
        for i, ends in enumerate(costs.link_ends):
            self._prices.setdefault(ends, []).append((costs.link_rate[i], -costs.link_alpha[i], i))

    def __contains__(self, ends: tuple[Rank, Rank]) -> bool:
        return ends in self._prices

    def fastest(self, src: Rank, dst: Rank, turn: int = 0) -> int:
        """The link with the highest rate and, of these, the least alpha; of equal ones that of ``turn``."""
        if (src, dst) not in self._prices:
            raise ValueError(f"it sends from {src} to {dst}, where the topology has no link")
        prices = self._prices[src, dst]
        best = max(price[:2] for price in prices)
        equal = [i for *price, i in prices if tuple(price) == best]
        return equal[turn % len(equal)]


class TaskList:
    """Tasks in order of creation. ``start``: seconds before those that wait for nothing."""

    def __init__(self, costs: Costs, start: float, copiers: Copiers = ()) -> None:
        self._costs, self._start, self._copiers = costs, start, copiers
        self._rows: list[tuple[int, int, float, float, int]] = []  # link, alpha of, units, seconds after, copier
        self._waits: list[Sequence[int]] = []
        self._dependences = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        waits: Sequence[int],
        *,
        link: int = -1,
        alpha_of: int = -1,
        units: float = 1.0,
        after: float = 0.0,
        copier: int = -1,
    ) -> int:
        """A task that waits for ``waits``; its number.

        It sends ``units`` over ``link``, or is work in a GPU's own memory, without a cost a meeting point.
        ``after``: seconds of computation for a unit of one byte. The others as in ``SizedTasks``.
        """
        self._rows.append((link, alpha_of, units, units * after, copier))
        self._waits.append(waits)
        self._dependences += len(waits)
        if self._dependences > MAX_DEPENDENCES:
            raise ValueError(f"more than {MAX_DEPENDENCES} dependences between transfers: too many to simulate")
        return len(self._rows) - 1

    def sized(self, first: Sequence[int] = ()) -> SizedTasks:
        """The tasks as arrays, ``first`` before the others."""
        leading = set(first)
        order = [*first, *(i for i in range(len(self)) if i not in leading)]
        number = np.argsort(np.asarray(order, dtype=np.int64)).tolist()
        waits = [number[w] for old in order for w in self._waits[old]]
        starts = list(accumulate((len(self._waits[old]) for old in order), initial=0))
        table = np.asarray(self._rows, dtype=np.float64).reshape(-1, 5)[order].T
        link, alpha_of, copier = (table[column].astype(np.int64) for column in (0, 1, 4))
        return SizedTasks(
            self._costs,
            link,
            alpha_of,
            table[2],
            np.zeros(len(order)),
            table[3],
            np.asarray(waits, dtype=np.int64),
            np.asarray(starts, dtype=np.int64),
            self._start,
            self._copiers,
            copier,
        )


@dataclass(frozen=True, eq=False)
class SizedTasks:
    """n tasks as multiples of a unit.

    ``link`` (-1: none): what the ``units`` are sent over. ``alpha_of`` (-1: none): the link whose alpha delays the
    task. ``before``, ``after``: seconds of computation for a unit of one byte. ``waits``: as in ``TransferGraph``.
    ``start``: seconds before the tasks that wait for nothing. ``copier`` (-1: none): which of ``copiers`` copies
    the bytes of a task. ``lags``: as in ``TransferGraph``.
    """

    costs: Costs
    link: Ints
    alpha_of: Ints
    units: Floats
    before: Floats
    after: Floats
    waits: Ints
    waits_start: Ints
    start: float
    copiers: Copiers
    copier: Ints
    lags: Floats | None = None

    @cached_property
    def _uses(self) -> tuple[Ints, Ints]:
        """The resources of the link of each task, and after them its thread block."""
        rows = [np.asarray(row, dtype=np.int64) for row in (*self.costs.link_resources, ())]  # link -1 has none
        lengths = np.asarray([len(row) for row in rows], dtype=np.int64)
        of_links, copied = lengths[self.link], self.copier >= 0
        first, end = np.cumsum(lengths) - lengths, np.cumsum(of_links)
        rows_of_links = np.repeat(first[self.link] - end + of_links, of_links) + np.arange(of_links.sum())
        copiers = len(self.costs.resource_rate) + self.copier[copied]
        uses = np.insert(np.concatenate(rows)[rows_of_links], end[copied], copiers)
        return uses, np.concatenate(([0], np.cumsum(of_links + copied)))

    def graph(self, unit: float) -> TransferGraph:
        """The graph for a unit of ``unit`` bytes."""
        costs, copiers = self.costs, self.copiers
        uses, uses_start = self._uses
        delay = np.asarray([*costs.link_alpha, 0.0])[self.alpha_of]
        is_first = np.diff(self.waits_start) == 0
        return TransferGraph(
            names=(*costs.resource_names, *(name for name, _ in copiers)),
            rate=np.asarray([*costs.resource_rate, *(rate for _, rate in copiers)], dtype=np.float64),
            waits=self.waits,
            waits_start=self.waits_start,
            uses=uses,
            uses_start=uses_start,
            delay=delay + self.before * unit + np.where(is_first, self.start, 0.0),
            size=np.where(self.link < 0, 0.0, self.units * unit),
            after=self.after * unit,
            lags=self.lags,
        )
