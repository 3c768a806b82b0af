"""Wires -> GPU-to-GPU links: for each ordered pair the direct wires, else the shortest ways past other hardware.

In: vertices and wires. Out: ``Link`` values in the order of (source, destination).
A way never enters a third GPU, and passes a NIC only between its host side and its network side. Ways that
cross fewer fabrics come first, then those with fewer wires. Knows nothing of the source.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.topology import Link, Vertex, Wire

_FABRIC_COST = 1 << 20

Hop = tuple[int, int]  # (wire, state next to the GPU)
Plan = list[tuple[int, int, tuple[int, ...]]]  # (first hop, last hop, wires between)
Character = tuple[str, Fraction, int, Fraction]  # kind, bandwidth, lanes, latency


def links_over(vertices: Sequence[Vertex], wires: Sequence[Wire], ranks: int) -> Iterator[Link]:
    """All links, in order of source, destination and path."""
    graph = _Graph(vertices, wires, ranks)
    character = _Characters(wires)
    for u in range(ranks):
        direct = graph.direct[u]
        for v in range(ranks):
            if u == v:
                continue
            if v in direct:
                for wire in direct[v]:
                    yield Link(u, v, wires[wire].kind, (wire,), *character.of((wire,))[1:])
                continue
            first, last = graph.first[u], graph.last[v]
            for i, j, between in graph.plan(u, v):
                path = (first[i][0], *between, last[j][0])
                yield Link(u, v, *_placed(path, character.of(path)))


def _placed(path: tuple[int, ...], of: Character) -> tuple[str, tuple[int, ...], Fraction, int, Fraction]:
    kind, bandwidth, lanes, latency = of
    return kind, path, bandwidth, lanes, latency


class _Characters:
    """Kind, rate and latency of a path, computed once for every sequence of equal wires."""

    def __init__(self, wires: Sequence[Wire]) -> None:
        self._wires = wires
        classes: dict[tuple[object, ...], int] = {}
        self._class = [classes.setdefault((w.kind, w.bandwidth, w.lanes, w.latency), len(classes)) for w in wires]
        self._known: dict[tuple[int, ...], Character] = {}

    def of(self, path: tuple[int, ...]) -> Character:
        classes = self._class
        key = tuple([classes[wire] for wire in path])
        found = self._known.get(key)
        if found is None:
            link = Link.over(0, 1, path, self._wires)
            found = self._known[key] = (link.kind, link.bandwidth, link.lanes, link.latency)
        return found


@dataclass(slots=True)
class _Reached:
    """Cost and last wire of the best way from one state to each other state."""

    cost: dict[int, int]
    via: dict[int, int]


class _Graph:
    """The wires between vertices that forward, each NIC split in a sending and a receiving state.

    States are vertex numbers; the receiving side of NIC ``v`` is ``v + len(vertices)``.
    """

    def __init__(self, vertices: Sequence[Vertex], wires: Sequence[Wire], ranks: int) -> None:
        self._vertices = vertices
        self._wires = wires
        self.direct: list[dict[int, list[int]]] = [{} for _ in range(ranks)]
        self.first: list[list[Hop]] = [[] for _ in range(ranks)]
        self.last: list[list[Hop]] = [[] for _ in range(ranks)]
        self._next: dict[int, list[tuple[int, int, int]]] = {}  # state -> (wire, state, cost)
        self._start: dict[int, int] = {}
        for index, wire in enumerate(wires):
            src_gpu, dst_gpu = wire.src < ranks, wire.dst < ranks
            if src_gpu and dst_gpu:
                self.direct[wire.src].setdefault(wire.dst, []).append(index)
            elif src_gpu:
                self.first[wire.src].append((index, wire.dst))
            elif dst_gpu:
                self.last[wire.dst].append((index, self._receiving(wire.src)))
            else:
                self._add(index, wire)
        self._from = [tuple(state for _, state in hops) for hops in self.first]
        self._to = [tuple(state for _, state in hops) for hops in self.last]
        self._plans: dict[tuple[tuple[int, ...], tuple[int, ...]], Plan] = {}
        self._reach: dict[int, _Reached] = {}

    def _receiving(self, vertex: int) -> int:
        return vertex + len(self._vertices) if self._vertices[vertex].kind == "nic" else vertex

    def _add(self, index: int, wire: Wire) -> None:
        """A wire between forwarding vertices; next to a NIC, its other end says which side it is on."""
        src, dst = self._vertices[wire.src].kind, self._vertices[wire.dst].kind
        to_network = dst in ("fabric", "nic")
        from_network = src in ("fabric", "nic")
        source = wire.src if to_network else self._receiving(wire.src)
        target = self._receiving(wire.dst) if from_network else wire.dst
        cost = 1 + (_FABRIC_COST if dst == "fabric" and src != "fabric" else 0)
        self._next.setdefault(source, []).append((index, target, cost))

    def plan(self, u: int, v: int) -> Plan:
        """The ways from ``u`` to ``v``, shared by all pairs with the same neighbours."""
        key = (self._from[u], self._to[v])
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._ways(*key)
        return found

    def _ways(self, first: tuple[int, ...], last: tuple[int, ...]) -> Plan:
        """As many ways as the side with more equally good hops has, i-th with i-th where that is shortest."""
        costs = {
            (i, j): reached.cost[b]
            for i, a in enumerate(first)
            for reached in [self._reached(a)]
            for j, b in enumerate(last)
            if b in reached.cost
        }
        if not costs:
            return []
        best = min(costs.values())
        good = [pair for pair in costs if costs[pair] == best]
        ins, outs = sorted({i for i, _ in good}), sorted({j for _, j in good})
        chosen = []
        for k in range(max(len(ins), len(outs))):
            want = (ins[k % len(ins)], outs[k % len(outs)])
            fixed = 0 if len(ins) >= len(outs) else 1
            chosen.append(want if costs.get(want) == best else next(p for p in good if p[fixed] == want[fixed]))
        return [(i, j, self._between(first[i], last[j])) for i, j in chosen]

    def _reached(self, start: int) -> _Reached:
        found = self._reach.get(start)
        if found is None:
            found = self._reach[start] = self._search(start)
        return found

    def _search(self, start: int) -> _Reached:
        """Dijkstra; ties go to the way found first, in the order of the wires."""
        enters_fabric = self._kind(start) == "fabric"
        cost = {start: _FABRIC_COST if enters_fabric else 0}
        via: dict[int, int] = {}
        done: set[int] = set()
        todo = [(cost[start], start)]
        while todo:
            so_far, state = heapq.heappop(todo)
            if state in done:
                continue
            done.add(state)
            for wire, target, step in self._next.get(state, ()):
                total = so_far + step
                if total < cost.get(target, total + 1):
                    cost[target] = total
                    via[target] = wire
                    heapq.heappush(todo, (total, target))
        return _Reached(cost, via)

    def _kind(self, state: int) -> str:
        return self._vertices[state % len(self._vertices)].kind

    def _between(self, start: int, end: int) -> tuple[int, ...]:
        """The wires from ``start`` to ``end`` on the best way."""
        via = self._reached(start).via
        path: list[int] = []
        state = end
        while state != start:
            wire = via[state]
            path.append(wire)
            state = self._source_state(wire)
        return tuple(reversed(path))

    def _source_state(self, index: int) -> int:
        wire = self._wires[index]
        to_network = self._vertices[wire.dst].kind in ("fabric", "nic")
        return wire.src if to_network else self._receiving(wire.src)
