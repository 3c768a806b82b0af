"""The single-destination max-flow bound on the time-expanded graph.

In: a copying problem. Out: the least T such that for every destination alone all chunks it lacks can reach it in T
steps. Copies are free for one destination, so a flow is all it takes; what limits several destinations at once is
left out, which keeps the bound valid (cf. TE-CCL 3.1 and 4.1 for the time-expanded network). Nodes are every GPU
at steps 0..T, which keeps what it has, and every forwarding vertex at steps 0..T-1, which does not. Vertices that
look alike to the destination are one node (``classes``), so a cluster of a thousand GPUs is a network of a few
nodes per step, and of destinations that look alike one is tried.
"""

from collections.abc import Sequence

import numpy as np

from hetesynth.machine_code import Ints
from hetesynth.model.bound import FlowWitness, LowerBound
from hetesynth.model.problem import Problem
from hetesynth.search.copy_problem import grouped
from hetesynth.search.packing.symmetry import StepGraph, classes

INT32 = 2**31 - 1  # what scipy's flows are stored in

Edge = tuple[int, int, int]


def maximum_flow(nodes: int, edges: Sequence[Edge], source: int, sink: int) -> tuple[int, list[int]]:
    """Return the maximum flow, and the nodes on the source side of a minimum cut in order. Plain loops need no
    import (0.2 s on 16 GPUs) and know no largest integer; large networks whose sums fit 31 bits go to scipy."""
    supply = sum(capacity for start, _, capacity in edges if start == source)
    wide = 2 * max(supply, *(capacity for _, _, capacity in edges), 0) > INT32
    if wide or len(edges) <= 12_000:
        return _dinic(nodes, edges, source, sink, nearest_sink=wide)
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order
    from scipy.sparse.csgraph import maximum_flow as compiled

    table = np.array(edges, dtype=np.int32)
    network = csr_matrix((table[:, 2], (table[:, 0], table[:, 1])), shape=(nodes, nodes))
    result = compiled(network, source, sink)
    residual = network - result.flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    return int(result.flow_value), sorted(int(node) for node in reached)


def _dinic(
    nodes: int, edges: Sequence[Edge], source: int, sink: int, *, nearest_sink: bool
) -> tuple[int, list[int]]:
    out_of: list[list[int]] = [[] for _ in range(nodes)]
    head: list[int] = []
    left: list[int] = []
    for u, v, capacity in edges:
        out_of[u].append(len(head))
        out_of[v].append(len(head) + 1)
        head += (v, u)
        left += (capacity, 0)

    def levels(start: int, back: int) -> list[int]:
        """Return the number of edges with room on the shortest way from ``start`` to each node or, if ``back`` is
        1, from each node to ``start``; -1: no way."""
        level, reached = [-1] * nodes, [start]
        level[start] = 0
        for u in reached:
            for e in out_of[u]:
                if left[e ^ back] and level[head[e]] < 0:
                    level[head[e]] = level[u] + 1
                    reached.append(head[e])
        return level

    value = 0
    while True:
        level = levels(source, 0)
        if level[sink] < 0:
            if nearest_sink:
                return value, [v for v, edges_to_sink in enumerate(levels(sink, 1)) if edges_to_sink < 0]
            return value, [v for v in range(nodes) if level[v] >= 0]
        turn = [0] * nodes  # edges not yet exhausted
        path: list[int] = []
        at = source
        while True:
            leaving = out_of[at]
            while turn[at] < len(leaving):
                e = leaving[turn[at]]
                if left[e] and level[head[e]] == level[at] + 1:
                    break
                turn[at] += 1
            if turn[at] < len(leaving):
                path.append(leaving[turn[at]])
                at = head[path[-1]]
            elif path:
                at = head[path.pop() ^ 1]
                turn[at] += 1
            else:
                break
            if at == sink:
                room = min(left[e] for e in path)
                for e in path:
                    left[e] -= room
                    left[e ^ 1] += room
                value, path, at = value + room, [], source


def flow_bound(problem: Problem, at_least: int) -> LowerBound | None:
    """Return the bound, searched upwards from ``at_least`` (a bound already proved); None when it adds nothing."""
    edges = [(arc.src, arc.dst, arc.capacity) for arc in problem.arcs if not arc.segments]
    crossed = (problem.segments[s] for s in sorted({s for arc in problem.arcs for s in arc.segments}))
    edges += [(s.src, s.dst, -1 if s.capacity is None else s.capacity) for s in crossed]
    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    graph = table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()
    best: LowerBound | None = None
    steps, work = max(at_least, 1), 0
    for destination in _destinations(problem, graph):
        # chunks that it lacks by the rank where they start; one with several holders would need a source of its
        # own: leaving it out is valid
        supply = np.zeros(problem.ranks, dtype=np.int64)
        for pre, post in problem.collective.ends:
            if destination in post and destination not in pre and len(pre) == 1:
                supply[min(pre)] += 1
        needed = int(supply.sum())
        lumped = _Lumped(problem, graph, supply, destination) if needed else None
        while lumped is not None:
            size = len(lumped.edges) * steps
            work += size
            if work > 3_000_000 or size > 600_000:
                return best
            flow, side = lumped.flow(steps)
            if flow >= needed:
                break
            proof = f"at most {flow} of {needed} chunks can reach rank {destination} within {steps} steps"
            witness = FlowWitness(destination, steps, flow, needed, side)
            steps += 1
            best = LowerBound(steps, "flow", f"max-flow: {proof}", witness)
    return best


def _destinations(problem: Problem, graph: StepGraph) -> list[int]:
    """Return one of all destinations that look alike, those first that lack most against what can enter them."""
    entering, lacking, holding = ([0] * problem.ranks for _ in range(3))
    for arc in problem.arcs:
        entering[arc.dst] += arc.capacity
    for pre, post in problem.collective.ends:
        for rank in post - pre:
            lacking[rank] += 1
        for rank in pre:
            holding[rank] += 1
    colours: dict[tuple[int, ...], int] = {}
    first = np.full(problem.vertices, -1, dtype=np.int64)
    for rank in range(problem.ranks):
        first[rank] = colours.setdefault((lacking[rank], holding[rank]), len(colours))
    look = classes(graph, first).tolist()
    ordered = sorted(range(problem.ranks), key=lambda r: (-lacking[r] / max(1, entering[r]), r))
    tried: dict[int, int] = {}
    for rank in ordered:
        tried.setdefault(look[rank], rank)
    return list(tried.values())


class _Lumped:
    """The network of one step between the classes of vertices that look alike to ``destination``."""

    def __init__(self, problem: Problem, graph: StepGraph, supply: Ints, destination: int) -> None:
        first = np.full(problem.vertices, -1, dtype=np.int64)
        first[: problem.ranks] = supply
        first[destination] = -2
        look = classes(graph, first)
        self.total, self.destination = int(supply.sum()), int(look[destination])
        capacity: dict[tuple[int, int], int] = {}
        for u, v, wide in zip(look[graph[0]].tolist(), look[graph[1]].tolist(), graph[2].tolist(), strict=True):
            if u != v:  # what stays within a class gains nothing over keeping it
                capacity[u, v] = min(self.total, capacity.get((u, v), 0) + (self.total if wide < 0 else wide))
        self.edges = [(u, v, wide) for (u, v), wide in sorted(capacity.items())]
        self.vertices = list(grouped(look.tolist()).values())
        self.storing = [vertices[0] < problem.ranks for vertices in self.vertices]
        self.supplies = [int(sum(supply[v] for v in part if v < problem.ranks)) for part in self.vertices]

    def flow(self, steps: int) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the flow to the destination in ``steps`` steps; (step, vertex) on the source side of a cut."""
        width = len(self.vertices)
        source = width * (steps + 1)
        edges: list[Edge] = [(source, c, supply) for c, supply in enumerate(self.supplies) if supply]
        for start in range(0, width * steps, width):
            for u, v, capacity in self.edges:
                edges.append((start + u, start + (width if self.storing[v] else 0) + v, capacity))
            edges += [(start + c, start + width + c, self.total) for c in range(width) if self.storing[c]]
        flow, reached = maximum_flow(source + 1, edges, source, width * steps + self.destination)
        side = [divmod(node, width) for node in reached if node != source]
        return flow, tuple(sorted((step, vertex) for step, c in side for vertex in self.vertices[c]))
