"""Packed trees, step by step filled: the strategy for many chunks that go to everybody.

In: a copying problem. Out: a schedule, most often as long as the busiest resource needs and a step more for the
last delivery. ``packed`` finds the trees, ``StepLp`` their steps.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, floor, gcd
from typing import Any

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem, cheapest_links, grouped, of_chunks
from hetesynth.search.list_scheduling import Task, Tasks
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.portable_math import exp
from hetesynth.search.search import Search, Strategy

Tree = list[tuple[int, int, int]]  # (sender, receiver, arc), senders before receivers
ROUND = 1e-6  # an integral solution is this close to integers


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Return why the problem is not for trees to all ranks, or None."""
    collective = problem.collective
    if any(len(pre) != 1 or len(pre | post) != problem.ranks for pre, post in collective.ends):
        return "some chunk does not go from one rank to all others"
    if len(collective.chunks) * problem.ranks > 60_000 or problem.ranks > 256:
        return "it is too large"
    return stranded(problem, policy)


@dataclass
class TreeRouting:
    """Trees of all chunks and the load they put on every resource. Every tree grows by the cheapest link to a rank
    not yet reached; a resource costs exponentially more the nearer it is to carrying what it may (Aspnes et al.
    1997), and chunks are rerouted in turn until the load is even. ``target``: steps that the load is to fit into;
    ``sharpness``: how steeply the price of a resource rises with the share of these steps that it is busy."""

    problem: Problem
    target: float
    rng: np.random.Generator
    policy: Policy
    sharpness: float = 16.0

    def __post_init__(self) -> None:
        tables = within_peers(self.problem)
        assert tables is not None  # else trees refuse the problem
        self.tables = tables
        self.capacity: Floats = np.array([r.capacity for r in tables.resources], dtype=np.float64)
        self.uses = tables.resources_of
        self.load: Floats = np.zeros(len(self.capacity))
        self.scarcity: Floats = np.ones(len(self.capacity))  # how much dearer each resource is than its load says
        self.links: Ints = np.array(tables.arcs, dtype=np.int64)
        self.trees: list[Tree] = [[] for _ in self.problem.collective.chunks]

    @property
    def fullest(self) -> float:
        """Steps of work on the busiest resource."""
        return float((self.load / self.capacity).max(initial=0.0))

    def sweep(self, *, overfull_only: bool = False) -> bool:
        """Reroute every chunk once, in random order; False when some rank cannot be reached."""
        most = self.target + 1e-9
        for k in self.rng.permutation(len(self.trees)).tolist():
            used = [r for _, _, a in self.trees[k] for r in self.uses[a]]
            crosses = any(self.load[r] > self.capacity[r] * most for r in used)
            if overfull_only and self.trees[k] and not crosses:
                continue
            for r in used:
                self.load[r] -= 1
            tree = self._tree(min(self.problem.collective.pre[k]))
            if tree is None:
                return False
            self.trees[k] = tree
            for _, _, a in tree:
                for r in self.uses[a]:
                    self.load[r] += 1
        return True

    def _tree(self, root: int) -> Tree | None:
        """A tree from ``root`` to all ranks, by the cheapest link out of those reached (Prim 1957)."""
        # the cheapest link of every pair of ranks and its cost, at the present load
        share = self.load / (self.capacity * self.target)
        with np.errstate(over="ignore"):  # what is far overfull costs more than any way around it
            price = self.scarcity * exp(self.sharpness * share) / self.capacity
        costs, (src, dst) = self.tables.arc_prices(price)[self.links], self.tables.ends
        costs *= 1.0 + 0.01 * self.rng.random(len(costs))  # breaks ties
        ranks = self.problem.ranks
        cost, arc = cheapest_links(ranks, src[self.links], dst[self.links], costs)
        depth = np.zeros(ranks)
        nearest = cost[root].copy()
        parent: Ints = np.full(ranks, root, dtype=np.int64)
        outside = np.ones(ranks, dtype=np.bool_)
        outside[root] = False
        nearest[root] = np.inf
        tree: Tree = []
        for _ in range(ranks - 1):
            v = int(nearest.argmin())
            if nearest[v] == np.inf:
                return None
            u = int(parent[v])
            tree.append((u, v, int(self.links[arc[u, v]])))
            depth[v] = depth[u] + 1
            outside[v] = False
            nearest[v] = np.inf
            through = cost[v] * (1.0 + self.policy.trees.depth_cost * depth[v])
            closer = outside & (through < nearest)
            nearest[closer] = through[closer]
            parent[closer] = v
        return tree


class StepLp:
    """A linear program for each step of the schedule of ``trees``, chunks of a smaller ``copy`` first.

    A step takes of the deliveries that are ready those with the longest path behind them, and no resource may be
    left with more than the steps after this one can carry; a resource without slack is filled to the last chunk in
    every step. Where that cannot be, the schedule gets a step more. Deliveries over one link with an equally long
    path behind them are one variable. Where resources nest the programs have integral solutions.
    """

    def __init__(self, tables: CopyProblem, trees: Sequence[Tree], copy: Sequence[int]) -> None:
        self.tables, self.copy = tables, copy
        self.deliveries = Tasks(tables, [Task(k, a) for k, tree in enumerate(trees) for _, _, a in tree])
        self.tasks, self.heights = self.deliveries.tasks, self.deliveries.heights
        columns: dict[tuple[int, int], int] = {}
        arcs_and_heights = zip((task.arc for task in self.tasks), self.heights, strict=True)
        self.column = [columns.setdefault(key, len(columns)) for key in arcs_and_heights]
        self.matrix: Any = tables.use_matrix([a for a, _ in columns])
        self.gain: Floats = np.array([1.0 + h for _, h in columns])
        self.waiting: list[list[tuple[int, int]]] = [[] for _ in columns]  # heaps of (copy, delivery)
        self.capacity: Floats = np.array([r.capacity for r in tables.resources], dtype=np.float64)
        self.left: Floats = np.zeros(len(self.capacity))  # deliveries each resource still has to carry
        for task in self.tasks:
            self.left[tables.resources_of[task.arc]] += 1
        self.postponed: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        # steps that the schedule is to have, and at most
        self.steps = int(np.ceil((self.left / self.capacity).max(initial=0.0) - ROUND))
        self.most = 3 * self.steps + max(self.heights, default=0) + 1

    def run(self, ended: Callable[[], bool]) -> Schedule | None:
        """The schedule; None when it was ended or grew too long."""
        self._release(self.deliveries.first)
        transfers: list[Transfer] = []
        step = 0
        while len(transfers) < len(self.tasks):
            ready: Ints = np.array([c for c, heap in enumerate(self.waiting) if heap], dtype=np.int64)
            numbers = self._choice(ready, step, ended)
            if numbers is None:
                return None
            columns = zip(ready.tolist(), numbers.tolist(), strict=True)
            sent = [heappop(self.waiting[c])[1] for c, n in columns for _ in range(n)]
            for i in sent:
                self.left[self.tables.resources_of[self.tasks[i].arc]] -= 1
                self._next(self._sender(i))
            transfers += [Transfer(step, step + 1, self.tasks[i].chunk, self.tasks[i].arc) for i in sent]
            self._release([j for i in sent for j in self.deliveries.behind[i]])
            step += 1
        return Schedule.of(transfers, step)

    def _choice(self, ready: Ints, step: int, ended: Callable[[], bool]) -> Ints | None:
        """Return how many of each column in ``ready`` go in ``step``, for the largest gain with time for the rest
        on each resource; with more steps where ``steps`` allow no choice. None: ended, or too many steps."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        many = np.array([len(self.waiting[c]) for c in ready], dtype=np.int64)
        matrix, gain = self.matrix[:, ready], self.gain[ready]
        while self.steps <= self.most and not ended():
            after = self.capacity * max(0, self.steps - step - 1)
            least = np.clip(self.left - after, 0.0, self.capacity)
            for integral in (0, 1) if (matrix @ many >= least).all() else ():
                solution = milp(
                    -gain,
                    constraints=LinearConstraint(matrix, least, self.capacity),
                    bounds=Bounds(0, many),
                    integrality=np.full(len(gain), integral),
                    options={"node_limit": 200} if integral else {},
                ).x
                if solution is None:
                    break
                numbers: Ints = np.rint(solution).astype(np.int64)
                if np.abs(numbers - solution).max(initial=0.0) < ROUND:
                    return numbers
            self.steps += 1
        return None

    def _sender(self, i: int) -> tuple[int, ...]:
        """The chunk of delivery ``i`` and the rank that sends it."""
        return self.tasks[i].chunk, self.tables.problem.arcs[self.tasks[i].arc].src

    def _release(self, deliveries: Sequence[int]) -> None:
        """Make siblings ready together; where a rank sends a chunk to one peer in a step, one after the other."""
        of: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for i in deliveries:
            alone = self.tables.problem.exclusive_reduction
            of[self._sender(i) if alone else (i,)].append((self.heights[i], i))
        for sending, siblings in of.items():
            self.postponed[sending] = sorted(siblings)
            self._next(sending)

    def _next(self, sending: tuple[int, ...]) -> None:
        if self.postponed.get(sending):
            i = self.postponed[sending].pop()[1]
            heappush(self.waiting[self.column[i]], (self.copy[self.tasks[i].chunk], i))


def packed(
    problem: Problem, bound: int, rng: np.random.Generator, ended: Callable[[], bool], policy: Policy
) -> tuple[list[Tree], list[int]] | None:
    """Return a tree for every chunk, with loads as even as a bounded number of sweeps found, and the number of
    each chunk among those of the same tree, from 0; None where peers run out. A few chunks of every kind are
    routed and the rest take copies, as a few trees carry the optimum (ForestColl, section 5)."""
    collective = problem.collective
    kinds = list(grouped(collective.ends).values())  # chunks that start and end at the same ranks
    common = gcd(*map(len, kinds))
    few = max(1, min(13, 320 * common // len(collective.chunks)))  # of a kind that are routed
    copies = next(c for c in range(1, common + 1) if common % c == 0 and (common // c <= few or c == common))
    routed = sorted(k for kind in kinds for k in kind[: len(kind) // copies])
    routed_trees = _negotiated(of_chunks(problem, routed), bound / copies, rng, ended, policy)
    if routed_trees is None:
        return None
    tree_of = dict(zip(routed, routed_trees, strict=True))
    trees: list[Tree] = [[] for _ in collective.chunks]
    copy = [0] * len(trees)
    for kind in kinds:
        few = len(kind) // copies
        for place, k in enumerate(kind):
            trees[k], copy[k] = tree_of[kind[place % few]], place // few
    return trees, copy


def _negotiated(
    problem: Problem, bound: float, rng: np.random.Generator, ended: Callable[[], bool], policy: Policy
) -> list[Tree] | None:
    """Return trees of all chunks. Balanced trees come within one chunk of the optimum; negotiation gains the last
    (PathFinder): what stays overfull becomes dearer for good, and only chunks that cross it are routed anew."""
    routing = TreeRouting(problem, 1, rng, policy, policy.trees.packing_sharpness)
    # steps in which all that a rank lacks can enter it, at least, by the resources most shared by its links
    lacks, entering = [0] * problem.ranks, [0] * problem.ranks
    for pre, post in problem.collective.ends:
        for rank in post - pre:
            lacks[rank] += 1
    tables = CopyProblem(problem)
    for rank in range(problem.ranks):
        into = [routing.uses[a] for a in tables.into[rank]]
        shared = Counter(r for used in into for r in used)
        ingress = {max(used, key=lambda r: (shared[r], -r)) for used in into}
        entering[rank] = sum(tables.resources[r].capacity for r in ingress)
    needed = max(chunks / max(1, room) for chunks, room in zip(lacks, entering, strict=True))
    routing.target = max(1, ceil(bound) - 1, needed)
    best: list[Tree] | None = None
    least = np.inf
    sweeps = min(100, max(5, 600_000 // (len(routing.trees) * problem.ranks)))
    since = 0
    for number in range(sweeps):
        if number == sweeps // 2:  # the first half aims at a step less than the bound
            routing.target = max(routing.target, floor(bound))
        if not routing.sweep(overfull_only=number % 5 > 0):
            break
        since += 1
        if routing.fullest < least:
            best, least, since = routing.trees.copy(), routing.fullest, 0
        if routing.fullest <= routing.target or ended() or (since >= 25 and least <= bound):
            break
        excess = np.maximum(0.0, routing.load / routing.capacity - routing.target)
        routing.scarcity *= 1.0 + policy.trees.packing_scarcity * excess
    return best


def improve(search: Search) -> None:
    """Offer packed trees; a first schedule may take 10 seconds more than a deadline that is not strict."""

    def ended() -> bool:
        return search.out_of_time(0.0 if search.budget.strict_deadline else -10.0)

    rng = np.random.default_rng(search.budget.seed)
    packing = packed(search.problem, search.target, rng, ended, search.policy)
    if packing is None:
        return
    schedule = StepLp(CopyProblem(search.problem), *packing).run(ended)
    if schedule is not None:
        search.offer(schedule, "tree-packing")


STRATEGY = Strategy("tree-packing", improve, refuses)
