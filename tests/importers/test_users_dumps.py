"""Dumps as people posted them: what newer releases write, virtual ports, graphics of boards, parts of GPUs."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest
from support.topology_files import SWITCH, bridge, cpu, gpu, nic, pcie_only, peers, switched, system

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.gpu_models import MODELS, PART, amd_model, gpu_model
from hetesynth.topology.importers.reading import ReadOptions

REPORTS = Path(os.environ.get("HETESYNTH_CONFORMANCE", Path(__file__).parents[3] / "shared" / "data")) / "reports4"
GIGA = 10**9


def imported(tmp_path: Path, data: bytes, suffix: str = "xml", **options: object) -> ImportedTopology:
    path = tmp_path / f"0.{suffix}"
    path.write_bytes(data)
    return import_topology(ImportTopologyRequest((str(path),), options=ReadOptions(**options)))  # type: ignore[arg-type]


def mesh(gpus: int, count: int) -> bytes:
    links = (peers(i, {j: count for j in range(gpus) if j != i}) for i in range(gpus))
    return system(cpu(0, *(gpu(i, each) for i, each in enumerate(links)), nic(0)))


def hosts(*names: str) -> bytes:
    """One NVLink domain of several hosts, as NCCL fuses their trees."""
    pairs = (f"{gpu(2 * k, SWITCH.format(18))}{gpu(2 * k + 1, SWITCH.format(18))}" for k in range(len(names)))
    parts = (
        cpu(0, pair, nic(k), host=f"0x{name}") for k, (name, pair) in enumerate(zip(names, pairs, strict=True))
    )
    return system(*parts, version=2)


WHOLE: dict[str, tuple[bytes, int, int]] = {
    "switched of 8": (switched(8, 4), 8, 4),
    "switched of 4": (switched(), 4, 2),
    "two NICs a GPU": (
        system(cpu(0, *(bridge(i, gpu(i, SWITCH.format(12)), nic(2 * i), nic(2 * i + 1)) for i in range(4)))),
        4,
        8,
    ),
    "no NIC": (system(cpu(0, gpu(0, SWITCH.format(12)), gpu(1, SWITCH.format(12)))), 2, 0),
    "PCIe only": (pcie_only(), 4, 2),
    "PCIe, one socket": (pcie_only(8, sockets=1), 8, 1),
    "mesh": (mesh(4, 4), 4, 1),
    "nested bridges": (system(cpu(0, bridge(0, bridge(1, gpu(0), gpu(1)), bridge(2, gpu(2), nic(0))))), 3, 1),
    "two sockets": (system(cpu(0, gpu(0), nic(0)), cpu(1, gpu(1), nic(1))), 2, 2),
    "arm": (switched().replace(b'arch="x86_64"', b'arch="arm64"'), 4, 2),
}
"""Files by name, with their GPUs and NICs."""

ADDED = {
    "2.30.7": (b"<gpu ", b'<gpu mlopart="-1" '),
    "mlopart without a value": (b"<gpu ", b'<gpu mlopart="" '),
    "unknown in gpu": (b"<gpu ", b'<gpu fabric_health="3" '),
    "unknown in net": (b"<net ", b'<net railid="2" planeid="-1" '),
    "unknown in pci": (b"<pci ", b'<pci subsystem_vendor="0x10de" acs="off" '),
    "unknown in cpu": (b"<cpu ", b'<cpu sockets="2" '),
    "unknown in system": (b"<system ", b'<system keep="1" generator="NCCL 2.31" '),
    "unknown in nvlink": (b"<nvlink ", b'<nvlink generation="4" '),
    "an unknown element": (b"</system>", b'<rack id="7"><slot/></rack></system>'),
    "connections of a net": (b"<net ", b'<net maxconn="131072" coll="1" latency="0.000000" '),
    "gdr off": (b'gdr="1"', b'gdr="0"'),
    "keep": (b"<gpu ", b'<gpu keep="1" '),
}


@pytest.mark.parametrize("file", WHOLE)
@pytest.mark.parametrize("added", ADDED)
def test_what_changes_no_meaning_changes_nothing(file: str, added: str, tmp_path: Path) -> None:
    data, gpus, nics = WHOLE[file]
    before, after = imported(tmp_path, data), imported(tmp_path, data.replace(*ADDED[added]))
    (machine,) = after.machines
    assert (len(machine.gpus), len(machine.nics)) == (gpus, nics)
    assert after.text == before.text


def test_a_part_of_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, switched().replace(b"<gpu ", b'<gpu mlopart="0" ', 1))
    assert caught.value.code == "HS732" and "mlopart" in caught.value.message


def test_hosts_of_one_domain_with_the_new_attribute(tmp_path: Path) -> None:
    fused = hosts("a1", "b2", "c3")
    assert imported(tmp_path, fused.replace(*ADDED["2.30.7"])).topology.ranks == 6


SPEEDS = [
    # above, of the port, below, GB/s of what leaves a GPU
    ("32.0 GT/s PCIe", "5.0 GT/s PCIe", "16.0 GT/s PCIe", Fraction("31.5")),
    ("16.0 GT/s PCIe", "2.5 GT/s PCIe", "32.0 GT/s PCIe", Fraction(63)),
    ("32.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", Fraction("31.5")),
    ("8.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", Fraction("15.75")),
    ("5.0 GT/s PCIe", "5.0 GT/s PCIe", "16.0 GT/s PCIe", Fraction(8)),  # a server of that time
]


@pytest.mark.parametrize(("above", "port", "below", "rate"), SPEEDS)
def test_a_virtual_port_tells_no_speed(above: str, port: str, below: str, rate: Fraction, tmp_path: Path) -> None:
    """Two islands of two GPUs under one switch; a port of 5 GT/s at most between faster links is virtual."""
    islands = (bridge(1 + k, *(gpu(2 * k + i, speed=below) for i in range(2)), speed=port) for k in range(2))
    result = imported(tmp_path, system(cpu(0, bridge(0, *islands, speed=above))))
    wires = result.topology.wires
    (link,) = [one for one in result.topology.links if (one.src, one.dst) == (0, 2)]
    assert min(wires[i].bandwidth or 0 for i in link.wires) == rate * GIGA
    virtual = float(port.split()[0]) <= 5 < float(above.split()[0])
    assert any("taken for virtual" in remark.text for remark in result.remarks) == virtual


def test_virtual_ports_behind_each_other(tmp_path: Path) -> None:
    inner = bridge(2, gpu(0, speed="32.0 GT/s PCIe"), gpu(1, speed="32.0 GT/s PCIe"), speed="2.5 GT/s PCIe")
    outer = bridge(1, inner, gpu(2, speed="32.0 GT/s PCIe"), speed="5.0 GT/s PCIe")
    result = imported(tmp_path, system(cpu(0, bridge(0, outer, speed="32.0 GT/s PCIe"))))
    assert {wire.bandwidth for wire in result.topology.wires} == {63 * GIGA}


def graphics(pci_class: str, pci: str, name: str = "") -> bytes:
    info = f'<info name="PCIDevice" value="{name}"/>' if name else ""
    return (
        '<?xml version="1.0"?><topology version="2.0"><object type="Machine"><object type="Package">'
        f'<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="{pci_class} [{pci}] [0000:0000] 01">{info}'
        "</object></object></object></topology>"
    ).encode()


@pytest.mark.parametrize(
    ("pci_class", "pci", "name", "gpus"),
    [
        ("0300", "1002:515e", "ES1000", 0),  # on the board
        ("0300", "1002:4752", "Rage XL", 0),
        ("0300", "10de:01d1", "G72 [GeForce 7300 LE]", 0),
        ("0300", "102b:0522", "MGA G200e", 0),
        ("0300", "1a03:2000", "ASPEED Graphics Family", 0),
        ("0302", "10de:20b0", "", 1),
        ("1200", "1002:74a1", "", 1),
        ("0300", "10de:2b85", "", 1),
        ("0300", "10de:2684", "AD102 [GeForce RTX 4090]", 1),
        ("0302", "10de:ffff", "", 1),  # a 3D controller of a model to come
    ],
)
def test_graphics_of_a_board_are_no_gpu(pci_class: str, pci: str, name: str, gpus: int, tmp_path: Path) -> None:
    data = graphics(pci_class, pci, name)
    if gpus:
        assert len(imported(tmp_path, data).machines[0].gpus) == gpus
        return
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, data)
    assert "no GPU in it" in caught.value.message


def test_ids_and_names_that_people_have() -> None:
    assert MODELS["0x10de", "0x2bb3"] == "RTX PRO 5000" and gpu_model("RTX PRO 5000") is not None
    assert [MODELS["0x1002", device] for device in ("0x74b5", "0x75a0")] == ["MI300X", "MI350X"]
    assert amd_model("MI350X") is not None
    rtx = gpu_model("3090")
    assert rtx is not None and (rtx.sm, rtx.links) == (86, 4)


PARTS = ["NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100_MIG_3g", "mig-1g.10gb", "H100 3g.40gb"]


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_no_gpu_by_any_reader(name: str, tmp_path: Path) -> None:
    assert gpu_model(name) is None
    nodes = [{"id": i, "type": "gpu", "server": 0, "model": name} for i in range(2)]
    links = [{"src": a, "dst": 1 - a, "GBps": 50} for a in range(2)]
    edges = json.dumps({"name": "two", "nodes": nodes, "links": links}).encode()
    osdev = f'<object type="OSDev" name="cuda0"><info name="GPUModel" value="{name}"/></object></object></object>'
    tree = graphics("0302", "10de:20b0").replace(b"</object></object>", osdev.encode(), 1)
    unknown = switched().replace(b"0x20b0", b"0xffff")
    for data, model in ((edges, ""), (tree, ""), (unknown, name)):
        with pytest.raises(HetesynthError, match="a part of a GPU"):
            imported(tmp_path, data, model=model)


@pytest.mark.parametrize("name", ["MI300X", "RTX 3090", "Migrator 5000", "H100 80GB HBM3", "GB200 NVL72"])
def test_a_whole_gpu_is_no_part(name: str) -> None:
    assert not PART.search(name)


@pytest.mark.parametrize("model", sorted(set(MODELS.values())))
def test_a_model_of_an_id_is_known(model: str) -> None:
    assert gpu_model(model) or amd_model(model)


@pytest.mark.skipif(not REPORTS.exists(), reason="the larger set of files is not there")
class TestReports:
    """Files of users, with the right answers."""

    def test_a_dump_of_nccl_2_30(self, tmp_path: Path) -> None:
        data = (REPORTS / "nccl__h100_nccl230_mlopart_minus1.xml").read_bytes()
        (machine,) = imported(tmp_path, data).machines
        assert (len(machine.gpus), len(machine.nics)) == (8, 16)
        assert {nic.rate for nic in machine.nics} == {180 * GIGA // 8}

    def test_virtual_ports_of_rccl(self, tmp_path: Path) -> None:
        data = (REPORTS / "nccl__rccl-topo_16p_gio-3s-1rp-split-flat.xml").read_bytes()
        result = imported(tmp_path, data)
        assert result.topology.ranks == 16 and "bandwidth 8 GB/s" not in result.text
        assert "pcie pcie2 { ports gpu[0-1]; bandwidth 63 GB/s" in result.text

    def test_graphics_beside_three_gpus_and_an_old_infiniband_card(self, tmp_path: Path) -> None:
        data = (REPORTS / "hwloc__24em64t-2n6c2t-pci.xml").read_bytes()
        (machine,) = imported(tmp_path, data, nic_rate=Fraction(40 * GIGA, 8)).machines
        assert [gpu.place.bus for gpu in machine.gpus] == ["0000:06:00.0", "0000:11:00.0", "0000:14:00.0"]
        assert [nic.name for nic in machine.nics] == ["mlx4_0"]  # class 0c06
