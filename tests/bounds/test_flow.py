"""Flows between classes of vertices against flows between the vertices, and plain loops against scipy."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.graphs import Graph, problem, ring, servers, star
from support.random_graphs import clusters

from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds import flow
from hetesynth.search.bounds.flow import StepGraph, classes


def test_a_ring_with_one_point_marked_is_folded() -> None:
    n = 9
    at = np.arange(n)
    around = StepGraph(
        np.concatenate([at, at]), np.concatenate([(at + 1) % n, (at - 1) % n]), np.ones(2 * n, dtype=np.int64)
    )
    assert classes(around, np.zeros(n, dtype=np.int64)).tolist() == [0] * n
    assert classes(around, (at == 0).astype(np.int64)).tolist() == [0, 1, 2, 3, 4, 4, 3, 2, 1]


def test_capacity_and_direction_tell_vertices_apart() -> None:
    src, dst = np.array([0, 1, 2]), np.array([1, 2, 0])
    assert len(set(classes(StepGraph(src, dst, np.array([1, 1, 1])), np.zeros(3, dtype=np.int64)).tolist())) == 1
    assert len(set(classes(StepGraph(src, dst, np.array([1, 1, 2])), np.zeros(3, dtype=np.int64)).tolist())) == 3
    path = StepGraph(src[:2], dst[:2], np.ones(2, dtype=np.int64))
    assert len(set(classes(path, np.zeros(3, dtype=np.int64)).tolist())) == 3


def unlumped(p: Problem, destination: int, steps: int) -> int:
    """The flow with a node for every vertex, by scipy."""
    graph, supply = flow._step_graph(p), flow._supply(p, destination)
    total, source = int(supply.sum()), p.vertices * (steps + 1)
    wide: dict[tuple[int, int], int] = {}
    for t in range(steps):
        base, then = t * p.vertices, (t + 1) * p.vertices
        for u, v, c in zip(graph.src.tolist(), graph.dst.tolist(), graph.capacity.tolist(), strict=True):
            key = (base + u, (then if v < p.ranks else base) + v)
            wide[key] = wide.get(key, 0) + (total if c < 0 else c)
        for r in range(p.ranks):
            wide[base + r, then + r] = total
    for r in np.flatnonzero(supply).tolist():
        wide[source, r] = int(supply[r])
    edges = [(u, v, min(c, total)) for (u, v), c in wide.items()]
    return flow._compiled(source + 1, edges, source, p.vertices * steps + destination)[0]


GRAPHS = {"4+8": servers([4, 8]), "8x2+4": servers([8, 8, 4]), "ring": ring(6), "star": star(5)}


@pytest.mark.parametrize("name", GRAPHS)
def test_classes_carry_as_much_as_their_vertices(name: str) -> None:
    every_flow(GRAPHS[name], 2)


@settings(max_examples=40, deadline=None)
@given(clusters(3, 3))
def test_classes_carry_as_much_on_random_clusters(graph: Graph) -> None:
    every_flow(graph, 2)


def every_flow(graph: Graph, chunks: int) -> None:
    p = problem(graph, "allgather", chunks)
    step_graph = flow._step_graph(p)
    for destination in range(p.ranks):
        lumped = flow._lumped(p, step_graph, flow._supply(p, destination), destination)
        for steps in (1, 2, 4):
            assert lumped.flow(steps, DEFAULT.bounds)[0] == unlumped(p, destination, steps)


@pytest.mark.parametrize("seed", range(30))
def test_plain_loops_and_scipy_agree(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.randint(2, 12)
    pairs = {tuple(rng.sample(range(nodes), 2)) for _ in range(rng.randint(1, 40))}
    edges = [(u, v, rng.randint(1, 5)) for u, v in sorted(pairs)]
    value, side = flow._dinic(nodes, edges, 0, nodes - 1)
    assert value == flow._compiled(nodes, edges, 0, nodes - 1)[0]
    assert 0 in side and nodes - 1 not in side
    assert value == sum(c for u, v, c in edges if u in side and v not in side)


def test_capacities_past_31_bits_stay_exact() -> None:
    wide = 2**40 + 1
    edges = [(0, 1, wide), (1, 2, wide), (0, 2, 3)]
    assert flow.maximum_flow(3, edges, 0, 2, replace(DEFAULT.bounds, plain_flow_edges=0)) == (wide + 3, [0, 1])


def test_the_work_of_flows_is_policy() -> None:
    p = problem(servers([8, 8, 4]), "allgather", 2)
    assert flow.flow_bound(p, 1, DEFAULT.bounds) is not None
    assert flow.flow_bound(p, 1, replace(DEFAULT.bounds, flow_work=0)) is None
