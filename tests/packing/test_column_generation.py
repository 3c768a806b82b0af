"""Packings: known optima, with and without symmetry, the same again; automorphisms are automorphisms."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from benchmarks.generated_clusters import generated_cluster

from hetesynth.model import deadline
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.deadline import ClockDecisions, Deadline, no_deadline
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, PackingPolicy
from hetesynth.search.packing.column_generation import GAP, PACKING, FractionalPacking, Master, _Generation
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.structures import contract, demands, earliest
from hetesynth.search.packing.symmetry import Symmetry, symmetry, trivial
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
POLICY = DEFAULT.packing
EXACT = 1e-11
IN_TURNS = replace(POLICY, ranks_together=0, ranks_of_a_turn=2)


def example(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "topo.dsl")


def packed(
    topology: Topology,
    name: CollectiveName,
    *,
    alike: bool = True,
    deadline: Deadline | None = None,
    policy: PackingPolicy = POLICY,
    gap: float = GAP,
) -> FractionalPacking:
    network = Network.of(topology)
    root = 0 if name in ROOTED else None
    group = group_of(topology, root) if alike else trivial(network)
    asked = demands(network, name, root, group, policy)
    return _Generation(network, asked, group, policy, deadline or no_deadline()).packing(gap)


def group_of(topology: Topology, root: int | None = None) -> Symmetry:
    return symmetry(Network.of(topology), topology.servers, 4 * topology.ranks, root)


@pytest.mark.parametrize(
    ("cluster", "name", "microseconds"),
    [
        ("h20_4p8", "allgather", 3333.3), ("h20_4p8", "allreduce", 5000.0), ("mi250_x1", "allreduce", 5833.3),
    ],
)  # fmt: skip
def test_known_optima_of_a_gigabyte(cluster: str, name: CollectiveName, microseconds: float) -> None:
    packing = packed(example(cluster), name)
    assert packing.bound * 1e15 == pytest.approx(microseconds, rel=1e-3)
    assert packing.seconds * 1e15 == pytest.approx(microseconds, rel=1e-3)


@pytest.mark.parametrize("cluster", ["h20_4p8", "fig10"])
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_symmetry_changes_no_optimum(cluster: str, name: CollectiveName) -> None:
    one, other = (packed(example(cluster), name, alike=alike) for alike in (True, False))
    assert one.seconds == pytest.approx(other.seconds, rel=2.1 * GAP)


def seconds_of(packing: FractionalPacking, network: Network) -> float:
    crossings = np.zeros(len(network.src))
    for structure, weight in zip(packing.structures, packing.weights, strict=True):
        crossings[structure.links] += weight * structure.crossings
    return float((network.loads_of(np.arange(len(crossings)), crossings) / network.rate).max())


@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast", "scatter"])
@pytest.mark.parametrize("way", ["together", "in turns", "in turns, no time for a master program"])
def test_a_deadline_leaves_a_packing_and_a_bound(
    name: CollectiveName, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when it is asked for the first time, the second, ...; without a master program what the sweeps
    offered is spread evenly."""
    topology, policy = example("v100_fail_one4"), POLICY if way == "together" else IN_TURNS
    network, optimum = Network.of(topology), packed(topology, name, alike=False)
    asked = demands(network, name, 0 if name in ROOTED else None, trivial(network), policy)
    if way.endswith("program") and name != "scatter":
        monkeypatch.setattr(Master, "solve", lambda self, seconds: None)
    seconds = []
    for asks in (1, 4, 9):
        ticks = count(1)
        monkeypatch.setattr(deadline, "source", lambda ticks=ticks: float(next(ticks)))
        record = ClockDecisions()
        packing = packed(topology, name, alike=False, policy=policy, deadline=Deadline(asks, record))
        assert packing.cut_short and record.places == {PACKING: 1}
        assert packing.bound <= optimum.seconds * (1 + 1e-9) and optimum.bound <= packing.seconds * (1 + 1e-9)
        assert seconds_of(packing, network) == pytest.approx(packing.seconds, rel=1e-6)
        rows = np.bincount([s.row for s in packing.structures], packing.weights)
        amounts = 2.0 if name == "allreduce" else sum(asked.amounts)  # type: ignore[union-attr]
        assert rows.sum() == pytest.approx(amounts)
        assert packing.bound == pytest.approx(asked.offer(packing.prices, None).least)
        seconds.append(packing.seconds)
    assert way != "together" or all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(seconds))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast"])
def test_ranks_in_turns_reach_the_same_optimum(seed: int, name: CollectiveName) -> None:
    topology = parse_topology(generated_cluster(seed).text)
    together, in_turns = (packed(topology, name, policy=policy, gap=EXACT) for policy in (POLICY, IN_TURNS))
    for one in (together, in_turns):
        assert one.bound == pytest.approx(one.seconds, rel=1e-9)
    assert in_turns.seconds == pytest.approx(together.seconds, rel=1e-9)


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


def test_a_graph_that_is_not_connected_is_refused() -> None:
    costs = np.full((3, 3), np.inf)
    costs[0, 1] = costs[1, 0] = 1.0
    with pytest.raises(ValueError, match="reached"):
        contract(costs)
