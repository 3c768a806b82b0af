"""Routes that need no search: direct, shortest paths, recursive doubling, and two levels.

``all_pairs_routes``: every chunk straight to each that wants it, as NCCL sends alltoall, gather and scatter.
``shortest_path_routes``: the shortest-path heuristic (SPH) of SCALE-CCL's evaluation.
``doubling_routes``: Thakur, Rabenseifner and Gropp (2005); halving is the same backwards.
``hierarchical_routes``: to one rank of every other server, then inside; alltoall the other way round.
"""

from __future__ import annotations

import heapq

from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.routes import NoRoute, Routes
from hetesynth.search.server_groups import ServerGraph


def all_pairs_routes(tables: CopyProblem, policy: Policy) -> Routes:
    """One arc for every delivery. NoRoute: two ranks have no link."""
    graph = ServerGraph(tables, policy)
    return [[_least_loaded(graph, u, v) for u, v in _deliveries(tables, k)] for k in _chunks(tables)]


def shortest_path_routes(tables: CopyProblem) -> Routes:
    """The tree of shortest paths, an arc being as long as a chunk is on it; whatever else is under way."""
    trees = {}
    routes = []
    for k in _chunks(tables):
        origins = tables.problem.collective.pre[k]
        if origins not in trees:
            trees[origins] = _shortest_tree(tables, origins)
        into = trees[origins]
        route: set[int] = set()
        for rank in sorted(tables.problem.collective.post[k] - origins):
            at = rank
            while at not in origins:
                if at not in into:
                    raise NoRoute(f"rank {rank} cannot be reached")
                route.add(into[at])
                at = tables.problem.arcs[into[at]].src
        routes.append(sorted(route))
    return routes


def doubling_routes(tables: CopyProblem, policy: Policy) -> Routes:
    """In round i every rank passes all it holds to the one whose number differs in bit i. NoRoute: the number of
    ranks is no power of two, or such a pair has no link."""
    n = tables.problem.ranks
    if n & (n - 1):
        raise NoRoute(f"{n} ranks are no power of two")
    graph = ServerGraph(tables, policy)
    routes = []
    for k in _chunks(tables):
        origin = min(tables.problem.collective.pre[k])
        targets = tables.problem.collective.post[k]
        route, holders = [], [origin]
        for bit in (1 << i for i in range(n.bit_length() - 1)):
            for u in list(holders):
                holders.append(u ^ bit)
                if _leads_to(u ^ bit, bit, targets, n):
                    route.append(_least_loaded(graph, u, u ^ bit))
        routes.append(route)
    return routes


def hierarchical_routes(tables: CopyProblem, policy: Policy) -> Routes:
    """Between servers first, each time to the rank with the same number in its server, then inside each server; a
    chunk that one rank wants goes inside its own server first. NoRoute: links between servers are missing."""
    graph = ServerGraph(tables, policy)
    routes = []
    for k in _chunks(tables):
        origin = min(tables.problem.collective.pre[k])
        targets = tables.problem.collective.post[k] - {origin}
        home = graph.server_of[origin]
        route: list[int] = []
        for s in sorted({graph.server_of[r] for r in targets}):
            inside = [r for r in graph.servers[s] if r in targets]
            if s == home:
                route += [_least_loaded(graph, origin, r) for r in inside]
            elif len(targets) == 1:
                route += _through_home(graph, origin, inside[0])
            else:
                landing = _landing(graph, origin, graph.servers[s])
                route.append(_least_loaded(graph, origin, landing))
                route += [_least_loaded(graph, landing, r) for r in inside if r != landing]
        routes.append(route)
    return routes


def _through_home(graph: ServerGraph, origin: Rank, goal: Rank) -> list[int]:
    """First to the rank of the own server with the goal's number, then across."""
    mates = graph.servers[graph.server_of[origin]]
    number = graph.servers[graph.server_of[goal]].index(goal)
    mate = mates[number % len(mates)]
    if mate == origin or graph.arc(mate, goal) is None or graph.arc(origin, mate) is None:
        return [_least_loaded(graph, origin, goal)]
    return [_least_loaded(graph, origin, mate), _least_loaded(graph, mate, goal)]


def _landing(graph: ServerGraph, origin: Rank, ranks: tuple[Rank, ...]) -> Rank:
    """The rank of ``ranks`` with the number of ``origin`` in its server, or the least loaded with a link."""
    number = graph.servers[graph.server_of[origin]].index(origin)
    preferred = ranks[number % len(ranks)]
    if graph.arc(origin, preferred) is not None:
        return preferred
    return graph.tables.problem.arcs[graph.bridge((origin,), ranks)].dst


def _chunks(tables: CopyProblem) -> range:
    collective = tables.problem.collective
    if any(len(pre) > 1 for pre in collective.pre):
        raise NoRoute("a chunk starts at several ranks")
    return range(len(collective.chunks))


def _deliveries(tables: CopyProblem, k: int) -> list[tuple[Rank, Rank]]:
    collective = tables.problem.collective
    origin = min(collective.pre[k])
    return [(origin, r) for r in sorted(collective.post[k] - collective.pre[k])]


def _least_loaded(graph: ServerGraph, src: Rank, dst: Rank) -> int:
    arc = graph.need(src, dst)
    graph.load.take(arc)
    return arc


def _leads_to(rank: Rank, bit: int, targets: frozenset[Rank], n: int) -> bool:
    """Whether a rank that hears in the round of ``bit`` wants the chunk, or passes it on to one that does."""
    later = [1 << i for i in range(n.bit_length() - 1) if 1 << i > bit]
    reached = [rank]
    for b in later:
        reached += [r ^ b for r in reached]
    return any(r in targets for r in reached)


def _shortest_tree(tables: CopyProblem, origins: frozenset[Rank]) -> dict[Rank, int]:
    """The arc by which a shortest path enters each rank."""
    narrowest = [
        min(tables.resources[r].capacity for r in tables.resources_of[a]) for a in range(len(tables.problem.arcs))
    ]
    into: dict[Rank, int] = {}
    done: set[Rank] = set()
    queue = [(0.0, rank, -1) for rank in sorted(origins)]
    while queue:
        d, at, by = heapq.heappop(queue)
        if at in done:
            continue
        done.add(at)
        if by >= 0:
            into[at] = by
        for a in tables.out_of[at]:
            to = tables.problem.arcs[a].dst
            if to not in done:
                heapq.heappush(queue, (d + 1 / narrowest[a], to, a))
    return into
