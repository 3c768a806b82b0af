"""Fractional packings of the examples, and the load of whole ones, counted from their trees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.policy import DEFAULT
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import Expansion, WholePacking
from hetesynth.search.packing.structures import demands
from hetesynth.search.packing.symmetry import trivial
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


def expansion(cluster: str, name: CollectiveName) -> Expansion:
    topology = load_topology(EXAMPLES / cluster / "topo.dsl")
    root = 0 if name == "broadcast" else None
    network = Network.of(topology)
    alike, packing = optimal_packing(network, name, root, topology.servers, DEFAULT.packing, no_deadline())
    every = demands(network, name, root, trivial(network), DEFAULT.packing)
    return Expansion(network, alike, every, packing, name == "allreduce", topology.servers)


def worst(fractional: Expansion, packed: WholePacking) -> float:
    """Seconds of the fullest resource for each byte, counted from the trees."""
    network = fractional.network
    crossings = Counter(int(i) for c in packed.carriers for i in (*c.outward, *c.inward))
    load = [0.0] * len(network.rates)
    for link, many in crossings.items():
        for r in network.uses[network.uses_start[link] : network.uses_start[link + 1]]:
            load[r] += many
    assert packed.chunks_on == pytest.approx(np.array(load))
    rates = (float(rate) for rate in network.rates)
    return max(x / rate for x, rate in zip(load, rates, strict=True)) / len(packed.carriers)
