"""Structures: what carries the data of a collective, and the cheapest at given prices.

In: a network, prices of resources. Out: ``Structure``s (trees, or all shortest paths of a rank) and what
everything costs at least.

| collective | structures | rows of the master program |
|---|---|---|
| allgather, broadcast | spanning out-trees | a root |
| reduce-scatter, reduce | spanning in-trees: out-trees of the reversed network | a root |
| allreduce | an in-tree and an out-tree of one root, whichever it is | two for each rank that may be a root |
| alltoall | the paths from a rank to all others | a source |
| scatter, gather | paths from (to) the root | a destination |

Of ranks that stand alike only one has a row.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.model.collective import CollectiveName
from hetesynth.policy import PackingPolicy
from hetesynth.search.copy_problem import grouped
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.symmetry import Symmetry
from hetesynth.search.portable_math import dot


@dataclass(frozen=True, eq=False)
class Contraction:
    """The sets of a contracted graph as they were made: n vertices, then contracted cycles; the last holds all.

    ``dual[s]``: y of set s, 0 for the last. ``parent[s]``: the set that s was contracted into. ``join[u, v]``: the
    smallest set that holds both. ``paid[u, v]``: the sum of y over the sets that hold v and not u, which is at
    most the cost of edge (u, v), and equal where the edge has no slack.
    """

    dual: Floats
    parent: Ints
    join: Ints
    paid: Floats

    @property
    def vertices(self) -> int:
        """The number of vertices of the graph."""
        return len(self.join)

    def root_costs(self) -> Floats:
        """Return the cost of the cheapest spanning arborescence from each vertex."""
        inside = np.zeros(len(self.dual))  # y of the set and of all that hold it
        for s in range(len(self.dual) - 2, -1, -1):
            inside[s] = self.dual[s] + inside[self.parent[s]]
        costs: Floats = self.dual.sum() - inside[: self.vertices]
        return costs

    def positive_join(self, least: float) -> Ints:
        """``join`` with sets whose y is at most ``least`` replaced by the next larger one."""
        stands_for = np.arange(len(self.dual))
        for s in range(len(self.dual) - 2, -1, -1):
            if self.dual[s] <= least and s >= self.vertices:
                stands_for[s] = stands_for[self.parent[s]]
        return stands_for[self.join]


def contract(costs: Floats) -> Contraction:
    """Contract the complete graph whose edge (u, v) costs ``costs[u, v]``; infinite where there is none. Raises
    ValueError where some vertex cannot be reached from every other.

    Contraction does not depend on the root: the cheapest arborescence from root r costs the sum of y over the sets
    that do not contain r, and the spanning arborescences that cost this are those of edges without slack that
    enter every such set with y > 0 once. Among these ``earliest`` chooses one where every vertex is reached early.
    Works on dense arrays, all roots together.
    """
    n = len(costs)
    entering = costs.T.copy()  # entering[v, u]: what edge (u, v) costs
    np.fill_diagonal(entering, np.inf)
    sets = [np.array([v]) for v in range(n)]  # vertices of the set that a row stands for
    name = list(range(n))  # the set that a row stands for
    parent, dual = [0] * (2 * n), np.zeros(2 * n)
    charged = np.zeros(n)
    unions: list[tuple[int, list[int], Floats]] = []  # first vertex, sizes of parts, charged by vertex
    path = [0]
    on_path = np.zeros(n, dtype=np.bool_)
    on_path[0] = True
    left = n
    while left > 1:
        top = path[-1]
        before = int(entering[top].argmin())
        least = float(entering[top, before])
        if not np.isfinite(least):
            raise ValueError("some vertex cannot be reached from every other")
        dual[name[top]] = least
        charged[sets[top]] += least
        entering[top] -= least
        if not on_path[before]:
            path.append(before)
            on_path[before] = True
            continue
        cycle = [path.pop()]
        while cycle[-1] != before:
            cycle.append(path.pop())
        created = n + len(unions)
        for row in cycle:
            parent[name[row]] = created
        kept, others = cycle[0], cycle[1:]
        entering[kept] = entering[cycle].min(axis=0)
        entering[:, kept] = entering[:, cycle].min(axis=1)
        entering[others], entering[:, others] = np.inf, np.inf
        entering[kept, kept] = np.inf
        parts = [len(sets[row]) for row in cycle]
        sets[kept] = np.concatenate([sets[row] for row in cycle])
        unions.append((int(sets[kept][0]), parts, charged[sets[kept]]))
        name[kept] = created
        on_path[others] = False
        path.append(kept)
        left -= len(others)
    order = sets[path[-1]]  # the vertices of every set stand together
    join, paid = np.diag(order), np.zeros((n, n))
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    for created, (vertex, parts, paying) in enumerate(unions, start=n):
        begin = start = int(place[vertex])
        end = begin + len(paying)
        for size in parts:
            stop = start + size
            for outside in (slice(begin, start), slice(stop, end)):
                join[outside, start:stop] = created
                paid[outside, start:stop] = paying[start - begin : stop - begin]
            start = stop
    both = np.ix_(place, place)
    return Contraction(dual[: n + len(unions)], np.array(parent[: n + len(unions)]), join[both], paid[both])


def earliest(
    contraction: Contraction, costs: Floats, seconds: Floats, roots: Ints, slack: float
) -> tuple[Ints, Floats]:
    """Return parents and arrival times in cheapest arborescences from ``roots`` that reach vertices early."""
    n, many = contraction.vertices, len(roots)
    join = contraction.positive_join(slack)
    tight = (costs - contraction.paid <= slack) & np.isfinite(costs)
    rows = np.arange(many)
    parent = np.full((many, n), -1, dtype=np.int64)
    reached = np.zeros((many, n), dtype=np.bool_)
    arrival = np.full((many, n), np.inf)
    arrival[rows, roots] = 0.0
    allowed = np.full((many, n), join.max() + 1, dtype=np.int64)  # the smallest set with a vertex that is reached
    vertex = roots.copy()
    usable = np.where(tight, seconds, np.inf)
    for _ in range(n):
        reached[rows, vertex] = True
        joined = join[vertex]
        deeper = joined < allowed
        allowed = np.where(deeper, joined, allowed)
        through = arrival[rows, vertex][:, None] + usable[vertex]
        through[joined > allowed] = np.inf
        old = np.where(deeper & ~reached, np.inf, arrival)
        better = (through < old) & ~reached
        arrival = np.where(better, through, old)
        parent = np.where(better, vertex[:, None], parent)
        vertex = np.where(reached, np.inf, arrival).argmin(axis=1)
    return parent, arrival


BACKWARDS: frozenset[CollectiveName] = frozenset({"reducescatter", "reduce", "gather"})
"""The collectives that are carried on the reversed network."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The ``links`` of a unit of row ``row`` from ``root``, with how often it crosses each."""

    row: int
    root: int
    links: Ints
    crossings: Floats

    @property
    def key(self) -> tuple[int, bytes, bytes]:
        """The key by which equal structures are recognized."""
        order = np.argsort(self.links, kind="stable")
        return self.row, self.links[order].tobytes(), self.crossings[order].tobytes()


@dataclass(frozen=True, eq=False)
class Offer:
    """The ``structures`` that are about the cheapest at some prices; ``least``: least cost of the collective."""

    least: float
    structures: list[Structure]


@dataclass(frozen=True, eq=False)
class Trees:
    """Spanning out-trees of a network: a row for each of ``roots``, from row ``first`` on."""

    network: Network
    roots: Ints
    first: int
    seconds: Floats  # by link: what counts as early among trees of one price

    def priced(self, prices: Floats) -> tuple[Floats, Callable[[Sequence[int] | Ints], list[Structure]]]:
        """Return the cost of each root's cheapest tree at ``prices`` of resources, and a function that returns an
        early tree for each of some places of roots, of links whose cost is tight or nearly so."""
        by_link = self.network.link_prices(prices)
        costs, links = self.network.cheapest(by_link)
        contraction = contract(costs)

        def structures(places: Sequence[int] | Ints) -> list[Structure]:
            seconds = np.where(links >= 0, self.seconds[links], np.inf)
            slack = 1e-7 * float(by_link.max())
            parent, _ = earliest(contraction, costs, seconds, self.roots[places], slack)
            trees = []
            for place, before in zip(places, parent, strict=True):
                below = np.flatnonzero(before >= 0)
                used = links[before[below], below]
                trees.append(Structure(self.first + int(place), int(self.roots[place]), used, np.ones(len(used))))
            return trees

        return contraction.root_costs()[self.roots], structures


class Stars:
    """The cheapest trees of two levels at prices of links: from a root to a rank of every other server, and from
    there, as from the root, to all others of the server. ``costs``: by root, infinite where there is none."""

    def __init__(self, network: Network, servers: Sequence[str], by_link: Floats) -> None:
        prices, self.link_of = network.cheapest(by_link)
        np.fill_diagonal(prices, 0.0)
        self.members = [np.array(ranks) for ranks in grouped(servers).values()]
        inside = np.zeros(len(prices))  # from a rank to its server
        for ranks in self.members:
            inside[ranks] = prices[np.ix_(ranks, ranks)].sum(axis=1)
        reached = prices + inside
        for ranks in self.members:
            reached[np.ix_(ranks, ranks)] = np.inf
        np.fill_diagonal(reached, inside)
        self.gateways = np.array([ranks[reached[:, ranks].argmin(axis=1)] for ranks in self.members])
        self.costs: Floats = np.take_along_axis(reached, self.gateways.T, axis=1).sum(axis=1)

    def links(self, root: int) -> Ints:
        """Return the links of the tree from ``root``."""
        used = [
            self.link_of[by, rank]
            for by, ranks in zip(self.gateways[:, root], self.members, strict=True)
            for by, rank in [(root, by), *((by, rank) for rank in ranks)]
            if by != rank
        ]
        return np.array(used)


@dataclass(frozen=True, eq=False)
class ShortestPaths:
    """Paths from sources to all other ranks."""

    network: Network
    sources: Ints

    def priced(self, prices: Floats) -> tuple[Floats, Ints, Ints]:
        """Return ``distance[i, t]`` from source i, ``before[i, t]``, the rank before t on the way, and the link of
        each pair."""
        costs, links = self.network.cheapest(self.network.link_prices(prices))
        n = self.network.ranks
        distance = np.full((len(self.sources), n), np.inf)
        distance[np.arange(len(self.sources)), self.sources] = 0.0
        before = np.full(distance.shape, -1, dtype=np.int64)
        done = np.zeros(distance.shape, dtype=np.bool_)
        rows = np.arange(len(self.sources))
        for _ in range(n):
            at = np.where(done, np.inf, distance).argmin(axis=1)
            done[rows, at] = True
            through = distance[rows, at][:, None] + costs[at]
            better = (through < distance) & ~done
            distance = np.where(better, through, distance)
            before = np.where(better, at[:, None], before)
        return distance, before, links

    def crossings(self, before: Ints, links: Ints, place: int, targets: Iterable[int]) -> tuple[Ints, Floats]:
        """The links from source ``place`` to ``targets``, with how many of these paths cross each."""
        counts: Counter[int] = Counter()
        for target in targets:
            at = target
            while before[place, at] >= 0:
                counts[int(links[before[place, at], at])] += 1
                at = int(before[place, at])
        used = sorted(counts)
        return np.array(used, dtype=np.int64), np.array([float(counts[i]) for i in used])


class Spanning:
    """Demands for trees: allgather, broadcast or, backwards, reduce-scatter, reduce, of given roots; without
    ``amounts`` allreduce: an out-tree and an in-tree of any one root. Rows: out-trees, then in-trees."""

    def __init__(self, trees: Sequence[Trees], amounts: Floats | None, few_roots: int = 0) -> None:
        self.trees, self.amounts, self.few_roots = trees, amounts, few_roots
        self.every_place = np.arange(len(trees[0].roots))

    def offer(self, prices: Floats, places: Ints | None) -> Offer:
        """Return the cheapest trees of the roots at ``places``; None: of all, or an allreduce's cheapest."""
        priced = [trees.priced(prices) for trees in self.trees]
        costs = np.sum([root_costs for root_costs, _ in priced], axis=0)
        if self.amounts is None:
            cheapest = np.argsort(costs, kind="stable")
            places = cheapest[: self.few_roots] if places is None else cheapest[np.isin(cheapest, places)]
        chosen = self.every_place if places is None else places
        least = costs.min() if self.amounts is None else dot(costs, self.amounts)
        return Offer(float(least), [tree for _, structures in priced for tree in structures(chosen)])


class Exchanging:
    """Demands for paths: alltoall, all of a source together; scatter and gather, each of the root by itself."""

    def __init__(self, paths: ShortestPaths, amounts: Floats, targets: Ints | None) -> None:
        self.paths, self.amounts, self.targets = paths, amounts, targets
        self.every_place = np.arange(len(amounts))

    def offer(self, prices: Floats, places: Ints | None) -> Offer:
        """Return the cheapest paths of the sources, or to the targets, at ``places`` (None: of all)."""
        distance, before, links = self.paths.priced(prices)
        targets, every = self.targets, range(self.paths.network.ranks)
        structures = []
        for row in self.every_place if places is None else places:
            source, ends = (row, every) if targets is None else (0, [int(targets[row])])
            used, counts = self.paths.crossings(before, links, source, ends)
            structures.append(Structure(int(row), int(self.paths.sources[source]), used, counts))
        costs = distance.sum(axis=1) if targets is None else distance[0, targets]
        return Offer(float(dot(costs, self.amounts)), structures)


Demands = Spanning | Exchanging


def demands(
    network: Network, name: CollectiveName, root: int | None, alike: Symmetry, policy: PackingPolicy
) -> Demands:
    """Return the demands of ``name``: rows for one of the ranks that stand alike, amounts for all of them."""
    n = network.ranks
    roots = alike.representatives
    orbit_size = np.bincount(alike.rank_orbit).astype(np.float64)
    graph = network.reversed() if name in BACKWARDS else network
    single = np.array([root or 0])
    match name:
        case "allgather" | "reducescatter":
            return Spanning([Trees(graph, roots, 0, network.slice_seconds)], orbit_size / n)
        case "broadcast" | "reduce":
            return Spanning([Trees(graph, single, 0, network.slice_seconds)], np.ones(1))
        case "allreduce":
            out_trees = Trees(network, roots, 0, network.slice_seconds)
            in_trees = Trees(network.reversed(), roots, len(roots), network.slice_seconds)
            return Spanning([out_trees, in_trees], None, policy.few_roots)
        case "alltoall":
            return Exchanging(ShortestPaths(graph, roots), orbit_size / n, None)
        case _:
            targets = np.array([r for r in range(n) if r != root])
            return Exchanging(ShortestPaths(graph, single), np.full(len(targets), 1.0 / n), targets)
