"""Load-balanced trees for chunks that go to everybody.

Every chunk is routed on a tree that grows by the cheapest link to a rank not yet reached; a resource costs
exponentially more the nearer it is to carrying what it is allowed (Aspnes et al. 1997), and chunks are rerouted in
turn until the load is even. Tree packing and ``timed-trees`` make schedules of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetesynth.errors import InternalError
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import cheapest_links
from hetesynth.search.list_scheduling import Tree
from hetesynth.search.machine_code import Floats, Ints
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.portable_math import exp


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Why the problem is not for trees to everybody, or None."""
    collective = problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    if any(len(pre) != 1 or len(pre | post) != problem.ranks for pre, post in pairs):
        return "some chunk does not go from one rank to all others"
    if len(collective.chunks) * problem.ranks > 60_000 or problem.ranks > 256:
        return "it is too large"
    return stranded(problem, policy)


@dataclass
class TreeRouting:
    """Trees of all chunks and the load they put on every resource. ``target``: steps that the load is to fit into;
    ``sharpness``: how steeply a resource becomes dearer with the share of these that it is busy."""

    problem: Problem
    target: float
    rng: np.random.Generator
    policy: Policy
    sharpness: float = 16.0

    def __post_init__(self) -> None:
        tables = within_peers(self.problem)
        if tables is None:
            raise InternalError("trees for a problem that they refuse")
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
        """A tree from ``root`` to everybody, by the cheapest link out of what is reached (Prim 1957)."""
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
