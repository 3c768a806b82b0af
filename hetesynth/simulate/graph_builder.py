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
        """The link with the highest rate and, of these, the least alpha; users of equal ones take turns."""
        if (src, dst) not in self._prices:
            raise ValueError(f"it sends from {src} to {dst}, where the topology has no link")
        prices = self._prices[src, dst]
        best = max(price[:2] for price in prices)
        equal = [i for *price, i in prices if tuple(price) == best]
        return equal[turn % len(equal)]


class TaskList:
    """Tasks in order of creation: links used, what each waits for, units sent, seconds a unit before and after.

    ``start``: seconds before tasks that wait for nothing. ``copiers``: see ``send``.
    """

    def __init__(self, costs: Costs, start: float, copiers: Copiers = ()) -> None:
        self._costs, self._start, self._copiers = costs, start, copiers
        self._copier: list[int] = []
        self._link: list[int] = []
        self._alpha_of: list[int] = []
        self._units: list[float] = []
        self._after: list[float] = []
        self._waits: list[Sequence[int]] = []
        self._dependences = 0

    def __len__(self) -> int:
        return len(self._link)

    def send(
        self,
        link: int,
        waits: Sequence[int],
        *,
        after: float = 0.0,
        delayed: bool = True,
        units: float = 1.0,
        copier: int = -1,
    ) -> int:
        """A transfer of ``units`` over ``link``; its number.

        ``after``: seconds per byte of computation when the bytes have arrived. ``delayed``: false when alpha, as a
        pure delay, is a task of its own. ``copier``: the thread block that copies the bytes; -1: no one does.
        """
        self._copier.append(copier)
        self._link.append(link)
        self._alpha_of.append(link if delayed else -1)
        self._units.append(units)
        self._after.append(units * after)
        self._waits.append(waits)
        self._dependences += len(waits)
        if self._dependences > MAX_DEPENDENCES:
            raise ValueError(f"more than {MAX_DEPENDENCES} dependences between transfers: too many to simulate")
        return len(self._link) - 1

    def alpha(self, link: int, waits: Sequence[int]) -> int:
        """The delay of ``link`` where alpha is one; its number."""
        task = self.send(-1, waits, units=0.0)
        self._alpha_of[task] = link
        return task

    def local(self, waits: Sequence[int], *, seconds_per_byte: float = 0.0) -> int:
        """Work on one unit in a GPU's own memory, or without a cost the meeting point of ``waits``; its number."""
        return self.send(-1, waits, after=seconds_per_byte)

    def sized(self, first: Sequence[int] = ()) -> SizedTasks:
        """The tasks as arrays, ``first`` before the others."""
        leading = set(first)
        order = [*first, *(i for i in range(len(self)) if i not in leading)]
        number = [0] * len(order)
        for new, old in enumerate(order):
            number[old] = new
        waits = [number[w] for old in order for w in self._waits[old]]
        starts = list(accumulate((len(self._waits[old]) for old in order), initial=0))
        link, alpha_of, copier = (
            np.asarray(column, dtype=np.int64)[order] for column in (self._link, self._alpha_of, self._copier)
        )
        units, after = (np.asarray(column, dtype=np.float64)[order] for column in (self._units, self._after))
        return SizedTasks(
            self._costs,
            link,
            alpha_of,
            units,
            np.zeros(len(order)),
            after,
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
    the bytes of a task.
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

    @cached_property
    def _uses(self) -> tuple[Ints, Ints]:
        """The resources of the link of each task, and after them its thread block."""
        rows = [np.asarray(row, dtype=np.int64) for row in self.costs.link_resources]
        rows.append(np.zeros(0, dtype=np.int64))  # link -1
        lengths = np.asarray([len(row) for row in rows], dtype=np.int64)
        of_links = lengths[self.link]
        copied = self.copier >= 0
        start = np.concatenate(([0], np.cumsum(of_links + copied))).astype(np.int64)
        first = np.concatenate(([0], np.cumsum(lengths)))[:-1]
        offset = np.repeat(first[self.link] - np.cumsum(of_links) + of_links, of_links)
        uses = np.empty(int(start[-1]), dtype=np.int64)
        of_wires = np.ones(len(uses), dtype=np.bool_)
        of_wires[start[1:][copied] - 1] = False
        uses[of_wires] = np.concatenate(rows)[offset + np.arange(len(offset))]
        uses[~of_wires] = len(self.costs.resource_rate) + self.copier[copied]
        return uses, start

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
        )
