"""Generated clusters: their texts are read and hang together; large ones are the same for the same seed."""

from __future__ import annotations

import networkx as nx
import pytest
from support.large_clusters import KINDS, Kind, large_cluster

from benchmarks.generated_clusters import FOLDER
from hetesynth.topology.language import parse_topology


def test_all_are_read_and_hang_together() -> None:
    for path in FOLDER.iterdir():
        topology = parse_topology(path.read_text())
        assert topology.name == path.stem and topology.ranks <= 64
        assert nx.is_strongly_connected(nx.DiGraph([(link.src, link.dst) for link in topology.links]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_cluster_has_its_gpus_and_is_the_same_again(kind: Kind) -> None:
    text = large_cluster(kind, 48, 1)
    assert text == large_cluster(kind, 48, 1) != large_cluster(kind, 48, 2)
    assert 48 - 7 <= parse_topology(text).ranks <= 48
