"""Prices of links, sizes of chunks, bandwidths and calibrations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from support.clusters import cluster

from hetesynth.engine.recipe import topology_hash
from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import calibrated
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.cost import Costs, bandwidths, bus_factor, chunk_bytes, costs, runtime_bytes
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def primitive(costs: Costs, link: int, size: float, *, reduces: bool = False) -> float:
    """tau_c of HeteCCL 4.2: seconds that ``size`` bytes take over ``link`` when nobody else uses it."""
    reduction = size * costs.gamma[costs.link_ends[link][1]] if reduces else 0.0
    return costs.link_alpha[link] + size / costs.link_rate[link] + reduction


def test_prices_of_a_path() -> None:
    """A V100 of one server to one of the other: NICs of 8 and 12.5 GB/s, a PCIe bus of 16, alpha of the fabric."""
    topology = load_topology(EXAMPLES / "v100_4p8" / "topo.dsl")
    prices = costs(topology)
    link = next(i for i, x in enumerate(topology.links) if (x.src, x.dst) == (0, 4))
    used = {prices.resource_names[r]: prices.resource_rate[r] / 1e9 for r in prices.link_resources[link]}
    assert sorted(used.values()) == [8, 12.5, 16]
    assert prices.link_rate[link] == 8e9 and prices.link_alpha[link] == pytest.approx(1.3e-6)
    assert prices.gamma[4] == pytest.approx(1 / 270e9) and prices.copy[4] == pytest.approx(1 / 405e9)
    near = next(i for i, x in enumerate(topology.links) if (x.src, x.dst) == (0, 1))
    assert prices.link_rate[near] == 50e9  # two lanes of 25
    assert primitive(prices, near, 1e6, reduces=True) == pytest.approx(0.7e-6 + 20e-6 + 1e6 / 270e9)
    assert len(set(prices.resource_names)) == len(prices.resource_names)


def test_a_group_is_a_resource_of_each_of_its_links() -> None:
    topology = cluster(3, [(0, 1, 50, 1), (0, 2, 50, 1)], [(30, (0, 1)), (20, (1,))])
    topology = replace(
        topology, groups=tuple(replace(g, name="g", lanes=1 + i) for i, g in enumerate(topology.groups))
    )
    prices = costs(topology)
    assert prices.resource_names[-2:] == ("g", "g (2)")
    assert prices.link_rate == (30e9, 30e9)  # the second group has two lanes of 20


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_sizes_and_factors_are_those_of_nccl_tests(name: str) -> None:
    whole = name in ("broadcast", "reduce")
    assert chunk_bytes(name, 8, 2, 2**20) == 2**20 / (2 if whole else 16)  # type: ignore[arg-type]
    expected = Fraction(7, 4) if name == "allreduce" else Fraction(1) if whole else Fraction(7, 8)
    assert bus_factor(name, 8) == expected  # type: ignore[arg-type]
    assert runtime_bytes(name, 8, 2**20) == (2**17 if name in ("gather", "scatter") else 2**20)  # type: ignore[arg-type]
    reached = bandwidths(name, 8, 2**20, 1e-3)  # type: ignore[arg-type]
    assert reached.bus == pytest.approx(2**20 * 1000 * float(expected))
    assert bandwidths(name, 8, 1, 0).algorithm == 0  # type: ignore[arg-type]


def test_what_is_measured_is_not_derated() -> None:
    text = "import h100\ncluster m {\n  instance a[0-1] = h100x8\n  fabric ib { join *.nic* }\n"
    plain = parse_topology(text + "}\n", "m.dsl")
    measured = parse_topology(text + "  measured nvlink\n}\n", "m.dsl")
    assert measured.measured == ("nvlink",) and topology_hash(measured) != topology_hash(plain)
    for kind, share in (("nvlink", 1), ("net", 0.94)):
        link = next(i for i, x in enumerate(measured.links) if x.kind == kind)
        rate = calibrated(measured, "measured").links[link].bandwidth / plain.links[link].bandwidth
        assert float(rate) == pytest.approx(share)
    with pytest.raises(HetesynthError, match="no wire is of kind `nvlnk`"):
        parse_topology(text + "  measured nvlnk\n}\n", "m.dsl")
