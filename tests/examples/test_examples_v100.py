"""The V100 clusters against figures worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
GIGA = 10**9

# name: GPUs of each server in order, network rates in GB/s of the servers
CLUSTERS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "v100_4p8": ((4, 8), ("8", "12.5")),
    "v100_4p8_all100": ((4, 8), ("12.5", "12.5")),
    "v100_4p8_slow18G": ((4, 8), ("2.25", "12.5")),
    "v100_4p8_sharednic": ((4, 8), ("8", "12.5")),
    "v100_4p8_slow18G_sharednic": ((4, 8), ("2.25", "12.5")),
    "v100_4x3": ((4, 4, 4), ("12.5", "8", "8")),
    "v100_4x2p8": ((4, 4, 8), ("12.5", "8", "12.5")),
    "v100_4x3p8": ((4, 4, 4, 8), ("12.5", "8", "8", "12.5")),
    "v100_8x2p4": ((8, 8, 4), ("12.5", "12.5", "8")),
    "v100_4x2p8x2": ((4, 4, 8, 8), ("12.5", "8", "12.5", "12.5")),
    "v100_fail_one4": ((3, 8), ("8", "12.5")),
    "v100_fail_one8": ((4, 7), ("8", "12.5")),
    "v100_fail_both": ((3, 7), ("8", "12.5")),
    "v100_fail_each4": ((3, 3, 8), ("12.5", "8", "12.5")),
}
Rate = tuple[int, int, Fraction]


def cluster(name: str) -> Topology:
    return load_topology(ROOT / "examples" / name / "topo.dsl")


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
    servers, network = CLUSTERS[name]
    topology = cluster(name)
    assert topology.name == name
    assert topology.ranks == sum(servers)
    links = [(link.src, link.dst, link.bandwidth * link.lanes) for link in topology.links]
    assert len(links) == len(set(links))
    assert set(links) == by_hand(servers, network)
