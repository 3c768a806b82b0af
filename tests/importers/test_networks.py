"""Slurm's files, ibnetdiscover, hwloc and ASTRA-sim: the cluster of each against what it says by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from importers.tool_outputs import ASTRA, HWLOC, IB_FABRIC, SLURM_CONF, SLURM_YAML, listed, topo_m
from support.topology_files import switched

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.astra_sim import cluster_text, read_dimensions
from hetesynth.topology.importers.hwloc import read_hwloc
from hetesynth.topology.importers.network import parse_fabric
from hetesynth.topology.importers.reading import ReadOptions, Source
from hetesynth.topology.importers.slurm import hosts_of
from hetesynth.topology.language import parse_topology

GIGA = 10**9


def imported(
    tmp_path: Path, files: dict[str, str], *, net: str | None = None, **options: object
) -> ImportedTopology:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    stated = ReadOptions(**options)  # type: ignore[arg-type]
    rule = None if net is None else parse_fabric(net)
    paths = tuple(str(tmp_path / name) for name in files)
    return import_topology(ImportTopologyRequest(paths, fabric=rule, options=stated))


def uplinks(topology: Topology) -> dict[tuple[str, str], Fraction]:
    """What fabrics and switches of the network send to each other."""
    names = [vertex.name for vertex in topology.vertices]
    network = {i for i, vertex in enumerate(topology.vertices) if "." not in vertex.name and i >= topology.ranks}
    return {
        (names[wire.src], names[wire.dst]): (wire.bandwidth or Fraction(0)) * wire.lanes
        for wire in topology.wires
        if wire.src in network and wire.dst in network
    }


def nics_of(topology: Topology, fabric: str) -> list[str]:
    index = [vertex.name for vertex in topology.vertices].index(fabric)
    return [topology.vertices[wire.src].name for wire in topology.wires if wire.dst == index and
            topology.vertices[wire.src].kind == "nic"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("tux[0-3,12]", "tux0 tux1 tux2 tux3 tux12"),
        ("rack[0-1]n[08-10],login", "rack0n08 rack0n09 rack0n10 rack1n08 rack1n09 rack1n10 login"),
        ("a", "a"),
        ("n[1-2]-ib", "n1-ib n2-ib"),
    ],
)
def test_host_lists(text: str, hosts: str) -> None:
    assert hosts_of(text, "x") == hosts.split()


@pytest.mark.parametrize("text", ["", "a,", "a[1-", "a[x]", "a]", "n[0-99999999]", "a[0-9999]b[0-99]"])
def test_what_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        hosts_of(text, "x")
    assert caught.value.code == "HS732"


@pytest.mark.parametrize("files", [{"topology.conf": SLURM_CONF}, {"topology.yaml": SLURM_YAML}])
def test_slurm_with_a_node_type(tmp_path: Path, files: dict[str, str]) -> None:
    """Two servers of four NICs of 50 GB/s a leaf: 400 GB/s go up, half of it with 2 to 1."""
    read = imported(tmp_path, files, node_type="h20x8", oversubscription=Fraction(2))
    assert read.topology.ranks == 32 and [machine.host for machine in read.machines] == [
        f"node0{i}" for i in range(4)
    ]
    assert uplinks(read.topology)[("s0", "top")] == 200 * GIGA
    assert nics_of(read.topology, "s1") == [f"node0{i}.nic{k}" for i in (2, 3) for k in range(4)]
    read = imported(tmp_path, files, node_type="h20x8", uplink=Fraction(100 * GIGA))
    assert set(uplinks(read.topology).values()) == {Fraction(100 * GIGA)}


def test_slurm_of_three_tiers_and_of_blocks(tmp_path: Path) -> None:
    tiers = "".join(f"SwitchName=l{i} Nodes=n[{2 * i}-{2 * i + 1}]\n" for i in range(4))
    tiers += "SwitchName=m0 Switches=l[0-1]\nSwitchName=m1 Switches=l[2-3]\nSwitchName=t Switches=m[0-1]\n"
    read = imported(tmp_path, {"t.conf": tiers}, node_type="h20x4")
    assert uplinks(read.topology)[("l0", "m0")] == 400 * GIGA and uplinks(read.topology)[("m1", "t")] == 800 * GIGA
    assert len(read.topology.links) == 32 * 31
    blocks = "BlockName=b0 Nodes=n[0-1]\nBlockName=b1 Nodes=n[2-3]\nBlockSizes=2,4\n"
    read = imported(tmp_path, {"t.conf": blocks}, node_type="h20x4")
    assert {pair[1] for pair in uplinks(read.topology) if pair[0] == "b0"} == {"spine"}
    assert not [remark for remark in read.remarks if remark.severity == "warning"]


@pytest.mark.parametrize(
    "text",
    [
        "SwitchName=s0 Nodes=a Switches=b",
        "SwitchName=s0 Switches=s1\nSwitchName=s1 Switches=s0\nSwitchName=s2 Nodes=a",
        "SwitchName=s0 Switches=s9\nSwitchName=s2 Nodes=a",
        "SwitchName=s0 Nodes=a Color blue",
        "SwitchName=s0",
    ],
)
def test_wrong_slurm_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, {"t.conf": text}, node_type="h20x4")
    assert caught.value.code == "HS732"


@pytest.mark.parametrize(
    "text",
    [
        "- topology: !!python/object/apply:os.system ['true']",
        "- topology: &a x\n  tree: *a",
        "- topology: x\n  tree: {switches: [{switch: s, nodes: a, children: b}]}",
    ],
)
def test_hostile_yaml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, {"t.yaml": text}, node_type="h20x4")
    assert caught.value.code in ("HS732", "HS741")


def test_a_fabric_by_ibnetdiscover_has_its_rails_and_rates(tmp_path: Path) -> None:
    read = imported(tmp_path, {"ib.txt": IB_FABRIC}, node_type="h20x4")
    assert nics_of(read.topology, "leaf1") == ["node01.nic0", "node02.nic0"]
    assert nics_of(read.topology, "leaf2") == ["node01.nic1", "node02.nic1"]
    assert uplinks(read.topology)[("leaf1", "spine1")] == 50 * GIGA
    assert uplinks(read.topology)[("spine1", "leaf2")] == Fraction("12.5") * GIGA


def test_hwloc_has_the_tree_the_order_and_the_links() -> None:
    (machine,) = read_hwloc(Source("x", HWLOC.encode()), ReadOptions(nic_rate=Fraction(50 * GIGA))).machines
    assert machine.host == "node01" and [gpu.place.bus for gpu in machine.gpus] == ["0000:97:00.0", "0000:17:00.0"]
    assert [gpu.place.parent for gpu in machine.gpus] == ["cpu1", "pcie0"]
    assert [round(float(gpu.place.rate or 0) / GIGA, 1) for gpu in machine.gpus] == [31.5, 63.0]
    assert [(nic.name, nic.place.parent) for nic in machine.nics] == [("mlx5_0", "pcie0")]
    assert [(port.gpu, port.lanes) for port in machine.ports] == [(0, 18), (1, 17)]
    assert machine.between == 22 * GIGA, "Sapphire Rapids"


def test_hwloc_with_a_document_type_of_its_own_is_refused() -> None:
    text = HWLOC.replace('SYSTEM "hwloc2.dtd"', 'SYSTEM "/etc/passwd"')
    with pytest.raises(HetesynthError) as caught:
        read_hwloc(Source("x", text.encode()), ReadOptions())
    assert caught.value.code == "HS732"


def test_astra_sim() -> None:
    """Switch 8 x Ring 2: each half of a switch takes 936.25 ns, GPUs of one number are neighbours."""
    dimensions = read_dimensions(Source("x", ASTRA.encode()))
    topology = parse_topology(cluster_text(dimensions))
    by_pair = {(link.src, link.dst): link for link in topology.links}
    assert by_pair[0, 7].bandwidth == 400 * GIGA and by_pair[0, 7].latency == Fraction("1872.5") / GIGA
    assert by_pair[3, 11].bandwidth == 50 * GIGA and by_pair[3, 11].latency == Fraction(1, 10**6)
    assert (3, 12) not in by_pair


def test_names_join_hosts_to_dumps(tmp_path: Path) -> None:
    """A file of the host's name is that host's; one file alone stands for all."""
    nics = ["mlx5_0", "mlx5_1"]
    table = topo_m(2, nics, lambda a, b: "NV18" if a[0] == b[0] == "G" else "PIX" if a[-1] == b[-1] else "SYS")
    text = table + listed(2, "NVIDIA H20")
    for names in (("node01.txt", "node02.lab.txt"), ("any.txt",)):
        read = imported(tmp_path, {"ib.txt": IB_FABRIC, **dict.fromkeys(names, text)})
        assert [machine.host for machine in read.machines] == ["node01", "node02"]
        assert {nic.rate for machine in read.machines for nic in machine.nics} == {Fraction(25 * GIGA)}
        assert any("like the one server" in remark.text for remark in read.remarks) == (len(names) == 1)
    both = {"t.conf": SLURM_CONF}
    for files, hosts, code in (({}, "*", "HS733"), (both, "*", "HS742"), ({}, "none*", "HS814")):
        with pytest.raises(HetesynthError) as caught:
            imported(tmp_path, {"ib.txt": IB_FABRIC, **files}, node_type="h20x4" if files else "", hosts=hosts)
        assert caught.value.code == code


def test_rails_need_as_many_nics_everywhere(tmp_path: Path) -> None:
    read = imported(tmp_path, {"t.conf": SLURM_CONF}, net="rails", node_type="h20x8")
    assert nics_of(read.topology, "rail3") == [f"node0{i}.nic3" for i in range(4)]
    read = imported(tmp_path, {"t.conf": SLURM_CONF}, net="leafspine:3:2", node_type="h20x8")
    assert uplinks(read.topology)[("leaf1", "spine")] == 100 * GIGA
    with pytest.raises(HetesynthError) as caught:
        dump = {"node00.xml": switched().decode(), "t.conf": SLURM_CONF}
        imported(tmp_path, dump, net="rails", node_type="h20x8")
    assert caught.value.code == "HS731" and "node00 2, node01 4" in caught.value.message
