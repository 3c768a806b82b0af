"""The V100 clusters against figures worked out by hand, and against independent edge lists where those exist."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
GIGA = 10**9

# name: GPUs of each server in order, network rates in GB/s of the servers, NICs drawn per server
CLUSTERS: dict[str, tuple[tuple[int, ...], tuple[str, ...], int]] = {
    "v100_4p8": ((4, 8), ("8", "12.5"), 4),
    "v100_4p8_all100": ((4, 8), ("12.5", "12.5"), 4),
    "v100_4p8_slow18G": ((4, 8), ("2.25", "12.5"), 4),
    "v100_4p8_sharednic": ((4, 8), ("8", "12.5"), 1),
    "v100_4p8_slow18G_sharednic": ((4, 8), ("2.25", "12.5"), 1),
    "v100_4x3": ((4, 4, 4), ("12.5", "8", "8"), 4),
    "v100_4x2p8": ((4, 4, 8), ("12.5", "8", "12.5"), 4),
    "v100_4x3p8": ((4, 4, 4, 8), ("12.5", "8", "8", "12.5"), 4),
    "v100_8x2p4": ((8, 8, 4), ("12.5", "12.5", "8"), 4),
    "v100_4x2p8x2": ((4, 4, 8, 8), ("12.5", "8", "12.5", "12.5"), 4),
    "v100_fail_one4": ((3, 8), ("8", "12.5"), 4),
    "v100_fail_one8": ((4, 7), ("8", "12.5"), 4),
    "v100_fail_both": ((3, 7), ("8", "12.5"), 4),
    "v100_fail_each4": ((3, 3, 8), ("12.5", "8", "12.5"), 4),
}
Pairs = frozenset[tuple[int, int]]
Rate = tuple[int, int, Fraction]


def cluster(name: str) -> Topology:
    return load_topology(ROOT / "examples" / name / "topo.dsl")


def shared_sets(topology: Topology) -> Counter[tuple[Pairs, Fraction]]:
    """What several pairs of GPUs draw from: the pairs and the bytes per second."""
    pairs_of: dict[int, set[tuple[int, int]]] = {}
    for link in topology.links:
        for wire in link.wires:
            pairs_of.setdefault(wire, set()).add((link.src, link.dst))
    sets: Counter[tuple[Pairs, Fraction]] = Counter()
    for index, pairs in pairs_of.items():
        wire = topology.wires[index]
        if len(pairs) > 1 and wire.bandwidth is not None:
            sets[frozenset(pairs), wire.bandwidth * wire.lanes] += 1
    return sets


def by_hand(servers: tuple[int, ...], network: tuple[str, ...]) -> set[Rate]:
    """GPU pairs and rates: NVLink in a module of four, PCIe across modules, the slower NIC across servers."""
    place = [(server, gpu) for server, count in enumerate(servers) for gpu in range(count)]
    rates = [Fraction(rate) * GIGA for rate in network]
    found = set()
    for u, (s, i) in enumerate(place):
        for v, (t, j) in enumerate(place):
            if s != t:
                found.add((u, v, min(rates[s], rates[t])))
            elif u != v:
                found.add((u, v, Fraction(50 if i // 4 == j // 4 else 16) * GIGA))
    return found


@pytest.mark.parametrize("name", CLUSTERS)
def test_pairs_and_rates_are_those_worked_out_by_hand(name: str) -> None:
    servers, network, _ = CLUSTERS[name]
    topology = cluster(name)
    assert topology.name == name
    assert topology.ranks == sum(servers)
    links = [(link.src, link.dst, link.bandwidth * link.lanes) for link in topology.links]
    assert len(links) == len(set(links))
    assert set(links) == by_hand(servers, network)


@pytest.mark.parametrize("name", CLUSTERS)
def test_number_of_shared_sets(name: str) -> None:
    """A NIC has two directions and so has each of the four PCIe switches and UPI of an 8-GPU server.

    A failed GPU takes its own NIC along where it was the only one there.
    """
    servers, _, nics = CLUSTERS[name]
    expected = sum(2 * min(nics, count) + (10 if count > 4 else 0) for count in servers)
    assert sum(shared_sets(cluster(name)).values()) == expected
