"""Wires -> GPU-to-GPU links: for each ordered pair the direct wires, else the shortest paths past other hardware.

In: vertices and wires. Out: ``Link`` values in the order of (source, destination).
A path never enters a third GPU, and passes a NIC only between its host side and its network side. Paths that enter
networks (fabrics, routers) less often come first, then those that cross fewer CPUs, NUMA nodes and PCIe switches,
then those with fewer wires. Knows nothing of the source.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.topology import HOST_KINDS, NETWORK_KINDS, Link, Vertex, VertexKind, Wire

_FABRIC_COST = 1 << 40  # more than any path through servers costs, so that networks count first
_HOST_COST = 1 << 20  # more than any path has wires

Hop = tuple[int, int]  # (wire, state next to the GPU)
Character = tuple[str, Fraction, int, Fraction]  # kind, bandwidth, lanes, latency
LinkPath = tuple[int, int, tuple[int, ...], Character]  # first hop, last hop, wires between, what they amount to


def links_over(vertices: Sequence[Vertex], wires: Sequence[Wire], ranks: int) -> Iterator[Link]:
    """All links, in order of source, destination and path."""
    graph = _Graph(vertices, wires, ranks)
    for u in range(ranks):
        direct, first = graph.direct[u], graph.first[u]
        for v in range(ranks):
            if u == v:
                continue
            if v in direct:
                for wire in direct[v]:
                    kind, bandwidth, lanes, latency = _character((wire,), wires)
                    yield Link(u, v, kind, (wire,), bandwidth, lanes, latency)
                continue
            last = graph.last[v]
            for i, j, between, (kind, bandwidth, lanes, latency) in graph.paths(u, v):
                yield Link(u, v, kind, (first[i][0], *between, last[j][0]), bandwidth, lanes, latency)


def _character(path: tuple[int, ...], wires: Sequence[Wire]) -> Character:
    link = Link.over(0, 1, path, wires)
    return link.kind, link.bandwidth, link.lanes, link.latency


@dataclass(slots=True)
class _Reached:
    """Cost and last wire of the best path from one state to each other state."""

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
        classes: dict[Wire, int] = {}
        self._class = [classes.setdefault(_placeless(wire), len(classes)) for wire in wires]
        signatures: dict[tuple[Hop, ...], int] = {}
        self._from = [self._signature(hops, signatures) for hops in self.first]
        self._to = [self._signature(hops, signatures) for hops in self.last]
        self._paths: dict[tuple[int, int], list[LinkPath]] = {}
        self._characters: dict[tuple[int, ...], Character] = {}
        self._reach: dict[int, _Reached] = {}
        self._hops: dict[int, dict[int, tuple[int, list[int]]]] = {}

    def _signature(self, hops: list[Hop], numbers: dict[tuple[Hop, ...], int]) -> int:
        """A number for the neighbours of a GPU and the wires to them; equal for GPUs that may swap places."""
        return numbers.setdefault(tuple((self._class[wire], state) for wire, state in hops), len(numbers))

    def _receiving(self, vertex: int) -> int:
        return vertex + len(self._vertices) if self._vertices[vertex].kind == "nic" else vertex

    def _add(self, index: int, wire: Wire) -> None:
        """A wire between forwarding vertices; next to a NIC, its other end says which side it is on."""
        src, dst = self._vertices[wire.src].kind, self._vertices[wire.dst].kind
        to_network = _is_outside(dst)
        from_network = _is_outside(src)
        source = wire.src if to_network else self._receiving(wire.src)
        target = self._receiving(wire.dst) if from_network else wire.dst
        cost = 1 + _entry_cost(src, dst)
        self._next.setdefault(source, []).append((index, target, cost))

    def paths(self, u: int, v: int) -> list[LinkPath]:
        """The paths from ``u`` to ``v``, shared by all pairs with the same neighbours."""
        key = (self._from[u], self._to[v])
        paths = self._paths.get(key)
        if paths is None:
            paths = self._paths[key] = [self._path(u, v, i, j) for i, j in self._hop_pairs(u, v)]
        return paths

    def _path(self, u: int, v: int, i: int, j: int) -> LinkPath:
        (out, start), (into, end) = self.first[u][i], self.last[v][j]
        between = self._between(start, end)
        path = (out, *between, into)
        classes = tuple([self._class[wire] for wire in path])
        character = self._characters.get(classes)
        if character is None:
            character = self._characters[classes] = _character(path, self._wires)
        return i, j, between, character

    def _hop_pairs(self, u: int, v: int) -> list[tuple[int, int]]:
        """As many paths as the side with more equally good hops has, i-th with i-th where that is shortest."""
        hops = self._best_hops(u)
        reached = [(hops[end], j) for j, (_, end) in enumerate(self.last[v]) if end in hops]
        if not reached:
            return []
        best = min(cost for (cost, _), _ in reached)
        good = [(i, j) for (cost, firsts), j in reached if cost == best for i in firsts]
        if len(good) == 1:
            return good
        ins, outs = sorted({i for i, _ in good}), sorted({j for _, j in good})
        fixed = 0 if len(ins) >= len(outs) else 1
        pairs = []
        for k in range(max(len(ins), len(outs))):
            want = (ins[k % len(ins)], outs[k % len(outs)])
            pairs.append(want if want in good else next(p for p in good if p[fixed] == want[fixed]))
        return pairs

    def _best_hops(self, u: int) -> dict[int, tuple[int, list[int]]]:
        """For every state the least cost from ``u`` and the first hops that have it."""
        least = self._hops.get(self._from[u])
        if least is None:
            least = self._hops[self._from[u]] = {}
            for i, (_, start) in enumerate(self.first[u]):
                for state, cost in self._reached(start).cost.items():
                    best = least.get(state)
                    if best is None or cost < best[0]:
                        least[state] = (cost, [i])
                    elif cost == best[0]:
                        best[1].append(i)
        return least

    def _reached(self, start: int) -> _Reached:
        reached = self._reach.get(start)
        if reached is None:
            reached = self._reach[start] = self._search(start)
        return reached

    def _search(self, start: int) -> _Reached:
        """Dijkstra; ties go to the path found first, in the order of the wires."""
        cost = {start: _entry_cost("gpu", self._kind(start))}
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

    def _kind(self, state: int) -> VertexKind:
        return self._vertices[state % len(self._vertices)].kind

    def _between(self, start: int, end: int) -> tuple[int, ...]:
        """The wires from ``start`` to ``end`` on the best path."""
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
        to_network = _is_outside(self._vertices[wire.dst].kind)
        return wire.src if to_network else self._receiving(wire.src)


def _is_outside(kind: VertexKind) -> bool:
    """Whether a NIC's wire to this leads into the network; another NIC is on the other side of a cable."""
    return kind == "nic" or kind in NETWORK_KINDS


def _entry_cost(src: VertexKind, dst: VertexKind) -> int:
    if dst in NETWORK_KINDS:
        return 0 if src in NETWORK_KINDS else _FABRIC_COST
    return _HOST_COST if dst in HOST_KINDS else 0


def _placeless(wire: Wire) -> Wire:
    """``wire`` as if between the first two vertices: equal for wires that carry alike."""
    return Wire(0, 1, wire.kind, wire.bandwidth, wire.lanes, wire.latency)
