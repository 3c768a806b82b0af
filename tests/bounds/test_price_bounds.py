"""Bounds by prices: known optima, all trees of tiny clusters, a linear program of flows, and mutants."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from support.large_clusters import Kind, large_cluster

from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.time_bound import ResourcePrices, TimeBound, VertexCut, of_scope, tightest
from hetesynth.model.topology import Link, Rank, SharedGroup, Topology, Vertex, Wire
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.search.packing.column_generation import optimal_packing
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
        ("mi250_x1", "allgather", 2916.6667), ("mi250_x1", "allreduce", 5833.3333),
        ("v100_4x2p8x2", "allgather", 26041.6667), ("v100_4x2p8x2", "allreduce", 47619.0476),
        ("dgx2_x2", "allgather", 7750.0), ("dgx2_x2", "allreduce", 14761.9048),
        ("h20_4p8", "alltoall", 13333.3333), ("dgx2_x2", "alltoall", 80000.0),
    ],
)  # fmt: skip
def test_known_optima_of_a_gigabyte(cluster: str, name: CollectiveName, microseconds: float) -> None:
    bound = of_prices(load_topology(EXAMPLES / cluster / "topo.dsl"), name)
    assert float(bound.seconds_per_byte * GB) * 1e6 == pytest.approx(microseconds, rel=1e-6)


@pytest.mark.parametrize("kind", ["measured", "meshes", "spine"])
@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_past_64_ranks_prices_prove_the_packing(kind: Kind, name: CollectiveName) -> None:
    """Of 72 GPUs in servers that all differ; the judge takes them, and nothing that claims more."""
    topology = parse_topology(large_cluster(kind, 72, 1))
    packing = optimal_packing(
        Network.of(topology), name, None, topology.servers, DEFAULT.packing, no_deadline()
    )[1]  # fmt: skip
    bound = of_prices(topology, name)
    assert topology.ranks == 72 and not time_bound_violations(topology, name, None, bound)
    assert packing.seconds * (1 - DEFAULT.packing.gap) <= bound.seconds_per_byte <= packing.seconds * (1 + 1e-9)
    more = replace(bound, seconds_per_byte=bound.seconds_per_byte * Fraction(1_000_001, 1_000_000))
    assert time_bound_violations(topology, name, None, more)


def random_cluster(seed: int) -> Topology:
    """Two to four GPUs: a ring one way, some more links, parallel ones among them, and stated groups."""
    rng = random.Random(seed)
    n = rng.randint(2, 4)
    pairs = [(i, (i + 1) % n) for i in range(n)]
    pairs += [p for p in itertools.permutations(range(n), 2) if rng.random() < 0.35]
    rates = [Fraction(rng.randint(1, 9), rng.randint(1, 2)) for _ in pairs]
    wires = tuple(
        Wire(u, v, "wire", rate, 1, Fraction(rng.randint(1, 9))) for (u, v), rate in zip(pairs, rates, strict=True)
    )
    links = tuple(Link.over(u, v, [i], wires) for i, (u, v) in enumerate(pairs))
    groups = tuple(
        SharedGroup(
            f"g{k}", "shared", Fraction(rng.randint(1, 6), 2), tuple(sorted(rng.sample(range(len(pairs)), 2)))
        )
        for k in range(rng.randint(0, 2))
    )
    vertices = tuple(Vertex(f"v{i}", "gpu", f"s{i % 2}") for i in range(n))
    return Topology("random", vertices, n, wires, links, groups)


def out_trees(topology: Topology, root: Rank) -> Iterator[tuple[int, ...]]:
    """All spanning trees from ``root``, as links: one link into each other rank, none in a circle."""
    into = [[i for i, x in enumerate(topology.links) if x.dst == v] for v in range(topology.ranks) if v != root]
    for tree in itertools.product(*into):
        before = {topology.links[i].dst: topology.links[i].src for i in tree}
        if all(leads_to(before, v, root) for v in before):
            yield tree


def leads_to(before: dict[Rank, Rank], v: Rank, root: Rank) -> bool:
    for _ in before:
        v = before.get(v, v)
    return v == root


def in_trees(topology: Topology, root: Rank) -> Iterator[tuple[int, ...]]:
    back = replace(topology, wires=tuple(replace(w, src=w.dst, dst=w.src) for w in topology.wires),
                   links=tuple(replace(x, src=x.dst, dst=x.src) for x in topology.links))  # fmt: skip
    return out_trees(back, root)


def limit(topology: Topology, name: CollectiveName, root: Rank | None) -> float:
    """The least seconds a byte of all trees: a linear program with a variable for each."""
    n = topology.ranks
    trees = in_trees if name in ("reducescatter", "reduce") else out_trees
    if name == "allreduce":
        rows = [(list(out_trees(topology, r)), list(in_trees(topology, r))) for r in range(n)]
        columns = [(r, kind, t) for r in range(n) for kind in (0, 1) for t in rows[r][kind]]
        size = 1 + n + len(columns)
        equal = np.zeros((2 * n + 1, size))
        equal[2 * n, 1 : n + 1] = 1
        for c, (r, kind, _) in enumerate(columns):
            equal[2 * r + kind, 1 + n + c] = 1
        for r in range(n):
            equal[2 * r, 1 + r] = equal[2 * r + 1, 1 + r] = -1
        side = [0.0] * (2 * n) + [1.0]
        used = [((), 0)] * n + [(t, 1) for _, _, t in columns]
    else:
        roots = range(n) if root is None else [root]
        columns = [(k, 0, t) for k, r in enumerate(roots) for t in trees(topology, r)]
        equal = np.zeros((len(roots), 1 + len(columns)))
        for c, (k, _, _) in enumerate(columns):
            equal[k, 1 + c] = 1
        side = [1 / len(roots)] * len(roots)
        used = [(t, 1) for _, _, t in columns]
    resources = [({i for i, x in enumerate(topology.links) if w in x.wires}, wire.bandwidth or 0)
                 for w, wire in enumerate(topology.wires)]  # fmt: skip
    resources += [(set(g.links), g.bandwidth) for g in topology.groups]
    load = np.array([[-float(rate), *(len(links & set(t)) for t, _ in used)] for links, rate in resources])
    cost = np.zeros(load.shape[1])
    cost[0] = 1
    return float(linprog(cost, A_ub=load, b_ub=np.zeros(len(load)), A_eq=equal, b_eq=side, method="highs").fun)


@pytest.mark.parametrize("seed", range(25))
def test_bounds_are_the_limit_of_all_trees(seed: int) -> None:
    """Stated groups, one-way and parallel links; of an allreduce the limit of trees, from one root or many."""
    topology = random_cluster(seed)
    for name in ("allgather", "reducescatter", "broadcast", "reduce", "allreduce"):
        root = topology.ranks - 1 if name in ROOTED else None
        bounds = [b for b in time_bounds(topology, name, root) if b.kind == "prices"]
        most = max(float(b.seconds_per_byte) for b in bounds)
        assert most == pytest.approx(limit(topology, name, root), rel=2e-6), name


def every_price_bound(topology: Topology) -> Iterator[tuple[CollectiveName, Rank | None, TimeBound]]:
    for name in COLLECTIVE_NAMES:
        root = 1 if name in ROOTED else None
        for bound in time_bounds(topology, name, root):
            if bound.kind == "prices":
                yield name, root, bound


@lru_cache(maxsize=1)
def judged() -> tuple[Topology, tuple[tuple[CollectiveName, Rank | None, TimeBound], ...]]:
    topology = random_cluster(5)
    return topology, tuple(every_price_bound(topology))


def test_the_judge_accepts_what_is_proved_and_nothing_above() -> None:
    topology, bounds = judged()
    assert {name for name, _, _ in bounds} == set(COLLECTIVE_NAMES)
    for name, root, bound in bounds:
        assert not time_bound_violations(topology, name, root, bound), name
        more = replace(bound, seconds_per_byte=bound.seconds_per_byte * (1 + Fraction(1, 10**9)))
        assert time_bound_violations(topology, name, root, more), name


def test_the_judge_refuses_mutants() -> None:
    topology, bounds = judged()
    for name, root, bound in bounds:
        prices = bound.witness
        assert isinstance(prices, ResourcePrices)
        w = max(range(len(prices.wires)), key=prices.wires.__getitem__)
        negative = replace(prices, wires=(*prices.wires[:w], -1, *prices.wires[w + 1 :]))
        fraction = replace(prices, wires=tuple(p / 2 for p in prices.wires))  # type: ignore[arg-type]
        huge = replace(prices, wires=tuple((p + 1) * 10**18 for p in prices.wires))
        for wrong in (negative, fraction, huge, replace(prices, wires=prices.wires[1:])):
            assert time_bound_violations(topology, name, root, replace(bound, witness=wrong)), (name, wrong)
        assert time_bound_violations(topology, name, root, replace(bound, kind="cut"))
        cut = VertexCut((0,), Fraction(1), Fraction(1))
        assert time_bound_violations(topology, name, root, replace(bound, witness=cut))
        if name != "allreduce":
            assert time_bound_violations(topology, name, root, replace(bound, scope="tree-based"))
            assert time_bound_violations(topology, name, root, replace(bound, backwards=True))


def test_a_changed_price_proves_less_or_the_same() -> None:
    """At the optimum no other prices say more; some say less, and then the claim is refused."""
    topology, bounds = judged()
    refused = 0
    for name, root, bound in bounds:
        prices = bound.witness
        assert isinstance(prices, ResourcePrices)
        for w in range(len(prices.wires)):
            dearer = replace(prices, wires=(*prices.wires[:w], prices.wires[w] * 2 + 1, *prices.wires[w + 1 :]))
            refused += bool(time_bound_violations(topology, name, root, replace(bound, witness=dearer)))
    assert refused > len(bounds)


def test_an_allreduce_by_trees_is_no_bound_for_every_algorithm_without_parts() -> None:
    topology = random_cluster(7)
    for bound in of_scope(time_bounds(topology, "allreduce"), "all"):
        if isinstance(bound.witness, ResourcePrices):
            for parts in ((), ((0,),), ((0, 1), (1, 2, 3))):
                wrong = replace(bound, witness=replace(bound.witness, parts=parts))
                assert time_bound_violations(topology, "allreduce", None, wrong)
            assert time_bound_violations(topology, "allreduce", None, replace(bound, scope="tree-based"))


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


@pytest.mark.parametrize("seed", range(12))
def test_every_allreduce_costs_what_the_judge_says_for_any_prices_and_parts(seed: int) -> None:
    """Against all orders of moves: never above the cheapest."""
    from hetesynth.judge.bounds.prices import NONE
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


def test_tightest_leaves_out_what_holds_for_trees_alone() -> None:
    topology = random_cluster(3)
    bound = of_prices(topology, "allreduce")
    trees = replace(bound, scope="tree-based", seconds_per_byte=bound.seconds_per_byte * 2)
    assert tightest((trees, bound), GB) == bound and of_scope((trees, bound), "tree-based") == (trees,)


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
