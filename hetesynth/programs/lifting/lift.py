"""Lifting: any program or schedule -> what it moves, as a schedule on given links.

A schedule keeps one value of a chunk at a rank. So the values that a program uses there are put in line as sums
that grow: the first line starts from the rank's own input, every further one from a copy that takes its place;
what cannot be put in line is refused. Arrivals that nobody needs are left out.

Without given links the graph is the pairs that communicate, as wide as one tick needs. Moves get ticks by serial
schedule generation (Kolisch 1996), then double justification (Valls, Ballestin and Quintanilla 2005), which never
takes longer. Moves that each must leave before the other's arrival start together."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import pairwise

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank
from hetesynth.programs.lifting.dataflow import OWN, Flow, Value, broken, flow_of, flow_of_schedule


@dataclass(frozen=True)
class Lifted:
    """A schedule that moves what a program moves. ``arrivals``: chunks that the program sends. ``dropped``: those
    of them that brought what was there or what nobody uses. ``pieces``: chunks of the schedule in one of the
    program."""

    problem: Problem
    schedule: Schedule
    arrivals: int
    dropped: int
    pieces: int = 1


def lift(program: Program, collective: Collective, pieces: int = 1, on: Problem | None = None) -> Lifted:
    """Return the schedule of ``program`` on the links of ``on``, or else on those that it uses.

    ``collective``: the one that the program carries out, of the size that ``dataflow.shape`` returns with
    ``pieces``. Raises HetesynthError: HS702 the program is not right, HS703 no schedule can say what it does,
    HS704 a link that ``on`` does not have, HS705 capacities that are too small for transfers that must go
    together."""
    return _lifted(flow_of(program, collective, pieces), collective, pieces, on)


def lift_schedule(problem: Problem, schedule: Schedule, on: Problem) -> Lifted:
    """Return the moves of ``schedule`` of ``problem`` as a schedule on the links of ``on``. Raises as ``lift``."""
    return _lifted(flow_of_schedule(problem, schedule), problem.collective, 1, on)


def _lifted(flow: Flow, collective: Collective, pieces: int, on: Problem | None) -> Lifted:
    whole = _Lines(flow, collective).moves()
    graph = whole.repeated(pieces)
    groups = _groups(graph)
    if on is not None:
        problem = replace(on, collective=collective)
    else:  # the pairs that communicate, as wide as one tick of the program, or one group of moves, needs
        width: Counter[tuple[int, int]] = Counter()
        ticks: dict[int, list[int]] = defaultdict(list)
        for i, move in enumerate(graph.moves):
            ticks[move.tick].append(i)
        for together in (*ticks.values(), *groups.members):
            width |= Counter((graph.moves[i].src, graph.moves[i].dst) for i in together)
        arcs = tuple(Arc(src, dst, width[src, dst]) for src, dst in sorted(width))
        problem = Problem(collective.ranks, collective.ranks, (), arcs, (), collective)
    return Lifted(
        problem=problem,
        schedule=_placed(graph, groups, problem),
        arrivals=len(flow.arrivals),
        dropped=len(flow.arrivals) - len(whole.moves),
        pieces=pieces,
    )


# -- arrivals to moves


@dataclass(frozen=True, slots=True)
class _Move:
    """An arrival that is needed. ``tick``: when the program sends it. ``place``: the instruction that sends it."""

    src: Rank
    dst: Rank
    chunk: int
    reduce: bool
    tick: int
    place: str


@dataclass
class _Moves:
    """A graph of waiting. Node i is move i; further nodes, up to ``nodes``, are moments between moves. An edge (u,
    v, w): v starts w ticks after u or later."""

    moves: list[_Move] = field(default_factory=list)
    nodes: int = 0
    edges: list[tuple[int, int, int]] = field(default_factory=list)

    def repeated(self, pieces: int) -> _Moves:
        """Return the graph with every move once for each piece of its chunk; pieces do not wait for each other."""
        if pieces == 1:
            return self
        count = len(self.moves)
        moves = [replace(m, chunk=m.chunk + piece) for piece in range(pieces) for m in self.moves]
        further = self.nodes - count

        def node(number: int, piece: int) -> int:
            return piece * count + number if number < count else pieces * count + piece * further + number - count

        edges = [(node(u, p), node(v, p), w) for p in range(pieces) for u, v, w in self.edges]
        return _Moves(moves, pieces * self.nodes, edges)


@dataclass(slots=True)
class _Use:
    """A value that is needed at a rank: the arrivals elsewhere that it makes, and whether the rank owes it."""

    value: Value
    users: list[int] = field(default_factory=list)
    owed: bool = False


class _Lines:
    """The moves of ``flow`` that ``collective`` needs. HetesynthError HS702 when a final value is not complete,
    HS703 when a rank's values cannot be put in line."""

    def __init__(self, flow: Flow, collective: Collective) -> None:
        self.flow = flow
        self.uses: dict[tuple[Rank, int], dict[int, _Use]] = defaultdict(dict)
        live: set[int] = set()
        needed: list[tuple[tuple[Rank, int], int, int]] = []
        for (rank, k), mask in sorted(flow.final.items()):
            if mask != sum(1 << r for r in collective.pre[k]):
                raise broken(f"gpu {rank} does not end with all of chunk {k}")
            needed.append(((rank, k), mask, OWN))
        while needed:  # from what ranks owe back to what they must be sent, by the arrivals that formed it first
            at, mask, user = needed.pop()
            seen = mask in self.uses[at]
            use = self.uses[at].setdefault(mask, _Use(flow.values[at][mask]))
            if user == OWN:
                use.owed = True
            else:
                use.users.append(user)
            for leaf in () if seen else sorted(use.value.leaves - {OWN}):
                if leaf not in live:
                    live.add(leaf)
                    arrival = flow.arrivals[leaf]
                    needed.append(((arrival.src, at[1]), arrival.value.mask, leaf))
        self.index = {arrival: i for i, arrival in enumerate(sorted(live))}

    def moves(self) -> _Moves:
        """Return the graph of needed moves: whether each is added, and what waits for what at each rank."""
        reduced: dict[int, bool] = {}
        graph = _Moves(nodes=len(self.index))
        index = self.index
        for at in sorted(self.uses):
            moments: tuple[int, ...] = ()  # when the last value was there, and when its last use had started
            for line in self._lines(at):
                before: frozenset[int] = frozenset((OWN,))
                for position, use in enumerate(line):
                    fresh = sorted(use.value.leaves - before, key=self._arrival_order)
                    for n, leaf in enumerate(fresh):
                        reduced[leaf] = n > 0 or position > 0 or OWN in use.value.leaves
                        if n and not reduced[fresh[0]]:
                            graph.edges.append((index[fresh[0]], index[leaf], 1))
                        graph.edges += [(moment, index[leaf], 0) for moment in moments]
                    arrived, done = graph.nodes, graph.nodes + 1
                    graph.nodes += 2
                    graph.edges += [(index[leaf], arrived, 1) for leaf in fresh]
                    graph.edges += [(moment, arrived, 0) for moment in moments[:1]]
                    graph.edges.append((arrived, done, 0))
                    for user in use.users:
                        graph.edges += [(arrived, index[user], 0), (index[user], done, 0)]
                    moments = arrived, done
                    before = use.value.leaves
        for arrival in self.index:
            c = self.flow.arrivals[arrival]
            graph.moves.append(_Move(c.src, c.dst, c.value.chunk, reduced[arrival], c.start, c.place))
        return graph

    def _lines(self, at: tuple[Rank, int]) -> list[list[_Use]]:
        """The values needed at ``at``, in lines of growing sums; the line with what the rank owes comes last."""
        lines: list[list[_Use]] = []
        uses = sorted(self.uses[at].values(), key=lambda u: (len(u.value.leaves), u.value.ready, u.value.mask))
        for use in uses:
            leaves = use.value.leaves
            related = [line for line in lines if line[-1].value.leaves & leaves]
            if not related:
                lines.append([use])
            elif len(related) == 1 and related[0][-1].value.leaves <= leaves:
                related[0].append(use)
            else:
                raise self._apart(at, use, related[0])
        lines.sort(key=lambda line: (line[-1].owed, OWN not in line[0].value.leaves, line[0].value.ready))
        for earlier, line in pairwise(lines):  # own input comes first; a copy must bring what was not there
            if OWN in line[0].value.leaves:
                raise self._apart(at, earlier[-1], line)
            brought = self.flow.arrivals[min(line[0].value.leaves, key=self._arrival_order)].value.mask
            if not brought & ~earlier[-1].value.mask:
                raise self._apart(at, line[0], earlier)
        return lines

    def _arrival_order(self, leaf: int) -> tuple[int, int]:
        return self.flow.arrivals[leaf].start, leaf

    def _apart(self, at: tuple[Rank, int], use: _Use, line: list[_Use]) -> HetesynthError:
        places = [self.flow.arrivals[min(x.users)].place if x.users else "its result" for x in (use, line[-1])]
        return _unsayable(
            f"gpu {at[0]} keeps two values of chunk {at[1]} apart, for {' and '.join(places)}; "
            "a schedule has one value of a chunk at a rank, which sums or replaces what it held"
        )


def _unsayable(why: str) -> HetesynthError:
    return HetesynthError(
        why, code="HS703", help="the program can be run and judged, but not said as a schedule", exit_code=1
    )


# -- moves to ticks and links


@dataclass(frozen=True)
class _Groups:
    """Moves by group (a group may be empty), and for each group the later ones with the ticks between."""

    members: tuple[tuple[int, ...], ...]
    later: tuple[tuple[tuple[int, int], ...], ...]

    def turned(self) -> _Groups:
        """Return the groups with time running backwards."""
        earlier: list[list[tuple[int, int]]] = [[] for _ in self.members]
        for g, edges in enumerate(self.later):
            for h, ticks in edges:
                earlier[h].append((g, ticks))
        return _Groups(self.members, tuple(map(tuple, earlier)))

    def missing(self) -> list[int]:
        """Return for each group the number of groups that it waits for."""
        counts = [0] * len(self.members)
        for edges in self.later:
            for h, _ in edges:
                counts[h] += 1
        return counts


def _groups(graph: _Moves) -> _Groups:
    """Return strongly connected moves as groups. Raises HetesynthError HS703 if a move would wait for itself."""
    import networkx as nx

    waits: nx.DiGraph[int] = nx.DiGraph()
    waits.add_nodes_from(range(graph.nodes))
    waits.add_edges_from((u, v) for u, v, _ in graph.edges)
    group = [0] * graph.nodes
    members: list[tuple[int, ...]] = []
    for component in nx.strongly_connected_components(waits):
        for node in component:
            group[node] = len(members)
        members.append(tuple(sorted(node for node in component if node < len(graph.moves))))
    later: list[dict[int, int]] = [{} for _ in members]
    for u, v, ticks in graph.edges:
        g, h = group[u], group[v]
        if g != h:
            later[g][h] = max(ticks, later[g].get(h, 0))
        elif ticks:
            move = graph.moves[members[g][0]]
            raise _unsayable(
                f"{move.place} sends chunk {move.chunk} from a value that has to be kept while a later one is "
                "formed; a schedule has one value of a chunk at a rank"
            )
    return _Groups(tuple(members), tuple(tuple(sorted(edges.items())) for edges in later))


def _placed(graph: _Moves, groups: _Groups, problem: Problem) -> Schedule:
    """Return the shortest schedule that some rounds of placing find. Raises HetesynthError HS704 for moves between
    ranks that no link joins, HS705 for moves that must start together and exceed a capacity."""
    moves = graph.moves
    placer = _Placer(moves, problem)
    # priorities: by the tick in the program; longest rest first; by the tick as late as the longest path allows
    tick = [min((moves[i].tick for i in members), default=0) for members in groups.members]
    rest = [0] * len(groups.members)  # the ticks that must follow the start of each group, by the longest path
    waiting = {g: [h for h, _ in later] for g, later in enumerate(groups.later)}
    for g in TopologicalSorter(waiting).static_order():
        rest[g] = max((ticks + rest[h] for h, ticks in groups.later[g]), default=0)
    keys = [tick, [-r for r in rest], [t * (len(moves) + 1) - r for t, r in zip(tick, rest, strict=True)]]
    least = max(1 + max(rest, default=0), placer.busiest()) if moves else 0
    best = min((placer.forward(groups, key) for key in keys), key=lambda plan: plan.length)
    backwards = groups.turned()
    rng = random.Random(0)  # a fixed seed: the same file always becomes the same schedule
    for _ in range(min(60, 60_000 // (len(moves) + 1))):  # large programs get fewer rounds, so as to take seconds
        if best.length <= least:
            break
        late = placer.forward(backwards, [-start - 2 * rng.random() for start in best.starts])
        early = placer.forward(groups, [-start for start in late.starts])
        if early.length <= best.length:
            best = early
    return Schedule.of(
        Transfer(start, start + 1, moves[i].chunk, best.links[i], moves[i].reduce)
        for members, start in zip(groups.members, best.starts, strict=True)
        for i in members
    )


@dataclass(frozen=True)
class _Plan:
    starts: list[int]  # by group
    links: dict[int, int]  # by move
    length: int


class _Placer:
    """Serial schedule generation. It is not ``search/list_scheduling.py``, as here moves wait for several others
    by ticks of their own, start in groups and choose among parallel links."""

    def __init__(self, moves: Sequence[_Move], problem: Problem) -> None:
        self.moves = moves
        self.capacity = [resource.capacity for resource in problem.binding_resources]
        self.of_link: list[list[int]] = [[] for _ in problem.arcs]
        for r, resource in enumerate(problem.binding_resources):
            for a in resource.arcs:
                self.of_link[a].append(r)
        # eq. 8, where the problem asks for it: additions to one chunk at a rank share a resource
        resource_of: dict[tuple[int, int], int] = {}
        self.alone: list[list[int]] = [[] for _ in moves]
        for i, move in enumerate(moves):
            if problem.exclusive_reduction and move.reduce:
                shared = resource_of.setdefault((move.dst, move.chunk), len(self.capacity))
                self.capacity += [1] * (shared == len(self.capacity))
                self.alone[i].append(shared)
        self.links: dict[tuple[int, int], list[int]] = defaultdict(list)
        for a in sorted(range(len(problem.arcs)), key=lambda a: (-problem.arcs[a].capacity, a)):
            self.links[problem.arcs[a].src, problem.arcs[a].dst].append(a)
        for move in moves:
            if (move.src, move.dst) not in self.links:
                raise HetesynthError(
                    f"{move.place} sends to rank {move.dst}; there is no link from {move.src} to {move.dst}",
                    code="HS704",
                    help="give the cluster that the program was made for, or none",
                )

    def _needs(self, i: int, link: int) -> list[int]:
        """The resources that move ``i`` draws from on ``link``."""
        return self.of_link[link] + self.alone[i] if self.alone[i] else self.of_link[link]

    def busiest(self) -> int:
        """Return the least ticks that the most loaded resource needs for the moves that have only one link."""
        load = [0] * len(self.capacity)
        for i, move in enumerate(self.moves):
            links = self.links[move.src, move.dst]
            for r in self._needs(i, links[0]) if len(links) == 1 else ():
                load[r] += 1
        return max((-(-n // c) for n, c in zip(load, self.capacity, strict=True)), default=0)

    def forward(self, groups: _Groups, priority: Sequence[float]) -> _Plan:
        """Return the plan of serial generation in the order of ``priority``, the least first."""
        used: Counter[tuple[int, int]] = Counter()  # of each resource, by tick

        def has_room(i: int, link: int, tick: int) -> bool:
            return all(used[r, tick] < self.capacity[r] for r in self._needs(i, link))

        def take(i: int, link: int, tick: int) -> None:
            links[i] = link
            used.update((r, tick) for r in self._needs(i, link))

        starts = [0] * len(groups.members)
        links: dict[int, int] = {}
        missing = groups.missing()
        ready = [(priority[g], g) for g, count in enumerate(missing) if not count]
        heapify(ready)
        length = 0
        while ready:
            _, g = heappop(ready)
            members, last = groups.members[g], max(starts[g], length)  # then every tick is empty
            while True:  # together in one tick, or not at all
                placed: list[int] = []
                for i in members:
                    candidates = self.links[self.moves[i].src, self.moves[i].dst]
                    link = next((a for a in candidates if has_room(i, a, starts[g])), None)
                    if link is None:
                        break
                    placed.append(i)
                    take(i, link, starts[g])
                if len(placed) == len(members):
                    break
                for i in placed:
                    used.subtract((r, starts[g]) for r in self._needs(i, links[i]))
                if starts[g] == last:
                    move = self.moves[members[0]]
                    raise HetesynthError(
                        f"{len(members)} transfers, that of {move.place} among them, must happen in one step, "
                        f"since each sends a value of chunk {move.chunk} that the others change; the capacities "
                        "are too small for that",
                        code="HS705",
                        help="import without --topo, or synthesize a schedule for this cluster",
                        exit_code=1,
                    )
                starts[g] += 1
            if members:
                length = max(length, starts[g] + 1)
            for h, ticks in groups.later[g]:
                starts[h] = max(starts[h], starts[g] + ticks)
                missing[h] -= 1
                if not missing[h]:
                    heappush(ready, (priority[h], h))
        return _Plan(starts, links, length)
