"""Few whole trees: links of trees are exchanged for others until resources and connections are evenly loaded.

A fractional packing is many trees that are even together; a few of them, rounded, are not: each may cross one NIC
many times. So the trees themselves are changed. A move takes away the link by which a rank gets its chunk and
joins the part below it to the rest by another link, wherever that enters the part, whose links on the way are
turned around; or it gives an allreduce another root. It is kept where a steep sum of loads falls. Where moves end,
a tree is laid anew at the prices of what the others load, and kept where moves from there end lower. Every rank
has a load of its own, connections that begin or end there, as each has a thread block.

Moves make trees deep, which fill late. So for an allreduce stars are tried too: from server to server, and there
to all others. They are laid one by one at the prices of what the others load; moves make them one level deeper.
"""

from collections.abc import Sequence

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.search.copy_problem import grouped
from hetesynth.search.packing.column_generation import GAP
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import NONE, ROUND, Carrier, Expansion, WholePacking, whole
from hetesynth.search.packing.structures import Stars
from hetesynth.search.portable_math import exp, expm1

LARGEST = 500.0  # exponent that a float holds
STARS = 1.05  # of the load of other trees, as stars fill sooner


def few_trees(expansion: Expansion, trees: int, connections: int | None, rounds: int) -> WholePacking:
    """Return a packing of ``trees`` trees of each root, or in all for an allreduce, with at most ``connections``
    of a rank where that can be (None: any number). ``rounds``: the times that each tree is laid anew."""
    rounded = whole(expansion, trees)
    exchange = _Exchange(expansion, rounded.carriers, connections, rounds)
    fitted = exchange.loads.within_connections
    exchange.improve()
    exchange.shorten()
    packing = exchange.packing(rounded.least)
    if exchange.loads.within_connections != fitted:
        return rounded if fitted else packing
    return packing if packing.seconds <= rounded.seconds * (1.0 + ROUND) else rounded


class _Loads:
    """The loads of trees on columns: each a resource, or a rank's connections; 1 is what it may carry. The last is
    none. ``steep``: the sum of exp(``sharpness`` x (load / ``top`` - 1)) over all columns."""

    def __init__(self, network: Network, unit: Floats, connections: int | None) -> None:
        """``unit``: chunks that each resource carries in the fractional optimum."""
        self.resources, self.sharpness, self.top = len(unit), 8.0, 1.0
        self.none = self.resources + network.ranks
        most = int(np.diff(network.uses_start).max(initial=0))
        self.columns: Ints = np.full((most + 2, len(network.src)), self.none)  # those of link i: [:, i]
        places = np.arange(len(network.uses)) - network.uses_start[network.link_of_use]
        self.columns[places, network.link_of_use] = network.uses
        self.columns[most] = self.resources + network.src
        self.columns[most + 1] = self.resources + network.dst
        share = 0.0 if connections is None else 1.0 / connections
        self.weight: Floats = np.concatenate([1.0 / unit, np.full(network.ranks, share), [0.0]])
        self.load: Floats = np.zeros(self.none + 1)
        self._factors: tuple[float, float, Floats, Floats] = 0.0, 0.0, self.load, self.load

    def add(self, links: Ints | Sequence[int], sign: int) -> None:
        columns = self.columns[:, links].ravel()
        np.add.at(self.load, columns, sign * self.weight[columns])

    @property
    def within_connections(self) -> bool:
        return bool(self.load[self.resources :].max() <= 1.0 + ROUND)

    def _terms(self) -> Floats:
        terms: Floats = exp(np.minimum(self.sharpness * (self.load / self.top - 1.0), LARGEST))
        terms[self.none] = 0.0
        return terms

    @property
    def steep(self) -> float:
        return float(self._terms().sum())

    def changes(self) -> tuple[Floats, Floats]:
        """Return how much ``steep`` grows with a chunk more on each column, and falls with a chunk less."""
        sharpness, top, more, less = self._factors
        if (sharpness, top) != (self.sharpness, self.top):
            shares = self.sharpness * self.weight / self.top
            more, less = expm1(np.minimum(shares, LARGEST)), -expm1(-shares)
            self._factors = self.sharpness, self.top, more, less
        terms = self._terms()
        return terms * more, terms * less

    def by_link(self, changes: Floats) -> Floats:
        """Return the sum of ``changes`` over the columns of each link."""
        by_link: Floats = changes[self.columns].sum(axis=0)
        return by_link


class _Tree:
    """``link_to[v]``: the link over which rank v gets the chunk; -1 at the root. In-trees are trees on the network
    with its links turned around."""

    def __init__(self, network: Network, root: int, links: Ints) -> None:
        self.network, self.root, self.link_to = network, root, np.full(network.ranks, -1)
        self.link_to[network.dst[links]] = links

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

    def levels(self, parents: Sequence[int]) -> list[int]:
        """Return the hops from the root to each rank."""
        level = [0] * self.network.ranks
        for rank in self.below(self.root, parents)[1:]:
            level[rank] = level[parents[rank]] + 1
        return level

    def rehung(self, top: int, entry: int, link: int, cheapest: Ints, parents: Sequence[int]) -> Ints | None:
        """Return ``link_to`` where the chunk enters the ranks below ``top`` at ``entry`` over ``link`` (-1:
        ``entry`` is the root), and links up to ``top`` turn around. None: one of them has no counterpart in
        ``cheapest``, the link of each pair."""
        link_to, rank = self.link_to.copy(), entry
        link_to[entry] = link
        while rank != top:
            parent = parents[rank]
            link_to[parent] = cheapest[rank, parent]
            if link_to[parent] < 0:
                return None
            rank = parent
        return link_to


class _Exchange:
    """The trees of some carriers, and moves that make their loads more even."""

    def __init__(
        self,
        expansion: Expansion,
        carriers: Sequence[Carrier],
        connections: int | None,
        rounds: int,
        *,
        stars: int = 0,
    ) -> None:
        """``stars``: how many carriers there will be whose trees are, and stay, of few levels; 0: of any."""
        network = expansion.network
        self.expansion, self.rounds, self.network, self.stars = expansion, rounds, network, stars
        self.unit: Floats = (len(carriers) + stars) * expansion.packing.seconds * network.rate
        self.loads = _Loads(network, self.unit, connections)
        self.backwards = network.reversed()
        self.carriers: list[list[_Tree]] = []
        self.all: list[_Tree] = []
        for carrier in carriers:
            self.take(carrier)
        self.tries = 0

    def take(self, carrier: Carrier) -> None:
        """Add the trees of ``carrier`` and their loads."""
        trees = self._trees(carrier)
        self.carriers.append(trees)
        self.all += trees
        for tree in trees:
            self.loads.add(tree.links, 1)

    def laid(self, root: int) -> Carrier:
        """Return the carrier from ``root`` (allreduce: any) cheapest by what others load. ValueError: none is."""
        loads, network = self.loads, self.network
        growth = loads.changes()[0][: loads.resources]
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

    def _trees(self, carrier: Carrier) -> list[_Tree]:
        trees = [_Tree(self.network, carrier.root, carrier.outward)]
        if self.expansion.free_root:
            trees.append(_Tree(self.backwards, carrier.root, carrier.inward))
        return trees

    @property
    def _ended(self) -> bool:
        """True if tries are spent (about 1 s on 64 ranks), or no whole trees load the fullest resource less."""
        spent = self.tries >= (1_000 if self.stars else 1_500)
        if spent or not self.loads.within_connections:
            return spent
        fullest = float(self.loads.load[: self.loads.resources].max())
        seconds = fullest * (1.0 - GAP) * self.expansion.packing.seconds
        return not self.expansion.possible(self.stars or len(self.carriers), seconds)

    def improve(self) -> None:
        """Make moves, then lay each carrier's trees anew and move on from there, until ``steep`` falls no more."""
        loads = self.loads
        for sharpness in (8.0, 20.0):  # 3 to 40 end alike on six clusters
            loads.sharpness = sharpness
            self._settle()
        for _ in range(self.rounds):
            fallen = False
            for trees in self.carriers:
                if self._ended:
                    break
                top = loads.top = max(1.0, float(loads.load.max()))
                before, load = loads.steep, loads.load.copy()
                saved = [(tree, tree.root, tree.link_to) for tree in self.all]
                for tree in trees:
                    loads.add(tree.links, -1)
                fresh_trees = self._trees(self.laid(trees[0].root))
                for tree, fresh in zip(trees, fresh_trees, strict=True):
                    tree.root, tree.link_to = fresh.root, fresh.link_to
                    loads.add(tree.links, 1)
                self._settle(top)
                if loads.steep < before * (1.0 - ROUND):
                    fallen = True
                    continue
                for tree, root, link_to in saved:
                    tree.root, tree.link_to = root, link_to
                loads.load = load
            if not fallen:
                return

    def _settle(self, top: float | None = None) -> None:
        """Make moves until none is left."""
        moved, loads = True, self.loads
        while moved and not self._ended:
            loads.top = max(1.0, float(loads.load.max())) if top is None else top
            # every link on what is nearly full may be exchanged, every root of an allreduce moved
            moved = False
            for tree in self.all:
                high = np.append(loads.load[loads.columns].max(axis=0), 0.0)[tree.link_to]
                full = np.flatnonzero(high >= 0.85 * loads.top)
                for rank in full[np.argsort(-high[full], kind="stable")].tolist():
                    if tree.link_to[rank] >= 0 and not self._ended:
                        moved |= self._rehang(tree, rank)
            if self.expansion.free_root and not self.stars:
                for trees in self.carriers:
                    if not self._ended:
                        moved |= self._reroot(trees)

    def shorten(self) -> None:
        """Join ranks on the longest way of each tree nearer to its root, as long as nothing carries more than the
        fullest does, and no rank has more to send and receive than the busiest."""
        loads, network, ranks = self.loads, self.network, np.arange(self.network.ranks)
        every = np.concatenate([tree.links for tree in self.all])
        ends = np.bincount(np.append(network.src[every], network.dst[every]), minlength=len(ranks))
        top, busiest = max(1.0, float(loads.load.max())) * (1.0 + ROUND), ends.max()
        for tree in self.all:
            links = tree.network.cheapest(loads.by_link(loads.changes()[0]))[1]
            seconds = np.where(links >= 0, network.slice_seconds[links], np.inf)
            moved = True
            while moved:
                parents, arrival = tree.parents(), np.zeros(len(ranks))
                for rank in tree.below(tree.root, parents)[1:]:
                    arrival[rank] = arrival[parents[rank]] + network.slice_seconds[tree.link_to[rank]]
                way = [int(arrival.argmax())]
                while parents[way[0]] != tree.root:
                    way.insert(0, parents[way[0]])
                for rank in way:  # the first that can be joined elsewhere
                    parent, link = parents[rank], int(tree.link_to[rank])
                    loads.add([link], -1)
                    columns = loads.columns[:, links[:, rank]]
                    may = (loads.load[columns] + loads.weight[columns]).max(axis=0) <= top
                    may &= (ends < busiest) | (ranks == parent)
                    may[tree.below(rank, parents)] = False
                    sooner = np.where(may, arrival + seconds[:, rank], np.inf)
                    src = int(sooner.argmin())
                    moved = bool(sooner[src] < arrival[rank] * (1.0 - ROUND))
                    tree.link_to[rank] = links[src, rank] if moved else link
                    loads.add([int(tree.link_to[rank])], 1)
                    if moved:
                        ends[[parent, src]] += -1, 1
                        break

    def _rehang(self, tree: _Tree, top: int) -> bool:
        """Join the ranks below ``top`` to the others where that costs least; return True if that was kept."""
        self.tries += 1
        before, link = self.loads.steep, int(tree.link_to[top])
        parents = tree.parents()
        part = tree.below(top, parents)
        self.loads.add([link], -1)
        costs, links, turned = self._turned(tree, part, parents)
        self.loads.add([link], 1)
        inside = np.zeros(self.network.ranks, dtype=np.bool_)
        inside[part] = True
        joining = np.where(inside[None, :] & ~inside[:, None], costs + turned[None, :], np.inf)
        if self.stars:
            level = tree.levels(parents)
            deep = max(level[rank] for rank in part) - level[top]
            joining[np.array(level) + 1 + deep > 3] = np.inf  # one more than of a star
            joining[:, np.arange(self.network.ranks) != top] = np.inf
        src, entry = divmod(int(joining.argmin()), self.network.ranks)
        if not np.isfinite(joining[src, entry]) or links[src, entry] == link:
            return False
        return self._kept(
            before, tree.root, [tree.rehung(top, entry, int(links[src, entry]), links, parents)], [tree]
        )

    def _reroot(self, trees: Sequence[_Tree]) -> bool:
        """Give the trees of an allreduce's chunk the root that costs least; return True if that was kept."""
        self.tries += 1
        before, root = self.loads.steep, trees[0].root
        total = np.zeros(self.network.ranks)
        views: list[tuple[Ints, list[int]]] = []
        for tree in trees:
            parents = tree.parents()
            _, links, turned = self._turned(tree, tree.below(root, parents), parents)
            total += turned
            views.append((links, parents))
        total[root] = np.inf
        entry = int(total.argmin())
        if not np.isfinite(total[entry]):
            return False
        rehung = [tree.rehung(root, entry, -1, *view) for tree, view in zip(trees, views, strict=True)]
        return self._kept(before, entry, rehung, trees)

    def _turned(self, tree: _Tree, part: Sequence[int], parents: Sequence[int]) -> tuple[Floats, Ints, Floats]:
        """Return the cost of the cheapest link of each pair, that link, and for each rank of ``part`` the cost of
        turning around the links from there up to the first rank."""
        growth, relief = self.loads.changes()
        costs, links = tree.network.cheapest(self.loads.by_link(growth))
        turned = np.zeros(self.network.ranks)
        below = part[1:]
        spared = self.loads.by_link(relief)[tree.link_to[below]]
        for rank, less in zip(below, spared, strict=True):
            parent = parents[rank]
            turned[rank] = turned[parent] + costs[rank, parent] - less
        return costs, links, turned

    def _kept(self, before: float, root: int, rehung: Sequence[Ints | None], trees: Sequence[_Tree]) -> bool:
        """Give ``trees`` these links and ``root``; return False, and undo it, where ``steep`` does not fall."""
        now = np.concatenate([tree.link_to for tree in trees])
        then = np.concatenate([links for links in rehung if links is not None] or [now[:0]])
        if len(then) < len(now):
            return False
        removed, added = now[(now != then) & (now >= 0)], then[(now != then) & (then >= 0)]
        self.loads.add(removed, -1)
        self.loads.add(added, 1)
        if self.loads.steep < before * (1.0 - ROUND):
            for tree, links in zip(trees, np.split(then, len(trees)), strict=True):
                tree.link_to, tree.root = links, root
            return True
        self.loads.add(added, -1)
        self.loads.add(removed, 1)
        return False

    def packing(self, least: float) -> WholePacking:
        """Return the packing of the carriers as they are."""
        carriers = tuple(
            Carrier(trees[0].root, trees[0].links, trees[1].links if len(trees) > 1 else NONE)
            for trees in self.carriers
        )
        chunks_on: Floats = np.round(self.loads.load[: self.loads.resources] * self.unit)
        seconds = float((chunks_on / self.network.rate).max()) / len(carriers)
        return WholePacking(carriers, chunks_on, seconds, least)


def star_trees(expansion: Expansion, other: WholePacking, connections: int, rounds: int) -> WholePacking | None:
    """Return as many trees of few levels as ``other`` has for an allreduce, laid one after the other. None: links
    do not join servers so, a rank has more connections, or ``other`` loads the fullest resource clearly less."""
    exchange = _Exchange(expansion, (), connections, rounds, stars=len(other.carriers))
    try:
        for _ in other.carriers:
            exchange.take(exchange.laid(-1))
    except ValueError:
        return None
    exchange.improve()
    packing = exchange.packing(other.least)
    fits = exchange.loads.within_connections and packing.seconds <= STARS * other.seconds
    return packing if fits else None
