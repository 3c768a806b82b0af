"""The baselines, ready for the registry: what communication libraries do."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hetesynth.model.collective import PERSONALIZED
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.baselines.ring_search import Ring, RingSet, Wiring, ring_sets
from hetesynth.search.copy_problem import CopyProblem, Load, NoRoute, Routes, arcs_between, excess
from hetesynth.search.list_scheduling import list_schedule
from hetesynth.search.peers import within_peers
from hetesynth.search.search import Search, Strategy
from hetesynth.search.server_groups import ServerGraph, ring_servers


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


def ring_routes(tables: CopyProblem, orders: Sequence[Sequence[Rank]], policy: Policy) -> Routes:
    """Every chunk around the ring of its part, as far as somebody wants it. NoRoute: there is no ring."""
    collective = tables.problem.collective
    if any(len(pre) > 1 for pre in collective.pre):
        raise NoRoute("a chunk starts at several ranks")
    most = policy.baselines.max_channels
    if orders:
        graph = ServerGraph(tables, policy)
        rings: Sequence[Ring] = [_stated_ring(graph, order) for order in orders[:most]]
    else:
        rings = _best(tables, min(most, collective.chunks_per_rank), policy)
    return [
        _around(tables, rings[chunk.part % len(rings)], min(pre), post)
        for chunk, pre, post in zip(collective.chunks, collective.pre, collective.post, strict=True)
    ]


def wiring(tables: CopyProblem, policy: Policy) -> Wiring:
    """What rings are searched on, in chunks per step."""
    problem = tables.problem
    return Wiring(
        ends=tuple((arc.src, arc.dst) for arc in problem.arcs),
        uses=tuple(map(tuple, tables.resources_of)),
        rates=tuple(float(resource.capacity) for resource in tables.resources),
        servers=tuple(ring_servers(problem, policy.bounds)),
    )


def _best(tables: CopyProblem, parts: int, policy: Policy) -> Sequence[Ring]:
    """Of the sets of up to ``parts`` rings the one whose fullest resource has the least work, parts in turn."""
    on = wiring(tables, policy)

    def cost(rings: RingSet) -> float:
        """Steps that the fullest resource works for a chunk of each part."""
        number = len(rings.rings)
        load = Counter[int]()
        for k, ring in enumerate(rings.rings):
            for a in ring:
                for r in on.uses[a]:
                    load[r] += len(range(k, parts, number))
        return max(carried / on.rates[r] for r, carried in load.items())

    candidates = [s for s in ring_sets(on, policy.baselines) if len(s.rings) <= parts]
    return min(candidates, key=lambda s: (cost(s), -len(s.rings))).rings


def _around(tables: CopyProblem, ring: Sequence[int], start: Rank, targets: frozenset[Rank]) -> list[int]:
    """The arcs of ``ring`` from ``start`` to the last rank that wants the chunk."""
    arcs = tables.problem.arcs
    at = next(i for i, a in enumerate(ring) if arcs[a].src == start)
    turned = [*ring[at:], *ring[:at]][: len(ring) - 1]
    last = max((i for i, a in enumerate(turned) if arcs[a].dst in targets), default=-1)
    return turned[: last + 1]


def _stated_ring(graph: ServerGraph, order: Sequence[Rank]) -> Ring:
    """The ring that visits the ranks in ``order``."""
    if sorted(order) != list(range(graph.tables.problem.ranks)):
        raise NoRoute("a ring must visit every rank once")
    ring = tuple(graph.need(u, v) for u, v in zip(order, [*order[1:], order[0]], strict=True))
    for arc in ring:
        graph.load.take(arc)
    return ring


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
        """From ``start`` to all of ``ranks`` in few hops, over what is loaded least."""
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


Router = Callable[[CopyProblem, Policy], Routes]


def _nccl_ring(tables: CopyProblem, policy: Policy) -> Routes:
    if tables.problem.collective.name in PERSONALIZED:
        return all_pairs_routes(tables, policy)
    return ring_routes(tables, (), policy)


def _nccl_tree(tables: CopyProblem, policy: Policy) -> Routes:
    if tables.problem.collective.name in PERSONALIZED:
        return all_pairs_routes(tables, policy)
    return double_tree_routes(tables, policy)


def _shortest(tables: CopyProblem, policy: Policy) -> Routes:
    """Shortest paths; where these take too many peers, over links to few others."""
    routes = shortest_path_routes(tables)
    if excess(tables.problem, {a for route in routes for a in route}) is None:
        return routes
    few = within_peers(tables.problem, policy.bounds)
    return routes if few is None else shortest_path_routes(few)


def baseline(name: str, router: Router) -> Strategy:
    """A strategy that offers the one schedule of its routes."""
    # the last problem by its identity, which the tables keep, and the policy
    latest: dict[tuple[int, Policy], tuple[CopyProblem, Routes]] = {}

    def routed(problem: Problem, policy: Policy) -> tuple[CopyProblem, Routes]:
        key = id(problem), policy
        if key not in latest:
            latest.clear()
            tables = CopyProblem(problem)
            latest[key] = tables, router(tables, policy)
        return latest[key]

    def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
        try:
            _, routes = routed(problem, policy)
        except NoRoute as missing:
            return str(missing)
        return excess(problem, (a for route in routes for a in route))

    def improve(search: Search) -> None:
        tables, routes = routed(search.problem, search.policy)
        latest.clear()
        schedule = list_schedule(tables, routes, search.may_leave)
        if schedule is None:
            return
        search.offer(schedule, name)

    return Strategy(name, improve, refuses)


def ring_strategy(orders: Sequence[Sequence[int]], first_link: tuple[int, int]) -> Strategy:
    """NCCL's rings in stated orders of ranks. ``first_link``: source and destination of link 0, by which a problem
    that is solved backwards is told, so that its rings turn the same way in the end."""
    backwards = [list(reversed(order)) for order in orders]

    def router(tables: CopyProblem, policy: Policy) -> Routes:
        if tables.problem.collective.name in PERSONALIZED:
            return all_pairs_routes(tables, policy)
        arc = tables.problem.arcs[0]
        return ring_routes(tables, orders if (arc.src, arc.dst) == first_link else backwards, policy)

    return baseline("ring", router)


RING = baseline("ring", _nccl_ring)
DOUBLE_TREE = baseline("double-tree", _nccl_tree)
SHORTEST_PATHS = baseline("sph", _shortest)
ALL_PAIRS = baseline("all-pairs", all_pairs_routes)
DOUBLING = baseline("doubling", doubling_routes)
SERVER_RINGS = baseline("server-rings", server_ring_routes)
HIERARCHICAL = baseline("hierarchical", hierarchical_routes)

BASELINES = (RING, DOUBLE_TREE, SHORTEST_PATHS, ALL_PAIRS, DOUBLING, SERVER_RINGS, HIERARCHICAL)
