"""Strategy ``repair``: mends the first candidate, a schedule of the cluster as it was, for the cluster as it is.

In: a search whose first candidate is a schedule on the links and chunks of the problem, valid or not. The mended
schedule is taken where it is near the bound; else greedy rounds follow and, where these are not near it either,
repair of the best from checkpoint to checkpoint (HeteCCL, algorithm 1). Without such a candidate there are greedy
rounds alone. Near is the bound itself, or one step more where there are many; the phases of an allreduce share
that step. ``MENDED`` ends with the mended schedule; so does ``WHOLE``, which takes an allreduce as it is, for old
schedules that are not a reduce-scatter followed by an allgather.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem, cheapest_links
from hetesynth.search.greedy import greedy
from hetesynth.search.list_scheduling import Task, Tasks
from hetesynth.search.portable_math import exp
from hetesynth.search.search import Search, Strategy


@dataclass
class Tree:
    """The tree of ``chunk`` from ``roots`` to ``needs``; ``inward``: towards the root, as sums go. ``arc[v]``: the
    link that joins rank v; ``start[v]``: the step in which the old schedule used that link."""

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
    """Return ``ranks`` and all ranks below them, the nearer first; a circle is followed once."""
    ordered = list(dict.fromkeys(ranks))
    visited = set(ordered)
    for rank in ordered:
        for child in below.get(rank, ()):
            if child not in visited:
                visited.add(child)
                ordered.append(child)
    return ordered


def old_trees(problem: Problem, transfers: Sequence[Transfer]) -> list[Tree]:
    """Return the trees of ``transfers``, whole or broken; of an allreduce two for each chunk, inward first."""
    reduced = problem.collective.name == "allreduce"
    copies: dict[int, dict[int, Transfer]] = defaultdict(dict)
    sums: dict[int, dict[int, Transfer]] = defaultdict(dict)
    for t in sorted(transfers):
        if reduced and t.reduce:
            sums[t.chunk][problem.arcs[t.link].src] = t  # what is sent last is the sum
        else:
            copies[t.chunk].setdefault(problem.arcs[t.link].dst, t)
    trees: list[Tree] = []
    for k, (pre, post) in enumerate(problem.collective.ends):
        roots = pre
        if reduced:
            # where most of the sums meet; of ranks alike that of HeteCCL eq. 7
            named = problem.collective.chunks[k].block[0]
            ends = [rank for rank in range(problem.ranks) if rank not in sums[k]] if sums[k] else []
            below: dict[int, list[int]] = defaultdict(list)
            for rank, t in sums[k].items():
                below[problem.arcs[t.link].dst].append(rank)
            ranked = {rank: (len(under(below, [rank])), rank == named, -rank) for rank in ends}
            roots = frozenset({max(ends, key=ranked.__getitem__, default=named)})
            trees.append(_tree(Tree(k, True, roots, pre), sums[k]))
        trees.append(_tree(Tree(k, False, roots, post), copies[k]))
    return trees


def _tree(tree: Tree, joined: dict[int, Transfer]) -> Tree:
    for rank, t in joined.items():
        if rank not in tree.roots:
            tree.arc[rank], tree.start[rank] = t.link, t.start
    return tree


@dataclass
class Forest:
    """Trees that are mended, the load they put on every resource, and what links cost at that load. ``limit``:
    steps to fit the load in. What the old schedule did stays where it can: ranks that nothing reaches any more are
    joined again by the cheapest path at the present load (Takahashi and Matsuyama 1980, with the prices of Aspnes
    et al. 1997), and deliveries leave resources that carry more than the lower bound leaves time for."""

    tables: CopyProblem
    limit: int
    trees: list[Tree]

    def __post_init__(self) -> None:
        self.problem, self.uses = self.tables.problem, self.tables.resources_of
        self.capacity: Floats = np.array([float(r.capacity) for r in self.tables.resources])
        self.load: Floats = np.zeros(len(self.capacity))

    def book(self, arc: int, times: int = 1) -> None:
        """Add ``times`` deliveries over ``arc`` to the load."""
        for r in self.uses[arc]:
            self.load[r] += times

    def prices(self) -> Floats:
        """Return the price of each resource at the present load."""
        share = np.minimum(self.load / (self.capacity * self.limit), 4.0)
        return exp(8.0 * share) / self.capacity

    def overfull(self) -> list[int]:
        """Return the resources that carry more than fits into the limit."""
        return np.flatnonzero(self.load > self.capacity * self.limit + 1e-9).tolist()

    def mend(self) -> bool:
        """Join ranks that are not reached, relieve overfull resources; False where some rank cannot be reached."""
        for tree in self.trees:
            for arc in tree.arc.values():
                self.book(arc)
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
                self.book(tree.arc.pop(rank), -1)
                tree.start.pop(rank, None)
        arcs = self.problem.arcs
        for _ in range(4):  # join ranks elsewhere whose links cross overfull resources
            full, moved = set(self.overfull()), False
            crossing = [
                (len(under(below, [rank])), tree.chunk, rank, place)
                for place, tree in enumerate(self.trees)
                for below in [tree.children(self.problem) if full else {}]
                for rank in sorted(tree.arc if full else ())
                if full.intersection(self.uses[tree.arc[rank]])
            ]
            for _, _, rank, place in sorted(crossing):  # those with the least below them first
                tree = self.trees[place]
                old = tree.arc[rank]
                if set(self.uses[old]).isdisjoint(self.overfull()):
                    continue
                own = set(under(tree.children(self.problem), [rank]))
                reached_by = tree.roots | set(tree.arc)
                self.book(old, -1)
                prices = self.prices()
                best, least = old, float(prices[self.uses[old]].sum())
                for a in self.tables.out_of[rank] if tree.inward else self.tables.into[rank]:
                    other = arcs[a].dst if tree.inward else arcs[a].src
                    cost = float(prices[self.uses[a]].sum())
                    if other not in own and other in reached_by and cost < least * 0.95:
                        best, least = a, cost
                self.book(best)
                if best != old:
                    tree.join(rank, best)
                    moved = True
            if not moved:
                break
        return True

    def _join_all(self, tree: Tree) -> bool:
        """Join all of ``tree.needs``; False where one cannot be reached."""
        below = tree.children(self.problem)
        reached = under(below, sorted(tree.roots))
        missing = set(tree.needs).difference(reached)
        while missing:
            src, dst = self.tables.ends
            cost, arc = cheapest_links(self.problem.ranks, src, dst, self.tables.arc_prices(self.prices()))
            if tree.inward:
                cost, arc = cost.T, arc.T
            for _ in range(8):
                path = _shortest(cost, arc, reached, missing)
                if path is None:
                    return False
                for rank, link in path:
                    if rank in tree.arc:
                        self.book(tree.arc[rank], -1)
                        below[tree.parent(self.problem, rank)].remove(rank)
                    tree.join(rank, link)
                    self.book(link)
                    below[tree.parent(self.problem, rank)].append(rank)
                reached = under(below, sorted(tree.roots))
                missing.difference_update(reached)
                if not missing:
                    break
        return True


def _shortest(cost: Floats, arc: Ints, reached: Sequence[int], missing: set[int]) -> list[tuple[int, int]] | None:
    """Return the cheapest path from ``reached`` to one of ``missing`` as (rank, link), or None (Dijkstra)."""
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


def mended(problem: Problem, transfers: Sequence[Transfer], limit: int) -> Iterator[Schedule]:
    """Yield schedules of ``problem`` along the mended trees of ``transfers``; none where some rank cannot be
    reached. The first places deliveries by their old starts, so that none that still holds comes later because of
    others that came after it, or by what waits for them if that is shorter. The others push all late and early
    again, in turns, while that saves steps (forward-backward improvement; Li and Willis 1992)."""
    tables = CopyProblem(problem)
    forest = Forest(tables, max(1, limit), old_trees(problem, transfers))
    if not forest.mend():
        return
    ordered: list[Task] = []  # senders before receivers, of an allreduce the tree inward first
    ready: dict[tuple[int, int], int] = {}
    for tree in forest.trees:
        from_root = [rank for rank in under(tree.children(problem), sorted(tree.roots)) if rank in tree.arc]
        for rank in reversed(from_root) if tree.inward else from_root:
            arc, k = problem.arcs[tree.arc[rank]], tree.chunk
            start = max(ready.get((k, arc.src), 0), tree.start.get(rank, 0))
            ready[k, arc.dst] = max(ready.get((k, arc.dst), 0), start + 1)
            ordered.append(Task(k, tree.arc[rank], tree.inward, start))
    tasks = Tasks(tables, ordered)
    begins = [tasks.early([task.start for task in ordered]), tasks.early([-height for height in tasks.heights])]
    begin = min(begins, key=max) if ordered else []
    yield tasks.schedule(begin)
    for _ in range(6):
        again = tasks.early(tasks.late(begin))
        if max(again, default=0) >= max(begin, default=0):
            return
        begin = again
        yield tasks.schedule(begin)


NAME = "repair"


@dataclass
class _Progress:
    """The state of the repair of one schedule. ``used``: a phase accepted more steps than the bound; ``mended``:
    the schedule mended last, with its problem and the bound."""

    used: bool = False
    mended: tuple[Problem, int, Schedule] | None = None

    def enough(self, search: Search) -> int:
        """Return the bound, or once a step more where that is at most a tenth of it: rounds down to the bound took
        an allreduce on 64 H20 without a GPU 0.4 s of the processor more, and saved no step."""
        return search.target + (0 if self.used else min(1, int(NEAR_SHARE * search.target)))


NEAR_SHARE, NEAR_STEPS = 0.1, 1


def strategy() -> Strategy:
    """Return the strategy for the repair of one schedule."""
    progress = _Progress()
    return Strategy(NAME, partial(improve, progress=progress), opening=partial(_mend, progress=progress))


def improve(search: Search, progress: _Progress | None = None) -> None:
    """Offer the mended schedule; where it is far from the bound, search for more."""
    progress = progress or _Progress()
    enough = progress.enough(search)
    _mend(search, progress)
    if not search.reached(enough) and not (search.best is not None and search.out_of_time()):
        rounds = 20_000 // max(1, search.problem.collective.deliveries)
        greedy.improve(search, max(4, min(60, rounds)), enough)
    deliveries, best = search.problem.collective.deliveries * search.problem.ranks, search.best
    near = search.reached(search.target + NEAR_STEPS) or search.problem.max_peers is not None
    if not near and best is not None and deliveries <= 400_000 and not search.out_of_time():
        from hetesynth.search.smt import cegis

        for steps in range(search.target + NEAR_STEPS, best.makespan):  # from checkpoint to checkpoint
            schedule = cegis.from_checkpoints(search, steps, 2_000_000, 1, share=1.0)
            if schedule is not None:
                search.offer(schedule, NAME)
                break
    progress.used |= not search.done


def _mend(search: Search, progress: _Progress | None = None) -> None:
    """Offer the shortest schedule along the mended trees of the first candidate, as far as time goes."""
    first, best = search.first_candidate, None
    if not isinstance(first, Schedule):
        return
    progress = progress or _Progress()
    if progress.mended is not None and progress.mended[:2] == (search.problem, search.target):
        search.offer(progress.mended[2], NAME)
        return
    for schedule in mended(search.problem, first.transfers, search.target):
        best = schedule
        if best.makespan <= search.target or search.out_of_time():
            break
    if best is not None:
        progress.mended = search.problem, search.target, best
        search.offer(best, NAME)


STRATEGY = Strategy(NAME, improve)
MENDED = Strategy(NAME, _mend)
WHOLE = Strategy(NAME, _mend, whole=True)
