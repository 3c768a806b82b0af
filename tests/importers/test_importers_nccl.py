"""NCCL's topology XML: what is read, what is written, what is remarked on, what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import networkx as nx
import pytest
from support.topology_files import HIDDEN, SWITCH, bridge, bus, cpu, gpu, nic, pcie_only, peers, switched, system

from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import calibrated
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.gpu_models import Calibration, nvlink_rate, pcie_rate, xgmi_rate
from hetesynth.topology.importers.network import parse_fabric
from hetesynth.topology.importers.reading import ReadOptions

GIGA = 10**9


def imported(
    tmp_path: Path, *files: bytes, net: str | None = None, counts: tuple[int, ...] = (), **options: object
) -> ImportedTopology:
    names = []
    for i, data in enumerate(files):
        path = tmp_path / f"{i}.xml"
        path.write_bytes(data)
        names.append(f"{path}*{counts[i]}" if counts else str(path))
    fabric = parse_fabric(net) if net else None
    return import_topology(ImportTopologyRequest(tuple(names), fabric=fabric, options=ReadOptions(**options)))  # type: ignore[arg-type]


def refusal(tmp_path: Path, *files: bytes, **rest: object) -> HetesynthError:
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, *files, **rest)  # type: ignore[arg-type]
    return caught.value


def warnings(result: ImportedTopology) -> str:
    return "\n".join(remark.text for remark in result.remarks if remark.severity == "warning")


def rates(result: ImportedTopology, a: int, b: int) -> list[Fraction]:
    """GB/s of the links from rank a to rank b."""
    return [k.bandwidth * k.lanes / GIGA for k in result.topology.links if (k.src, k.dst) == (a, b)]


def test_an_nvswitch_server(tmp_path: Path) -> None:
    result = imported(tmp_path, switched(), counts=(2,))
    assert result.topology.ranks == 8
    assert rates(result, 0, 3) == [300] and rates(result, 0, 4) == [25]
    assert [m.links_of(0) for m in result.machines] == [12, 12]
    assert "instance n[0-1] = a100x4" in result.text
    users = {w.src for w in result.topology.wires if result.topology.vertices[w.dst].name == "n0.nic0"}
    assert users & set(range(8)) == {0, 1}, "each NIC is that of the GPUs behind its PCIe switch"


@pytest.mark.parametrize(
    ("gpus", "nics", "out"), [(1, 2, Fraction("31.5")), (2, 4, 63), (2, 3, Fraction("56.5")), (4, 2, 50)]
)
def test_equal_nics_behind_one_bridge_are_all_used(
    tmp_path: Path, gpus: int, nics: int, out: Fraction | int
) -> None:
    """What leaves a bridge is bounded by NICs of 25 GB/s and by slots of 31.5 GB/s of the GPUs that use them."""
    groups = [
        bridge(
            b,
            *(gpu(gpus * b + k, SWITCH.format(12)) for k in range(gpus)),
            *(nic(nics * b + k) for k in range(nics)),
        )
        for b in range(2)
    ]
    topology = imported(tmp_path, system(cpu(0, *groups)), counts=(2,), net="switch").topology
    names = [vertex.name for vertex in topology.vertices]
    graph = nx.DiGraph()
    for wire in topology.wires:
        if wire.kind != "nvlink" and wire.dst >= topology.ranks and "n0." in names[wire.src]:
            rest = {} if wire.bandwidth is None else {"capacity": wire.bandwidth * wire.lanes}
            graph.add_edge(wire.src, wire.dst, **rest)
    graph.add_edges_from(("gpus", rank) for rank in range(2 * gpus))
    assert nx.maximum_flow_value(graph, "gpus", names.index("net")) == 2 * out * GIGA
    crossed = {topology.wires[w].src for link in topology.links for w in link.wires}
    assert all(f"n0.nic{i}" in {names[v] for v in crossed} for i in range(2 * nics))


@pytest.mark.parametrize(("calibration", "port"), [("spec", 300), ("nccl", 240), ("raw", 300)])
def test_a_calibration_is_used_for_every_link(tmp_path: Path, calibration: Calibration, port: int) -> None:
    result = imported(tmp_path, switched(), calibration=calibration)
    assert rates(result, 0, 1) == [port]
    assert f"--calibration {calibration}" in result.text
    counted = calibrated(result.topology, "measured")
    kept = [w.bandwidth for w in counted.wires] == [w.bandwidth for w in result.topology.wires]
    assert kept == (calibration == "nccl")  # what NCCL counts on is no data sheet's rate


def test_calibrations_have_their_own_figures() -> None:
    assert [nvlink_rate(90, c) / GIGA for c in ("spec", "nccl", "raw")] == [
        25,
        Fraction("20.6"),
        Fraction("26.562"),
    ]
    assert [xgmi_rate("gfx90a", c) / GIGA for c in ("spec", "nccl")] == [50, 36]
    assert [pcie_rate("16.0 GT/s PCIe", 16, c) / GIGA for c in ("spec", "nccl", "raw")] == [31.5, 24, 32]
    assert pcie_rate("", 0, "nccl") == pcie_rate("8 GT/s", 16, "nccl") == 12 * GIGA


def test_a_dump_of_several_hosts_is_one_domain(tmp_path: Path) -> None:
    """Behind a switch that the servers cannot see."""
    hosts = [cpu(0, *(gpu(i, HIDDEN.format(18), sm=103) for i in range(2)), host=f"0x{h}") for h in "ab"]
    result = imported(tmp_path, system(*hosts))
    assert result.topology.ranks == 4 and len(result.machines) == 2
    assert rates(result, 0, 3) == rates(result, 0, 1) == [900]


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        (system(cpu(0, gpu(0), gpu(1), nic(0, 200_000_000))), "mlx5_0: 200000000 Mb/s, which no NIC has"),
        (pcie_only().replace(b'affinity="00000020"', b'affinity="00000010"'), "(affinity): they contradict"),
        (system(cpu(0, gpu(0), gpu(1), nic(0, width=1))), "mlx5_0: 200 Gbps in a slot of 1.96875 GB/s x1"),
        (system(cpu(0, gpu(0), gpu(1, width=8))), "GPUs in different slots: 1 of 15.75 GB/s, 1 of"),
        (system(cpu(0, bridge(0, gpu(0), gpu(1), speed="2.5 GT/s", width=1))), "taken for virtual"),
        (system(cpu(0, gpu(0, peers(0, {0: 12})), gpu(1))), "links to itself"),
        (system(cpu(0, gpu(0, peers(0, {7: 2})), gpu(1))), "links to a device that the file does not list"),
        (system(cpu(0, gpu(0, peers(0, {1: 2})), gpu(1, peers(1, {0: 1})))), "disagree on their links: 2 and 1;"),
        (system(cpu(0, gpu(0), gpu(1))).replace(b'"0000:11', b'"0000:10'), "PCI addresses are there twice"),
    ],
)  # fmt: skip
def test_what_is_hard_to_believe_is_flagged(tmp_path: Path, data: bytes, warning: str) -> None:
    result = imported(tmp_path, data)
    assert warning in warnings(result)
    assert warning.split(":")[0] in result.text.replace("\n#   ", " ").replace("\n  #   ", " "), (
        "in the text as well"
    )


def test_ports_of_one_card_share_its_slot(tmp_path: Path) -> None:
    result = imported(tmp_path, system(cpu(0, gpu(0), gpu(1), nic(0, 100_000, width=8, ports=2))), counts=(2,))
    topology = result.topology
    out = [k for k in topology.links if k.src in (0, 1) and k.dst >= 2]
    common = set.intersection(*({*k.wires} for k in out))
    assert out and any(topology.wires[w].bandwidth == Fraction("15.75") * GIGA for w in common), "one slot of x8"
    assert any("ports of one card" in remark.text for remark in result.remarks)


SKELETON = system(cpu(0, *(f'<pci busid="{bus(i)}" class="0x030200"/>' for i in range(8))))


def test_a_skeleton_needs_a_node_type(tmp_path: Path) -> None:
    error = refusal(tmp_path, SKELETON)
    assert error.code == "HS733" and "--node-type" in error.help and "8 slots of GPUs" in error.message
    result = imported(tmp_path, SKELETON, node_type="a100x8", counts=(2,))
    assert result.topology.ranks == 16 and "instance n[0-1] = a100x8" in result.text
    assert refusal(tmp_path, SKELETON, node_type="a100x4").code == "HS732"
    assert refusal(tmp_path, SKELETON, node_type="nothing").code == "HS734"


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b'<graphs version="1"><graph/></graphs>', "HS732", "<graphs> says nothing"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><system version="1">&b;</system>', "HS732", "document type"),
        (b'<system version="1"></system>', "HS732", "it has no <cpu>"),
        (b'<system version="1"><cpu></system>', "HS732", "it is no XML"),
        (b'<system version="1"><cpu>' + b"<a>" * 999 + b"</a>" * 999 + b"</cpu></system>", "HS732", "no XML"),
        (system(cpu(0, gpu(0, extra='mlopart="1"'))), "HS732", "mlopart"),
        (system(cpu(0, gpu(0).replace('sm="80"', 'sm="eighty"'))), "HS732", "sm='eighty', which is no number"),
        (b"", "HS730", "of no format that is known"),
    ],
)  # fmt: skip
def test_what_is_no_topology_is_refused(tmp_path: Path, data: bytes, code: str, words: str) -> None:
    error = refusal(tmp_path, data)
    assert (error.code, error.exit_code) == (code, 2) and words in error.message and error.help


def test_servers_without_a_network_are_refused(tmp_path: Path) -> None:
    assert "--net switch" in refusal(tmp_path, switched(), counts=(2,), net="none").help
    alone = system(cpu(0, gpu(0), gpu(1)))
    assert refusal(tmp_path, alone, counts=(2,)).code == "HS733"
    with pytest.raises(HetesynthError) as caught:
        parse_fabric("leafspine:0")
    assert caught.value.code == "HS731"
