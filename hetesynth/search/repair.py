"""Strategy ``repair``: the first candidate, a schedule of the cluster as it was, made one of the cluster as it is.

In: a search whose first candidate is a schedule on the links and chunks of the problem, valid or not. What is
mended is taken where it is near the bound; else greedy rounds follow and, where these are not near it either,
repair of the best from checkpoint to checkpoint (HeteCCL, algorithm 1). Without such a candidate there are greedy
rounds alone. Near is the bound itself, or one step more where there are many; the phases of an allreduce share
that step. ``MENDED`` ends with what is mended; so does ``WHOLE``, which takes an allreduce as it is, for old
schedules that are not a reduce-scatter followed by an allgather.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy.repair import RepairPolicy
from hetesynth.search.copy_problem import CopyProblem, cheapest_links
from hetesynth.search.greedy import greedy
from hetesynth.search.list_scheduling import Room
from hetesynth.search.portable_math import exp
from hetesynth.search.search import Search, Strategy


@dataclass(frozen=True, slots=True)
class Task:
    """Chunk ``chunk`` over link ``arc``. ``reduce``: it is added; ``start``: of the old schedule."""

    chunk: int
    arc: int
    reduce: bool
    start: int


@dataclass
class Tasks:
    """Deliveries, senders before receivers, with what each waits for.

    Late is early with time and precedence turned around.
    """

    tables: CopyProblem
    tasks: Sequence[Task]

    def __post_init__(self) -> None:
        problem = self.tables.problem
        self.before: list[list[int]] = [[] for _ in self.tasks]
        self.behind: list[list[int]] = [[] for _ in self.tasks]
        arrivals: dict[tuple[int, int], list[int]] = {}
        for i, task in enumerate(self.tasks):
            arc = problem.arcs[task.arc]
            for j in arrivals.get((task.chunk, arc.src), ()):
                self.before[i].append(j)
                self.behind[j].append(i)
            arrivals.setdefault((task.chunk, arc.dst), []).append(i)
        self.uses = [self.tables.resources_of[task.arc] for task in self.tasks]
        self.capacity = [resource.capacity for resource in self.tables.resources]
        self.sharing = [self._sharing(task) for task in self.tasks]

    def _sharing(self, task: Task) -> tuple[int, int] | None:
        """Deliveries that share this are in different steps (HeteCCL eq. 8): additions to a chunk at a rank, or,
        of the reversed problem, copies of a chunk from one."""
        problem = self.tables.problem
        if not problem.exclusive_reduction or (problem.collective.reduces and not task.reduce):
            return None
        arc = problem.arcs[task.arc]
        return task.chunk, arc.dst if problem.collective.reduces else arc.src

    def heights(self) -> list[int]:
        """For each delivery, how many the longest path behind it has."""
        height = [0] * len(self.tasks)
        for i in range(len(height) - 1, -1, -1):
            height[i] = max((height[j] + 1 for j in self.behind[i]), default=0)
        return height

    def early(self, urgency: Sequence[float]) -> list[int]:
        """The step of each, as early as possible, the least ``urgency`` first of those that can go."""
        return self._placed(urgency, self.before, self.behind)

    def late(self, begin: Sequence[float]) -> list[int]:
        """The same as late as possible, what began last first."""
        turned = self._placed([-b for b in begin], self.behind, self.before)
        last = max(turned, default=0)
        return [last - step for step in turned]

    def _placed(
        self, urgency: Sequence[float], before: Sequence[Sequence[int]], behind: Sequence[Sequence[int]]
    ) -> list[int]:  # fmt: skip
        room = Room(self.capacity)
        waiting = [len(others) for others in before]
        queue: list[tuple[float, int]] = []
        for i, number in enumerate(waiting):
            if not number:
                heappush(queue, (urgency[i], i))
        step, ready = [0] * len(waiting), [0] * len(waiting)
        while queue:
            _, i = heappop(queue)
            step[i] = room.take(self.uses[i], ready[i], self.sharing[i])
            for j in behind[i]:
                ready[j] = max(ready[j], step[i] + 1)
                waiting[j] -= 1
                if not waiting[j]:
                    heappush(queue, (urgency[j], j))
        return step

    def schedule(self, begin: Sequence[int]) -> Schedule:
        """With each delivery in its step."""
        return Schedule.of(
            Transfer(step, step + 1, task.chunk, task.arc, task.reduce)
            for task, step in zip(self.tasks, begin, strict=True)
        )


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
        cost = np.bincount(self._of_use, self.prices()[self._flat], len(self.src)).astype(np.float64)
        return cheapest_links(self.tables.problem.ranks, self.src, self.dst, cost)


@dataclass
class Forest:
    """Trees and their loads, while they are mended.

    What the old schedule did stays where it can: ranks that nothing reaches any more are joined again by the
    cheapest path at the present load (Takahashi and Matsuyama 1980, with the prices of Aspnes et al. 1997), and
    deliveries leave resources that carry more than the lower bound leaves time for.
    """

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
            if not set(self.loads.uses[old]).isdisjoint(self.loads.overfull().tolist()):
                moved |= self._moved(tree, rank, old)
        return moved

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


def mended(
    problem: Problem, transfers: Sequence[Transfer], limit: int, policy: RepairPolicy
) -> Iterator[Schedule]:  # fmt: skip
    """Schedules of ``problem`` along the trees of ``transfers``; none where some rank cannot be reached.

    The first goes by the order of the old starts: no delivery that still holds comes later than it did for those
    that were before it. Those that follow push everything late and early again, by turns (forward-backward
    improvement; Li and Willis 1992).
    """
    tables = CopyProblem(problem)
    forest = Forest(Loads(tables, max(1, limit), policy), old_trees(problem, transfers))
    if not forest.mend():
        return
    ordered = [task for pair in _by_chunk(forest.trees) for task in _tasks(problem, pair)]
    tasks = Tasks(tables, ordered)
    begins = [
        tasks.early([float(task.start) for task in ordered]),
        tasks.early([-float(height) for height in tasks.heights()]),
    ]
    begin = min(begins, key=max) if ordered else []
    yield tasks.schedule(begin)
    for _ in range(policy.justifications):
        late = tasks.late([float(b) for b in begin])
        again = tasks.early([float(b) for b in late])
        if max(again, default=0) >= max(begin, default=0):
            return
        begin = again
        yield tasks.schedule(begin)


def _by_chunk(trees: Sequence[Tree]) -> Iterator[list[Tree]]:
    """The tree of each chunk, or both, inward first."""
    pair: list[Tree] = []
    for tree in trees:
        pair.append(tree)
        if not tree.inward:
            yield pair
            pair = []


def _tasks(problem: Problem, trees: Sequence[Tree]) -> list[Task]:
    """The deliveries of one chunk, senders before receivers."""
    tasks: list[Task] = []
    ready: dict[int, int] = {}
    for tree in trees:
        from_root = [rank for rank in under(tree.children(problem), sorted(tree.roots)) if rank in tree.arc]
        for rank in reversed(from_root) if tree.inward else from_root:
            arc = problem.arcs[tree.arc[rank]]
            start = max(ready.get(arc.src, 0), tree.start.get(rank, 0))
            ready[arc.dst] = max(ready.get(arc.dst, 0), start + 1)
            tasks.append(Task(tree.chunk, tree.arc[rank], tree.inward, start))
    return tasks


NAME = "repair"


@dataclass
class _Progress:
    """Of the repair of one schedule. ``used``: a step more than the bound was accepted, in whatever phase;
    ``mended``: what was mended last, of which problem and for which bound."""

    used: bool = False
    mended: tuple[Problem, int, Schedule] | None = None

    def enough(self, search: Search) -> int:
        near = min(1, int(search.policy.repair.near_share * search.target))
        return search.target + (0 if self.used else near)


def strategy() -> Strategy:
    """For the repair of one schedule."""
    progress = _Progress()
    return Strategy(NAME, partial(improve, progress=progress), opening=partial(_mend, progress=progress))


def improve(search: Search, progress: _Progress | None = None) -> None:
    """Offer what is mended; more where it is far from the bound."""
    progress = progress or _Progress()
    enough = progress.enough(search)
    _mend(search, progress)
    if not search.reached(enough) and not (search.best is not None and search.out_of_time()):
        policy = search.policy.repair
        most = policy.greedy_work // max(1, search.problem.collective.deliveries)
        greedy.improve(search, max(policy.min_greedy_rounds, min(policy.max_greedy_rounds, most)), enough)
    if not search.reached(search.target + search.policy.repair.near_steps) and search.problem.max_peers is None:
        _checkpoints(search)
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
    for schedule in mended(search.problem, first.transfers, search.target, search.policy.repair):
        best = schedule
        if best.makespan <= search.target or search.out_of_time():
            break
    if best is not None:
        progress.mended = search.problem, search.target, best
        search.offer(best, NAME)


def _checkpoints(search: Search) -> None:
    """The best so far in fewer steps, from checkpoint to checkpoint."""
    from hetesynth.search.smt import cegis

    policy, best = search.policy.repair, search.best
    deliveries = search.problem.collective.deliveries * search.problem.ranks
    if best is None or deliveries > policy.checkpoint_work or search.out_of_time():
        return
    for steps in range(search.target + policy.near_steps, best.makespan):
        schedule = cegis.from_checkpoints(
            search, steps, policy.checkpoint_rlimit, policy.checkpoint_attempts, share=1.0
        )
        if schedule is not None:
            search.offer(schedule, NAME)
            return


STRATEGY = Strategy(NAME, improve)
MENDED = Strategy(NAME, _mend)
WHOLE = Strategy(NAME, _mend, whole=True)
