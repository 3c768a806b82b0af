"""Bounds by prices: known optima, all trees of tiny clusters, a linear program of flows, and mutants."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.large_clusters import Kind, large_cluster
from support.reference_limit import reference_limit

from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.bound import TimeBound
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.topology import Link, Rank, SharedGroup, Topology, Vertex, Wire
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.search.packing.column_generation import GAP, optimal_packing
from hetesynth.search.packing.network import Network
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
GB = 10**9


def of_prices(topology: Topology, name: CollectiveName, root: Rank | None = None) -> TimeBound:
    """The bound by prices for every algorithm."""
    return next(b for b in time_bounds(topology, name, root) if b.kind == "prices" and b.scope == "all")


@pytest.mark.parametrize(
    ("cluster", "name", "microseconds"),
    [
        ("h20_4p8", "allgather", 3333.3333), ("h20_4p8", "allreduce", 5000.0),
        ("mi250_x1", "allreduce", 5833.3333), ("h20_4p8", "alltoall", 13333.3333),
    ],
)  # fmt: skip
def test_known_optima_of_a_gigabyte(cluster: str, name: CollectiveName, microseconds: float) -> None:
    bound = of_prices(load_topology(EXAMPLES / cluster / "topo.dsl"), name)
    assert float(bound.seconds_per_byte * GB) * 1e6 == pytest.approx(microseconds, rel=1e-6)


@pytest.mark.parametrize("kind", ["spine"])
@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_past_64_ranks_prices_prove_the_packing(kind: Kind, name: CollectiveName) -> None:
    """Of 72 GPUs in servers that all differ; the judge takes them, and nothing that claims more."""
    topology = parse_topology(large_cluster(kind, 72, 1))
    packing = optimal_packing(
        Network.of(topology), name, None, topology.servers, DEFAULT.packing, no_deadline()
    )[1]  # fmt: skip
    bound = of_prices(topology, name)
    assert topology.ranks == 72 and not time_bound_violations(topology, name, None, bound)
    assert packing.seconds * (1 - GAP) <= bound.seconds_per_byte <= packing.seconds * (1 + 1e-9)
    more = replace(bound, seconds_per_byte=bound.seconds_per_byte * Fraction(1_000_001, 1_000_000))
    assert time_bound_violations(topology, name, None, more)


def random_cluster(seed: int) -> Topology:
    """Two to four GPUs: a ring one way, some more links, parallel ones among them, and stated groups."""
    rng = random.Random(seed)
    n = rng.randint(2, 4)
    pairs = [(i, (i + 1) % n) for i in range(n)]
    pairs += [p for p in itertools.permutations(range(n), 2) if rng.random() < 0.35]
    rates = [GB * Fraction(rng.randint(1, 9), rng.randint(1, 2)) for _ in pairs]
    wires = tuple(
        Wire(u, v, "wire", rate, 1, Fraction(rng.randint(1, 9))) for (u, v), rate in zip(pairs, rates, strict=True)
    )
    links = tuple(Link.over(u, v, [i], wires) for i, (u, v) in enumerate(pairs))
    groups = tuple(
        SharedGroup(
            f"g{k}", "shared", GB * Fraction(rng.randint(1, 6), 2), tuple(sorted(rng.sample(range(len(pairs)), 2)))
        )
        for k in range(rng.randint(0, 2))
    )
    vertices = tuple(Vertex(f"v{i}", "gpu", f"s{i % 2}") for i in range(n))
    return Topology("random", vertices, n, wires, links, groups)


@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_the_limit_of_all_trees(seed: int) -> None:
    """Stated groups, one-way and parallel links; of an allreduce the limit of trees, from one root or many."""
    topology = random_cluster(seed)
    for name in ("allgather", "reducescatter", "broadcast", "reduce", "allreduce"):
        root = topology.ranks - 1 if name in ROOTED else None
        bounds = [b for b in time_bounds(topology, name, root) if b.kind == "prices"]
        most = max(float(b.seconds_per_byte) for b in bounds)
        assert most == pytest.approx(reference_limit(topology, name, root), rel=2e-6), name


def least_gossip(costs: list[list[int | None]]) -> int:
    """The least cost of moves after which every rank has something of all: shortest path over what each has."""
    n = len(costs)
    frontier: dict[int, set[tuple[int, ...]]] = {0: {tuple(1 << v for v in range(n))}}
    done: set[tuple[int, ...]] = set()
    while True:
        spent = min(frontier)
        for has in frontier.pop(spent):
            if has in done:
                continue
            done.add(has)
            if all(x == 2**n - 1 for x in has):
                return spent
            for u, v in itertools.permutations(range(n), 2):
                price = costs[u][v]
                if price is not None and has[v] | has[u] != has[v]:
                    later = (*has[:v], has[v] | has[u], *has[v + 1 :])
                    frontier.setdefault(spent + price, set()).add(later)


@pytest.mark.parametrize("seed", range(5))
def test_every_allreduce_costs_what_the_judge_says_for_any_prices_and_parts(seed: int) -> None:
    """Against all orders of moves: never above the cheapest."""
    from hetesynth.judge.bounds.laws import NONE
    from hetesynth.judge.bounds.time_bounds import every_allreduce

    rng = random.Random(seed)
    n = rng.randint(2, 4)
    costs = [
        [None if u == v or rng.random() < 0.2 else rng.choice((0, 1, 2, 7)) for v in range(n)] for u in range(n)
    ]
    for i in range(n):
        costs[i][(i + 1) % n] = rng.randint(0, 9)
    matrix = np.array([[NONE if c is None else c for c in row] for row in costs], dtype=np.int64)
    least = least_gossip(costs)
    for labels in itertools.product(range(3), repeat=n):
        parts = tuple(tuple(r for r in range(n) if labels[r] == k) for k in range(3) if k in labels)
        if len(parts) > 1:
            for graph in (matrix, matrix.T):
                claimed = every_allreduce(graph, parts)
                assert not isinstance(claimed, str) and claimed <= least


def test_stated_groups_count_in_an_alltoall() -> None:
    """Four GPUs, each pair joined both ways at 10; a group of 2 on all links from two to two: four blocks
    of a quarter cross it."""
    pairs = list(itertools.permutations(range(4), 2))
    wires = tuple(Wire(u, v, "wire", Fraction(10)) for u, v in pairs)
    links = tuple(Link.over(u, v, [i], wires) for i, (u, v) in enumerate(pairs))
    leaving = tuple(i for i, (u, v) in enumerate(pairs) if u < 2 <= v)
    vertices = tuple(Vertex(f"v{i}", "gpu", "s") for i in range(4))
    topology = Topology(
        "two by two", vertices, 4, wires, links, (SharedGroup("g", "shared", Fraction(2), leaving),)
    )
    assert of_prices(topology, "alltoall").seconds_per_byte == Fraction(1, 2)
    assert of_prices(topology, "allgather").seconds_per_byte == Fraction(1, 4)
