"""The baselines, ready for the registry: what communication libraries do."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache

from hetesynth.model.collective import PERSONALIZED
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.baselines.ring_search import Ring, RingSet, Wiring, ring_sets
from hetesynth.search.copy_problem import CopyProblem, Load, NoRoute, Routes, arcs_between
from hetesynth.search.list_scheduling import list_schedule
from hetesynth.search.peers import within_peers
from hetesynth.search.search import Search, Strategy, excess
from hetesynth.search.server_groups import ServerGraph, ring_servers


def _moves(tables: CopyProblem) -> list[tuple[Rank, frozenset[Rank]]]:
    """Return where each chunk starts, and who else wants it. NoRoute: a chunk starts at several ranks."""
    collective = tables.problem.collective
    if any(len(pre) > 1 for pre in collective.pre):
        raise NoRoute("a chunk starts at several ranks")
    return [(min(pre), post - pre) for pre, post in collective.ends]


def all_pairs_routes(tables: CopyProblem) -> Routes:
    """Return routes straight to each that wants a chunk, as NCCL sends alltoall. NoRoute: a link is missing."""
    moves, graph = _moves(tables), ServerGraph(tables)
    return [[graph.take(origin, r) for r in sorted(targets)] for origin, targets in moves]


def shortest_path_routes(tables: CopyProblem) -> Routes:
    """Return routes along shortest paths, whatever the load: the heuristic SPH of SCALE-CCL's evaluation."""
    arcs = tables.problem.arcs
    narrowest = [min(tables.resources[r].capacity for r in used) for used in tables.resources_of]
    trees: dict[Rank, dict[Rank, int]] = {}
    routes = []
    for origin, targets in _moves(tables):
        if origin not in trees:
            into: dict[Rank, int] = {}  # the arc by which a shortest path enters each rank
            done: set[Rank] = set()
            queue = [(0.0, origin, -1)]
            while queue:
                distance, at, by = heapq.heappop(queue)
                if at not in done:
                    done.add(at)
                    into[at] = by
                    for a in tables.out_of[at]:
                        heapq.heappush(queue, (distance + 1 / narrowest[a], arcs[a].dst, a))
            trees[origin] = into
        route: set[int] = set()
        for rank in sorted(targets):
            at = rank
            while at != origin:
                if at not in trees[origin]:
                    raise NoRoute(f"rank {rank} cannot be reached")
                route.add(trees[origin][at])
                at = arcs[trees[origin][at]].src
        routes.append(sorted(route))
    return routes


def doubling_routes(tables: CopyProblem) -> Routes:
    """Return routes on which in round i a rank passes all it holds to that whose number differs in bit i (Thakur,
    Rabenseifner and Gropp 2005). NoRoute: the number of ranks is no power of two, or such a pair has no link."""
    n = tables.problem.ranks
    if n & (n - 1):
        raise NoRoute(f"{n} ranks are no power of two")
    graph = ServerGraph(tables)
    routes = []
    for origin, targets in _moves(tables):
        route, holders = [], [origin]
        for bit in (1 << i for i in range(n.bit_length() - 1)):
            low = 2 * bit - 1  # later rounds lead to the ranks that agree in these bits
            for u in list(holders):
                holders.append(u ^ bit)
                if any(r & low == (u ^ bit) & low for r in targets):
                    route.append(graph.take(u, u ^ bit))
        routes.append(route)
    return routes


def hierarchical_routes(tables: CopyProblem) -> Routes:
    """Return routes between servers first, to the rank with the same number in each, then inside each server; a
    chunk that one rank wants goes inside its own server first. NoRoute: links between servers are missing."""
    graph = ServerGraph(tables)
    routes = []
    for origin, targets in _moves(tables):
        home = graph.server_of[origin]
        number = graph.servers[home].index(origin)
        route: list[int] = []
        for s in sorted({graph.server_of[r] for r in targets}):
            inside = [r for r in graph.servers[s] if r in targets]
            if s == home:
                route += [graph.take(origin, r) for r in inside]
            elif len(targets) == 1:
                # first to the rank of the own server with the goal's number, then across
                goal, mates = inside[0], graph.servers[home]
                mate = mates[graph.servers[s].index(goal) % len(mates)]
                if mate == origin or graph.arc(mate, goal) is None or graph.arc(origin, mate) is None:
                    route.append(graph.take(origin, goal))
                else:
                    route += [graph.take(origin, mate), graph.take(mate, goal)]
            else:
                landing = graph.servers[s][number % len(graph.servers[s])]
                if graph.arc(origin, landing) is None:
                    landing = tables.problem.arcs[graph.bridge((origin,), graph.servers[s])].dst
                route += [graph.take(origin, landing), *(graph.take(landing, r) for r in inside if r != landing)]
        routes.append(route)
    return routes


def ring_routes(tables: CopyProblem, orders: Sequence[Sequence[Rank]]) -> Routes:
    """Return routes along rings, one a channel: chunks go around the ring of their part as far as they are wanted.
    ``orders``: ranks of each ring in a dump of NCCL's graph; empty: rings are searched. NoRoute: there is none."""
    collective, arcs = tables.problem.collective, tables.problem.arcs
    moves = _moves(tables)
    rings: Sequence[Ring]
    if orders:
        graph, stated = ServerGraph(tables), list[Ring]()
        for order in orders[:32]:
            if sorted(order) != list(range(tables.problem.ranks)):
                raise NoRoute("a ring must visit every rank once")
            stated.append(tuple(graph.need(u, v) for u, v in zip(order, [*order[1:], order[0]], strict=True)))
            for arc in stated[-1]:
                graph.load.take(arc)
        rings = stated
    else:
        on, parts = wiring(tables), min(32, collective.chunks_per_rank)

        def cost(rings: RingSet) -> float:
            """Return the steps that the fullest resource works for a chunk of each part, parts in turn."""
            load = Counter[int]()
            for k, ring in enumerate(rings.rings):
                for a in ring:
                    for r in on.uses[a]:
                        load[r] += len(range(k, parts, len(rings.rings)))
            return max(carried / on.rates[r] for r, carried in load.items())

        sets = [s for s in ring_sets(on) if len(s.rings) <= parts]
        rings = min(sets, key=lambda s: (cost(s), -len(s.rings))).rings
    routes = []
    for chunk, (origin, targets) in zip(collective.chunks, moves, strict=True):
        ring = rings[chunk.part % len(rings)]
        at = next(i for i, a in enumerate(ring) if arcs[a].src == origin)
        turned = [*ring[at:], *ring[:at]][: len(ring) - 1]
        last = max((i for i, a in enumerate(turned) if arcs[a].dst in targets), default=-1)
        routes.append(turned[: last + 1])
    return routes


def wiring(tables: CopyProblem) -> Wiring:
    """Return the links on which rings are searched, with rates in chunks per step."""
    return Wiring(
        ends=tuple((arc.src, arc.dst) for arc in tables.problem.arcs),
        uses=tuple(map(tuple, tables.resources_of)),
        rates=tuple(float(resource.capacity) for resource in tables.resources),
        servers=tuple(ring_servers(tables.problem)),
    )


ServerRing = list[int]
"""The arc from each server to the next: the ring leaves the one server by the arc's source and enters the other by
its destination."""


def server_ring_routes(tables: CopyProblem) -> Routes:
    """Return routes around rings of servers, as many rings as spread the load best, then, as thread blocks have
    few steps, what a rank sends and receives. NoRoute: one server only, chunks not for all, or links missing.

    A ring has in each server one rank that takes chunks from the server before and one that sends them on, the
    same one where that can be. So a NIC exchanges with one other all the time, and thread blocks that do not wait
    for each other still fill it. In an allreduce both phases turn the same way: the reversed problem of its first
    phase (eq. 8 holds there) is given the rings of the graph as it stands, walked backwards.
    """
    collective = tables.problem.collective
    if any(len(pre) != 1 or len(pre | post) != tables.problem.ranks for pre, post in collective.ends):
        raise NoRoute("some chunk does not go from one rank to all others")
    forward = CopyProblem(tables.problem.reversed()) if tables.problem.exclusive_reduction else tables
    graph = ServerGraph(forward)
    if len(graph.servers) < 2:
        raise NoRoute("there is one server only")
    rings, arcs = list[ServerRing](), graph.tables.problem.arcs
    passing: dict[Rank, int] = defaultdict(int)  # how many rings enter and leave by a rank
    best: tuple[float, int, Routes] | None = None
    for _ in range(8):
        ring = ServerRing()
        for s, sources in enumerate(graph.servers):
            following = (s + 1) % len(graph.servers)
            targets = graph.servers[following]
            bridges = [(a, u, v) for u in sources for v in targets for a in graph.between.get((u, v), ())]
            if not bridges:
                raise NoRoute(f"no link from ranks {list(sources)} to ranks {list(targets)}")
            into = arcs[ring[-1]].dst if ring else None
            out = arcs[ring[0]].src if ring and not following else None
            # the least loaded arc; of equal ones that which stays with the ranks where the ring enters one server
            # and leaves the other, then with ranks that few rings use
            moved = ((into not in (None, u)) + (out not in (None, v)) for _, u, v in bridges)
            *_, bridge, _, _ = min(
                (graph.load.after(a), away, passing[u] + passing[v], a, u, v)
                for away, (a, u, v) in zip(moved, bridges, strict=True)
            )
            ring.append(bridge)
        for arc in ring:
            graph.load.take(arc)
            for rank in (arcs[arc].src, arcs[arc].dst):
                passing[rank] += 1
        rings.append(ring)
        routing = _RingRouting(tables, graph, rings)
        routes = routing.routes()
        ends = Counter(rank for route in routes for a in route for rank in (arcs[a].src, arcs[a].dst))
        load, most = routing.busiest(), max(ends.values())
        if best is None or load < 0.999 * best[0] or (load < 1.001 * best[0] and most < 0.75 * best[1]):
            best = load, most, routes
    return best[2] if best else []


class _RingRouting:
    """The routes of all chunks on their rings, and the load that they put on every resource."""

    def __init__(self, tables: CopyProblem, graph: ServerGraph, rings: Sequence[ServerRing]) -> None:
        self.tables, self.graph, self.rings = tables, graph, rings
        self.backwards = tables.problem.exclusive_reduction
        self.between = arcs_between(tables)
        self.load = Load(tables)
        arcs = graph.tables.problem.arcs  # turned around where rings are walked backwards
        self.leaves = [[arcs[a].src for a in ring] for ring in rings]
        self.enters = [[arcs[a].dst for a in (ring[-1], *ring[:-1])] for ring in rings]

    def busiest(self) -> float:
        loads = zip(self.load.carried, self.tables.resources, strict=True)
        return max((carried / r.capacity for carried, r in loads), default=0.0)

    def routes(self) -> Routes:
        """Return routes of a server's chunks spread over rings, which leave by a chunk's own rank if possible."""
        chunks: dict[tuple[int, int], int] = defaultdict(int)  # how many, by (server, ring)
        routes: list[list[int]] = []
        for pre in self.tables.problem.collective.pre:
            origin = min(pre)
            home = self.graph.server_of[origin]
            exits = [ranks[home] for ranks in (self.enters if self.backwards else self.leaves)]
            _, _, number = min((chunks[home, i], rank != origin, i) for i, rank in enumerate(exits))
            chunks[home, number] += 1
            routes.append(self._tree(origin, home, number))
        return routes

    def _tree(self, origin: Rank, home: int, number: int) -> list[int]:
        servers, ring = self.graph.servers, self.rings[number]
        receivers = (self.leaves if self.backwards else self.enters)[number]
        turn = -1 if self.backwards else 1
        at, route = home, self._fan(origin, servers[home], ring[home])
        for _ in range(len(servers) - 1):
            following = (at + turn) % len(servers)
            bridge = ring[following if self.backwards else at]
            self.load.take(bridge)
            route += [bridge, *self._fan(receivers[following], servers[following], bridge)]
            at = following
        return route

    def _fan(self, start: Rank, ranks: Sequence[Rank], bridge: int) -> list[int]:
        """Return arcs from ``start`` to all of ``ranks`` in few hops, over those loaded least. NoRoute: none."""
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


def double_tree_routes(tables: CopyProblem) -> Routes:
    """Return routes along NCCL's double binary trees: two over the servers, a rank inner in one is a leaf of the
    other, and a chain inside each. Even parts take the first, odd parts the second. NoRoute: a link is missing."""
    graph = ServerGraph(tables)
    collective = tables.problem.collective
    number = min(32, max(2, collective.chunks_per_rank))
    trees = [_tree(graph, part) for part in range(number)]
    routes = []
    for k, chunk in enumerate(collective.chunks):
        edges = trees[(chunk.part if collective.chunks_per_rank > 1 else k) % len(trees)]
        routes.append(_out_of(graph, edges, collective.pre[k]))
    return routes


def parents(n: int) -> tuple[list[int | None], list[int | None]]:
    """Return the parent of every server in both trees (Sanders, Speck and Traeff 2009), as NCCL numbers them; None
    for the root. The second tree is the first, shifted by one or mirrored."""
    first: list[int | None] = [None]
    for i in range(1, n):  # a parent clears the lowest set bit and sets the next
        bit = i & -i
        up = (i ^ bit) | (bit << 1)
        first.append(up if up < n else i ^ bit)
    if n % 2:
        second = [None if (p := first[(i - 1) % n]) is None else (p + 1) % n for i in range(n)]
    else:
        second = [None if (p := first[n - 1 - i]) is None else n - 1 - p for i in range(n)]
    return first, second


def _tree(graph: ServerGraph, part: int) -> list[tuple[Rank, Rank]]:
    """Return the edges of one tree over ranks: chains inside servers, the least loaded links between them."""
    servers, arcs = graph.servers, graph.tables.problem.arcs
    tree: list[int] = []
    for s, up in enumerate(parents(len(servers))[part % 2]):
        if up is not None:
            tree.append(graph.bridge(servers[up], servers[s]))
            graph.load.take(tree[-1])
    for ranks in servers:
        for arc in graph.path_through(ranks, ranks[part % len(ranks)]):
            graph.load.take(arc)
            tree.append(arc)
    return [(arcs[a].src, arcs[a].dst) for a in tree]


def _out_of(graph: ServerGraph, edges: list[tuple[Rank, Rank]], origins: frozenset[Rank]) -> list[int]:
    """Return the arcs of the tree of ``edges``, turned away from ``origins``."""
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


Router = Callable[[CopyProblem], Routes]


def _or_all_pairs(router: Router) -> Router:
    """Return ``router``, where NCCL has it; for alltoall, gather and scatter one that sends to each rank."""
    return lambda tables: (all_pairs_routes if tables.problem.collective.name in PERSONALIZED else router)(tables)


def few_peers_routes(tables: CopyProblem) -> Routes:
    """Return shortest paths; where these take too many peers, shortest paths over links to few others."""
    routes = shortest_path_routes(tables)
    few = None if excess(tables.problem, {a for r in routes for a in r}) is None else within_peers(tables.problem)
    return routes if few is None else shortest_path_routes(few)


def baseline(name: str, router: Router) -> Strategy:
    """Return a strategy that offers the one schedule of the routes of ``router``."""

    @lru_cache(maxsize=1)
    def routed(problem: Problem) -> tuple[CopyProblem, Routes]:
        tables = CopyProblem(problem)
        return tables, router(tables)

    def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
        try:
            _, routes = routed(problem)
        except NoRoute as missing:
            return str(missing)
        return excess(problem, (a for route in routes for a in route))

    def improve(search: Search) -> None:
        tables, routes = routed(search.problem)
        routed.cache_clear()
        schedule = list_schedule(tables, routes, search.may_leave)
        if schedule is not None:
            search.offer(schedule, name)

    return Strategy(name, improve, refuses)


def ring_strategy(orders: Sequence[Sequence[int]], first_link: tuple[int, int]) -> Strategy:
    """Return a strategy of NCCL's rings in stated orders of ranks. ``first_link``: ends of link 0, by which a
    problem that is solved backwards is recognized, so that its rings turn the same way in the end."""
    backwards = [list(reversed(order)) for order in orders]

    def router(tables: CopyProblem) -> Routes:
        arc = tables.problem.arcs[0]
        return ring_routes(tables, orders if (arc.src, arc.dst) == first_link else backwards)

    return baseline("ring", _or_all_pairs(router))


RING = baseline("ring", _or_all_pairs(lambda tables: ring_routes(tables, ())))
DOUBLE_TREE = baseline("double-tree", _or_all_pairs(double_tree_routes))
SHORTEST_PATHS = baseline("sph", few_peers_routes)
ALL_PAIRS = baseline("all-pairs", all_pairs_routes)
DOUBLING = baseline("doubling", doubling_routes)
SERVER_RINGS = baseline("server-rings", server_ring_routes)
HIERARCHICAL = baseline("hierarchical", hierarchical_routes)
