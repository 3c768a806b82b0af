"""Rings of servers: a chunk passes every server once, over NICs that keep their peers, and fans out inside.

A ring of servers has in each server one rank that takes chunks from the server before and one that sends
them on, the same one where that can be. So a NIC exchanges with one other all the time, and thread blocks that do
not wait for each other still fill it; of a schedule with many partners the program takes longer than predicted
(docs/decisions.md, 6). Unlike in NCCL's rings of ranks a chunk crosses into a server once only.
There are as many rings as spread the load best.

In an allreduce both phases turn the same way: the reversed problem of its first phase (eq. 8 holds there) is given
the rings of the graph as it stands, walked backwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.routes import Load, NoRoute, Routes, arcs_between
from hetesynth.search.server_groups import ServerGraph


@dataclass
class ServerRing:
    """``bridges[s]``: the arc from server s to the next; it joins ranks ``leaves[s]`` and ``enters[s + 1]``."""

    enters: dict[int, Rank] = field(default_factory=dict)
    leaves: dict[int, Rank] = field(default_factory=dict)
    bridges: list[int] = field(default_factory=list)


def server_ring_routes(tables: CopyProblem, policy: Policy) -> Routes:
    """Every chunk around its ring. NoRoute: one server only, chunks not for all, or links are missing."""
    collective = tables.problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    if any(len(pre) != 1 or len(pre | post) != tables.problem.ranks for pre, post in pairs):
        raise NoRoute("some chunk does not go from one rank to all others")
    forward = CopyProblem(tables.problem.reversed()) if tables.problem.exclusive_reduction else tables
    graph = ServerGraph(forward, policy)
    if len(graph.servers) < 2:
        raise NoRoute("there is one server only")
    rings: list[ServerRing] = []
    passing: dict[Rank, int] = defaultdict(int)
    best: tuple[float, Routes] | None = None
    while len(rings) < policy.baselines.max_rings_of_servers:
        rings.append(_ring(graph, passing))
        routing = _RingRouting(tables, graph, rings)
        routes = routing.routes()
        if best is None or routing.busiest() < policy.baselines.ring_of_servers_gain * best[0]:
            best = routing.busiest(), routes
    return best[1] if best else []


def _ring(graph: ServerGraph, passing: dict[Rank, int]) -> ServerRing:
    """One more ring; ``passing`` counts how many enter and leave by a rank."""
    ring = ServerRing()
    arcs = graph.tables.problem.arcs
    for s in range(len(graph.servers)):
        following = (s + 1) % len(graph.servers)
        arc = _bridge(graph, passing, ring, s, following)
        ring.bridges.append(arc)
        ring.leaves[s], ring.enters[following] = arcs[arc].src, arcs[arc].dst
    for arc in ring.bridges:
        graph.load.take(arc)
        for rank in (arcs[arc].src, arcs[arc].dst):
            passing[rank] += 1
    return ring


def _bridge(graph: ServerGraph, passing: dict[Rank, int], ring: ServerRing, source: int, target: int) -> int:
    """The least loaded arc; of equal ones that which stays with the ranks where the ring enters ``source``
    and leaves ``target``, then with ranks that few rings use."""
    pairs = [(u, v) for u in graph.servers[source] for v in graph.servers[target]]
    arcs = [(a, u, v) for u, v in pairs for a in graph.between.get((u, v), ())]
    if not arcs:
        raise NoRoute(f"no link from ranks {list(graph.servers[source])} to ranks {list(graph.servers[target])}")
    into, out = ring.enters.get(source), ring.leaves.get(target)

    def key(link: tuple[int, Rank, Rank]) -> tuple[float, int, int, int]:
        a, u, v = link
        turns = (into not in (None, u)) + (out not in (None, v))
        return graph.load.after(a), turns, passing[u] + passing[v], a

    return min(arcs, key=key)[0]


class _RingRouting:
    """Every chunk on its ring, and what that puts on every resource."""

    def __init__(self, tables: CopyProblem, graph: ServerGraph, rings: Sequence[ServerRing]) -> None:
        self.tables, self.graph, self.rings = tables, graph, rings
        self.backwards = tables.problem.exclusive_reduction
        self.between = arcs_between(tables)
        self.load = Load(tables)

    def busiest(self) -> float:
        """Steps that the busiest resource works for all chunks."""
        loads = zip(self.load.carried, self.tables.resources, strict=True)
        return max((carried / r.capacity for carried, r in loads), default=0.0)

    def routes(self) -> Routes:
        """A server's chunks spread over the rings; a chunk takes one that leaves by its own rank where it can."""
        chunks: dict[tuple[int, int], int] = defaultdict(int)  # how many, by (server, ring)
        routes: list[list[int]] = []
        for pre in self.tables.problem.collective.pre:
            origin = min(pre)
            home = self.graph.server_of[origin]
            exits = [(ring.enters if self.backwards else ring.leaves)[home] for ring in self.rings]
            _, _, number = min((chunks[home, i], rank != origin, i) for i, rank in enumerate(exits))
            chunks[home, number] += 1
            routes.append(self._tree(origin, home, self.rings[number]))
        return routes

    def _tree(self, origin: Rank, home: int, ring: ServerRing) -> list[int]:
        servers = self.graph.servers
        receivers = ring.leaves if self.backwards else ring.enters
        turn = -1 if self.backwards else 1
        at, route = home, self._fan(origin, servers[home], ring.bridges[home])
        for _ in range(len(servers) - 1):
            following = (at + turn) % len(servers)
            bridge = ring.bridges[following if self.backwards else at]
            self.load.take(bridge)
            route += [bridge, *self._fan(receivers[following], servers[following], bridge)]
            at = following
        return route

    def _fan(self, start: Rank, ranks: Sequence[Rank], bridge: int) -> list[int]:
        """From ``start`` to all of ``ranks`` in few hops, over what is loaded least. A rank passes a chunk on to
        no more others than its links carry while one chunk crosses ``bridge``."""
        arcs = self.tables.problem.arcs
        left, reached, fan = set(ranks) - {start}, [start], []
        while left:
            room = dict.fromkeys(reached, 0)
            reached = []
            for v in sorted(left):
                usable = [
                    a
                    for u, passed in room.items()
                    for a in self.between.get((u, v), ())
                    if passed == 0 or passed < arcs[a].capacity // arcs[bridge].capacity
                ]
                if not usable:
                    continue
                arc = min(usable, key=lambda a: (self.load.after(a), a))
                self.load.take(arc)
                room[arcs[arc].src] += 1
                fan.append(arc)
                reached.append(v)
            if not reached:
                raise NoRoute(f"ranks {list(ranks)} are not joined")
            left -= set(reached)
        return fan
