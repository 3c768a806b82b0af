"""Collects tasks one by one and makes the arrays of a ``TransferGraph``.

In: tasks in links, bytes and reduced bytes, as multiples of a unit. Out: a graph for any number of bytes a unit:
the structure is built once, a size costs a few multiplications. Knows the cost model, nothing of collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.timeline import Floats, Ints, TransferGraph

MAX_DEPENDENCES = 50_000_000


class TaskList:
    """Tasks in order of creation: links used, what each waits for, units sent, seconds a unit before and after."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._link: list[int] = []
        self._alpha_of: list[int] = []
        self._units: list[float] = []
        self._after: list[float] = []
        self._waits: list[Sequence[int]] = []
        self._dependences = 0

    def __len__(self) -> int:
        return len(self._link)

    def send(
        self, link: int, waits: Sequence[int], *, after: float = 0.0, delayed: bool = True, units: float = 1.0
    ) -> int:
        """A transfer of ``units`` over ``link``; its number.

        ``after``: seconds per byte of computation when the bytes have arrived. ``delayed``: false when alpha, as a
        pure delay, is a task of its own.
        """
        return self._add(link, link if delayed else -1, units, after, waits)

    def alpha(self, link: int, waits: Sequence[int]) -> int:
        """The delay of ``link`` where alpha is one; its number."""
        return self._add(-1, link, 0.0, 0.0, waits)

    def local(self, waits: Sequence[int], *, seconds_per_byte: float = 0.0) -> int:
        """Work on one unit in a GPU's own memory, or without a cost the meeting point of ``waits``; its number."""
        return self._add(-1, -1, 1.0, seconds_per_byte, waits)

    def _add(self, link: int, alpha_of: int, units: float, after: float, waits: Sequence[int]) -> int:
        self._link.append(link)
        self._alpha_of.append(alpha_of)
        self._units.append(units)
        self._after.append(units * after)
        self._waits.append(waits)
        self._dependences += len(waits)
        if self._dependences > MAX_DEPENDENCES:
            raise ValueError(f"more than {MAX_DEPENDENCES} dependences between transfers: too many to simulate")
        return len(self._link) - 1

    def sized(self, first: Sequence[int] = ()) -> SizedTasks:
        """The tasks as arrays, ``first`` before the others."""
        leading = set(first)
        order = [*first, *(i for i in range(len(self)) if i not in leading)]
        number = [0] * len(order)
        for new, old in enumerate(order):
            number[old] = new
        waits = [number[w] for old in order for w in self._waits[old]]
        starts = list(accumulate((len(self._waits[old]) for old in order), initial=0))
        after = np.asarray([self._after[i] for i in order], dtype=np.float64)
        return SizedTasks(
            costs=self._costs,
            link=np.asarray([self._link[i] for i in order], dtype=np.int64),
            alpha_of=np.asarray([self._alpha_of[i] for i in order], dtype=np.int64),
            units=np.asarray([self._units[i] for i in order], dtype=np.float64),
            before=np.zeros(len(order)),
            after=after,
            waits=np.asarray(waits, dtype=np.int64),
            waits_start=np.asarray(starts, dtype=np.int64),
        )


@dataclass(frozen=True, eq=False)
class SizedTasks:
    """n tasks as multiples of a unit.

    ``link`` (-1: none): what the ``units`` are sent over. ``alpha_of`` (-1: none): the link whose alpha delays the
    task. ``before``, ``after``: seconds of computation for a unit of one byte. ``waits``: as in ``TransferGraph``.
    """

    costs: Costs
    link: Ints
    alpha_of: Ints
    units: Floats
    before: Floats
    after: Floats
    waits: Ints
    waits_start: Ints

    @cached_property
    def _uses(self) -> tuple[Ints, Ints]:
        rows = [np.asarray(row, dtype=np.int64) for row in self.costs.link_resources]
        rows.append(np.zeros(0, dtype=np.int64))  # link -1
        lengths = np.asarray([len(row) for row in rows], dtype=np.int64)
        start = np.concatenate(([0], np.cumsum(lengths[self.link])))
        first = np.concatenate(([0], np.cumsum(lengths)))[:-1]
        offset = np.repeat(first[self.link] - start[:-1], lengths[self.link])
        return np.concatenate(rows)[offset + np.arange(start[-1])], start

    @cached_property
    def _alpha(self) -> tuple[Floats, Floats]:
        """Seconds of delay, and bytes that hold the resources: one of the two is alpha."""
        alpha = np.asarray([*self.costs.link_alpha, 0.0])
        if self.costs.alpha == "overlap":
            return alpha[self.alpha_of], np.zeros(len(self.link))
        return np.zeros(len(self.link)), (alpha * np.asarray([*self.costs.link_rate, 0.0]))[self.link]

    def graph(self, unit: float) -> TransferGraph:
        """The graph for a unit of ``unit`` bytes."""
        uses, uses_start = self._uses
        delay, held_bytes = self._alpha
        return TransferGraph(
            names=self.costs.resource_names,
            rate=np.asarray(self.costs.resource_rate, dtype=np.float64),
            waits=self.waits,
            waits_start=self.waits_start,
            uses=uses,
            uses_start=uses_start,
            delay=delay + self.before * unit,
            size=np.where(self.link < 0, 0.0, self.units * unit),
            occupied=held_bytes,
            after=self.after * unit,
        )
