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

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hetesynth.model.bound import FlowWitness, LowerBound
from hetesynth.model.problem import Problem
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.search.bounds.maxflow import Edge, maximum_flow
from hetesynth.search.bounds.symmetry import Ints, StepGraph, classes


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
        """The (step, vertex) pairs of (step, class) pairs, in order."""
        return tuple(sorted((step, vertex) for step, c in side for vertex in self.vertices[c]))
