"""Collects tasks one by one and makes the arrays of a ``TransferGraph``.

In: tasks in links, bytes and reduced bytes, as multiples of a unit. Out: a graph for any number of bytes a unit:
the structure is built once, a size costs a few multiplications. Knows the cost model, nothing of collectives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.timeline import Floats, Ints, TransferGraph


class TaskList:
    """Tasks in order of creation: links used, what each waits for, units sent, seconds a unit before and after."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._link: list[int] = []
        self._units: list[float] = []
        self._before: list[float] = []
        self._after: list[float] = []
        self._waits: list[int] = []
        self._waits_start: list[int] = [0]

    def __len__(self) -> int:
        return len(self._link)

    def send(
        self, link: int, units: float, waits: Iterable[int], *, before: float = 0.0, after: float = 0.0
    ) -> int:
        """A transfer of ``units`` over ``link``; its number.

        ``before``, ``after``: seconds per byte of computation before and after the bytes flow.
        """
        self._link.append(link)
        self._units.append(units)
        self._before.append(units * before)
        self._after.append(units * after)
        self._waits.extend(waits)
        self._waits_start.append(len(self._waits))
        return len(self._link) - 1

    def local(self, units: float, waits: Iterable[int], *, seconds_per_byte: float = 0.0) -> int:
        """Work on ``units`` in a GPU's own memory, or with no cost the meeting point of ``waits``; its number."""
        return self.send(-1, units, waits, after=seconds_per_byte)

    def sized(self) -> SizedTasks:
        """The tasks as arrays."""
        return SizedTasks(
            self._costs, np.asarray(self._link, dtype=np.int64), np.asarray(self._units, dtype=np.float64),
            np.asarray(self._before, dtype=np.float64), np.asarray(self._after, dtype=np.float64),
            np.asarray(self._waits, dtype=np.int64), np.asarray(self._waits_start, dtype=np.int64),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SizedTasks:
    """n tasks as multiples of a unit: ``link`` (-1: none), ``units`` sent, ``before`` and ``after`` in seconds for
    a unit of one byte, and what they wait for (as in ``TransferGraph``)."""

    costs: Costs
    link: Ints
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
        flat = np.concatenate(rows)
        first = np.concatenate(([0], np.cumsum(lengths)))[:-1]
        offset = np.repeat(first[self.link] - start[:-1], lengths[self.link])
        return flat[offset + np.arange(start[-1])], start

    @cached_property
    def _alpha(self) -> tuple[Floats, Floats]:
        """Seconds of delay, and bytes that hold the resources: one of the two is alpha."""
        alpha = np.asarray([*self.costs.link_alpha, 0.0])[self.link]
        zero = np.zeros(len(alpha))
        if self.costs.alpha == "overlap":
            return alpha, zero
        return zero, alpha * np.asarray([*self.costs.link_rate, 0.0])[self.link]

    def graph(self, unit: float) -> TransferGraph:
        """The graph for a unit of ``unit`` bytes."""
        uses, uses_start = self._uses
        alpha, held = self._alpha
        rate = np.asarray(self.costs.resource_rate, dtype=np.float64)
        return TransferGraph(
            self.costs.resource_names, rate, self.waits, self.waits_start, uses, uses_start,
            alpha + self.before * unit, np.where(self.link < 0, 0.0, self.units) * unit, held, self.after * unit,
        )  # fmt: skip
