"""The second seed: load-balanced trees, then list scheduling.

In: a copying problem whose chunks go to everybody. Every chunk is routed on a tree that grows by the cheapest link
to a rank not yet reached; a resource costs exponentially more the nearer it is to carrying what the lower bound
allows (Aspnes et al. 1997), and chunks are rerouted in turn until the load is even. Then a list schedule: of the
deliveries whose sender holds the chunk, those go first on which most work waits (Graham 1966). Trees see the load
of the whole schedule where the greedy rounds see one step. Out: schedules that keep every capacity.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetesynth.errors import InternalError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.synthesis.peers import stranded, within_peers
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 8
SWEEPS = 2  # times that every chunk is rerouted in a round
SHARPNESS = 16.0  # exponent on the share of what the bound allows
DEPTH = 0.3  # how much dearer a link is for each link before it
NOISE = 0.3  # random factor on priorities, from the second round on
MAX_DELIVERIES = 60_000
MAX_RANKS = 256
MAX_ARCS = 100_000

Tree = list[tuple[int, int, int]]  # (sender, receiver, arc) in the order of growth


def refuses(problem: Problem) -> str | None:
    """Why the problem is not for trees to everybody, or None."""
    collective = problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    if any(len(pre) != 1 or len(pre | post) != problem.ranks for pre, post in pairs):
        return "some chunk does not go from one rank to all others"
    deliveries = len(collective.chunks) * problem.ranks
    if deliveries > MAX_DELIVERIES or problem.ranks > MAX_RANKS or len(problem.arcs) > MAX_ARCS:
        return "it is too large"
    return stranded(problem)


def improve(search: Search, rounds: int = ROUNDS) -> None:
    """Offer schedules along balanced trees until the bound is met, the rounds are used up or time is out."""
    if refuses(search.problem) is not None:
        return
    rng = np.random.default_rng(search.budget.seed)
    routing = TreeRouting(search.problem, max(1, search.target), rng)
    for number in range(rounds):
        for _ in range(SWEEPS):
            if search.done or search.out_of_time() or not routing.sweep():
                return
        schedule = _listed(routing, NOISE * min(number, 1), rng)
        search.offer(schedule, "trees")


@dataclass
class TreeRouting:
    """Trees of all chunks and the load they put on every resource."""

    problem: Problem
    target: float  # steps that the load is to fit into
    rng: np.random.Generator
    sharpness: float = SHARPNESS

    def __post_init__(self) -> None:
        tables = within_peers(self.problem)
        if tables is None:
            raise InternalError("trees for a problem that they refuse")
        self.capacity: Floats = np.array([r.capacity for r in tables.resources], dtype=np.float64)
        self.uses = tables.resources_of
        self.load: Floats = np.zeros(len(self.capacity))
        self.scarcity: Floats = np.ones(len(self.capacity))  # how much dearer each resource is than its load says
        self.links: Ints = np.array(tables.arcs, dtype=np.int64)
        self.src: Ints = np.array([self.problem.arcs[a].src for a in tables.arcs], dtype=np.int64)
        self.dst: Ints = np.array([self.problem.arcs[a].dst for a in tables.arcs], dtype=np.int64)
        uses = [self.uses[a] for a in tables.arcs]
        self.link_of_use: Ints = np.repeat(np.arange(len(uses)), [len(used) for used in uses])
        self.flat: Ints = np.array([r for used in uses for r in used], dtype=np.int64)
        self.trees: list[Tree] = [[] for _ in self.problem.collective.chunks]

    @property
    def fullest(self) -> float:
        """Steps of work on the busiest resource."""
        return float((self.load / self.capacity).max(initial=0.0))

    def sweep(self, *, overfull_only: bool = False) -> bool:
        """Reroute every chunk once, in random order; False when some rank cannot be reached.

        ``overfull_only``: only chunks that cross a resource with more load than fits.
        """
        for k in self.rng.permutation(len(self.trees)).tolist():
            if overfull_only and self.trees[k] and not self._crosses_overfull(self.trees[k]):
                continue
            self._book(self.trees[k], -1)
            tree = self._tree(min(self.problem.collective.pre[k]))
            if tree is None:
                return False
            self.trees[k] = tree
            self._book(tree, 1)
        return True

    def _crosses_overfull(self, tree: Tree) -> bool:
        most = self.target + 1e-9
        return any(self.load[r] > self.capacity[r] * most for _, _, a in tree for r in self.uses[a])

    def _book(self, tree: Tree, times: int) -> None:
        for _, _, a in tree:
            for r in self.uses[a]:
                self.load[r] += times

    def _costs(self) -> tuple[Floats, Ints]:
        """The cheapest link of every pair of ranks and its cost, at the present load."""
        share = self.load / (self.capacity * self.target)
        price = self.scarcity * np.exp(self.sharpness * share) / self.capacity
        cost = np.zeros(len(self.src))
        np.add.at(cost, self.link_of_use, price[self.flat])
        cost *= 1.0 + 0.01 * self.rng.random(len(cost))
        ranks = self.problem.ranks
        dear_first = np.argsort(-cost, kind="stable")
        best: Floats = np.full((ranks, ranks), np.inf)
        arc: Ints = np.full((ranks, ranks), -1, dtype=np.int64)
        best[self.src[dear_first], self.dst[dear_first]] = cost[dear_first]
        arc[self.src[dear_first], self.dst[dear_first]] = self.links[dear_first]
        return best, arc

    def _tree(self, root: int) -> Tree | None:
        """A tree from ``root`` to everybody, by the cheapest link out of what is reached (Prim 1957)."""
        cost, arc = self._costs()
        ranks = self.problem.ranks
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
            tree.append((u, v, int(arc[u, v])))
            depth[v] = depth[u] + 1
            outside[v] = False
            nearest[v] = np.inf
            through = cost[v] * (1.0 + DEPTH * depth[v])
            closer = outside & (through < nearest)
            nearest[closer] = through[closer]
            parent[closer] = v
        return tree


def _listed(routing: TreeRouting, noise: float, rng: np.random.Generator) -> Schedule:
    """The list schedule of the trees: in each step what is most urgent of what is ready and fits."""
    problem, uses = routing.problem, routing.uses
    tasks = [(k, u, a) for k, tree in enumerate(routing.trees) for u, _, a in tree]
    below, parent = precedence(routing.trees)
    factor = (1.0 + noise * rng.random(len(tasks))).tolist()
    waits = _Waits([uses[a] for _, _, a in tasks], parent, routing.capacity, routing.load.copy())
    capacity = [int(c) for c in routing.capacity]
    ready = set(below[-1])
    transfers: list[Transfer] = []
    step = 0
    while ready:
        urgency = waits.urgency()
        room = capacity.copy()
        sent: set[tuple[int, int]] = set()
        freed: list[int] = []
        for i in sorted(ready, key=lambda i: (-urgency[i] * factor[i], i)):
            k, u, a = tasks[i]
            if any(room[r] <= 0 for r in uses[a]) or (problem.exclusive_reduction and (k, u) in sent):
                continue
            for r in uses[a]:
                room[r] -= 1
            sent.add((k, u))
            waits.finish(i)
            ready.discard(i)
            freed += below[i]
            transfers.append(Transfer(step, step + 1, k, a))
        ready.update(freed)
        step += 1
    return Schedule.of(transfers, step)


def precedence(trees: list[Tree]) -> tuple[dict[int, list[int]], list[int]]:
    """For each delivery those it makes possible, and the one that makes it possible; -1 is the start. Deliveries
    are numbered tree after tree, senders before receivers."""
    below: dict[int, list[int]] = {-1: []}
    parent: list[int] = []
    for tree in trees:
        brought: dict[int, int] = {}
        for u, v, _ in tree:
            number = len(parent)
            parent.append(brought.get(u, -1))
            below[number] = []
            below[parent[number]].append(number)
            brought[v] = number
    return below, parent


@dataclass
class _Waits:
    """How long the work that is left will take at least."""

    uses: list[list[int]]  # resources of each delivery
    parent: list[int]
    capacity: Floats
    left: Floats  # deliveries that each resource still has to carry
    done: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.done = [False] * len(self.uses)

    def finish(self, i: int) -> None:
        """Delivery ``i`` is made."""
        self.done[i] = True
        for r in self.uses[i]:
            self.left[r] -= 1

    def urgency(self) -> list[float]:
        """For each delivery the longest wait it stands before: the steps that the busiest resource of it, or of a
        delivery below it, still takes, and a step for each link to there."""
        busy = (self.left / self.capacity).tolist()
        urgency = [0.0] * len(self.uses)
        for i in range(len(self.uses) - 1, -1, -1):
            if self.done[i]:
                continue
            urgency[i] = max([urgency[i], *(busy[r] for r in self.uses[i])])
            p = self.parent[i]
            if p >= 0:
                urgency[p] = max(urgency[p], urgency[i] + 1.0)
        return urgency


STRATEGY = Strategy("trees", improve, refuses)
