"""Column generation: price resources, ask for the cheapest structures, pack them, until prices prove the optimum.

In: a network and what a collective demands of it. Out: a ``FractionalPacking``: structures with weights, the
seconds that their loads take of the fullest resource, and prices by which no packing takes less than the bound.
All amounts are shares of the buffer, so seconds are for each byte of it.

After its first round there is a feasible packing and a bound, so the loop may end at any: at a deadline, which is
noted, the packing is not the optimum and the bound is lower than need be. Prices are smoothed (Wentges
1997): structures are asked for at prices between the best so far and those of the master program, which keeps
them from swinging; and before the first solution come a few rounds of multiplicative weights (Garg and Koenemann
2007), which give prices and columns to begin with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hetesynth.model.deadline import Deadline
from hetesynth.packing.master import Master, MasterSolution
from hetesynth.packing.network import Network
from hetesynth.packing.pairs import Floats
from hetesynth.packing.structures import Demands, Offer, Reducing, Structure
from hetesynth.packing.symmetry import Symmetry
from hetesynth.policy.packing import PackingPolicy

PACKING = "packings cut short"  # what the clock decided


@dataclass(frozen=True, eq=False)
class FractionalPacking:
    """``weights[i]`` shares of the buffer travel along ``structures[i]`` and, alike, along their images; many
    are 0.

    ``seconds``: for each byte of the buffer, of the fullest resource. ``prices``: by resource, sum of price x
    rate = 1; by them no packing takes less than ``bound`` seconds a byte, as a floating-point number.
    ``rounds``: how often structures were asked for. ``cut_short``: a deadline ended it before the optimum was
    proved.
    """

    structures: tuple[Structure, ...]
    weights: Floats
    seconds: float
    bound: float
    prices: Floats
    rounds: int
    cut_short: bool

    @property
    def gap(self) -> float:
        """How far the packing may be from the optimum, as a share of its seconds."""
        return 1.0 - self.bound / self.seconds


@dataclass
class _Generation:
    network: Network
    demands: Demands
    alike: Symmetry
    policy: PackingPolicy
    deadline: Deadline
    master: Master = field(init=False)
    structures: list[Structure] = field(default_factory=list)
    keys: set[tuple[int, bytes, bytes]] = field(default_factory=set)
    bound: float = 0.0
    prices: Floats = field(init=False)  # of orbits, those of the bound
    rounds: int = 0
    cut_short: bool = False

    def __post_init__(self) -> None:
        orbit = self.alike.resource_orbit
        self.rate: Floats = np.bincount(orbit, self.network.rate).astype(np.float64)
        self.prices = np.zeros(len(self.rate))
        if isinstance(self.demands, Reducing):
            self.master = Master(self.rate, None, len(self.demands.out_trees.roots))
        else:
            self.master = Master(self.rate, self.demands.amounts, 0)

    def loads(self, structure: Structure) -> Floats:
        """Of a unit of it on each orbit of resources."""
        of_resources = self.network.loads_of(structure.links, structure.crossings)
        return np.bincount(self.alike.resource_orbit, of_resources, len(self.rate)).astype(np.float64)

    def ask(self, prices: Floats, *, all_roots: bool = False) -> Offer:
        """The cheapest structures at ``prices`` of orbits; the bound is kept where it is the best."""
        offer = self.demands.offer(prices[self.alike.resource_orbit], all_roots=all_roots)
        self.rounds += 1
        if offer.least > self.bound:
            self.bound, self.prices = offer.least, prices
        return offer

    def add(self, offer: Offer) -> int:
        """New columns; how many."""
        before = len(self.structures)
        for structure in offer.structures:
            if structure.key not in self.keys:
                self.keys.add(structure.key)
                self.structures.append(structure)
                self.master.add(structure.row, self.loads(structure))
        return len(self.structures) - before

    def warm_up(self) -> None:
        """Rounds of multiplicative weights, one at least."""
        length = 1.0 / self.rate
        total = np.zeros(len(self.rate))
        for _ in range(self.policy.warm_up_rounds):
            offer = self.ask(length / (length @ self.rate), all_roots=True)
            self.add(offer)
            amounts = self._spread(offer)
            total += (
                sum((a * self.loads(s) for a, s in zip(amounts, offer.structures, strict=True)), 0.0) / self.rate
            )
            length = np.exp(self.policy.warm_up_sharpness * total / max(total.max(), 1e-300)) / self.rate
            if self.late():
                break

    def late(self) -> bool:
        """Whether the deadline ends it, which is noted once."""
        self.cut_short = self.cut_short or self.deadline.expired(PACKING)
        return self.cut_short

    def _spread(self, offer: Offer) -> Floats:
        """The amounts of what is offered; of an allreduce spread over all roots."""
        if isinstance(self.demands, Reducing):
            return np.full(len(offer.structures), 2.0 / len(offer.structures))
        return np.array([self.demands.amounts[s.row] for s in offer.structures])

    def round(self, solution: MasterSolution) -> bool:
        """Ask once at smoothed prices and, where that gives nothing new, at those of the master; whether new
        came."""
        share = self.policy.smoothing
        if self.add(self.ask(share * self.prices + (1.0 - share) * solution.prices)):
            return True
        return bool(self.add(self.ask(solution.prices, all_roots=True)))


def pack(
    network: Network, demands: Demands, alike: Symmetry, policy: PackingPolicy, deadline: Deadline
) -> FractionalPacking:  # fmt: skip
    """The optimal packing within the policy's gap; the best so far at ``deadline`` or where rounds run out.

    Raises ValueError where some rank cannot be reached.
    """
    generation = _Generation(network, demands, alike, policy, deadline)
    generation.warm_up()
    while True:
        solution = generation.master.solve()
        optimal = solution.seconds * (1.0 - policy.gap) <= generation.bound
        if optimal or generation.rounds >= policy.most_rounds or generation.late():
            break
        if not generation.round(solution):
            break
    return FractionalPacking(
        structures=tuple(generation.structures),
        weights=np.append(solution.weights, np.zeros(len(generation.structures) - len(solution.weights))),
        seconds=solution.seconds,
        bound=generation.bound,
        prices=generation.prices[alike.resource_orbit],
        rounds=generation.rounds,
        cut_short=generation.cut_short,
    )
