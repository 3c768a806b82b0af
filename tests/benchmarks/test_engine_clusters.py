"""Clusters for the packing engine: as large as asked, the same again, of servers that differ."""

from __future__ import annotations

import re

import pytest
from support.large_clusters import KINDS, Kind, large_cluster

from hetesynth.topology.language import parse_topology


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_cluster_has_its_gpus_and_is_the_same_again(kind: Kind) -> None:
    text = large_cluster(kind, 48, 1)
    assert text == large_cluster(kind, 48, 1) != large_cluster(kind, 48, 2)
    assert 48 - 7 <= parse_topology(text).ranks <= 48


@pytest.mark.parametrize("kind", ["measured", "all"])
def test_no_two_servers_are_alike(kind: Kind) -> None:
    nodes = re.findall(r"node \w+ \{(.*?)\n\}", large_cluster(kind, 256, 1), re.DOTALL)
    assert len(set(nodes)) == len(nodes) == 32
