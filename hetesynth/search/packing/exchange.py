"""Few whole trees: links of trees are exchanged for others until resources and connections are evenly loaded.

A fractional packing is many trees that are even together; a few of them, rounded, are not: each may cross one NIC
many times. So the trees themselves are changed. A move takes away the link by which a rank gets its chunk and
joins the part below it to the rest by another link, wherever that enters the part, whose links on the way are
turned around; or it gives an allreduce another root. It is kept where a steep sum of loads falls. Where moves end,
a tree is laid anew at the prices of what the others load, and kept where moves from there end lower. Where
connections are limited every rank has a load of its own, those that begin or end there: each has a thread block.

Moves make trees deep, which fill late. So for an allreduce stars are tried too: from server to server, and there
to all others. They are laid one by one at the prices of what the others load; moves make them one level deeper.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from hetesynth.machine_code import Floats, Ints, rows, run_kernel
from hetesynth.search.copy_problem import grouped
from hetesynth.search.packing import exchange_kernel as kernel
from hetesynth.search.packing.column_generation import GAP
from hetesynth.search.packing.exchange_kernel import ROUND
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import NONE, Carrier, Expansion, WholePacking, whole
from hetesynth.search.packing.structures import Stars
from hetesynth.search.portable_math import exp

TRIES = 20_000  # 0.2 s on 64 ranks; 1,500 end up to a quarter farther from the optimum there
STARS = 1.05  # of the load of other trees, as stars fill sooner
Shallow = Literal["no", "also", "instead"]
"""Whether trees of few levels are wanted: not, beside others, or in place of those that load no less."""


def few_trees(expansion: Expansion, trees: int, connections: int | None, rounds: int) -> WholePacking:
    """Return a packing of ``trees`` trees of each root, or in all for an allreduce, with at most ``connections``
    of a rank where that can be (None: any number). ``rounds``: the most times that each tree is laid anew."""
    rounded = whole(expansion, trees)
    exchange = _Exchange(expansion, rounded.carriers, connections, rounds)
    fitted = exchange.within_connections
    exchange.improve()
    exchange.shorten()
    packing = exchange.packing(rounded.least)
    if exchange.within_connections != fitted:
        return rounded if fitted else packing
    return packing if packing.seconds <= rounded.seconds * (1.0 + ROUND) else rounded


class _Tree:
    """``link_to[v]``: the link over which rank v gets the chunk; -1 at the root. In-trees are trees on the network
    with its links turned around."""

    def __init__(self, network: Network, link_to: Ints) -> None:
        self.network, self.link_to = network, link_to

    @property
    def root(self) -> int:
        return int(self.link_to.argmin())

    @property
    def links(self) -> Ints:
        return self.link_to[self.link_to >= 0]

    def parents(self) -> list[int]:
        parents: list[int] = np.where(self.link_to >= 0, self.network.src[self.link_to], -1).tolist()
        return parents

    def below(self, top: int, parents: Sequence[int]) -> list[int]:
        """Return ``top`` and the ranks that get the chunk through it, parents first."""
        children, reached = grouped(parents), [top]
        for rank in reached:
            reached += children.get(rank, ())
        return reached


class _Exchange:
    """The trees of some carriers, and moves that make their loads more even. A load is of a column: a resource, or
    the connections of a rank; 1 is what it may carry."""

    def __init__(
        self,
        expansion: Expansion,
        carriers: Sequence[Carrier],
        connections: int | None,
        rounds: int,
        *,
        stars: int = 0,
    ) -> None:
        """``stars``: how many carriers there will be whose trees are, and stay, of three levels; 0: of any."""
        network, number = expansion.network, stars or len(carriers)
        self.expansion, self.rounds, self.network, self.stars = expansion, rounds, network, stars
        self.sides, ranks = 1 + expansion.free_root, network.ranks
        self.unit: Floats = number * expansion.packing.seconds * network.rate
        self.enough = expansion.least_seconds(number) / ((1.0 - GAP) * expansion.packing.seconds)
        self.resources, share = len(self.unit), 0.0 if connections is None else 1.0 / connections
        weight: Floats = np.concatenate([1.0 / self.unit, np.full(ranks, share)])
        uses = np.split(network.uses, network.uses_start[1:-1])
        ends = zip(uses, network.src + self.resources, network.dst + self.resources, strict=True)
        start, columns = rows([(*of_link, src, dst) for of_link, src, dst in ends])
        order, pair, _ = network.by_pair
        pairs = np.searchsorted(pair, np.arange(ranks**2 + 1))
        self.links = kernel.Links(network.src, network.dst, start, columns, pairs, order, weight)
        self.link_to: Ints = np.full((number * self.sides, ranks), -1)
        self.load: Floats = np.zeros(len(weight))
        self.trees = kernel.Trees(
            self.link_to.reshape(-1),
            self.load,
            np.zeros(1, dtype=np.int64),
            np.zeros(2 * ranks, dtype=np.int64),
            *np.zeros((3, len(weight))),
            *np.zeros((3, ranks)),
            *np.zeros((8, ranks), dtype=np.int64),
        )
        self.sharpness, self.top = 8.0, 1.0
        self.backwards = network.reversed()
        self.all: list[_Tree] = []
        for carrier in carriers:
            self.take(carrier)

    @property
    def within_connections(self) -> bool:
        return bool(self.load[self.resources :].max() <= 1.0 + ROUND)

    @property
    def _rules(self) -> kernel.Rules:
        """The rules of moves."""
        shape = self.network.ranks, self.resources, self.expansion.free_root, self.stars > 0
        return kernel.Rules(*shape, self.sharpness, self.top, TRIES, self.enough)

    def add(self, links: Ints | Sequence[int], sign: int) -> None:
        """Add a chunk over each of ``links`` to the loads, or take it away."""
        for link in links:
            columns = self.links.columns[self.links.column_start[link] : self.links.column_start[link + 1]]
            self.load[columns] += sign * self.links.weight[columns]

    def _terms(self) -> Floats:
        return exp(np.minimum(self.sharpness * (self.load / self.top - 1.0), kernel.LARGEST))

    def _growth(self) -> Floats:
        """Return how much the steep sum grows with a chunk more on each column."""
        shares = self.sharpness * self.links.weight / self.top
        return self._terms() * (exp(np.minimum(shares, kernel.LARGEST)) - 1.0)

    def take(self, carrier: Carrier) -> None:
        """Add the trees of ``carrier`` and their loads."""
        for network, links in self._trees(carrier):
            tree = _Tree(network, self.link_to[len(self.all)])
            tree.link_to[network.dst[links]] = links
            self.all.append(tree)
            self.add(links, 1)

    def _trees(self, carrier: Carrier) -> list[tuple[Network, Ints]]:
        return [(self.network, carrier.outward), (self.backwards, carrier.inward)][: self.sides]

    def laid(self, root: int) -> Carrier:
        """Return the carrier from ``root`` (allreduce: any) cheapest by what others load. ValueError: none is."""
        network = self.network
        growth = self._growth()[: self.resources]
        prices = growth + ROUND * growth.max()
        if not self.stars:
            offered = self.expansion.cheapest(prices)
            return next(c for c in offered if self.expansion.free_root or c.root == root)
        by_link = network.link_prices(prices)
        stars = [Stars(some, self.expansion.servers, by_link) for some in (network, self.backwards)]
        costs = stars[0].costs + stars[1].costs
        cheapest = int(costs.argmin())
        if not np.isfinite(costs[cheapest]):
            raise ValueError("links do not lead to all ranks over one of each server")
        return Carrier(cheapest, stars[0].links(cheapest), stars[1].links(cheapest))

    def improve(self) -> None:
        """Make moves, then lay each carrier's trees anew and move on from there, until the sum falls no more."""
        for self.sharpness in (8.0, 20.0):  # 3 to 40 end alike on six clusters
            self._settle(0.0)
        for _ in range(self.rounds):
            fallen = False
            for place in range(0, len(self.all), self.sides):
                self.top = max(1.0, float(self.load.max()))
                if kernel.ended(self._rules, self.trees):
                    break
                before, link_to, load = self._terms().sum(), self.link_to.copy(), self.load.copy()
                trees = self.all[place : place + self.sides]
                for tree in trees:
                    self.add(tree.links, -1)
                for tree, (network, links) in zip(trees, self._trees(self.laid(trees[0].root)), strict=True):
                    tree.link_to[:] = -1
                    tree.link_to[network.dst[links]] = links
                    self.add(links, 1)
                self._settle(self.top)
                if self._terms().sum() < before * (1.0 - ROUND):
                    fallen = True
                else:
                    self.link_to[:], self.load[:] = link_to, load
            if not fallen:
                return

    def _settle(self, top: float) -> None:
        """Make moves until none is left or they end; terms are 1 at load ``top`` (0: see ``kernel.Rules``)."""
        self.top, moved, tries = top, True, len(self.all)
        while moved and not kernel.ended(self._rules, self.trees):
            before, seconds = int(self.trees.tries[0]), 1e-6 * self.network.ranks**2 * tries
            moved = run_kernel(kernel.sweep, self.links, self._rules, self.trees, seconds=seconds)
            tries = int(self.trees.tries[0]) - before

    def shorten(self) -> None:
        """Join ranks on the longest way of each tree nearer to its root, as long as nothing carries more than the
        fullest does, and no rank has more to send and receive than the busiest."""
        network, ranks = self.network, np.arange(self.network.ranks)
        begin, many = self.links.column_start[:-1], np.diff(self.links.column_start)
        columns = self.links.columns[begin[:, None] + np.minimum(np.arange(many.max()), many[:, None] - 1)]
        self.top = max(1.0, float(self.load.max()))
        every = np.concatenate([tree.links for tree in self.all])
        ends = np.bincount(np.append(network.src[every], network.dst[every]), minlength=len(ranks))
        most, busiest = self.top * (1.0 + ROUND), ends.max()
        for tree in self.all:
            links = tree.network.cheapest(np.add.reduceat(self._growth()[self.links.columns], begin))[1]
            seconds = np.where(links >= 0, network.slice_seconds[links], np.inf)
            moved = True
            while moved:
                parents, arrival, root = tree.parents(), np.zeros(len(ranks)), tree.root
                for rank in tree.below(root, parents)[1:]:
                    arrival[rank] = arrival[parents[rank]] + network.slice_seconds[tree.link_to[rank]]
                way = [int(arrival.argmax())]
                while parents[way[0]] != root:
                    way.insert(0, parents[way[0]])
                for rank in way:  # the first that can be joined elsewhere
                    parent, link = parents[rank], int(tree.link_to[rank])
                    self.add([link], -1)
                    may = (self.load + self.links.weight)[columns[links[:, rank]]].max(axis=1) <= most
                    may &= (ends < busiest) | (ranks == parent)
                    may[tree.below(rank, parents)] = False
                    sooner = np.where(may, arrival + seconds[:, rank], np.inf)
                    src = int(sooner.argmin())
                    moved = bool(sooner[src] < arrival[rank] * (1.0 - ROUND))
                    tree.link_to[rank] = links[src, rank] if moved else link
                    self.add([int(tree.link_to[rank])], 1)
                    if moved:
                        ends[[parent, src]] += -1, 1
                        break

    def packing(self, least: float) -> WholePacking:
        """Return the packing of the carriers as they are."""
        sides = [tree.links for tree in self.all]
        inward = sides[1::2] if self.sides == 2 else [NONE] * len(sides)
        outward = zip(self.all[:: self.sides], sides[:: self.sides], inward, strict=True)
        carriers = tuple(Carrier(tree.root, out, back) for tree, out, back in outward)
        chunks_on: Floats = np.round(self.load[: self.resources] * self.unit)
        seconds = float((chunks_on / self.network.rate).max()) / len(carriers)
        return WholePacking(carriers, chunks_on, seconds, least, self.stars > 0)


def star_trees(expansion: Expansion, trees: int, connections: int | None, rounds: int) -> WholePacking | None:
    """Return a packing of ``trees`` trees of few levels for an allreduce, laid one after the other. None: links do
    not join servers so, or a rank has more connections."""
    exchange = _Exchange(expansion, (), connections, rounds, stars=trees)
    try:
        for _ in range(trees):
            exchange.take(exchange.laid(-1))
    except ValueError:
        return None
    exchange.improve()
    return exchange.packing(expansion.packing.bound) if exchange.within_connections else None


def packings_of(
    expansion: Expansion, trees: int, connections: int | None, rounds: int, stars: Shallow
) -> list[WholePacking]:
    """Return packings as ``few_trees`` and ``star_trees`` do: of those that ``stars`` says, which pay."""
    shallow = star_trees(expansion, trees, connections, rounds) if stars != "no" and expansion.free_root else None
    least = expansion.least_seconds(trees)
    if shallow is not None and stars == "instead" and (1.0 - GAP) * shallow.seconds <= least:
        return [shallow]
    few = few_trees(expansion, trees, connections, rounds)
    if shallow is None or shallow.seconds > STARS * few.seconds:
        return [few]
    return [shallow] if stars == "instead" and shallow.seconds <= few.seconds * (1.0 + ROUND) else [few, shallow]
