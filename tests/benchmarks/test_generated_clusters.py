"""Generated clusters: their texts are read, hang together, stay the same and have every feature often enough."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.generated_clusters import FEATURES, Feature, GeneratedCluster, generated_clusters
from benchmarks.generated_servers import GENERATIONS, ServerType, possible
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

SEEDS = range(200)
FIRST = 40  # seeds in which each feature has to be often enough
OFTEN = 5
CLUSTERS = generated_clusters(SEEDS)


@pytest.fixture(scope="module")
def topologies(tmp_path_factory: pytest.TempPathFactory) -> list[Topology]:
    folder = tmp_path_factory.mktemp("generated")
    read = []
    for cluster in CLUSTERS:
        path = folder / f"{cluster.name}.dsl"
        path.write_text(cluster.text, encoding="utf-8")
        read.append(load_topology(path))
    return read


def reached(topology: Topology, start: int) -> set[int]:
    ranks = {start}
    edges = [start]
    while edges:
        here = edges.pop()
        beyond = {link.dst for link in topology.links if link.src == here} - ranks
        ranks |= beyond
        edges += beyond
    return ranks


def test_all_are_read_and_of_the_right_size(topologies: list[Topology]) -> None:
    for cluster, topology in zip(CLUSTERS, topologies, strict=True):
        assert topology.name == cluster.name
        servers = Counter(topology.servers)
        assert 1 <= len(servers) <= 8 and topology.ranks <= 64
        assert all(2 <= gpus <= 16 for gpus in servers.values()), cluster.name
        assert (len(servers) == 1) == ("one server" in cluster.features)
    usual = sum(8 <= topology.ranks <= 32 for topology in topologies)
    assert usual > len(topologies) * 3 // 4
    assert any(topology.ranks > 32 for topology in topologies)


def test_every_rank_reaches_every_other(topologies: list[Topology]) -> None:
    for topology in topologies:
        for rank in range(topology.ranks):
            assert len(reached(topology, rank)) == topology.ranks, (topology.name, rank)


def test_rates_of_nics_are_in_range(topologies: list[Topology]) -> None:
    """A NIC's own wire leads to its fabric; degraded ones may be slower than any NIC that is sold."""
    slowest = set()
    for cluster, topology in zip(CLUSTERS, topologies, strict=True):
        for wire in topology.wires:
            kinds = topology.vertices[wire.src].kind, topology.vertices[wire.dst].kind
            if "nic" in kinds and "fabric" in kinds and wire.bandwidth is not None:
                gbps = float(wire.bandwidth * wire.lanes * 8 / 10**9)
                assert (1 if "degraded" in cluster.features else 10) <= gbps <= 400, cluster.name
                slowest.add(gbps)
    assert {10.0, 25.0, 100.0, 200.0, 400.0} <= slowest


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import hashlib; from benchmarks.generated_clusters import generated_clusters as g\n"
        f"print(hashlib.sha256(''.join(c.text for c in g(range({FIRST}))).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    here = hashlib.sha256("".join(c.text for c in CLUSTERS[:FIRST]).encode()).hexdigest()
    assert digests == {here}


def test_seeds_give_different_clusters() -> None:
    bodies = {cluster.text.split("\n", 2)[2].replace(cluster.name, "") for cluster in CLUSTERS}
    assert len(bodies) == len(CLUSTERS)
    assert len({cluster.name for cluster in CLUSTERS}) == len(CLUSTERS)


def too_rare(clusters: Sequence[GeneratedCluster]) -> set[Feature]:
    counts = Counter(feature for cluster in clusters for feature in cluster.features)
    return {feature for feature in FEATURES if counts[feature] < OFTEN}


def test_each_feature_is_in_at_least_five_of_the_first_forty() -> None:
    assert not too_rare(CLUSTERS[:FIRST])
    without_rails = [cluster for cluster in CLUSTERS[:FIRST] if "rails" not in cluster.features]
    assert "rails" in too_rare(without_rails)


def seen(cluster: GeneratedCluster, topology: Topology) -> set[str]:
    """Features as the topology shows them, told without the generator's word."""
    kinds = Counter(vertex.kind for vertex in topology.vertices)
    features = set()
    if topology.groups:
        features.add("group")
    if kinds["fabric"] > 1 and any(v.kind == "fabric" and v.name.startswith("rail") for v in topology.vertices):
        features.add("rails")
    if any(v.kind == "fabric" and v.name.startswith("leaf") for v in topology.vertices):
        features.add("spine")
    if len(set(topology.servers)) == 1:
        features.add("one server")
    if len(set(Counter(topology.servers).values())) > 1:
        features.add("unequal servers")
    if len({vertex.model for vertex in topology.vertices[: topology.ranks]}) > 1:
        features.add("mixed GPUs")
    if any(vertex.name.split(".")[-1].startswith("plx") for vertex in topology.vertices):
        features.add("pcie")
    if any(vertex.name.split(".")[-1] == "nvswitch" for vertex in topology.vertices):
        features.add("switch")
    return features


def test_features_are_what_the_topology_shows(topologies: list[Topology]) -> None:
    visible = {"group", "rails", "spine", "one server", "unequal servers", "mixed GPUs", "pcie", "switch"}
    for cluster, topology in zip(CLUSTERS, topologies, strict=True):
        assert seen(cluster, topology) == cluster.features & visible, cluster.name
        for feature in ("rails", "spine", "group", "degraded", "mesh", "ring", "pcie", "switch"):
            assert (feature in cluster.name) == (feature in cluster.features)


@pytest.mark.parametrize("inside", ["mesh", "switch", "ring"])
def test_a_degraded_server_has_one_slower_link_each_way(tmp_path: Path, inside: str) -> None:
    h100 = next(generation for generation in GENERATIONS if generation.model == "H100")
    kind = ServerType(h100, inside, 4)  # type: ignore[arg-type]
    rates = []
    for part in (None, 0.25):
        path = tmp_path / f"{part}.dsl"
        name = kind.name if part is None else f"{kind.name}_slow"
        path.write_text(f"{kind.node(part)}cluster c {{ chunk 1 MB; instance a = {name} }}\n")
        topology = load_topology(path)
        rates.append(Counter(w.bandwidth * w.lanes for w in topology.wires if w.bandwidth is not None))
    (whole,) = rates[0]
    assert rates[1] == {whole: rates[0][whole] - 2, whole / 4: 2}


def test_what_a_generation_cannot_be_joined_to_is_refused() -> None:
    by_model = {generation.model: generation for generation in GENERATIONS}
    assert possible(by_model["V100"], "mesh", 7) and not possible(by_model["V100"], "mesh", 8)
    assert possible(by_model["T4"], "pcie", 8) and not possible(by_model["T4"], "ring", 8)
    assert not possible(by_model["A100"], "pcie", 4) and not possible(by_model["P100"], "switch", 4)
