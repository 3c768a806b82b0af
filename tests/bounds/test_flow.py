"""Flows between classes of vertices against flows between the vertices, and plain loops against scipy."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from support.graphs import Graph, problem, ring, servers, star
from support.random_graphs import clusters

from hetesynth.model.bound import FlowWitness
from hetesynth.model.problem import Problem
from hetesynth.search.bounds import flow
from hetesynth.search.bounds.flow import classes


def test_a_ring_with_one_point_marked_is_folded() -> None:
    n = 9
    at = np.arange(n)
    ends = np.concatenate([(at + 1) % n, (at - 1) % n])
    around = np.concatenate([at, at]), ends, np.ones(2 * n, dtype=np.int64)
    assert classes(around, np.zeros(n, dtype=np.int64)).tolist() == [0] * n
    assert classes(around, (at == 0).astype(np.int64)).tolist() == [0, 1, 2, 3, 4, 4, 3, 2, 1]


def unlumped(p: Problem, destination: int, steps: int) -> int:
    """The flow with a node for every vertex, by networkx."""
    graph: nx.DiGraph = nx.DiGraph()
    starts = [
        min(pre)
        for pre, post in zip(p.collective.pre, p.collective.post, strict=True)
        if destination in post - pre
    ]
    wires = [(arc.src, arc.dst, arc.capacity) for arc in p.arcs if not arc.segments]
    used = sorted({s for arc in p.arcs for s in arc.segments})
    wires += [(p.segments[s].src, p.segments[s].dst, p.segments[s].capacity) for s in used]  # type: ignore[misc]
    for rank in starts:
        before = graph.get_edge_data("source", (0, rank), {"capacity": 0})["capacity"]
        graph.add_edge("source", (0, rank), capacity=before + 1)
    for at in range(steps):
        for u, v, wide in wires:
            edge = (at, u), (at + (v < p.ranks), v)
            before = graph.get_edge_data(*edge, {"capacity": 0})["capacity"]
            graph.add_edge(*edge, capacity=before + (len(starts) if wide is None else wide))
        graph.add_edges_from((((at, r), (at + 1, r)) for r in range(p.ranks)), capacity=len(starts))
    return int(nx.maximum_flow_value(graph, "source", (steps, destination)))


@settings(max_examples=15, deadline=None)
@given(clusters(3, 3))
@example(servers([4, 8]))
@example(ring(6))
@example(star(5))
def test_classes_carry_as_much_as_their_vertices(graph: Graph) -> None:
    """A flow bound of T steps: too little arrives in T - 1 at one destination, all in T at each."""
    p = problem(graph, "allgather", 2)
    needed = len(p.collective.chunks) - 2
    bound = flow.flow_bound(p, 1)
    if bound is not None:
        witness = bound.witness
        assert isinstance(witness, FlowWitness)
        assert unlumped(p, witness.destination, bound.steps - 1) == witness.flow < needed
    steps = 1 if bound is None else bound.steps
    assert all(unlumped(p, destination, steps) == needed for destination in range(p.ranks))


@pytest.mark.parametrize("seed", range(12))
def test_flows_are_maximal_and_cuts_minimal(seed: int) -> None:
    """Plain loops, and scipy where networks are large: the same edges beside 12,000 without a use."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 12)
    pairs = {tuple(rng.sample(range(nodes), 2)) for _ in range(rng.randint(1, 40))}
    edges = [(u, v, rng.randint(1, 5)) for u, v in sorted(pairs)]
    value, side = flow.maximum_flow(nodes, edges, 0, nodes - 1)
    beside = [(nodes + i, nodes + i + 1, 1) for i in range(12_000)]
    large, same = flow.maximum_flow(nodes + 12_001, edges + beside, 0, nodes - 1)
    assert (value, side) == (large, same) and 0 in side and nodes - 1 not in side
    assert value == sum(c for u, v, c in edges if u in side and v not in side)


def test_capacities_past_31_bits_stay_exact() -> None:
    wide = 2**40 + 1
    edges = [(0, 1, wide), (1, 2, wide), (0, 2, 3)]
    assert flow.maximum_flow(3, edges, 0, 2) == (wide + 3, [0, 1])
