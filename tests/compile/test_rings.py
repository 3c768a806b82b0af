"""Rings reach the rates that rings can reach: one for each NIC, and over all NVLinks of a GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from support.ring_rate import ring_wiring

from hetesynth.model.cost import costs
from hetesynth.model.topology import Topology
from hetesynth.search.baselines.ring_search import RingSet, ring_sets
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
FAST_AND_SLOW = """
import h100
import a100
cluster fast_and_slow {
  instance h[0-1] = h100x8
  instance a[0-1] = a100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
"""
EIGHT_NICS = """
node h20x8n8 {
  gpus 8
  switch nvswitch { ports gpu[0-7]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-7] { bandwidth 400 Gbps }
  attach gpu[0-7] -> nic[0-7]
}
cluster eight_nics {
  instance a[0-1] = h20x8n8
  fabric ib { join *.nic*; latency 1.3 us }
}
"""
TWO_MODULES = """
node modules {
  gpus 4
  mesh gpu[0-1] { bandwidth 50 GB/s; latency 0.7 us; kind nvlink }
  mesh gpu[2-3] { bandwidth 50 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 100 Gbps }
  bus pcie0 { members gpu[0-1] <-> nic0; bandwidth 32 GB/s; kind pcie }
  bus pcie1 { members gpu[2-3] <-> nic1; bandwidth 32 GB/s; kind pcie }
  bus upi { members pcie0 <-> pcie1; bandwidth 48 GB/s; latency 1.5 us; kind upi }
}
cluster two_modules {
  instance a[0-2] = modules
  fabric ib { join *.nic*; latency 1.3 us }
}
"""


@cache
def topology(name: str) -> Topology:
    texts = {"fast_and_slow": FAST_AND_SLOW, "eight_nics": EIGHT_NICS, "two_modules": TWO_MODULES}
    return parse_topology(texts[name]) if name in texts else load_topology(EXAMPLES / name / "topo.dsl")


def best_set(on: Topology) -> RingSet:
    wiring = ring_wiring(on, costs(on))
    return min(ring_sets(wiring), key=lambda s: (s.cost, len(s.rings)))


@pytest.mark.parametrize(
    ("name", "rings", "rate"),
    [
        ("fast_and_slow", 8, 8 * 25),  # eight NICs a server, the slower ones of 25 GB/s
        ("eight_nics", 8, 8 * 50),
        ("h20_4p8", 4, 4 * 50),
        ("dgx1", 6, 6 * 25),  # three rings over all six NVLinks of a GPU, in both directions
        ("mi250_x1", 6, 6 * 50),
        ("dgx2_x2", 8, 8 * 12.5),
        ("ring8", 2, 2 * 25),
        ("torus_8x8", None, 2 * 50 * 1.073741824),  # both directions of a cycle at least
    ],
)
def test_rings_reach_what_rings_can(name: str, rings: int | None, rate: float) -> None:
    """``rate``: GB/s that all rings carry together past every rank."""
    best = best_set(topology(name))
    assert rings in (None, len(best.rings))
    assert 1e-9 / best.cost >= rate * (1 - 1e-9)
