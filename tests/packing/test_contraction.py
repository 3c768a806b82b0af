"""Contraction against networkx, for every root; trees that are read from it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from hetesynth.search.packing.structures import contract, earliest

MANY = 10_000  # more than any tree costs


def random_costs(seed: int) -> np.ndarray:
    """Strongly connected by a ring; some edges missing, many costs equal or zero."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    costs = rng.integers(0, 6, size=(n, n)).astype(float)
    costs[rng.random((n, n)) < 0.4] = np.inf
    for i in range(n):
        costs[i, (i + 1) % n] = float(rng.integers(0, 20))
    np.fill_diagonal(costs, np.inf)
    return costs


def cheapest(costs: np.ndarray, root: int) -> float:
    graph = nx.DiGraph()
    for u, v in zip(*np.nonzero(np.isfinite(costs)), strict=True):
        if v != root:
            graph.add_edge(int(u), int(v), weight=MANY - float(costs[u, v]))
    tree = nx.maximum_branching(graph)  # minimum_spanning_arborescence finds none where costs differ much
    assert nx.is_arborescence(tree)
    return MANY * (len(costs) - 1) - float(tree.size(weight="weight"))


@pytest.mark.parametrize("seed", range(10))
def test_every_root_costs_what_networkx_says(seed: int) -> None:
    costs = random_costs(seed)
    assert contract(costs).root_costs().tolist() == [cheapest(costs, r) for r in range(len(costs))]


@pytest.mark.parametrize("seed", range(10))
def test_earliest_trees_span_and_cost_the_least(seed: int) -> None:
    costs = random_costs(seed)
    n = len(costs)
    seconds = np.random.default_rng(seed).random((n, n)) + 0.1
    contraction = contract(costs)
    parent, arrival = earliest(contraction, costs, seconds, np.arange(n), 1e-9)
    for root in range(n):
        tree = [(int(parent[root, v]), v) for v in range(n) if v != root]
        assert nx.is_arborescence(nx.DiGraph(tree)) and parent[root, root] == -1
        assert sum(costs[u, v] for u, v in tree) == contraction.root_costs()[root]
        for u, v in tree:
            assert arrival[root, v] == pytest.approx(arrival[root, u] + seconds[u, v])


def test_among_trees_of_one_cost_the_earliest_is_taken() -> None:
    """All edges cost the same: from each root a star, as every edge takes as long."""
    parent, _ = earliest(contract(np.ones((5, 5))), np.ones((5, 5)), np.ones((5, 5)), np.arange(5), 1e-9)
    for root in range(5):
        assert all(parent[root, v] == root for v in range(5) if v != root)


def test_a_graph_that_is_not_connected_is_refused() -> None:
    costs = np.full((3, 3), np.inf)
    costs[0, 1] = costs[1, 0] = 1.0
    with pytest.raises(ValueError, match="reached"):
        contract(costs)
