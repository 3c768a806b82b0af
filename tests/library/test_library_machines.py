"""A topology becomes the machine that NCCL and RCCL see, or none where their search is not modelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth.library.facts import AMPERE, CDNA, HOPPER
from hetesynth.library.machine import Machine, machine_of
from hetesynth.library.times import library_times
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOT_MODELLED = {
    "dgx1", "mesh_8x8", "mesh_8x8_hetero", "mi250_x1", "ndv2_x4", "ring8", "torus_8x8", "two_dc_50km",
}  # fmt: skip
SIZES = (8, 1 << 16, 1 << 24, 1 << 30)


def measured(name: str) -> Machine:
    machine = machine_of(load_topology(EXAMPLES / "measured" / f"{name}.dsl"))
    assert machine is not None
    return machine


def text_of(inside: str, model: str = "H100", gpus: int = 4) -> Topology:
    return parse_topology(f'node n {{ model "{model}"\n gpus {gpus}\n {inside} }}\ncluster c {{ instance a = n }}')


def is_sane(machine: Machine, topology: Topology) -> None:
    """Every GPU is in a node, and every time is of this world: between 1 us and what 10 MB/s take."""
    assert machine.ranks == topology.ranks
    assert all(node.total > 0 for node in machine.nodes if node.gpus > 1)
    for collective in COLLECTIVE_NAMES:
        for size in SIZES:
            times = list(library_times(machine, collective, size))
            assert times
            for time in times:
                assert 1e-6 < time.expected < 1e-2 + machine.ranks * size / 1e7
                assert 1e-6 < time.tabled < 1e-2 + machine.ranks * size / 1e7
                assert 1 <= time.channels <= 112


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/topo.dsl")), ids=lambda path: path.parent.name)
def test_every_example_is_sane_or_not_modelled(path: Path) -> None:
    topology = load_topology(path)
    machine = machine_of(topology)
    assert (machine is None) == (path.parent.name in NOT_MODELLED)
    if machine is not None:
        is_sane(machine, topology)


def test_a_node_is_a_switch_a_mesh_or_the_host() -> None:
    switch = text_of("switch s { ports gpu[0-3]; bandwidth 450 GB/s; kind nvlink }")
    mesh = text_of("mesh gpu[0-3] { bandwidth 25 GB/s x 4; kind nvlink }", "A100")
    amd = text_of("mesh gpu[0-3] { bandwidth 64 GB/s; kind xgmi }", "MI300X")
    host = text_of("bus b { members gpu[0-3]; bandwidth 31.5 GB/s; kind pcie }", "RTX 4090")
    nodes = [machine.nodes[0] for machine in map(machine_of, (switch, mesh, amd, host)) if machine]
    assert [node.joined for node in nodes] == ["switch", "mesh", "mesh", "host"]
    assert [node.generation for node in nodes] == [HOPPER, AMPERE, CDNA, AMPERE]
    assert [node.total for node in nodes] == pytest.approx([370.8, 240.0, 144.0, 24.0])
    assert [node.pair for node in nodes] == pytest.approx([0.0, 80.0, 48.0, 0.0])


def test_a_rack_in_one_nvlink_domain_is_one_node() -> None:
    (node,) = measured("gb200_nvl72").nodes
    assert (node.gpus, node.joined, node.nvls) == (72, "switch", True)
    assert node.total == pytest.approx(721.8)


@pytest.mark.parametrize(
    ("name", "fabric", "nics", "line"),
    [
        ("a100x8_2", "InfiniBand", (24.0,) * 8, 200.0),
        ("h100x8_2_roce", "RoCE", (48.0,) * 8, 400.0),
        ("p4d_2", "EFA", (12.5,) * 4, 50.0),
        ("p5_2", "EFA", (48.0,) * 8, 400.0),  # four of 100 Gbps are shown as one
        ("a3mega_2", "TCPXO", (25.0,) * 8, 200.0),
        ("abci_v_4", "InfiniBand", (12.0,) * 2, 25.0),
    ],
)
def test_nics_as_the_library_counts_them(name: str, fabric: str, nics: tuple[float, ...], line: float) -> None:
    machine = measured(name)
    assert machine.fabric.name == fabric
    for node in machine.nodes:
        assert node.nics == pytest.approx(nics)
        assert node.nic_line == pytest.approx(line)
