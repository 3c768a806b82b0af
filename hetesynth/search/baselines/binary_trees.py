"""Double binary trees as in NCCL: two trees over the servers, a rank inner in one is a leaf of the other, and a
chain inside each server. Even parts take the first, odd parts the second; every part has its own chains and NICs.

The trees are those of Sanders, Speck and Traeff (2009) as NCCL numbers them: a server's parent clears its lowest
set bit and sets the next; the second tree is the first, shifted by one or mirrored. A chunk flows from its origin
along the tree's edges, so whatever rank a reduction ends at is the root.
"""

from __future__ import annotations

from collections import defaultdict

from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.routes import Routes
from hetesynth.search.server_groups import ServerGraph

Edge = tuple[Rank, Rank]
Tree = tuple[Rank, ...]
"""The parent of each rank; the root is its own."""


def trees_of(tables: CopyProblem, number: int, policy: Policy) -> list[Tree]:
    """``number`` trees over all ranks. NoRoute: a link the tree needs is missing."""
    graph, origin = ServerGraph(tables, policy), frozenset[Rank]
    trees = []
    for part in range(number):
        edges = _tree(graph, part)
        top = graph.servers[parents(len(graph.servers))[part % 2].index(None)]
        parent = [top[part % len(top)]] * tables.problem.ranks
        for arc in _from(graph, edges, origin((parent[0],))):
            parent[tables.problem.arcs[arc].dst] = tables.problem.arcs[arc].src
        trees.append(tuple(parent))
    return trees


def double_tree_routes(tables: CopyProblem, policy: Policy) -> Routes:
    """Every chunk over the tree of its part. NoRoute: a link the tree needs is missing in one direction."""
    graph = ServerGraph(tables, policy)
    collective = tables.problem.collective
    number = min(policy.baselines.max_channels, max(2, collective.chunks_per_rank))
    trees = [_tree(graph, part) for part in range(number)]
    routes = []
    for k, chunk in enumerate(collective.chunks):
        edges = trees[(chunk.part if collective.chunks_per_rank > 1 else k) % len(trees)]
        routes.append(_from(graph, edges, collective.pre[k]))
    return routes


def parents(n: int) -> tuple[list[int | None], list[int | None]]:
    """The parent of every server in both trees; None for the root."""
    first = [_parent(i, n) for i in range(n)]
    if n % 2:
        second = [None if (p := first[(i - 1) % n]) is None else (p + 1) % n for i in range(n)]
    else:
        second = [None if (p := first[n - 1 - i]) is None else n - 1 - p for i in range(n)]
    return first, second


def _parent(i: int, n: int) -> int | None:
    if i == 0:
        return None
    bit = i & -i
    up = (i ^ bit) | (bit << 1)
    return up if up < n else i ^ bit


def _tree(graph: ServerGraph, part: int) -> list[Edge]:
    """The edges of one tree over ranks: chains inside servers, the least loaded links between them."""
    servers = graph.servers
    arcs = graph.tables.problem.arcs
    above = parents(len(servers))[part % 2]
    edges: list[Edge] = []
    for s, up in enumerate(above):
        if up is not None:
            bridge = graph.bridge(servers[up], servers[s])
            graph.load.take(bridge)
            edges.append((arcs[bridge].src, arcs[bridge].dst))
    for ranks in servers:
        start = ranks[part % len(ranks)]
        for arc in graph.path_through(ranks, start, None):
            graph.load.take(arc)
            edges.append((arcs[arc].src, arcs[arc].dst))
    return edges


def _from(graph: ServerGraph, edges: list[Edge], origins: frozenset[Rank]) -> list[int]:
    """The tree's edges turned away from the origins."""
    near: dict[Rank, list[Rank]] = defaultdict(list)
    for u, v in edges:
        near[u].append(v)
        near[v].append(u)
    reached = set(origins)
    queue = sorted(origins)
    route = []
    for at in queue:
        for to in near[at]:
            if to not in reached:
                reached.add(to)
                queue.append(to)
                route.append(graph.need(at, to))
    return route
