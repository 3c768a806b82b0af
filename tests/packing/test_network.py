"""Loads of structures: those of their links alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hetesynth.search.packing.network import Network
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("cluster", ["h20_4p8", "mi250_x1", "ring8"])
def test_loads_of_some_links_are_those_of_all_with_none_on_the_others(cluster: str) -> None:
    network = Network.of(load_topology(EXAMPLES / cluster / "topo.dsl"))
    rng = np.random.default_rng(0)
    for many in (0, 1, 5, len(network.src)):
        links = rng.permutation(len(network.src))[:many]
        crossings = rng.integers(1, 9, many).astype(np.float64)
        every = np.zeros(len(network.src))
        every[links] = crossings
        loads = network.loads_of(links, crossings)
        assert loads.tolist() == network.loads(every).tolist()
        by_hand = [0.0] * len(network.rates)
        for link, many_times in zip(links, crossings, strict=True):
            for r in network.uses[network.uses_start[link] : network.uses_start[link + 1]]:
                by_hand[r] += many_times
        assert loads.tolist() == by_hand
