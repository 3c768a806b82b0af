"""Few trees: spanning, within what was asked for, at known optima, and optimal wherever the search says so."""

from __future__ import annotations

import itertools
import random
import warnings
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from support.clusters import cluster
from support.packings import expansion, worst

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.policy import DEFAULT
from hetesynth.search.packing.column_generation import GAP, optimal_packing
from hetesynth.search.packing.exchange import _Exchange, few_trees, star_trees
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import Expansion, WholePacking, whole
from hetesynth.search.packing.structures import Stars, demands
from hetesynth.search.packing.symmetry import trivial


@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
@pytest.mark.parametrize("example", ["fig10", "h20_4p8", "mi250_x1"])
def test_trees_span_and_loads_are_theirs(example: str, name: CollectiveName) -> None:
    fractional = expansion(example, name)
    network = fractional.network
    for number in (1, 3):
        packed = few_trees(fractional, number, 63, 2)
        assert len(packed.carriers) == len(whole(fractional, number).carriers)
        roots = [carrier.root for carrier in packed.carriers]
        assert name == "allreduce" or roots == sorted(roots)  # as chunks are
        assert packed.seconds == pytest.approx(worst(fractional, packed))
        assert packed.seconds >= packed.least * (1 - 1e-9)
        chunks = len(packed.carriers)
        assert 0.99 * packed.least < fractional.least_seconds(chunks) <= packed.seconds
        for carrier in packed.carriers:
            out = nx.DiGraph([(int(network.src[i]), int(network.dst[i])) for i in carrier.outward])
            assert nx.is_arborescence(out) and len(out) == network.ranks and out.in_degree(carrier.root) == 0
            assert len(carrier.outward) == network.ranks - 1
            if name == "allreduce":
                inward = nx.DiGraph([(int(network.dst[i]), int(network.src[i])) for i in carrier.inward])
                assert nx.is_arborescence(inward) and len(inward) == network.ranks
                assert inward.in_degree(carrier.root) == 0


def test_stars_at_a_proved_optimum_are_left_alone() -> None:
    exchange = _Exchange(expansion("h20_4p8", "allreduce"), (), 63, 2, stars=2)
    for _ in range(2):
        exchange.take(exchange.laid(-1))
    exchange.improve()
    assert exchange.trees.tries[0] == 0


@pytest.mark.parametrize(
    ("example", "name", "number", "rounded", "percent"),
    [("h20_4x2p8", "allreduce", 3, 50, 100), ("dgx2_x2", "broadcast", 8, 67, 100)],
)
def test_few_trees_are_far_better_than_rounded_ones(
    example: str, name: CollectiveName, number: int, rounded: int, percent: int
) -> None:
    fractional = expansion(example, name)
    limit = None if name == "allgather" else 63
    before, packed = whole(fractional, number), few_trees(fractional, number, limit, 2)
    assert 100 * before.least / before.seconds < rounded + 1
    assert 100 * packed.least / packed.seconds >= percent - 1e-6
    ends = Counter[int]()
    for link in (link for carrier in packed.carriers for link in (*carrier.outward, *carrier.inward)):
        ends.update((int(fractional.network.src[link]), int(fractional.network.dst[link])))
    assert limit is None or max(ends.values()) <= limit


@pytest.mark.parametrize(("example", "name"), [("v100_fail_one4", "allreduce"), ("mi250_x1", "allgather")])
def test_trees_are_shortened_where_nothing_carries_more(example: str, name: CollectiveName) -> None:
    fractional = expansion(example, name)
    exchange = _Exchange(fractional, whole(fractional, 4).carriers, None, 2)
    exchange.improve()
    network, before = fractional.network, exchange.packing(0.0)
    exchange.shorten()
    after = exchange.packing(0.0)
    load = exchange.load.copy()
    exchange.load[:] = 0.0
    for tree in exchange.all:
        exchange.add(tree.links, 1)
    assert load == pytest.approx(exchange.load)

    def hops(packed: WholePacking) -> list[int]:
        sides = [
            (carrier.root, links) for carrier in packed.carriers for links in (carrier.outward, carrier.inward)
        ]
        graphs = [
            (root, nx.Graph([(int(network.src[i]), int(network.dst[i])) for i in links]))
            for root, links in sides
            if len(links)
        ]
        return [max(nx.single_source_shortest_path_length(graph, root).values()) for root, graph in graphs]

    assert after.seconds <= before.seconds * (1 + 1e-9)
    assert all(now <= then for now, then in zip(hops(after), hops(before), strict=True))
    assert sum(hops(after)) < sum(hops(before))


@pytest.mark.parametrize(("example", "number", "least"), [("h20_4x3p8", 8, 99), ("v100_fail_one8", 8, 88)])
def test_trees_are_of_few_levels_where_servers_are_joined(example: str, number: int, least: int) -> None:
    """From server to server, to all of each, and one hop more; other trees have 5 and 4 levels."""
    fractional = expansion(example, "allreduce")
    packed = star_trees(fractional, number, 63, 2)
    assert packed is not None
    exchange = _Exchange(fractional, packed.carriers, 63, 2)
    for tree in exchange.all:
        hops = nx.DiGraph((parent, rank) for rank, parent in enumerate(tree.parents()) if parent >= 0)
        assert len(hops) == fractional.network.ranks
        assert max(nx.single_source_shortest_path_length(hops, tree.root).values()) <= 3
    assert exchange.within_connections
    assert 100 * packed.least / packed.seconds >= least - 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_stars_are_the_cheapest(seed: int) -> None:
    """Every choice of a rank of each other server tried; ranks 1 and 4 have no link from elsewhere."""
    rng, servers = random.Random(seed), ("a", "a", "b", "b", "b", "c")
    pairs = [(u, v) for u, v in itertools.permutations(range(6), 2) if v not in (1, 4) or servers[u] == servers[v]]
    network = Network.of(cluster(6, [(u, v, 10, 1) for u, v in pairs]))
    by_link = np.array([rng.random() for _ in pairs])
    price = dict(zip(zip(network.src.tolist(), network.dst.tolist(), strict=True), by_link.tolist(), strict=True))
    stars = Stars(network, servers, by_link)
    for root in range(6):
        costs = []
        for gates in itertools.product((0, 1), (2, 3, 4), (5,)):
            edges = [(root, g) for g in gates if g != root]
            edges += [(g, v) for g in gates for v in range(6) if v != g and servers[v] == servers[g]]
            if root in gates and all(edge in price for edge in edges):
                costs.append(sum(price[edge] for edge in edges))
        assert stars.costs[root] == pytest.approx(min(costs))
        assert by_link[stars.links(root)].sum() == pytest.approx(min(costs))


def small(rng: random.Random) -> tuple[Expansion, int]:
    """A broadcast on four ranks, some links of which are missing; and its root."""
    ranks = 4
    around = [(a, (a + 1) % ranks) for a in range(ranks)]
    others = [(a, b) for a, b in itertools.permutations(range(ranks), 2) if (a, b) not in around]
    chosen = around + rng.sample(others, rng.randrange(2, 7))
    network = Network.of(cluster(ranks, [(a, b, rng.choice([10, 20, 30, 50]), 1) for a, b in chosen]))
    alike, packing = optimal_packing(network, "broadcast", 0, ("",) * ranks, DEFAULT.packing, no_deadline())
    every = demands(network, "broadcast", 0, trivial(network), DEFAULT.packing)
    return Expansion(network, alike, every, packing, False, ("",) * ranks), 0


def least_by_trying_all(fractional: Expansion, root: int, number: int) -> float:
    """Seconds a byte of the best ``number`` trees, every choice of trees tried."""
    network = fractional.network
    links = range(len(network.src))
    trees = []
    for chosen in itertools.combinations(links, network.ranks - 1):
        graph = nx.DiGraph([(int(network.src[i]), int(network.dst[i])) for i in chosen])
        if len(graph) == network.ranks and nx.is_arborescence(graph) and graph.in_degree(root) == 0:
            trees.append(fractional.loads(np.array(chosen)))
    several = itertools.combinations_with_replacement(trees, number)
    return min(float((sum(loads) / network.rate).max()) / number for loads in several)


def test_it_ends_early_only_at_the_optimum_and_mostly_there() -> None:
    optimal = 0
    for seed, number in itertools.product(range(12), (1, 2)):
        fractional, root = small(random.Random(seed))
        least = least_by_trying_all(fractional, root, number)
        packed = few_trees(fractional, number, None, 2)
        assert packed.seconds >= least * (1 - 1e-9)
        exchange = _Exchange(fractional, packed.carriers, None, 2)
        exchange.improve()
        if not exchange.trees.tries[0]:  # it has ended
            assert packed.seconds <= least * (1 + 2 * GAP)
        optimal += packed.seconds <= least * (1 + 1e-6)
    assert optimal >= 21


@pytest.mark.parametrize("cluster", ["fig10", "h20_4p8", "v100_fail_one4"])
@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
def test_nothing_is_below_what_is_proved(cluster: str, name: CollectiveName) -> None:
    fractional = expansion(cluster, name)
    for chunks in (1, 4, 7):
        packed = whole(fractional, chunks)
        assert packed.least == fractional.packing.bound
        assert packed.seconds >= packed.least * (1 - 1e-9)
        assert packed.seconds == pytest.approx(worst(fractional, packed))


@pytest.mark.parametrize(("chunks", "on_a_link"), [(1, 4), (2, 7), (4, 14)])
def test_a_ring_in_whole_chunks(chunks: int, on_a_link: int) -> None:
    """8 trees of 7 links for each chunk of a rank, on 16 links: 3.5 on each, so 4 of one chunk."""
    packed = few_trees(expansion("ring8", "allgather"), chunks, None, 2)
    assert packed.chunks_on.max() == pytest.approx(on_a_link)
    assert packed.seconds == pytest.approx(on_a_link / (8 * chunks * 25e9))


@pytest.mark.parametrize(
    ("cluster", "chunks", "most"), [("h20_4p8", 4, 1.002), ("v100_4p8", 1, 1.001), ("dgx1", 5, 1.05)]
)
def test_what_the_optimum_divides_is_rounded_with_little_loss(cluster: str, chunks: int, most: float) -> None:
    """Chunks move, and on DGX-1 trees that avoid what is full turn 6.5 chunks on a resource into 6."""
    fractional = expansion(cluster, "allgather")
    assert few_trees(fractional, chunks, None, 2).seconds <= most * fractional.packing.seconds


def test_a_chunk_that_is_far_too_large_for_a_resource_is_no_overflow() -> None:
    """One chunk for all of an allreduce: some tree puts many times its share on a NIC."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        packed = whole(expansion("h20_4p8", "allreduce"), 1)
    assert len(packed.carriers) == 1
