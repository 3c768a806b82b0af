"""The best that rings can do, against rings that were found and against what is easily counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.ring_baseline import ring_limit, ring_wiring
from hetesynth.model.cost import costs
from hetesynth.model.topology import Topology
from hetesynth.search.baselines.ring_search import ring_sets
from hetesynth.search.bounds.ring_rate import ring_seconds
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
HALVES = """node n {
  gpus 8
  mesh gpu[0-7] { bandwidth 25 GB/s; latency 1 us }
  shared halves 50 GB/s { gpu[0-3] <-> gpu[4-7] }
}
cluster c { chunk 1 MB; instance a = n }"""


def found(on: Topology) -> float:
    """Seconds a byte around the best rings found."""
    wiring = ring_wiring(on, costs(on))
    return min(rings.cost for rings in ring_sets(wiring))


def limit(on: Topology) -> float:
    return ring_limit(on, "broadcast", 1, CostOptions())


def test_a_ring_leaves_every_set_of_ranks() -> None:
    """Without a cut the two halves would each have rings of their own, at 75 GB/s."""
    on = parse_topology(HALVES)
    assert limit(on) == pytest.approx(1 / 50e9, rel=2e-6) == pytest.approx(found(on), rel=2e-6)


def test_where_there_is_no_ring() -> None:
    line = "node n { gpus 3; link gpu0 -> gpu1 { bandwidth 1 GB/s } link gpu1 -> gpu2 { bandwidth 1 GB/s } }"
    on = parse_topology(line + " cluster c { chunk 1 MB; instance a = n }")
    assert ring_seconds(costs(on), ((0, 1, 2),)) == float("inf") and limit(on) == 0


@pytest.mark.parametrize("name", ["dgx1", "h20_4p8", "ring8", "two_dc_50km"])
def test_rings_that_are_found_are_the_best(name: str) -> None:
    on = load_topology(EXAMPLES / name / "topo.dsl")
    assert limit(on) <= found(on) <= limit(on) * (1 + 2e-6)
