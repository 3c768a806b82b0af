"""Rings as NCCL builds them: one per channel, server by server, entering and leaving by the least loaded NICs.

Chunk part p travels ring p from its origin past all ranks. ``orders`` replaces the search: a ring's ranks in
order, one list per channel, as read from a dump of NCCL's own graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.routes import NoRoute, Routes
from hetesynth.synthesis.server_groups import ServerGraph


def ring_routes(tables: CopyProblem, orders: Sequence[Sequence[Rank]], policy: Policy) -> Routes:
    """Every chunk around the ring of its part, as far as somebody wants it. NoRoute: there is no ring."""
    collective = tables.problem.collective
    if any(len(pre) > 1 for pre in collective.pre):
        raise NoRoute("a chunk starts at several ranks")
    graph = ServerGraph(tables, policy)
    number = min(policy.baselines.max_channels, len(orders) or collective.chunks_per_rank)
    rings = [_stated_ring(graph, orders[i]) if orders else _server_by_server(graph, i) for i in range(number)]
    routes = []
    for k, chunk in enumerate(collective.chunks):
        around = rings[chunk.part % number]
        routes.append(_around(tables, around, min(collective.pre[k]), collective.post[k]))
    return routes


def _around(tables: CopyProblem, ring: Sequence[int], start: Rank, targets: frozenset[Rank]) -> list[int]:
    """The arcs of ``ring`` from ``start`` to the last rank that wants the chunk."""
    arcs = tables.problem.arcs
    at = next(i for i, a in enumerate(ring) if arcs[a].src == start)
    turned = [*ring[at:], *ring[:at]][: len(ring) - 1]
    last = max((i for i, a in enumerate(turned) if arcs[a].dst in targets), default=-1)
    return turned[: last + 1]


def _stated_ring(graph: ServerGraph, order: Sequence[Rank]) -> list[int]:
    """The ring that visits the ranks in ``order``."""
    if sorted(order) != list(range(graph.tables.problem.ranks)):
        raise NoRoute("a ring must visit every rank once")
    return _taken(graph, [graph.need(u, v) for u, v in zip(order, [*order[1:], order[0]], strict=True)])


def _server_by_server(graph: ServerGraph, number: int) -> list[int]:
    """Server by server; alone in one server, any cycle through all ranks."""
    servers = graph.servers
    if len(servers) == 1:
        return _taken(graph, _cycle(graph, servers[0]))
    arcs = graph.tables.problem.arcs
    bridges: list[int] = []
    entered: dict[int, Rank] = {}
    for s, ranks in enumerate(servers):
        goals = servers[(s + 1) % len(servers)]
        if s + 1 == len(servers) and len(goals) > 1:  # not back to where the ring leaves its first server
            goals = tuple(r for r in goals if r != arcs[bridges[0]].src)
        avoid = frozenset({entered[s]} if s in entered and len(ranks) > 1 else ())
        bridges.append(graph.bridge(ranks, goals, avoid))
        entered[(s + 1) % len(servers)] = arcs[bridges[-1]].dst
    ring: list[int] = []
    for s, ranks in enumerate(servers):
        ring += [*graph.path_through(ranks, entered[s], arcs[bridges[s]].src), bridges[s]]
    return _taken(graph, ring)


def _cycle(graph: ServerGraph, ranks: Sequence[Rank]) -> list[int]:
    """A cycle through all ranks: a path to some rank with a link back."""
    backs = [graph.arc(r, ranks[0]) for r in ranks[1:]]
    for back in sorted((a for a in backs if a is not None), key=lambda a: (graph.load.after(a), a)):
        try:
            return [*graph.path_through(ranks, ranks[0], graph.tables.problem.arcs[back].src), back]
        except NoRoute:
            continue
    raise NoRoute("no ring through all ranks was found")


def _taken(graph: ServerGraph, ring: list[int]) -> list[int]:
    for arc in ring:
        graph.load.take(arc)
    return ring
