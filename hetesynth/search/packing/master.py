"""The master program: how much of each structure, so that the fullest resource is done earliest.

minimize T  subject to  sum of load[s, r] x[s] <= rate[r] T  for each resource r (or orbit of them),
                        sum of x[s] = amount[d]              for each row d over its structures,  x >= 0.

For allreduce the amounts of a root's out-trees and in-trees are one variable, and those of all roots sum to 1. It
grows by columns and goes on from the basis it had (HiGHS, primal simplex). Its duals are prices of a byte on each
resource, with sum of price x rate = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hetesynth.search.packing.pairs import Floats, Ints

PRIMAL_SIMPLEX = 4
"""HiGHS' name for it; columns that are added leave the basis feasible."""


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """``seconds``: T. ``weights``: x by column. ``prices``: by resource."""

    seconds: float
    weights: Floats
    prices: Floats


class Master:
    """``rate``: by resource, of an orbit all together. ``amounts``: by row; None: ``roots`` with two rows
    each."""

    def __init__(self, rate: Floats, amounts: Floats | None, roots: int) -> None:
        import highspy

        self._resources = len(rate)
        self._unit = float(rate.max())
        self._rate = np.maximum(rate / self._unit, 1e-8)  # HiGHS drops what is below 1e-9
        make: Any = highspy.Highs
        self._highs = make()
        self._infinite = highspy.kHighsInf
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._too_late = highspy.HighsModelStatus.kTimeLimit
        for option, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("random_seed", 0)):
            self._highs.setOptionValue(option, value)
        self._highs.setOptionValue("simplex_strategy", PRIMAL_SIMPLEX)
        for _ in range(self._resources):
            self._row(-self._infinite, 0.0)
        for amount in np.zeros(2 * roots) if amounts is None else amounts:
            self._row(amount, amount)
        self._column(1.0, np.arange(self._resources), -self._rate)
        self._first = 1
        if amounts is None:
            self._row(1.0, 1.0)
            base, last = self._resources, self._resources + 2 * roots
            for r in range(roots):
                self._column(0.0, np.array([base + r, base + roots + r, last]), np.array([-1.0, -1.0, 1.0]))
            self._first += roots

    def _row(self, low: float, high: float) -> None:
        none = np.array([], dtype=np.int32)
        self._highs.addRow(low, high, 0, none, none.astype(np.float64))

    def _column(self, cost: float, rows: Ints, values: Floats) -> None:
        self._highs.addCol(cost, 0.0, self._infinite, len(rows), rows.astype(np.int32), values)

    def add(self, row: int, loads: Floats) -> None:
        """One more column: a structure of ``row`` with ``loads`` on the resources."""
        used = np.flatnonzero(loads)
        rows = np.append(used, self._resources + row)
        self._column(0.0, rows, np.append(loads[used], 1.0))

    def solve(self, seconds: float) -> MasterSolution | None:
        """The optimum over the columns so far; None where ``seconds`` are over before. Raises ValueError where
        some row has none."""
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(0.0, seconds))
        self._highs.run()
        if self._highs.getModelStatus() == self._too_late:
            return None
        if self._highs.getModelStatus() != self._optimal:
            raise ValueError(f"the master program ended as {self._highs.getModelStatus()}")
        solution = self._highs.getSolution()
        values, duals = np.array(solution.col_value), np.array(solution.row_dual)
        prices = np.maximum(0.0, -duals[: self._resources]) / self._unit
        return MasterSolution(float(values[0]) / self._unit, values[self._first :], prices)
