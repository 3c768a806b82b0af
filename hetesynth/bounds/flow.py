"""The single-destination max-flow bound on the time-expanded graph.

In: a copying problem. Out: the least T such that for every destination alone all chunks it lacks can reach it
in T steps. Copies are free for one destination, so a flow is all it takes; what limits several destinations at
once is left out, which keeps the bound valid (cf. TE-CCL 3.1 and 4.1 for the time-expanded network).

Nodes: every GPU at steps 0..T, every forwarding vertex at steps 0..T-1 (it does not store). A segment carries
its capacity each step; a GPU keeps what it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.bound import FlowWitness, LowerBound
from hetesynth.model.problem import Problem

Ints = NDArray[np.int32]

MAX_EDGES = 600_000  # of one time-expanded graph
WORK = 30_000_000  # edges summed over all flows; past it the remaining destinations are not tried


@dataclass(frozen=True, slots=True)
class _StepGraph:
    """The edges of one step: (src vertex, dst vertex, capacity or -1 for unlimited)."""

    src: Ints
    dst: Ints
    capacity: Ints


def flow_bound(problem: Problem, at_least: int = 0) -> LowerBound | None:
    """The bound, searched upwards from ``at_least`` (a bound already proved); None when it adds nothing."""
    graph = _step_graph(problem)
    best: LowerBound | None = None
    steps = max(at_least, 1)
    work = 0
    for destination in _by_need(problem):
        supply = _supply(problem, destination)
        needed = int(supply.sum())
        while needed:
            edges = (len(graph.src) + problem.ranks) * steps
            work += edges
            if work > WORK or edges > MAX_EDGES:
                return best
            flow, side = _max_flow(problem, graph, supply, destination, steps)
            if flow >= needed:
                break
            proof = f"at most {flow} of {needed} chunks can reach rank {destination} within {steps} steps"
            witness = FlowWitness(destination, steps, flow, needed, side)
            steps += 1
            best = LowerBound(steps, "flow", f"max-flow: {proof}", witness)
    return best


def _by_need(problem: Problem) -> list[int]:
    """Destinations, those that lack most against what can enter them first."""
    entering = [0] * problem.ranks
    for arc in problem.arcs:
        entering[arc.dst] += arc.capacity
    lacking = [0] * problem.ranks
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        for rank in post - pre:
            lacking[rank] += 1
    return sorted(range(problem.ranks), key=lambda r: (-lacking[r] / max(1, entering[r]), r))


def _supply(problem: Problem, destination: int) -> Ints:
    """How many of the chunks that ``destination`` lacks start at each rank (at one of its holders)."""
    supply = np.zeros(problem.ranks, dtype=np.int32)
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        if destination in post and destination not in pre:
            if len(pre) > 1:
                continue  # a chunk with several holders would need a source of its own; leaving it out is valid
            supply[min(pre)] += 1
    return supply


def _step_graph(problem: Problem) -> _StepGraph:
    edges: list[tuple[int, int, int]] = []
    used: set[int] = set()
    for arc in problem.arcs:
        if not arc.segments:
            edges.append((arc.src, arc.dst, arc.capacity))
        used.update(arc.segments)
    for s in sorted(used):
        segment = problem.segments[s]
        edges.append((segment.src, segment.dst, -1 if segment.capacity is None else segment.capacity))
    table = np.array(edges, dtype=np.int32).reshape(-1, 3)
    return _StepGraph(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())


def _max_flow(
    problem: Problem, graph: _StepGraph, supply: Ints, destination: int, steps: int
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The flow into ``destination`` within ``steps`` steps, and the source side of a minimum cut."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    ranks, vertices = problem.ranks, problem.vertices
    source, sink = vertices * (steps + 1), destination + vertices * steps
    unlimited = int(supply.sum())
    offset = (np.arange(steps, dtype=np.int32) * vertices)[:, None]
    arrive = np.where(graph.dst < ranks, graph.dst + vertices, graph.dst)[None, :]
    keep = np.arange(ranks, dtype=np.int32)[None, :]
    rows = np.concatenate(
        [(graph.src[None, :] + offset).ravel(), (keep + offset).ravel(), np.full(ranks, source, np.int32)]
    )
    columns = np.concatenate(
        [(arrive + offset).ravel(), (keep + vertices + offset).ravel(), np.arange(ranks, dtype=np.int32)]
    )
    capacity = np.where(graph.capacity < 0, unlimited, graph.capacity)
    data = np.concatenate([np.tile(capacity, steps), np.full(ranks * steps, unlimited, np.int32), supply])
    network = csr_matrix((data.astype(np.int32), (rows, columns)), shape=(source + 1, source + 1))
    result = maximum_flow(network, source, sink)
    if result.flow_value >= unlimited:
        return int(result.flow_value), ()
    residual = network - result.flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    side = sorted(divmod(int(node), vertices) for node in reached if node != source)
    return int(result.flow_value), tuple(side)
