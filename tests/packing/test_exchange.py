"""Few trees: spanning, within what was asked for, at known optima, and optimal wherever the search says so."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from support.clusters import cluster
from support.packings import expansion, worst

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.policy import DEFAULT
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.exchange import _Exchange, few_trees
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import Expansion, WholePacking, whole
from hetesynth.search.packing.structures import demands
from hetesynth.search.packing.symmetry import trivial


def connections(fractional: Expansion, packed: WholePacking) -> int:
    """Links that begin or end at the rank with most."""
    network, ends = fractional.network, Counter[int]()
    for carrier in packed.carriers:
        for link in (*carrier.outward, *carrier.inward):
            ends.update((int(network.src[link]), int(network.dst[link])))
    return max(ends.values())


@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
@pytest.mark.parametrize("example", ["fig10", "h20_4p8", "v100_4p8_sharednic", "mi250_x1", "dgx2_x2"])
def test_trees_span_and_loads_are_theirs(example: str, name: CollectiveName) -> None:
    fractional = expansion(example, name)
    network = fractional.network
    for number in (1, 3):
        packed = few_trees(fractional, number, 63)
        assert len(packed.carriers) == len(whole(fractional, number).carriers)
        assert packed.seconds == pytest.approx(worst(fractional, packed))
        assert packed.seconds >= packed.least * (1 - 1e-9)
        for carrier in packed.carriers:
            out = nx.DiGraph([(int(network.src[i]), int(network.dst[i])) for i in carrier.outward])
            assert nx.is_arborescence(out) and len(out) == network.ranks and out.in_degree(carrier.root) == 0
            assert len(carrier.outward) == network.ranks - 1
            if name == "allreduce":
                inward = nx.DiGraph([(int(network.dst[i]), int(network.src[i])) for i in carrier.inward])
                assert nx.is_arborescence(inward) and len(inward) == network.ranks
                assert inward.in_degree(carrier.root) == 0


@pytest.mark.parametrize(
    ("example", "name", "number", "rounded", "percent"),
    [
        ("h20_4x2p8", "allreduce", 3, 50, 100),
        ("dgx2_x2", "allreduce", 8, 67, 98),
        ("v100_4x2p8x2", "allreduce", 8, 79, 90),
        ("dgx2_x2", "broadcast", 8, 67, 100),
        ("h20_64", "allgather", 1, 71, 100),
    ],
)
def test_few_trees_are_far_better_than_rounded_ones(
    example: str, name: CollectiveName, number: int, rounded: int, percent: int
) -> None:
    fractional = expansion(example, name)
    limit = None if name == "allgather" else 63
    before, packed = whole(fractional, number), few_trees(fractional, number, limit)
    assert 100 * before.least / before.seconds < rounded + 1
    assert 100 * packed.least / packed.seconds >= percent - 1e-6
    if limit is not None:
        assert connections(fractional, packed) <= limit


def test_connections_are_spread_where_they_are_limited() -> None:
    fractional = expansion("h20_4x2p8", "allreduce")
    assert connections(fractional, whole(fractional, 14)) > 63
    assert connections(fractional, few_trees(fractional, 14, 63)) <= 63


def cut_short(fractional: Expansion) -> Expansion:
    """The same, as a deadline would leave it: its bound is less than its seconds."""
    worse = replace(fractional.packing, seconds=1.2 * fractional.packing.seconds)
    return replace(fractional, packing=worse)


def test_a_packing_that_is_not_optimal_proves_less() -> None:
    """At 1.2 times the optimum the same loads are 1 / 1.2; trees that load a resource 1.1 may still be less."""
    fractional = expansion("h20_4p8", "allreduce")
    worse, carriers = cut_short(fractional), whole(fractional, 8).carriers
    assert not _Exchange(fractional, carriers, None)._may_be_less(1.0)
    assert _Exchange(worse, carriers, None)._may_be_less(1.0)
    assert not _Exchange(worse, carriers, None)._may_be_less(1.0 / 1.2)


def test_the_same_twice() -> None:
    one, other = (few_trees(expansion("v100_fail_one4", "allreduce"), 5, 40) for _ in range(2))
    assert [c.key for c in one.carriers] == [c.key for c in other.carriers]


def small(rng: random.Random) -> tuple[Expansion, int]:
    """A broadcast on four ranks, some links of which are missing; and its root."""
    ranks = 4
    around = [(a, (a + 1) % ranks) for a in range(ranks)]
    others = [(a, b) for a, b in itertools.permutations(range(ranks), 2) if (a, b) not in around]
    chosen = around + rng.sample(others, rng.randrange(2, 7))
    network = Network.of(cluster(ranks, [(a, b, rng.choice([10, 20, 30, 50]), 1) for a, b in chosen]))
    alike, packing = optimal_packing(network, "broadcast", 0, ("",) * ranks, DEFAULT.packing, no_deadline())
    every = demands(network, "broadcast", 0, trivial(network), DEFAULT.packing)
    return Expansion(network, alike, every, packing, False, DEFAULT.packing), 0


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


@pytest.mark.parametrize("seed", range(25))
def test_it_ends_early_only_at_the_optimum(seed: int) -> None:
    rng = random.Random(seed)
    fractional, root = small(rng)
    for number in (1, 2):
        least = least_by_trying_all(fractional, root, number)
        packed = few_trees(fractional, number, None)
        assert packed.seconds >= least * (1 - 1e-9)
        search = _Exchange(fractional, packed.carriers, None)
        if not search._may_be_less(search.loads.fullest):
            assert packed.seconds <= least * (1 + 2 * DEFAULT.packing.gap)


def test_most_of_the_small_ones_are_optimal() -> None:
    optimal = 0
    for seed in range(25):
        fractional, root = small(random.Random(seed))
        packed = few_trees(fractional, 2, None)
        optimal += packed.seconds <= least_by_trying_all(fractional, root, 2) * (1 + 1e-6)
    assert optimal >= 22
