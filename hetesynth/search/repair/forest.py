"""The trees along which a schedule moves its chunks, mended where links or ranks are gone.

In: a problem that copies, or an allreduce, and the transfers of an old schedule that still name its chunks and
links, valid or not. Out: for each chunk a tree from its holders to all who want it, and for an allreduce one that
leads to its root as well. What the old schedule did stays where it can: ranks that nothing reaches any more are
joined again by the cheapest path at the present load (Takahashi and Matsuyama 1980, with the prices of Aspnes et
al. 1997), and deliveries leave resources that carry more than the lower bound leaves time for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Transfer
from hetesynth.policy.repair import RepairPolicy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.portable_math import exp

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass
class Tree:
    """Of chunk ``chunk``, from ``roots`` to ``needs``; ``inward``: towards the root, as sums go. ``arc[v]``: the
    link that joins rank v; ``start[v]``: the step in which the old schedule used it."""

    chunk: int
    inward: bool
    roots: frozenset[int]
    needs: frozenset[int]
    arc: dict[int, int] = field(default_factory=dict)
    start: dict[int, int] = field(default_factory=dict)

    def parent(self, problem: Problem, rank: int) -> int:
        """The rank that ``rank`` is joined to."""
        link = problem.arcs[self.arc[rank]]
        return link.dst if self.inward else link.src

    def children(self, problem: Problem) -> dict[int, list[int]]:
        """The ranks joined to each rank."""
        below: dict[int, list[int]] = defaultdict(list)
        for rank in sorted(self.arc):
            below[self.parent(problem, rank)].append(rank)
        return below

    def join(self, rank: int, arc: int) -> None:
        """Join ``rank`` by ``arc``, which the old schedule did not use for it."""
        self.arc[rank] = arc
        self.start.pop(rank, None)


def under(below: dict[int, list[int]], ranks: Iterable[int]) -> list[int]:
    """``ranks`` and all below them, those nearer to them first; a circle is followed once."""
    ordered = list(dict.fromkeys(ranks))
    visited = set(ordered)
    for rank in ordered:
        for child in below.get(rank, ()):
            if child not in visited:
                visited.add(child)
                ordered.append(child)
    return ordered


def old_trees(problem: Problem, transfers: Sequence[Transfer]) -> list[Tree]:
    """The trees of ``transfers``, in whatever state they are; of an allreduce two for each chunk, inward first."""
    reduced = problem.collective.name == "allreduce"
    copies: dict[int, dict[int, Transfer]] = defaultdict(dict)
    sums: dict[int, dict[int, Transfer]] = defaultdict(dict)
    for t in sorted(transfers):
        if reduced and t.reduce:
            sums[t.chunk][problem.arcs[t.link].src] = t  # what is sent last is the sum
        else:
            copies[t.chunk].setdefault(problem.arcs[t.link].dst, t)
    trees: list[Tree] = []
    for k, (pre, post) in enumerate(zip(problem.collective.pre, problem.collective.post, strict=True)):
        roots = pre
        if reduced:
            roots = frozenset({_root(problem, k, sums[k])})
            trees.append(_tree(Tree(k, True, roots, pre), sums[k]))
        trees.append(_tree(Tree(k, False, roots, post), copies[k]))
    return trees


def _tree(tree: Tree, joined: dict[int, Transfer]) -> Tree:
    for rank, t in joined.items():
        if rank not in tree.roots:
            tree.arc[rank], tree.start[rank] = t.link, t.start
    return tree


def _root(problem: Problem, chunk: int, sums: dict[int, Transfer]) -> int:
    """Where most of the sums of ``chunk`` meet; of ranks alike that of HeteCCL eq. 7."""
    named = problem.collective.chunks[chunk].block[0]
    ends = [rank for rank in range(problem.ranks) if rank not in sums]
    if not sums or not ends:
        return named
    below: dict[int, list[int]] = defaultdict(list)
    for rank, t in sums.items():
        below[problem.arcs[t.link].dst].append(rank)
    return max(ends, key=lambda rank: (len(under(below, [rank])), rank == named, -rank))


@dataclass
class Loads:
    """What trees put on every resource, and what links cost at that load. ``limit``: steps to fit it in."""

    tables: CopyProblem
    limit: int
    policy: RepairPolicy

    def __post_init__(self) -> None:
        arcs = self.tables.problem.arcs
        self.capacity: Floats = np.array([float(r.capacity) for r in self.tables.resources])
        self.load: Floats = np.zeros(len(self.capacity))
        self.uses = self.tables.resources_of
        self.src: Ints = np.array([arc.src for arc in arcs], dtype=np.int64)
        self.dst: Ints = np.array([arc.dst for arc in arcs], dtype=np.int64)
        self._of_use: Ints = np.repeat(np.arange(len(arcs)), [len(used) for used in self.uses])
        self._flat: Ints = np.array([r for used in self.uses for r in used], dtype=np.int64)

    def book(self, arc: int, times: int = 1) -> None:
        """A delivery more, or ``times``, over ``arc``."""
        for r in self.uses[arc]:
            self.load[r] += times

    def prices(self) -> Floats:
        """Of each resource at the present load."""
        share = np.minimum(self.load / (self.capacity * self.limit), self.policy.overload)
        prices: Floats = exp(self.policy.sharpness * share) / self.capacity
        return prices

    def overfull(self) -> Ints:
        """Resources that carry more than fits into the limit."""
        return np.flatnonzero(self.load > self.capacity * self.limit + 1e-9)

    def cheapest(self) -> tuple[Floats, Ints]:
        """Ranks x ranks: the cost of the cheapest link from row to column, and which it is (-1: none)."""
        ranks = self.tables.problem.ranks
        cost = np.bincount(self._of_use, self.prices()[self._flat], len(self.src))
        dear_first = np.argsort(-cost, kind="stable")
        least: Floats = np.full((ranks, ranks), np.inf)
        arc: Ints = np.full((ranks, ranks), -1, dtype=np.int64)
        least[self.src[dear_first], self.dst[dear_first]] = cost[dear_first]
        arc[self.src[dear_first], self.dst[dear_first]] = dear_first
        return least, arc


@dataclass
class Forest:
    """Trees and their loads, while they are mended."""

    loads: Loads
    trees: list[Tree]

    @property
    def problem(self) -> Problem:
        """Whose trees they are."""
        return self.loads.tables.problem

    def mend(self) -> bool:
        """Join what is not reached and relieve what is overfull; False where some rank cannot be reached."""
        for tree in self.trees:
            for arc in tree.arc.values():
                self.loads.book(arc)
        for tree in self.trees:
            if not self._join_all(tree):
                return False
            # leave out ranks that nobody needs, and circles that nothing reaches
            below = tree.children(self.problem)
            reached = under(below, sorted(tree.roots))
            useful = set(tree.needs)
            for rank in reversed(reached):
                if rank in useful and rank in tree.arc:
                    useful.add(tree.parent(self.problem, rank))
            for rank in set(tree.arc) - (useful & set(reached)):
                self.loads.book(tree.arc.pop(rank), -1)
                tree.start.pop(rank, None)
        for _ in range(self.loads.policy.relief_passes):
            if not self._relieve():
                break
        return True

    def _join_all(self, tree: Tree) -> bool:
        """Join all of ``tree.needs``; False where one cannot be reached."""
        below = tree.children(self.problem)
        reached = under(below, sorted(tree.roots))
        missing = set(tree.needs).difference(reached)
        while missing:
            cost, arc = self.loads.cheapest()
            if tree.inward:
                cost, arc = cost.T, arc.T
            for _ in range(self.loads.policy.joined_at_once):
                path = _shortest(cost, arc, reached, missing)
                if path is None:
                    return False
                for rank, link in path:
                    if rank in tree.arc:
                        self.loads.book(tree.arc[rank], -1)
                        below[tree.parent(self.problem, rank)].remove(rank)
                    tree.join(rank, link)
                    self.loads.book(link)
                    below[tree.parent(self.problem, rank)].append(rank)
                reached = under(below, sorted(tree.roots))
                missing.difference_update(reached)
                if not missing:
                    break
        return True

    def _relieve(self) -> bool:
        """Join ranks elsewhere whose links cross overfull resources; whether some moved."""
        full = set(self.loads.overfull().tolist())
        if not full:
            return False
        moved = False
        for tree, rank in list(self._crossing(full)):
            old = tree.arc[rank]
            if any(self._too_much(r) for r in self.loads.uses[old]):
                moved |= self._moved(tree, rank, old)
        return moved

    def _too_much(self, resource: int) -> bool:
        return bool(self.loads.load[resource] > self.loads.capacity[resource] * self.loads.limit + 1e-9)

    def _crossing(self, full: set[int]) -> Iterator[tuple[Tree, int]]:
        """Deliveries over ``full`` resources, those with the least below them first."""
        crossing = [
            (len(under(below, [rank])), tree.chunk, rank, tree)
            for tree in self.trees
            for below in [tree.children(self.problem)]
            for rank in sorted(tree.arc)
            if full.intersection(self.loads.uses[tree.arc[rank]])
        ]
        for _, _, rank, tree in sorted(crossing, key=lambda entry: entry[:3]):
            yield tree, rank

    def _moved(self, tree: Tree, rank: int, old: int) -> bool:
        """Whether ``rank`` could be joined over a cheaper link."""
        own = set(under(tree.children(self.problem), [rank]))
        reached = tree.roots | set(tree.arc)
        tables, arcs = self.loads.tables, self.problem.arcs
        self.loads.book(old, -1)
        prices = self.loads.prices()
        best, least = old, float(prices[self.loads.uses[old]].sum())
        for a in tables.out_of[rank] if tree.inward else tables.into[rank]:
            other = arcs[a].dst if tree.inward else arcs[a].src
            if other in own or other not in reached:
                continue
            cost = float(prices[self.loads.uses[a]].sum())
            if cost < least * (1.0 - self.loads.policy.cheaper):
                best, least = a, cost
        self.loads.book(best)
        if best == old:
            return False
        tree.join(rank, best)
        return True


def _shortest(
    cost: Floats, arc: Ints, reached: Sequence[int], missing: set[int]
) -> list[tuple[int, int]] | None:  # fmt: skip
    """The cheapest path from ``reached`` to one of ``missing``: (rank, link) from its first rank on (Dijkstra)."""
    inside = np.array(reached, dtype=np.int64)
    distance: Floats = cost[inside].min(axis=0)
    parent: Ints = inside[cost[inside].argmin(axis=0)]
    waiting = np.ones(len(cost), dtype=np.bool_)
    waiting[inside] = False
    while True:
        masked = np.where(waiting, distance, np.inf)
        rank = int(masked.argmin())
        if not np.isfinite(masked[rank]):
            return None
        if rank in missing:
            break
        waiting[rank] = False
        through = distance[rank] + cost[rank]
        nearer = waiting & (through < distance)
        distance[nearer], parent[nearer] = through[nearer], rank
    path: list[tuple[int, int]] = []
    outside = set(range(len(cost))).difference(reached)
    while rank in outside:
        path.append((rank, int(arc[parent[rank], rank])))
        rank = int(parent[rank])
    return path[::-1]
