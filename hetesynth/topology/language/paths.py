"""Wires -> GPU-to-GPU links: for each ordered pair the direct wires, else the shortest paths past other hardware.

A path never enters a third GPU, and passes a NIC only between its host side and its network side. Paths that enter
networks (fabrics, routers) less often come first, then those that cross fewer CPUs, NUMA nodes and PCIe switches,
then those with fewer wires.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations, takewhile

from hetesynth.model.diagnostics import Span
from hetesynth.model.topology import HOST_KINDS, NETWORK_KINDS, Link, Rank, Topology, Vertex, VertexKind, Wire
from hetesynth.topology.language.findings import Findings

_FABRIC_COST = 1 << 40  # more than any path through servers costs, so that networks count first
_HOST_COST = 1 << 20  # more than any path has wires
_UNREACHED = 1 << 80
_MAX_CHAIN = 8

MAX_WAYS = 4  # links of one pair over equally short ways between the same two ends
MANY_LINKS = 1 << 18  # above it a pair has fewer ways, so that memory and time grow with the pairs alone
MAX_LINKS = 1 << 22  # one for every pair of 2048 GPUs
MAX_PATH_WIRES = 1 << 25  # of all links together
MAX_STEPS = 1 << 25  # of all searches
KEPT_STATES = 1 << 20  # above it what was searched is searched again when needed

Hop = tuple[int, int]  # (wire, state next to the GPU)
Character = tuple[str, Fraction, int, Fraction]  # kind, bandwidth, lanes, latency
LinkPath = tuple[int, int, tuple[int, ...], Character]  # first hop, last hop, wires between, what they amount to


def links_over(
    vertices: Sequence[Vertex], wires: Sequence[Wire], ranks: int, findings: Findings, span: Span
) -> tuple[Link, ...]:
    """Return all links, in order of source, destination and path; ``SourceError`` past the limits."""
    links: list[Link] = []
    crossed = 0
    graph = _Graph(vertices, wires, ranks, lambda steps: findings.limit(steps, MAX_STEPS, "steps to paths", span))
    for u, v in permutations(range(ranks), 2):
        direct, first, last = graph.direct[u].get(v, ()), graph.first[u], graph.last[v]
        for wire in direct:
            links.append(Link.over(u, v, (wire,), wires))
            crossed += 1
        for i, j, between, (kind, bandwidth, lanes, latency) in graph.paths(u, v) if not direct else ():
            links.append(Link(u, v, kind, (first[i][0], *between, last[j][0]), bandwidth, lanes, latency))
            crossed += len(links[-1].wires)
        if len(links) > MAX_LINKS or crossed > MAX_PATH_WIRES:
            findings.limit(len(links), MAX_LINKS, "links between GPUs", span)
            findings.limit(crossed, MAX_PATH_WIRES, "wires that links cross, in all", span)
    return tuple(links)


@dataclass(slots=True)
class _Reached:
    """The cost, last wires and number (if above one) of the shortest paths from a state to each other state."""

    cost: dict[int, int]
    via: dict[int, list[int]]
    count: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Chain:
    """The only way on from a state, as from a NIC to its fabric: wires without alternative, up to ``root``."""

    root: int
    cost: int
    wires: tuple[int, ...]
    passed: dict[int, tuple[int, int]]  # state before the root -> its cost from a GPU, wires up to it


@dataclass(slots=True)
class _Starts:
    """The first hops of GPUs that may swap places: by root and cost, and by states passed before the root."""

    roots: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    passed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # state -> cost, hop
    best: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)  # state -> least cost, its hops
    united: dict[tuple[tuple[int, ...], ...], frozenset[int]] = field(default_factory=dict)


class _Graph:
    """The wires between vertices that forward, each NIC split in a sending and a receiving state.

    States are vertex numbers; the receiving side of NIC ``v`` is ``v + len(vertices)``.
    """

    def __init__(
        self, vertices: Sequence[Vertex], wires: Sequence[Wire], ranks: int, limit: Callable[[int], None]
    ) -> None:
        self._limit = limit
        self._vertices = vertices
        self._wires = wires
        self.direct: list[dict[int, list[int]]] = [{} for _ in range(ranks)]
        self.first: list[list[Hop]] = [[] for _ in range(ranks)]
        self.last: list[list[Hop]] = [[] for _ in range(ranks)]
        self._next: dict[int, list[tuple[int, int, int]]] = {}  # state -> (wire, state, cost)
        for index, wire in enumerate(wires):
            src_gpu, dst_gpu = wire.src < ranks, wire.dst < ranks
            if src_gpu and dst_gpu:
                self.direct[wire.src].setdefault(wire.dst, []).append(index)
            elif src_gpu:
                self.first[wire.src].append((index, wire.dst))
            elif dst_gpu:
                self.last[wire.dst].append((index, self._receiving(wire.src)))
            else:  # next to a NIC, the other end says which side the wire is on
                src, dst = vertices[wire.src].kind, vertices[wire.dst].kind
                target = self._receiving(wire.dst) if _is_outside(src) else wire.dst
                step = (index, target, 1 + _entry_cost(src, dst))
                self._next.setdefault(self._source_state(index), []).append(step)
        classes: dict[Wire, int] = {}  # equal for wires that carry alike, wherever they are
        self._class = [
            classes.setdefault(Wire(0, 1, w.kind, w.bandwidth, w.lanes, w.latency), len(classes)) for w in wires
        ]
        signatures: dict[tuple[Hop, ...], int] = {}
        self._from = [self._signature(hops, signatures) for hops in self.first]
        self._to = [self._signature(hops, signatures) for hops in self.last]
        self._paths: dict[tuple[int, int], list[LinkPath]] = {}
        self._characters: dict[tuple[int, ...], Character] = {}
        self._alike = Counter(self._from), Counter(self._to)
        self._reach: dict[int, _Reached] = {}
        self._chains: dict[int, _Chain] = {}
        self._starts: dict[int, _Starts] = {}
        self._kept = 0
        self._steps = 0
        self._most_ways = max(1, min(MAX_WAYS, MANY_LINKS // (ranks * ranks)))
        seen: Counter[VertexKind] = Counter()
        self._ordinal: dict[int, int] = {}  # which one of its kind each vertex next to a GPU is
        for number in (state % len(vertices) for hops in self.last for _, state in hops):
            if number not in self._ordinal:
                self._ordinal[number] = seen[vertices[number].kind]
                seen[vertices[number].kind] += 1

    def _signature(self, hops: list[Hop], numbers: dict[tuple[Hop, ...], int]) -> int:
        """Return a number for a GPU's neighbors and the wires to them; equal for GPUs that may swap places."""
        return numbers.setdefault(tuple((self._class[wire], state) for wire, state in hops), len(numbers))

    def _receiving(self, vertex: int) -> int:
        return vertex + len(self._vertices) if self._vertices[vertex].kind == "nic" else vertex

    def paths(self, u: int, v: int) -> list[LinkPath]:
        """Return the paths from ``u`` to ``v``, shared by all pairs with the same neighbors."""
        key = (self._from[u], self._to[v])
        paths = self._paths.get(key)
        if paths is None:
            pairs = self._hop_pairs(u, v)
            most = max(1, self._most_ways // max(1, len(pairs)))
            paths = []
            for i, j in pairs:
                (out, start), (into, end) = self.first[u][i], self.last[v][j]
                for between in self._ways(start, end, most):
                    path = (out, *between, into)
                    classes = tuple([self._class[wire] for wire in path])
                    if classes not in self._characters:
                        link = Link.over(u, v, path, self._wires)
                        self._characters[classes] = (link.kind, link.bandwidth, link.lanes, link.latency)
                    paths.append((i, j, between, self._characters[classes]))
            if self._alike[0][key[0]] * self._alike[1][key[1]] > 1:
                self._paths[key] = paths
        return paths

    def _hop_pairs(self, u: int, v: int) -> list[tuple[int, int]]:
        """Return first and last hop of paths, as many as the side with more best hops, i-th with i-th if best."""
        starts = self._starts_of(u)
        reached = [(self._best(starts, end), j) for j, (_, end) in enumerate(self.last[v])]
        least = min((cost for (cost, _), _ in reached), default=_UNREACHED)
        if least == _UNREACHED:
            return []
        good = {j: hops for (cost, hops), j in reached if cost == least}  # last hop -> first hops
        first_of = {hops: min(hops) for hops in set(good.values())}
        ins, outs = sorted(frozenset().union(*first_of)), list(good)
        if len(ins) == 1 and len(outs) == 1:
            return [(ins[0], outs[0])]
        pairs = []
        if len(ins) < len(outs):
            for k, j in enumerate(outs):
                want = ins[k % len(ins)]
                pairs.append((want if want in good[j] else first_of[good[j]], j))
            return pairs
        last_of: dict[frozenset[int], int] = {}
        for j, hops in good.items():
            last_of.setdefault(hops, j)
        for k, i in enumerate(ins):
            j = outs[k % len(outs)]
            pairs.append((i, j if i in good[j] else min(last for hops, last in last_of.items() if i in hops)))
        return pairs

    def _starts_of(self, u: int) -> _Starts:
        """Return the first hops of ``u`` by the root of the chain that they lead to, and its cost."""
        starts = self._starts.get(self._from[u])
        if starts is None:
            starts = self._starts[self._from[u]] = _Starts()
            of_root: dict[tuple[int, int], list[int]] = {}
            for i, (_, state) in enumerate(self.first[u]):
                chain = self._chain(state)
                of_root.setdefault((chain.root, chain.cost), []).append(i)
                for passed, (cost, _) in chain.passed.items():
                    starts.passed.setdefault(passed, []).append((cost, i))
            starts.roots |= {root: tuple(hops) for root, hops in of_root.items()}
        return starts

    def _chain(self, start: int) -> _Chain:
        chain = self._chains.get(start)
        if chain is None:
            root, wires = start, list[int]()
            cost = _entry_cost("gpu", self._vertices[start % len(self._vertices)].kind)
            passed: dict[int, tuple[int, int]] = {}
            while len(self._next.get(root, ())) == 1 and len(wires) < _MAX_CHAIN:
                wire, state, step = self._next[root][0]
                if state in passed or state == root:
                    break
                passed[root] = (cost, len(wires))
                wires.append(wire)
                root, cost = state, cost + step
            chain = self._chains[start] = _Chain(root, cost, tuple(wires), passed)
        return chain

    def _best(self, starts: _Starts, end: int) -> tuple[int, frozenset[int]]:
        """Return the least cost from a GPU to the state ``end``, and the first hops of that cost."""
        best = starts.best.get(end)
        if best is None:
            costs: list[tuple[int, tuple[int, ...]]] = [(cost, (i,)) for cost, i in starts.passed.get(end, ())]
            for (root, so_far), of_root in starts.roots.items():
                cost = self._reached(root).cost.get(end)
                if cost is not None:
                    costs.append((so_far + cost, of_root))
            self._spend(len(costs))
            least = min((cost for cost, _ in costs), default=_UNREACHED)
            hops = tuple([of_root for cost, of_root in costs if cost == least])
            if hops not in starts.united:
                starts.united[hops] = frozenset().union(*hops)
            best = starts.best[end] = (least, starts.united[hops])
        return best

    def _reached(self, root: int) -> _Reached:
        """Return the shortest paths from a state (Dijkstra), with the last wires of all equal ones, as found."""
        if root in self._reach:
            return self._reach[root]
        if self._kept > KEPT_STATES:
            self._reach.clear()
            self._starts.clear()
            self._kept = 0
        cost = {root: 0}
        via: dict[int, list[int]] = {}
        count: dict[int, int] = {}
        done: set[int] = set()
        todo = [(0, root)]
        while todo:
            so_far, state = heapq.heappop(todo)
            if state in done:
                continue
            done.add(state)
            steps = self._next.get(state, ())
            self._spend(1 + len(steps))
            for wire, target, step in steps:
                total = so_far + step
                least = cost.get(target, total + 1)
                if total < least:
                    cost[target] = total
                    via[target] = [wire]
                    heapq.heappush(todo, (total, target))
                    count.pop(target, None)
                    if state in count:
                        count[target] = count[state]
                elif total == least and target != root:
                    via[target].append(wire)
                    count[target] = count.get(target, 1) + count.get(state, 1)
        self._kept += len(cost)
        self._reach[root] = _Reached(cost, via, count)
        return self._reach[root]

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            self._limit(self._steps)

    def _ways(self, start: int, end: int, most: int) -> list[tuple[int, ...]]:
        """Return the wires of shortest paths from ``start`` to ``end``; of over ``most`` the next in rotation,
        which begins where the number of ``end`` says, as D-mod-k routing does in fat trees."""
        chain = self._chain(start)
        if end in chain.passed:
            return [chain.wires[: chain.passed[end][1]]]
        ways = self._reached(chain.root).count.get(end, 1)
        if ways == 1:
            return [chain.wires + self._between(chain.root, end, 0)]
        first = most * self._ordinal[end % len(self._vertices)]
        paths: dict[tuple[int, ...], None] = {}
        for number in range(first, first + min(ways, 2 * most)):
            paths.setdefault(chain.wires + self._between(chain.root, end, number))
            if len(paths) == most:
                break
        return list(paths)

    def _between(self, root: int, end: int, number: int) -> tuple[int, ...]:
        """Return the wires from ``root`` to ``end`` on shortest path ``number``, whose digits choose wires."""
        via = self._reached(root).via
        path: list[int] = []
        state = end
        while state != root:
            wires = via[state]
            wire = wires[number % len(wires)]
            number //= len(wires)
            path.append(wire)
            state = self._source_state(wire)
        return tuple(reversed(path))

    def _source_state(self, index: int) -> int:
        wire = self._wires[index]
        to_network = _is_outside(self._vertices[wire.dst].kind)
        return wire.src if to_network else self._receiving(wire.src)


def _is_outside(kind: VertexKind) -> bool:
    """Return True if a NIC's wire to this kind leads into the network; another NIC is the far end of a cable."""
    return kind == "nic" or kind in NETWORK_KINDS


def _entry_cost(src: VertexKind, dst: VertexKind) -> int:
    if dst in NETWORK_KINDS:
        return 0 if src in NETWORK_KINDS else _FABRIC_COST
    return _HOST_COST if dst in HOST_KINDS else 0


def unreachable_pairs(topology: Topology) -> tuple[tuple[Rank, Rank], ...]:
    """Return the pairs (u, v) without a chain of links from u to v, in order; empty if all can communicate."""
    ends = [(link.src, link.dst) for link in topology.links]
    forward, backward = (_neighbours(topology.ranks, way) for way in (ends, [(v, u) for u, v in ends]))
    everyone = set(range(topology.ranks))
    if _reached(forward, 0) == _reached(backward, 0) == everyone:
        return ()
    return tuple((u, v) for u in range(topology.ranks) for v in sorted(everyone - _reached(forward, u)))


def separate_parts(topology: Topology) -> list[list[Rank]]:
    """Return the ranks by part, such that no link in either direction joins two parts; one if connected."""
    if len({link.dst for link in takewhile(lambda link: link.src == 0, topology.links)}) == topology.ranks - 1:
        return [list(range(topology.ranks))]
    ends = [(link.src, link.dst) for link in topology.links]
    around = _neighbours(topology.ranks, ends + [(v, u) for u, v in ends])
    parts: dict[Rank, list[Rank]] = {}
    for rank in range(topology.ranks):
        part = _reached(around, rank) if not any(rank in part for part in parts.values()) else set()
        parts |= {min(part): sorted(part)} if part else {}
    return list(parts.values())


def _neighbours(ranks: int, ends: Iterable[tuple[Rank, Rank]]) -> list[set[Rank]]:
    table: list[set[Rank]] = [set() for _ in range(ranks)]
    for src, dst in ends:
        table[src].add(dst)
    return table


def _reached(neighbours: list[set[Rank]], start: Rank) -> set[Rank]:
    """Return the ranks reachable from ``start``, itself included."""
    seen = {start}
    todo = [start]
    while todo:
        new = neighbours[todo.pop()] - seen
        seen |= new
        todo.extend(new)
    return seen
