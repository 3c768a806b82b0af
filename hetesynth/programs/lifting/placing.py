"""Moves -> ticks and links: list scheduling under capacities, then double justification.

In: moves with their waits, and a problem with links and capacities. Out: a schedule. Knows nothing of programs.

Serial schedule generation (Kolisch 1996): moves in the order of a priority, each at the earliest tick at which
what it waits for is over and some link of its pair has room. Generated from the starts of a schedule that keeps
all waits and capacities, no move starts later than there. Then double justification (Valls, Ballestin and
Quintanilla 2005): the same backwards and forwards again, which never takes longer.

Moves that must start together (each has to leave before the other's arrival changes what it sends) are one
group: they get ticks together or not at all.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import DEFAULT
from hetesynth.policy.lifting import LiftingPolicy
from hetesynth.programs.lifting.accumulation import Move, Moves


@dataclass(frozen=True)
class Groups:
    """Moves by group (a group may be empty), and for each group the later ones with the ticks between."""

    members: tuple[tuple[int, ...], ...]
    later: tuple[tuple[tuple[int, int], ...], ...]

    def turned(self) -> Groups:
        """The same with time running backwards."""
        earlier: list[list[tuple[int, int]]] = [[] for _ in self.members]
        for g, edges in enumerate(self.later):
            for h, ticks in edges:
                earlier[h].append((g, ticks))
        return Groups(self.members, tuple(map(tuple, earlier)))


def groups_of(graph: Moves) -> Groups:
    """Strongly connected moves together. Raises HetesynthError HS703 when a move would have to wait for itself."""
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
            raise _circle(graph, members[g])
    return Groups(tuple(members), tuple(tuple(sorted(edges.items())) for edges in later))


def _circle(graph: Moves, members: tuple[int, ...]) -> HetesynthError:
    move = graph.moves[members[0]]
    return HetesynthError(
        f"{move.place} sends chunk {move.chunk} from a value that has to be kept while a later one is formed; a "
        "schedule has one value of a chunk at a rank",
        code="HS703",
        help="the program can be run and judged, but not said as a schedule",
        exit_code=1,
    )


def placed(
    graph: Moves, groups: Groups, problem: Problem, policy: LiftingPolicy = DEFAULT.lifting
) -> Schedule:  # fmt: skip
    """The shortest schedule of all rounds. Raises HetesynthError HS704 for moves between ranks that no link joins,
    HS705 for moves that must start together and exceed a capacity."""
    placer = _Placer(graph.moves, problem)
    keys = _priorities(graph.moves, groups)
    least = max(1 + max(_rest(groups), default=0), placer.busiest()) if graph.moves else 0
    best = min((placer.forward(groups, key) for key in keys), key=lambda plan: plan.length)
    backwards = groups.turned()
    rng = random.Random(0)  # a fixed seed: the same file always becomes the same schedule
    rounds = min(policy.justification_rounds, policy.justified_moves // (len(graph.moves) + 1))
    for _ in range(rounds):
        if best.length <= least:
            break
        late = placer.forward(backwards, [-start - rng.random() * policy.start_noise for start in best.starts])
        early = placer.forward(groups, [-start for start in late.starts])
        if early.length <= best.length:
            best = early
    return placer.schedule(best, groups)


def _priorities(moves: Sequence[Move], groups: Groups) -> list[list[int]]:
    """By the tick in the program; longest rest first; by the tick as late as the longest path allows."""
    tick = [min((moves[i].tick for i in members), default=0) for members in groups.members]
    rest = _rest(groups)
    longest = len(moves) + 1
    return [tick, [-r for r in rest], [t * longest - r for t, r in zip(tick, rest, strict=True)]]


def _rest(groups: Groups) -> list[int]:
    """The ticks that must follow the start of each group, by the longest path."""
    rest = [0] * len(groups.members)
    for g in reversed(_in_order(groups)):
        rest[g] = max((ticks + rest[h] for h, ticks in groups.later[g]), default=0)
    return rest


def _in_order(groups: Groups) -> list[int]:
    missing = [0] * len(groups.members)
    for edges in groups.later:
        for h, _ in edges:
            missing[h] += 1
    order = [g for g, count in enumerate(missing) if not count]
    for g in order:
        for h, _ in groups.later[g]:
            missing[h] -= 1
            if not missing[h]:
                order.append(h)
    return order


@dataclass(frozen=True)
class _Plan:
    starts: list[int]  # by group
    links: dict[int, int]  # by move
    length: int


class _Placer:
    """Serial schedule generation.

    Apart from ``search/list_scheduling.py``, which lifting may not import: here moves wait for several others
    by ticks of their own, start in groups and choose among parallel links.
    """

    def __init__(self, moves: Sequence[Move], problem: Problem) -> None:
        self.moves = moves
        self.capacity = [resource.capacity for resource in problem.binding_resources]
        self.of_link: list[list[int]] = [[] for _ in problem.arcs]
        for r, resource in enumerate(problem.binding_resources):
            for a in resource.arcs:
                self.of_link[a].append(r)
        self.alone = self._exclusions(problem)
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

    def _exclusions(self, problem: Problem) -> list[list[int]]:
        """Eq. 8, where the problem asks for it: additions to one chunk at a rank share a resource."""
        resource_of: dict[tuple[int, int], int] = {}
        alone: list[list[int]] = [[] for _ in self.moves]
        for i, move in enumerate(self.moves):
            if problem.exclusive_reduction and move.reduce:
                resource = resource_of.setdefault((move.dst, move.chunk), len(self.capacity))
                self.capacity += [1] * (resource == len(self.capacity))
                alone[i].append(resource)
        return alone

    def _needs(self, i: int, link: int) -> list[int]:
        """The resources that move ``i`` draws from on ``link``."""
        return self.of_link[link] + self.alone[i] if self.alone[i] else self.of_link[link]

    def busiest(self) -> int:
        """The ticks that the most loaded resource needs at least, counting moves that have no other link."""
        load = [0] * len(self.capacity)
        for i, move in enumerate(self.moves):
            links = self.links[move.src, move.dst]
            for r in self._needs(i, links[0]) if len(links) == 1 else ():
                load[r] += 1
        return max((-(-n // c) for n, c in zip(load, self.capacity, strict=True)), default=0)

    def forward(self, groups: Groups, priority: Sequence[float]) -> _Plan:
        """Serial generation in the order of ``priority``."""
        room = _Room(self.capacity)
        starts = [0] * len(groups.members)
        links: dict[int, int] = {}
        missing = [0] * len(groups.members)
        for edges in groups.later:
            for h, _ in edges:
                missing[h] += 1
        ready = [(priority[g], g) for g, count in enumerate(missing) if not count]
        heapify(ready)
        length = 0
        while ready:
            _, g = heappop(ready)
            members = groups.members[g]
            if members:
                starts[g] = self._place(members, starts[g], room, links)
                length = max(length, starts[g] + 1)
            for h, ticks in groups.later[g]:
                starts[h] = max(starts[h], starts[g] + ticks)
                missing[h] -= 1
                if not missing[h]:
                    heappush(ready, (priority[h], h))
        return _Plan(starts, links, length)

    def _place(self, members: tuple[int, ...], earliest: int, room: _Room, links: dict[int, int]) -> int:
        if len(members) == 1:
            (i,) = members
            candidates = self.links[self.moves[i].src, self.moves[i].dst]
            tick, _, link = min((room.first(self._needs(i, a), earliest), n, a) for n, a in enumerate(candidates))
            room.take(self._needs(i, link), tick)
            links[i] = link
            return tick
        for tick in range(earliest, max(earliest, room.end) + 1):
            if self._together(members, tick, room, links):
                return tick
        raise self._too_narrow(members)

    def _together(self, members: Iterable[int], tick: int, room: _Room, links: dict[int, int]) -> bool:
        """Take room for all of ``members`` in ``tick``, or for none."""
        reserved: list[list[int]] = []
        for i in members:
            move = self.moves[i]
            link = next((a for a in self.links[move.src, move.dst] if room.has(self._needs(i, a), tick)), None)
            if link is None:
                for other in reserved:
                    room.give_back(other, tick)
                return False
            reserved.append(self._needs(i, link))
            room.take(reserved[-1], tick)
            links[i] = link
        return True

    def _too_narrow(self, members: tuple[int, ...]) -> HetesynthError:
        move = self.moves[members[0]]
        return HetesynthError(
            f"{len(members)} transfers, that of {move.place} among them, must happen in one step, since each "
            f"sends a value of chunk {move.chunk} that the others change; the capacities are too small for that",
            code="HS705",
            help="import without --topo, or synthesize a schedule for this cluster",
            exit_code=1,
        )

    def schedule(self, plan: _Plan, groups: Groups) -> Schedule:
        """The transfers of ``plan``."""
        return Schedule.of(
            Transfer(start, start + 1, self.moves[i].chunk, plan.links[i], self.moves[i].reduce)
            for members, start in zip(groups.members, plan.starts, strict=True)
            for i in members
        )


class _Room:
    """What each resource still carries, by tick."""

    def __init__(self, capacity: list[int]) -> None:
        self.capacity = capacity
        self.used: list[dict[int, int]] = [{} for _ in capacity]
        self.next: list[dict[int, int]] = [{} for _ in capacity]
        self.end = 0  # from here on every tick is empty

    def first(self, resources: list[int], tick: int) -> int:
        """The first tick from ``tick`` on at which all ``resources`` have room."""
        while True:
            later = max((self._free(r, tick) for r in resources), default=tick)
            if later == tick:
                return tick
            tick = later

    def _free(self, r: int, tick: int) -> int:
        """With paths halved, as in union-find: ``next[r]`` leads past full ticks."""
        after = self.next[r]
        while tick in after:
            further = after[tick]
            if further in after:
                after[tick] = after[further]
            tick = further
        return tick

    def has(self, resources: list[int], tick: int) -> bool:
        return all(tick not in self.next[r] for r in resources)

    def take(self, resources: list[int], tick: int) -> None:
        self.end = max(self.end, tick + 1)
        for r in resources:
            used = self.used[r][tick] = self.used[r].get(tick, 0) + 1
            if used >= self.capacity[r]:
                self.next[r][tick] = tick + 1

    def give_back(self, resources: list[int], tick: int) -> None:
        for r in resources:
            self.used[r][tick] -= 1
            self.next[r].pop(tick, None)
