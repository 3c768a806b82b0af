"""Column generation: price resources, ask for the cheapest structures, pack them, until prices prove the optimum.

In: a network and what a collective demands of it. Out: a ``FractionalPacking``. All amounts are shares of the
buffer, so seconds are for each byte of it.

After its first round there is a feasible packing and a bound, so the loop may end after any, as it does at a
deadline. Prices are smoothed (Wentges 1997): structures are asked for at prices between the best so far and those
of the master program, which keeps them from swinging; and before the first solution come a few rounds of
multiplicative weights (Garg and Koenemann 2007), which give prices and columns to begin with.

Structures that are asked for at one price load the same cheap resources. Where many ranks stand for themselves
they are asked a few at a time, and prices rise in between with what the trees so far load. A sweep asks every rank
once; some sweeps come before the first solution, one more follows on each solution that is better than the last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import Deadline
from hetesynth.model.topology import Rank
from hetesynth.policy import PackingPolicy
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.structures import Demands, Exchanging, Offer, Structure, demands
from hetesynth.search.packing.symmetry import Symmetry, symmetry
from hetesynth.search.portable_math import dot, exp

PACKING = "packings cut short"  # what the clock decided
GAP = 1e-3
"""The distance to the optimum, as a share of a packing's seconds, that ends the search once it is proved."""


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """A solution of the master program: ``seconds``, T; ``weights``, x by column; ``prices`` by resource."""

    seconds: float
    weights: Floats
    prices: Floats


class Master:
    """The master program. ``rate``: by orbit of resources. ``amounts``: by row; None: ``roots``, two rows each.

    minimize T  subject to  sum of load[s, r] x[s] <= rate[r] T  for each resource r (or orbit of them),
                            sum of x[s] = amount[d]              for each row d over its structures,  x >= 0.

    For allreduce the amounts of a root's out-trees and in-trees are one variable, and those of all roots sum to 1.
    It grows by columns and goes on from the basis it had (HiGHS, primal simplex). Its duals are prices of a byte
    on each resource, with sum of price x rate = 1.
    """

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
        options = {"output_flag": False, "threads": 1, "presolve": "off", "random_seed": 0}
        for option, value in {**options, "simplex_strategy": 4}.items():  # primal: added columns leave it feasible
            self._highs.setOptionValue(option, value)
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
        """Add a column: a structure of ``row`` with ``loads`` on the resources."""
        used = np.flatnonzero(loads)
        rows = np.append(used, self._resources + row)
        self._column(0.0, rows, np.append(loads[used], 1.0))

    def solve(self, seconds: float) -> MasterSolution | None:
        """The optimum over the columns so far; None: ``seconds`` are over. ValueError: some row has no column."""
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


def optimal_packing(
    network: Network,
    name: CollectiveName,
    root: Rank | None,
    servers: Sequence[str],
    policy: PackingPolicy,
    deadline: Deadline,
    gap: float = GAP,
) -> tuple[Symmetry, FractionalPacking]:
    """Return the symmetry and a packing within ``gap`` of the optimum, or the best at ``deadline``. ValueError: a
    rank cannot be reached."""
    alike = symmetry(network, servers, 4 * network.ranks, root)
    asked = demands(network, name, root, alike, policy)
    return alike, _Generation(network, asked, alike, policy, deadline).packing(gap)


@dataclass(frozen=True, eq=False)
class FractionalPacking:
    """``weights[i]`` shares of the buffer travel along ``structures[i]`` and, alike, along their images; many are
    0. ``seconds``: for each byte of the buffer, of the fullest resource. ``prices``: by resource, sum of price x
    rate = 1; by them no packing takes less than ``bound`` seconds a byte. ``rounds``: how often structures were
    asked for, a sweep counted once. ``cut_short``: a deadline ended the search before the optimum was proved."""

    structures: tuple[Structure, ...]
    weights: Floats
    seconds: float
    bound: float
    prices: Floats
    rounds: int
    cut_short: bool


class _Generation:
    def __init__(
        self, network: Network, demands: Demands, alike: Symmetry, policy: PackingPolicy, deadline: Deadline
    ) -> None:
        self.network, self.demands, self.alike = network, demands, alike
        self.policy, self.deadline = policy, deadline
        self.rate: Floats = np.bincount(alike.resource_orbit, network.rate).astype(np.float64)
        self.orbits = len(alike.representatives)
        self.in_turns = self.orbits > policy.ranks_together and not isinstance(demands, Exchanging)
        self.master = Master(self.rate, demands.amounts, len(demands.every_place))
        self.structures: list[Structure] = []
        self.numbers: dict[tuple[int, bytes, bytes], int] = {}  # of structures
        self.turns: Counter[int] = Counter()  # how often each was offered in sweeps
        self.last: MasterSolution | None = None
        self.bound, self.prices = 0.0, np.zeros(len(self.rate))  # of orbits, those of the bound
        self.rounds, self.cut_short = 0, False

    def loads(self, structure: Structure) -> Floats:
        of_resources = self.network.loads_of(structure.links, structure.crossings)
        return np.bincount(self.alike.resource_orbit, of_resources, len(self.rate)).astype(np.float64)

    def ask(self, prices: Floats, places: Ints | None) -> Offer:
        """Return the cheapest structures at ``prices`` of orbits; the bound is kept where it is the best."""
        offer = self.demands.offer(prices[self.alike.resource_orbit], places)
        self.rounds += not self.in_turns
        if offer.least > self.bound:
            self.bound, self.prices = offer.least, prices
        return offer

    def add(self, offer: Offer) -> int:
        """Add a column for each structure that is new; return how many there are."""
        before = len(self.structures)
        for structure in offer.structures:
            if structure.key not in self.numbers:
                self.numbers[structure.key] = len(self.structures)
                self.structures.append(structure)
                self.master.add(structure.row, self.loads(structure))
        return len(self.structures) - before

    def warm_up(self) -> None:
        """Do rounds of multiplicative weights, one at least, or sweeps, the first of them whole."""
        total = np.zeros(len(self.rate))
        if self.in_turns:
            self.sweep(total, self.policy.sweeps)
            self.rounds = self.policy.sweeps
            return
        for _ in range(12):
            total = total + self._offered(total, 8.0, self.demands.every_place)
            if self.late():
                break

    def sweep(self, total: Floats, times: int) -> None:
        """Ask at prices that rise with ``total``, the seconds of each resource so far, and with each offer."""
        every, random = self.demands.every_place, np.random.default_rng(0)
        turns = -(-self.orbits // self.policy.ranks_of_a_turn)
        parts = min(turns, len(every))
        order = every
        for number in range(times * turns):
            if number % parts == 0:
                order = random.permutation(every)
            total = total + self._offered(total, self.policy.turn_sharpness, order[number % parts :: parts])
            if (number >= parts - 1 or self.last is not None) and self.late():
                break

    def _offered(self, total: Floats, sharpness: float, places: Ints) -> Floats:
        """Ask for structures at prices that rise with ``total``; return the seconds they take of each resource."""
        length = exp(sharpness * total / max(total.max(), 1e-300)) / self.rate
        offer = self.ask(length / dot(length, self.rate), places)
        self.add(offer)
        self.turns.update(self.numbers[s.key] for s in offer.structures)
        return sum((self._share(s) * self.loads(s) for s in offer.structures), 0.0) / self.rate

    def _share(self, structure: Structure) -> float:
        amounts = self.demands.amounts
        return 1.0 / len(self.demands.every_place) if amounts is None else float(amounts[structure.row])

    def late(self) -> bool:
        self.cut_short = self.cut_short or self.deadline.expired(PACKING)
        return self.cut_short

    def solve(self) -> MasterSolution:
        """The optimum over the structures so far; where the deadline comes first, the best packing before."""
        left = math.inf
        if self.in_turns:  # trees that only share evenly take two to four times as long as the first packing
            left = max(self.deadline.left(), 2.0 if self.last is None else 0.0)
        solution = self.master.solve(left)
        if solution is not None:
            return solution
        if not self.late():  # the solver's clock is another one
            self.deadline.clock_decisions.note(PACKING)
            self.cut_short = True
        if self.last is not None:
            return self.last
        of_row: Counter[int] = Counter()  # all that was offered in sweeps, every offer of a row alike
        for i, times in self.turns.items():
            of_row[self.structures[i].row] += times
        weights = np.zeros(len(self.structures))
        for i, times in self.turns.items():
            structure = self.structures[i]
            weights[i] = self._share(structure) * times / of_row[structure.row]
        return MasterSolution(float(self.seconds(weights).max()), weights, self.prices)

    def seconds(self, weights: Floats) -> Floats:
        carried = [w * self.loads(s) for s, w in zip(self.structures, weights, strict=False) if w > 0.0]
        seconds: Floats = np.sum(carried, axis=0) / self.rate
        return seconds

    def round(self, solution: MasterSolution, gap: float) -> bool:
        """Ask for more structures; return True if new ones came, or the optimum is proved."""
        if not self.in_turns:
            return self.smoothed(solution)
        self.rounds += 1
        gained = self.last is None or solution.seconds <= self.last.seconds * (1.0 - gap)
        self.last = solution
        before = len(self.structures)
        self.add(self.ask(solution.prices, None))
        if solution.seconds * (1.0 - gap) <= self.bound:
            return True
        if gained:
            rows = len(self.demands.every_place) * (2 if self.demands.amounts is None else 1)
            self.sweep(self.seconds(solution.weights) * (self.turns.total() / rows), 1)
        else:
            self.smoothed(solution)
        return len(self.structures) > before

    def smoothed(self, solution: MasterSolution) -> bool:
        """Ask at smoothed prices or, where that gives nothing new, at the master's; return True if any came."""
        share = 0.6
        if self.add(self.ask(share * self.prices + (1.0 - share) * solution.prices, None)):
            return True
        return bool(self.add(self.ask(solution.prices, self.demands.every_place)))

    def packing(self, gap: float) -> FractionalPacking:
        """Return a packing within ``gap`` of the optimum, or the best so far where time or rounds run out."""
        self.warm_up()
        while True:
            solution = self.solve()
            optimal = solution.seconds * (1.0 - gap) <= self.bound
            if optimal or self.rounds >= 400 or self.late() or not self.round(solution, gap):
                break
        structures, prices = tuple(self.structures), self.prices[self.alike.resource_orbit]
        weights = np.append(solution.weights, np.zeros(len(structures) - len(solution.weights)))
        proved = self.bound, prices, self.rounds, self.cut_short
        return FractionalPacking(structures, weights, solution.seconds, *proved)
