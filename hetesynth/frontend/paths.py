"""Wires -> GPU-to-GPU links: for each ordered pair the direct wires, else the shortest paths past other hardware.

In: vertices and wires. Out: ``Link`` values in the order of (source, destination).
A path never enters a third GPU, and passes a NIC only between its host side and its network side. Paths that enter
networks (fabrics, routers) less often come first, then those that cross fewer CPUs, NUMA nodes and PCIe switches,
then those with fewer wires. Knows nothing of the source.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.topology import HOST_KINDS, NETWORK_KINDS, Link, Vertex, VertexKind, Wire

_FABRIC_COST = 1 << 40  # more than any path through servers costs, so that networks count first
_HOST_COST = 1 << 20  # more than any path has wires

MAX_WAYS = 4  # links of one pair over equally short ways between the same two ends
MANY_LINKS = 1 << 18  # above it a pair has fewer ways, so that memory and time grow with the pairs alone

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
    """Cost, last wires and number of the shortest paths from one state to each other state."""

    cost: dict[int, int]
    via: dict[int, list[int]]
    count: dict[int, int]


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
        self._sources = [self._source_state(wire) for wire in range(len(wires))]
        self._hops: dict[int, dict[int, tuple[int, list[int]]]] = {}
        self._most_ways = max(1, min(MAX_WAYS, MANY_LINKS // (ranks * ranks)))
        self._ordinal = _ordinals(vertices, (state % len(vertices) for hops in self.last for _, state in hops))

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
            pairs = self._hop_pairs(u, v)
            most = max(1, self._most_ways // max(1, len(pairs)))
            paths = self._paths[key] = [
                self._path(u, v, i, j, between)
                for i, j in pairs
                for between in self._ways(self.first[u][i][1], self.last[v][j][1], most)
            ]
        return paths

    def _path(self, u: int, v: int, i: int, j: int, between: tuple[int, ...]) -> LinkPath:
        out, into = self.first[u][i][0], self.last[v][j][0]
        path = (out, *between, into)
        classes = tuple([self._class[wire] for wire in path])
        character = self._characters.get(classes)
        if character is None:
            character = self._characters[classes] = _character(path, self._wires)
        return i, j, between, character

    def _hop_pairs(self, u: int, v: int) -> list[tuple[int, int]]:
        """As many paths as the side with more equally good hops has, i-th with i-th where that is shortest."""
        hops, last = self._best_hops(u), self.last[v]
        if len(last) == 1:
            best_hop = hops.get(last[0][1])
            return [(i, 0) for i in best_hop[1]] if best_hop is not None else []
        reached = [(hops[end], j) for j, (_, end) in enumerate(last) if end in hops]
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
        """Dijkstra; the last wires of equally short paths are all kept, in the order in which they are met."""
        cost = {start: _entry_cost("gpu", self._kind(start))}
        via: dict[int, list[int]] = {}
        count = {start: 1}
        done: set[int] = set()
        todo = [(cost[start], start)]
        while todo:
            so_far, state = heapq.heappop(todo)
            if state in done:
                continue
            done.add(state)
            for wire, target, step in self._next.get(state, ()):
                total = so_far + step
                least = cost.get(target, total + 1)
                if total < least:
                    cost[target] = total
                    via[target] = [wire]
                    count[target] = count[state]
                    heapq.heappush(todo, (total, target))
                elif total == least and target != start:
                    via[target].append(wire)
                    count[target] += count[state]
        return _Reached(cost, via, count)

    def _kind(self, state: int) -> VertexKind:
        return self._vertices[state % len(self._vertices)].kind

    def _ways(self, start: int, end: int, most: int) -> list[tuple[int, ...]]:
        """The wires of the shortest paths from ``start`` to ``end``; of more than ``most`` the next in rotation.

        The rotation begins where the number of ``end`` says, as D-mod-k routing does in fat trees.
        """
        ways = self._reached(start).count[end]
        if ways == 1:
            return [self._between(start, end, 0)]
        first = most * self._ordinal[end % len(self._vertices)]
        paths: dict[tuple[int, ...], None] = {}
        for number in range(first, first + min(ways, 2 * most)):
            paths.setdefault(self._between(start, end, number))
            if len(paths) == most:
                break
        return list(paths)

    def _between(self, start: int, end: int, number: int) -> tuple[int, ...]:
        """The wires from ``start`` to ``end`` on shortest path ``number``: its digits choose the last wires."""
        via = self._reached(start).via
        path: list[int] = []
        state = end
        while state != start:
            wires = via[state]
            wire = wires[number % len(wires)]
            number //= len(wires)
            path.append(wire)
            state = self._sources[wire]
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


def _ordinals(vertices: Sequence[Vertex], numbers: Iterable[int]) -> dict[int, int]:
    """Which one of its kind each vertex is."""
    seen: dict[VertexKind, dict[int, int]] = {}
    for number in numbers:
        kind = seen.setdefault(vertices[number].kind, {})
        kind.setdefault(number, len(kind))
    return {number: ordinal for kind in seen.values() for number, ordinal in kind.items()}


def _placeless(wire: Wire) -> Wire:
    """``wire`` as if between the first two vertices: equal for wires that carry alike."""
    return Wire(0, 1, wire.kind, wire.bandwidth, wire.lanes, wire.latency)
