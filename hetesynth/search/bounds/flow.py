"""The single-destination max-flow bound on the time-expanded graph.

In: a copying problem. Out: the least T such that for every destination alone all chunks it lacks can reach it
in T steps. Copies are free for one destination, so a flow is all it takes; what limits several destinations at
once is left out, which keeps the bound valid (cf. TE-CCL 3.1 and 4.1 for the time-expanded network).

Nodes: every GPU at steps 0..T, every forwarding vertex at steps 0..T-1 (it does not store). A segment carries
its capacity each step; a GPU keeps what it has. Vertices that look alike to the destination are one node
(``symmetry``), so a cluster of a thousand GPUs is a network of a few nodes per step, and of destinations that look
alike one is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.bound import FlowWitness, LowerBound
from hetesynth.model.problem import Problem
from hetesynth.policy.bounds import BoundsPolicy

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The edges of one step: (src vertex, dst vertex, capacity or -1 for unlimited)."""

    src: Ints
    dst: Ints
    capacity: Ints


def classes(graph: StepGraph, colour: Ints) -> Ints:
    """The class of each vertex, numbered from 0 by first appearance; refines ``colour``.

    A flow that treats the members of a class alike is as large as any: average over the class, all along the
    refinement (Ramana, Scheinerman and Ullman 1994). So flows may be sought between classes, and a cut between
    classes is a cut.

    Colours are compared by 64-bit sums of mixed words. Nothing rests on it: what comes of it is rechecked vertex
    by vertex.
    """
    current = _numbered(colour)
    count = int(current.max()) + 1
    width = _mixed(graph.capacity.astype(np.uint64))
    while True:
        seen = _mixed(current.astype(np.uint64))
        out_of = _mixed(seen[graph.dst] + width)
        into = _mixed(~seen[graph.src] + width)
        look = _mixed(seen)
        np.add.at(look, graph.src, out_of)
        np.add.at(look, graph.dst, into)
        refined = _numbered(look)
        number = int(refined.max()) + 1
        if number == count:
            return refined
        current, count = refined, number


def _numbered(values: NDArray[np.generic]) -> Ints:
    """The same partition with numbers from 0, by first appearance."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    numbered: Ints = order[inverse]
    return numbered


def _mixed(words: Words) -> Words:
    """Words in which every bit depends on every bit (the finalizer of SplitMix64, Steele et al. 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


INT32 = 2**31 - 1  # what scipy's flows are stored in

Edge = tuple[int, int, int]


def maximum_flow(
    nodes: int, edges: Sequence[Edge], source: int, sink: int, policy: BoundsPolicy
) -> tuple[int, list[int]]:
    """The flow from ``source`` to ``sink``; the nodes on the source side of a minimum cut, in order.

    Plain loops need nothing to be imported and know no largest integer; large networks whose sums fit 31 bits go
    to scipy.
    """
    supply = sum(capacity for start, _, capacity in edges if start == source)
    if 2 * max(supply, *(capacity for _, _, capacity in edges), 0) > INT32:
        return _dinic(nodes, edges, source, sink, nearest_sink=True)
    return (_dinic if len(edges) <= policy.plain_flow_edges else _compiled)(nodes, edges, source, sink)


def _compiled(nodes: int, edges: Sequence[Edge], source: int, sink: int) -> tuple[int, list[int]]:
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order
    from scipy.sparse.csgraph import maximum_flow as compiled

    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    network = csr_matrix(
        (table[:, 2].astype(np.int32), (table[:, 0].astype(np.int32), table[:, 1].astype(np.int32))),
        shape=(nodes, nodes),
    )
    result = compiled(network, source, sink)
    residual = network - result.flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    return int(result.flow_value), sorted(int(node) for node in reached)


def _dinic(
    nodes: int, edges: Sequence[Edge], source: int, sink: int, *, nearest_sink: bool = False
) -> tuple[int, list[int]]:
    out_of: list[list[int]] = [[] for _ in range(nodes)]
    head: list[int] = []
    left: list[int] = []
    for u, v, capacity in edges:
        out_of[u].append(len(head))
        out_of[v].append(len(head) + 1)
        head += (v, u)
        left += (capacity, 0)
    value = 0
    while True:
        level = _levels(out_of, head, left, source)
        if level[sink] < 0:
            behind = _reaching(out_of, head, left, sink) if nearest_sink else set()
            return value, [v for v in range(nodes) if (v not in behind if nearest_sink else level[v] >= 0)]
        turn = [0] * nodes
        while True:
            pushed = _augment(out_of, head, left, level, turn, source, sink)
            if not pushed:
                break
            value += pushed


def _levels(out_of: list[list[int]], head: list[int], left: list[int], source: int) -> list[int]:
    level = [-1] * len(out_of)
    level[source] = 0
    layer = [source]
    while layer:
        following = []
        for u in layer:
            for e in out_of[u]:
                v = head[e]
                if left[e] and level[v] < 0:
                    level[v] = level[u] + 1
                    following.append(v)
        layer = following
    return level


def _reaching(out_of: list[list[int]], head: list[int], left: list[int], sink: int) -> set[int]:
    """The nodes from which something more could flow to ``sink``."""
    nodes, stack = {sink}, [sink]
    while stack:
        for e in out_of[stack.pop()]:
            if left[e ^ 1] and head[e] not in nodes:
                nodes.add(head[e])
                stack.append(head[e])
    return nodes


def _augment(
    out_of: list[list[int]], head: list[int], left: list[int], level: list[int], turn: list[int],
    source: int, sink: int,
) -> int:  # fmt: skip
    """One more path of the level graph, saturated; 0 when there is none. ``turn``: edges not yet exhausted."""
    path: list[int] = []
    at = source
    while at != sink:
        leaving = out_of[at]
        while turn[at] < len(leaving):
            e = leaving[turn[at]]
            if left[e] and level[head[e]] == level[at] + 1:
                break
            turn[at] += 1
        else:
            if not path:
                return 0
            at = head[path.pop() ^ 1]
            turn[at] += 1
            continue
        path.append(e)
        at = head[e]
    room = min(left[e] for e in path)
    for e in path:
        left[e] -= room
        left[e ^ 1] += room
    return room


def flow_bound(problem: Problem, at_least: int, policy: BoundsPolicy) -> LowerBound | None:
    """The bound, searched upwards from ``at_least`` (a bound already proved); None when it adds nothing."""
    graph = _step_graph(problem)
    best: LowerBound | None = None
    steps = max(at_least, 1)
    work = 0
    for destination in _destinations(problem, graph):
        supply = _supply(problem, destination)
        needed = int(supply.sum())
        lumped: _Lumped | None = None
        while needed:
            lumped = lumped or _lumped(problem, graph, supply, destination)
            edges = len(lumped.edges) * steps
            work += edges
            if work > policy.flow_work or edges > policy.flow_edges:
                return best
            flow, side = lumped.flow(steps, policy)
            if flow >= needed:
                break
            proof = f"at most {flow} of {needed} chunks can reach rank {destination} within {steps} steps"
            witness = FlowWitness(destination, steps, flow, needed, lumped.members(side))
            steps += 1
            best = LowerBound(steps, "flow", f"max-flow: {proof}", witness)
    return best


def _destinations(problem: Problem, graph: StepGraph) -> Iterator[int]:
    """One destination of each look, those that lack most against what can enter them first."""
    entering = [0] * problem.ranks
    for arc in problem.arcs:
        entering[arc.dst] += arc.capacity
    lacking, holding = [0] * problem.ranks, [0] * problem.ranks
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        for rank in post - pre:
            lacking[rank] += 1
        for rank in pre:
            holding[rank] += 1
    colours: dict[tuple[int, ...], int] = {}
    first = np.full(problem.vertices, -1, dtype=np.int64)
    for rank in range(problem.ranks):
        first[rank] = colours.setdefault((lacking[rank], holding[rank]), len(colours))
    look = classes(graph, first)
    tried: set[int] = set()
    for rank in sorted(range(problem.ranks), key=lambda r: (-lacking[r] / max(1, entering[r]), r)):
        if look[rank] not in tried:
            tried.add(int(look[rank]))
            yield rank


def _supply(problem: Problem, destination: int) -> Ints:
    """How many of the chunks that ``destination`` lacks start at each rank (at one of its holders)."""
    supply = np.zeros(problem.ranks, dtype=np.int64)
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        if destination in post and destination not in pre:
            if len(pre) > 1:
                continue  # a chunk with several holders would need a source of its own; leaving it out is valid
            supply[min(pre)] += 1
    return supply


def _step_graph(problem: Problem) -> StepGraph:
    edges: list[tuple[int, int, int]] = []
    used: set[int] = set()
    for arc in problem.arcs:
        if not arc.segments:
            edges.append((arc.src, arc.dst, arc.capacity))
        used.update(arc.segments)
    for s in sorted(used):
        segment = problem.segments[s]
        edges.append((segment.src, segment.dst, -1 if segment.capacity is None else segment.capacity))
    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return StepGraph(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())


def _lumped(problem: Problem, graph: StepGraph, supply: Ints, destination: int) -> _Lumped:
    """One step between the classes of vertices that look alike to ``destination``."""
    first = np.full(problem.vertices, -1, dtype=np.int64)
    first[: problem.ranks] = supply
    first[destination] = -2
    look = classes(graph, first)
    total = int(supply.sum())
    capacity: dict[tuple[int, int], int] = {}
    for u, v, wide in zip(
        look[graph.src].tolist(), look[graph.dst].tolist(), graph.capacity.tolist(), strict=True
    ):
        if u != v:  # what stays within a class gains nothing over keeping it
            capacity[u, v] = min(total, capacity.get((u, v), 0) + (total if wide < 0 else wide))
    members: list[list[int]] = [[] for _ in range(int(look.max()) + 1)]
    for vertex, c in enumerate(look.tolist()):
        members[c].append(vertex)
    supplies = [int(sum(supply[v] for v in vertices if v < problem.ranks)) for vertices in members]
    storing = [vertices[0] < problem.ranks for vertices in members]
    edges = [(u, v, wide) for (u, v), wide in sorted(capacity.items())]
    return _Lumped(members, storing, supplies, edges, int(look[destination]), total)


@dataclass(frozen=True, slots=True)
class _Lumped:
    """Classes of vertices, whether they store, what starts there, and what a step carries between them."""

    vertices: list[list[int]]
    storing: list[bool]
    supplies: list[int]
    edges: list[Edge]
    destination: int
    total: int

    def flow(self, steps: int, policy: BoundsPolicy) -> tuple[int, list[tuple[int, int]]]:
        """The flow into the destination within ``steps`` steps; (step, class) on the source side of a cut."""
        width = len(self.vertices)
        source = width * (steps + 1)
        edges: list[Edge] = [(source, c, supply) for c, supply in enumerate(self.supplies) if supply]
        for start in range(0, width * steps, width):
            for u, v, capacity in self.edges:
                edges.append((start + u, start + (width if self.storing[v] else 0) + v, capacity))
            edges += [(start + c, start + width + c, self.total) for c in range(width) if self.storing[c]]
        sink = width * steps + self.destination
        flow, reached = maximum_flow(source + 1, edges, source, sink, policy)
        return flow, [divmod(node, width) for node in reached if node != source]

    def members(self, side: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple(sorted((step, vertex) for step, c in side for vertex in self.vertices[c]))
