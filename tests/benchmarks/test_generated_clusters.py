"""Generated clusters: their texts are read, hang together, stay the same and have every feature often enough."""

from __future__ import annotations

import hashlib
from collections import Counter

import networkx as nx
import pytest
from support.large_clusters import KINDS, Kind, large_cluster

from benchmarks.generated_clusters import FEATURES, generated_clusters
from hetesynth.topology.language import parse_topology

CLUSTERS = generated_clusters(range(40))
DIGEST = "2635fa78d2ae57792f197cc31db6dc9d9a3ab76342509d95494d7a0f16f3b357"


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert hashlib.sha256("".join(c.text for c in CLUSTERS).encode()).hexdigest() == DIGEST


def test_all_are_read_hang_together_and_are_what_they_say() -> None:
    for cluster in CLUSTERS:
        topology = parse_topology(cluster.text)
        kinds = Counter(vertex.kind for vertex in topology.vertices)
        servers = Counter(topology.servers)
        names = [vertex.name.split(".")[-1] for vertex in topology.vertices]
        assert topology.name == cluster.name and len(servers) <= 8 and topology.ranks <= 64
        assert nx.is_strongly_connected(nx.DiGraph([(link.src, link.dst) for link in topology.links])), (
            cluster.name
        )
        shown = {
            "group": bool(topology.groups),
            "rails": kinds["fabric"] > 1 and any(name.startswith("rail") for name in names),
            "spine": any(name.startswith("leaf") for name in names),
            "one server": len(servers) == 1,
            "unequal servers": len(set(servers.values())) > 1,
            "mixed GPUs": len({vertex.model for vertex in topology.vertices[: topology.ranks]}) > 1,
            "pcie": any(name.startswith("plx") for name in names),
            "switch": "nvswitch" in names,
        }
        assert {name for name, yes in shown.items() if yes} == cluster.features & set(shown), cluster.name


def test_each_feature_is_in_at_least_five_of_the_first_forty() -> None:
    counts = Counter(feature for cluster in CLUSTERS for feature in cluster.features)
    assert all(counts[feature] >= 5 for feature in FEATURES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_cluster_has_its_gpus_and_is_the_same_again(kind: Kind) -> None:
    text = large_cluster(kind, 48, 1)
    assert text == large_cluster(kind, 48, 1) != large_cluster(kind, 48, 2)
    assert 48 - 7 <= parse_topology(text).ranks <= 48
