"""A topology becomes the machine that NCCL and RCCL see, or none where their search is not modelled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.library.facts import AMPERE, CDNA, HOPPER
from hetesynth.library.machine import Machine, machine_of
from hetesynth.library.times import chosen, library_times
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


@pytest.mark.parametrize(("kind", "busbw"), [("pcie", 23.3), ("pcie_staged", 14.7)])
def test_without_peer_access_data_passes_the_host(kind: str, busbw: float) -> None:
    """Eight RTX 4090: published runs reach 14.5 to 15 GB/s where they cannot reach each other."""
    bus = f"bus b {{ members gpu[0-7]; bandwidth 31.5 GB/s; kind {kind} }}"
    machine = machine_of(text_of(bus, "RTX 4090", 8))
    assert machine is not None and machine.nodes[0].joined == "host"
    seconds = chosen(machine, "allreduce", 1 << 30).expected
    assert 1.75 * (1 << 30) / seconds / 1e9 == pytest.approx(busbw, rel=0.01)


@pytest.mark.parametrize(
    ("model", "gpus", "first"), [("B200", 5, "Ring"), ("B200", 6, "NVLS"), ("H100", 4, "Ring")]
)
def test_from_how_many_gpus_a_switch_reduces(model: str, gpus: int, first: str) -> None:
    rate = 900 if model == "B200" else 450
    switch = f"switch s {{ ports gpu[0-{gpus - 1}]; kind nvlink; bandwidth {rate} GB/s; latency 1 us }}"
    machine = machine_of(text_of(switch, model, gpus))
    assert machine is not None and chosen(machine, "allreduce", 8 << 30).algorithm == first


def test_a_rack_takes_what_runs_take() -> None:
    """NVL72 of 1 and 8 GiB: 3,109 and 20,299 us."""
    rack = measured("gb200_nvl72")
    for size, seconds in ((1 << 30, 3109e-6), (8 << 30, 20299e-6)):
        assert chosen(rack, "allreduce", size).expected == pytest.approx(seconds, rel=0.02)


def test_rccl_starts_small_sums_with_msccl() -> None:
    """In one node with a process for each GPU, up to 1 MiB."""
    machine = measured("mi350x8")
    assert chosen(machine, "allreduce", 1 << 20).algorithm == "MSCCL"
    others = ((machine, "allgather", 1 << 20), (machine, "allreduce", 1 << 21))
    others += ((replace(machine, processes=False), "allreduce", 1 << 20),)
    assert "MSCCL" not in {chosen(*other).algorithm for other in others}


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
