"""What files contradict or leave open: said in the text and on the terminal, and never decided in silence."""

from __future__ import annotations

import json
import os
import re
from fractions import Fraction
from pathlib import Path

import pytest
from importers.tool_outputs import HWLOC, IB_FABRIC, amd_smi, listed, rocm_smi, topo_m
from support.topology_files import SWITCH, bridge, bus, cpu, gpu, nic, peers, switched, system

from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.network import Fabric
from hetesynth.topology.importers.reading import ReadOptions

GIGA = 10**9
GBPS = Fraction(GIGA, 8)
DATA = Path(os.environ.get("HETESYNTH_CONFORMANCE", Path(__file__).resolve().parents[3] / "shared" / "data"))
P4D = DATA / "nccl_topo" / "aws__topology_p4d-24xl-topo.xml"


def imported(tmp_path: Path, *files: bytes | str, alone: bool = False, **options: object) -> ImportedTopology:
    paths = []
    for i, data in enumerate(files):
        paths.append(tmp_path / f"f{i}.txt")
        paths[-1].write_bytes(data if isinstance(data, bytes) else data.encode())
    stated = ReadOptions(**options)  # type: ignore[arg-type]
    fabric = Fabric("none") if alone else None
    return import_topology(ImportTopologyRequest(tuple(map(str, paths)), fabric=fabric, options=stated))


def warnings(result: ImportedTopology) -> str:
    return "\n".join(remark.text for remark in result.remarks if remark.severity == "warning")


def unwrapped(text: str) -> str:
    """The comments of a text without line ends."""
    return text.replace("\n#   ", " ").replace("\n  #   ", " ")


def nics_of(topology: Topology) -> list[str]:
    return [vertex.name for vertex in topology.vertices if vertex.kind == "nic"]


def rates_of_nics(topology: Topology) -> set[Fraction]:
    fabric = next(i for i, vertex in enumerate(topology.vertices) if vertex.kind == "fabric")
    return {wire.bandwidth * wire.lanes for wire in topology.wires if wire.dst == fabric and wire.bandwidth}


# A skeleton whose slots contradict its type


def skeleton(nics: int, device: str = "0xefa0", speed: str = "8 GT/s", gpus: int = 8) -> bytes:
    """A file of a cloud as p4d and p4de have it: slots, and nothing in them."""
    slots = [f'<pci busid="{bus(i)}" class="0x030200" link_speed="{speed}" link_width="16"/>' for i in range(gpus)]
    slots += [
        f'<pci busid="0000:{0x60 + i:02x}:1b.0" class="0x020000" vendor="0x1d0f" device="{device}" '
        f'link_speed="{speed}" link_width="16"/>'
        for i in range(nics)
    ]
    return system(cpu(0, *slots))


def test_the_nics_of_a_skeleton_are_those_of_its_slots(tmp_path: Path) -> None:
    """p4d, p4de: four EFA devices of 100 Gbps, where the library's type has eight NICs of 200."""
    one = imported(tmp_path, skeleton(4), alone=True, node_type="a100x8")
    assert nics_of(one.topology) == [f"n0.nic{i}" for i in range(4)]
    assert "a100x8(nics = 4, rate = 100 Gbps)" in one.text
    assert "4 NICs of 100 Gbps, and the library's a100x8 has 8 of 200 Gbps" in warnings(one)
    two = imported(tmp_path, skeleton(4), skeleton(4), node_type="a100x8")
    assert rates_of_nics(two.topology) == {100 * GBPS}
    assert not warnings(imported(tmp_path, skeleton(8, "0x1", "16 GT/s"), alone=True, node_type="a100x8"))


def test_what_a_skeleton_does_not_tell_of_its_nics_can_be_stated(tmp_path: Path) -> None:
    unknown = imported(tmp_path, skeleton(4, "0x1", "16 GT/s"), alone=True, node_type="a100x8")
    assert "a100x8(nics = 4)" in unknown.text and "--nic-rate states a rate" in warnings(unknown)
    narrow = imported(tmp_path, skeleton(4, "0x1"), alone=True, node_type="a100x8")
    assert "NICs of 200 Gbps in slots of 15.75 GB/s" in warnings(narrow)
    stated = imported(tmp_path, skeleton(4, "0x1"), alone=True, node_type="a100x8", nic_rate=100 * GBPS)
    assert "a100x8(nics = 4, rate = 100 Gbps)" in stated.text and "not used" not in warnings(stated)


@pytest.mark.parametrize(("nics", "node_type"), [(1, "v100x8"), (3, "a100x8")])
def test_a_type_that_cannot_have_those_nics_is_a_warning(nics: int, node_type: str, tmp_path: Path) -> None:
    result = imported(tmp_path, skeleton(nics, "0x1", "16 GT/s"), alone=True, node_type=node_type)
    assert f", and the library's {node_type} has" in warnings(result)
    assert "name another --node-type" in warnings(result) and f"= {node_type}\n" in result.text


def test_a_node_type_is_a_name(tmp_path: Path) -> None:
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, switched(), alone=True, node_type="a100x8(nics = 4)")
    assert caught.value.code == "HS734"


@pytest.mark.skipif(not P4D.exists(), reason="the folder with files of clusters is not there")
def test_the_file_of_p4d_has_four_nics() -> None:
    stated = ReadOptions(node_type="a100x8")
    result = import_topology(ImportTopologyRequest((f"{P4D}*2",), options=stated))
    assert len(nics_of(result.topology)) == 8 and rates_of_nics(result.topology) == {100 * GBPS}


# Remarks


EDGES = {
    "name": "two", "assumed": ["alpha is a guess"],
    "nodes": [{"id": "a", "type": "gpu", "server": 0}, {"id": 1, "type": "gpu", "server": 0}],
    "links": [{"src": "a", "dst": 1, "GBps": 50}, {"src": 1, "dst": "a", "GBps": 50}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "arguments"),
    [(skeleton(4), ["--node-type", "a100x8"]), (switched(), []), (IB_FABRIC.encode(), ["--node-type", "h20x4"]),
     (json.dumps(EDGES).encode(), []), (topo_m(2, ["mlx5_0"], lambda a, b: "NODE").encode(), ["--model", "L40S"])],
)  # fmt: skip
def test_every_remark_is_on_the_terminal_and_in_the_text(
    data: bytes, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(data)
    call = ["topo", "import", str(tmp_path / "x"), *arguments]
    call += [] if data == IB_FABRIC.encode() or b'"nodes"' in data else ["--net", "none"]
    call += [] if b"GPU0" not in data else ["--nic-rate", "400Gbps"]
    assert run([*call, "--json"]) == 0
    remarks = json.loads(capsys.readouterr().out)["remarks"]
    assert remarks
    assert run([*call, "-o", str(tmp_path / "x.dsl")]) == 0
    told, text = capsys.readouterr().err, unwrapped((tmp_path / "x.dsl").read_text())
    for remark in remarks:
        label = "warning" if remark["severity"] == "warning" else remark["kind"]
        assert f"{label}: {remark['text']}" in told
        assert f"# {remark['kind']}: {remark['text']}" in text
    assert text.count("# assumed: ") + text.count("# found: ") + text.count("# suspicious: ") == len(remarks)


# Slots without a speed


def unstated(text: str) -> str:
    """A slot as it is where Linux tells no speed."""
    return text.replace('link_speed="16.0 GT/s PCIe" link_width="16"', 'link_speed="" link_width="0"', 1)


def test_a_slot_of_which_nothing_is_told_does_not_limit_its_nic(tmp_path: Path) -> None:
    """The GPUs' slots state 16 GT/s: the NIC's was taken for 8."""
    both = bridge(0, gpu(0), gpu(1), unstated(nic(0, 400_000)))
    result = imported(tmp_path, system(cpu(0, both)), alone=True)
    assert "port nic0 50 GB/s" in result.text and "15.75 GB/s" not in result.text
    assert "mlx5_0: the slot's speed is not told, 50 GB/s are enough" in unwrapped(result.text)
    result = imported(tmp_path, system(cpu(0, bridge(0, gpu(0), gpu(1), unstated(nic(0, 100_000))))), alone=True)
    assert "ports gpu[0-1], nic0; bandwidth 31.5 GB/s" in result.text


def test_a_bridge_of_which_nothing_is_told_is_as_fast_as_what_is_below(tmp_path: Path) -> None:
    groups = [bridge(i, gpu(2 * i), gpu(2 * i + 1), nic(i, 100_000), speed="", width=0) for i in range(2)]
    result = imported(tmp_path, system(cpu(0, *groups)), alone=True)
    assert "15.75 GB/s" not in result.text and "2 bridges whose speed is not told" in result.text


def test_a_nic_of_nvidia_smi_has_a_slot_that_is_enough(tmp_path: Path) -> None:
    """The import says "16 GT/s" of all slots, and gave the NICs half of that."""
    table = topo_m(2, ["mlx5_0"], lambda a, b: "PIX") + listed(2, "NVIDIA L40S")
    result = imported(tmp_path, table, alone=True, nic_rate=400 * GBPS)
    assert "16 lanes at 16 GT/s" in unwrapped(result.text) and "15.75" not in result.text
    assert "port nic0 50 GB/s" in result.text and "slot's speed is not told" in unwrapped(result.text)


def test_slots_of_hwloc_without_a_speed_are_said(tmp_path: Path) -> None:
    """Virtual machines tell none. What the import takes instead was nowhere to be seen."""
    bare = re.sub(r'\s+pci_link_speed="[0-9.]*"', "", HWLOC.replace("NVLinkBandwidth", "Other"))
    result = imported(tmp_path, bare, alone=True, nic_rate=400 * GBPS)
    for what in ("slots of GPUs whose speed is", "bridges whose speed is", "slot's speed is"):
        assert f"{what} not told" in unwrapped(result.text)


def test_slots_of_gpus_without_a_speed_have_that_of_the_model(tmp_path: Path) -> None:
    """H200 behind 15.75 GB/s: what virtual machines do not tell was taken for PCIe 3."""
    slots = [unstated(gpu(i, SWITCH.format(18), sm=90)) for i in range(2)]
    known = system(cpu(0, bridge(0, *slots, nic(0, 400_000)))).replace(b"0x20b0", b"0x2335")
    for data, rate in ((known, "63"), (known.replace(b"0x2335", b"0xffff"), "15.75")):
        text = unwrapped(imported(tmp_path, data, alone=True).text)
        assert f"gpu[0-1]: the slot's speed is not told: {rate} GB/s" in text


# What is not in the file, or contradicts itself


@pytest.mark.parametrize(("device", "hidden"), [("0x20b0", True), ("0x20f1", False), ("0xffff", False)])
def test_no_nvlink_where_the_model_mostly_has_it_is_a_warning(device: str, hidden: bool, tmp_path: Path) -> None:
    """A100 with and without a socket of its own, and a GPU that is not known."""
    data = system(cpu(0, bridge(0, gpu(0), gpu(1), nic(0)))).replace(b"0x20b0", device.encode())
    assert ("no NVLink, which A100 mostly have" in warnings(imported(tmp_path, data, alone=True))) == hidden


def test_the_rate_between_cpus_is_said_to_be_assumed_where_it_counts(tmp_path: Path) -> None:
    meeting = system(cpu(0, gpu(0)), cpu(1, gpu(1), nic(0)))
    assert "10 GB/s between CPUs, what NCCL counts" in unwrapped(imported(tmp_path, meeting, alone=True).text)
    far = system(cpu(0, gpu(0, SWITCH.format(12)), gpu(1, SWITCH.format(12))), cpu(1, nic(0)))
    assert "10 GB/s between CPUs" in unwrapped(imported(tmp_path, far, alone=True).text)
    near = system(cpu(0, gpu(0, SWITCH.format(12)), nic(0)), cpu(1, gpu(1, SWITCH.format(12)), nic(1)))
    assert "between CPUs" not in imported(tmp_path, near, alone=True).text


def test_models_that_differ_in_a_server_are_a_warning(tmp_path: Path) -> None:
    """Four H100 and four H200 were eight H100."""
    data = switched().replace(b"0x20b0", b"0x2335", 2).replace(b"0x20b0", b"0x2330")
    result = imported(tmp_path, data, alone=True)
    assert "GPUs of H100, H200 in one server: `model` of all of them is H100" in warnings(result)


# Parts of a GPU


def halves(i: int, links: str) -> str:
    """A GPU as two, of 36 links each in the file."""
    whole = gpu(i, links, sm=107)
    first = whole[whole.index("<gpu") : whole.index("</pci>")]
    parts = [
        first.replace("<gpu", f'<gpu mlopart="{part}"').replace(f'rank="{i}"', f'rank="{2 * i + part}"')
        for part in range(2)
    ]
    return whole.replace(first, "".join(parts))


def test_parts_of_a_gpu_share_its_links(tmp_path: Path) -> None:
    """NCCL divides what a GPU has by the number of its parts: 36 links of 50 GB/s are 900 for each half."""
    result = imported(
        tmp_path, system(cpu(0, halves(0, SWITCH.format(36)), halves(1, SWITCH.format(36)))), alone=True
    )
    assert result.topology.ranks == 4
    assert {port.rate * port.lanes for port in result.machines[0].ports} == {900 * GIGA}
    assert "gpu[0-3] are parts of GPUs (MLOPart)" in result.text and not warnings(result)


def test_direct_links_of_parts_are_shared_at_both_ends(tmp_path: Path) -> None:
    text = system(cpu(0, halves(0, peers(0, {1: 4})), halves(1, peers(1, {0: 4}))))
    (machine,) = imported(tmp_path, text, alone=True).machines
    assert sorted((k.a, k.b, k.count * k.rate) for k in machine.links) == [
        (a, b, 50 * GIGA) for a in (0, 1) for b in (2, 3)
    ]


# GPUs that were not known


@pytest.mark.parametrize(
    ("name", "arch", "slot"),
    [
        ("NVIDIA GeForce RTX 5090", "sm120", 63),
        ("NVIDIA B300 SXM6 AC", "sm103", 121),
        ("RTX 5000 Ada", "sm89", 31.5),
    ],
)
def test_gpus_of_nvidia_are_known_by_name(name: str, arch: str, slot: float, tmp_path: Path) -> None:
    table = topo_m(2, [], lambda a, b: "PHB") + listed(2, name)
    (machine,) = imported(tmp_path, table, alone=True).machines
    assert {(one.arch, one.place.rate) for one in machine.gpus} == {(arch, Fraction(slot) * GIGA)}


def test_gpus_are_known_by_their_pci_identity(tmp_path: Path) -> None:
    for old, new, name in (("0x20b0", "0x2b85", "RTX 5090"), ("0x20b0", "0x3182", "B300")):
        result = imported(tmp_path, system(cpu(0, gpu(0).replace(old, new))), alone=True)
        assert f'model "{name}"' in result.text


def test_the_links_of_a_pair_of_mi300a_are_read_and_not_guessed(tmp_path: Path) -> None:
    """A pair has several: one was taken where the tool tells no bandwidth."""
    tables = json.dumps(amd_smi([[0, 2], [2, 0]]))
    assert imported(tmp_path, tables, alone=True, model="MI300A").machines[0].links[0].count == 2
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, rocm_smi([[0, 15], [15, 0]], [0, 1]), alone=True, model="MI300A")
    assert caught.value.code == "HS733" and "number of xGMI links" in caught.value.message


# Fabrics of InfiniBand


def fabric(hosts: dict[str, list[str]], speed: str = "4xNDR", *, images: bool = False) -> str:
    """One switch; HOST: descriptions of its NICs. Each card has a GUID of its own."""
    lines = ['Switch 65 "S-00000000000000a1" # "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 5 lmc 0']
    blocks = []
    for port, (guid, description) in enumerate(
        ((16 * h + n, text) for h, texts in enumerate(hosts.values(), 1) for n, text in enumerate(texts)), 1
    ):
        lines.append(f'[{port}] "H-{guid:016x}"[1]({guid:x}) # "{description}" lid 7 {speed}')
        image = f"sysimgguid=0x{guid - guid % 2:x}\n" if images else ""
        blocks.append(f'{image}Ca 1 "H-{guid:016x}" # "{description}"\n'
            f'[1]({guid:x}) "S-00000000000000a1"[{port}] # lid 7 lmc 0 "leaf1" lid 5 {speed}\n')  # fmt: skip
    return "\n".join([*lines, "", *blocks])


def named(host: str, nics: int = 4) -> list[str]:
    return [f"{host} mlx5_{i}" for i in range(nics)]


FACTORY = "MT4129 ConnectX7 Mellanox Technologies"


@pytest.mark.parametrize(
    "description",
    [FACTORY, "MT4129", "ConnectX7 NVIDIA Technologies", "localhost mlx5_0", "", "ConnectX-7 HCA", "mlx5_0",
     "Mellanox MT4129 ConnectX-7", "(none) mlx5_0", "gpu02 mlx5_0"],
)  # fmt: skip
def test_cards_without_the_name_of_a_host_are_no_one_server(description: str, tmp_path: Path) -> None:
    """Four cards in two hosts were one server of that name."""
    hosts = {"a": [description] * 2, "b": [description] * 2, "c": named("gpu01")}
    result = imported(tmp_path, fabric(hosts), node_type="h100x8")
    assert len({machine.host for machine in result.machines}) == 5
    assert "4 NICs: their descriptions name no one host" in warnings(result) and "--node-name-map" in warnings(
        result
    )


def test_nics_that_are_all_called_like_their_host_are_its_own(tmp_path: Path) -> None:
    result = imported(tmp_path, fabric({"a": ["gpu01"] * 4, "b": ["gpu02"] * 4}), node_type="h20x4")
    assert [machine.host for machine in result.machines] == ["gpu01", "gpu02"] and not warnings(result)


def test_a_host_may_be_called_mt(tmp_path: Path) -> None:
    result = imported(tmp_path, fabric({"a": named("MT0401"), "b": named("mt25")}), node_type="h20x4")
    assert [machine.host for machine in result.machines] == ["MT0401", "mt25"]


def test_functions_of_one_card_stay_together(tmp_path: Path) -> None:
    text = fabric({"a": [FACTORY] * 2, "b": [FACTORY] * 2}, images=True)
    assert [machine.host for machine in imported(tmp_path, text, node_type="h100x8").machines] == ["10", "20"]


def test_hosts_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = fabric({"a": named("gpu01"), "b": named("gpu02.lab"), "c": ["mgmt01 mlx5_0"], "d": ["login1 mlx5_0"]})
    every = imported(tmp_path, text, node_type="h20x4")
    assert (
        len(every.machines) == 4 and "mgmt01 mlx5_1 mlx5_2 mlx5_3" in warnings(every) and "--hosts" in every.text
    )
    some = imported(tmp_path, text, node_type="h20x4", hosts="gpu*")
    assert [machine.host for machine in some.machines] == ["gpu01", "gpu02.lab"] and not warnings(some)
    assert "hosts that --hosts leaves out: login1, mgmt01" in unwrapped(some.text)
    assert len(imported(tmp_path, text, node_type="h20x4", hosts="gpu02, mgmt*").machines) == 2
    (tmp_path / "ib").write_text(text)
    call = ["topo", "import", str(tmp_path / "ib"), "--node-type", "h20x4", "--json", "--hosts"]
    assert run([*call, "gpu*"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"] == 8
    assert run([*call, "none*"]) == 2 and "HS814" in capsys.readouterr().err
    assert "--hosts is not used" in warnings(imported(tmp_path, switched(), alone=True, hosts="gpu*"))


DEAD = ["[4]", '[4](13) \t# "gpu01 mlx5_3" lid 0 4xSDR', ""]


@pytest.mark.parametrize("line", DEAD)
def test_a_dead_port_is_a_remark_and_leaves_the_others_on_their_rails(line: str, tmp_path: Path) -> None:
    """NIC 1 of gpu01 is down: 2 and 3 must not become 1 and 2."""
    text = fabric({"a": named("gpu01"), "b": named("gpu02")})
    text = "\n".join(line if '"gpu01 mlx5_1" lid' in one else one for one in text.split("\n"))
    text = text.replace('[1](11) "S-00000000000000a1"[2]', line.replace("[4]", "[1]") + "#")
    result = imported(tmp_path, text, node_type="h20x4")
    assert "gpu01 mlx5_1" in warnings(result) and "has no link" in warnings(result)
    joins = next(one for one in result.text.split("\n") if "fabric leaf1" in one)
    assert "gpu01.nic[0,2-3]" in joins and "gpu02.nic[0-3]" in joins


def test_a_dead_port_refuses_no_dump(tmp_path: Path) -> None:
    """The dump has four NICs without rates, the network three of them with theirs."""
    nics = [f"mlx5_{i}" for i in range(4)]
    table = topo_m(4, nics, lambda a, b: "NV18" if a[0] == b[0] == "G" else "PIX" if a[-1] == b[-1] else "SYS")
    text = fabric({"a": named("gpu01"), "b": named("gpu02")})
    text = "\n".join(one for one in text.split("\n") if "[2]" not in one and "gpu01 mlx5_1" not in one)
    result = imported(tmp_path, text, table + listed(4, "NVIDIA H100"))
    assert len(nics_of(result.topology)) == 7 and "gpu01: mlx5_1: no port in the network" in warnings(result)
    joins = next(one for one in result.text.split("\n") if "fabric leaf1" in one)
    assert "gpu01.nic[0-2], gpu02.nic[0-3]" in joins


def test_ends_that_disagree_are_a_remark_on_their_cable() -> None:
    text = IB_FABRIC.replace("lid 5 4xHDR", "lid 5 4xEDR")
    from hetesynth.topology.importers.ibnetdiscover import read_ibnetdiscover
    from hetesynth.topology.importers.reading import Source

    network = read_ibnetdiscover(Source("ib", text.encode()), ReadOptions()).network
    assert network is not None
    assert [one.rate for one in network.attachments] == [100 * GBPS, *[200 * GBPS] * 3]
    assert any("node01 mlx5_0[1] has another rate" in remark.text for remark in network.remarks)


def test_the_rates_of_ports_are_those_of_the_servers(tmp_path: Path) -> None:
    result = imported(tmp_path, fabric({"a": named("gpu01"), "b": named("gpu02")}, "4xHDR"), node_type="h20x4")
    assert rates_of_nics(result.topology) == {200 * GBPS}
    assert "NICs of 200 Gbps, and the library's h20x4 has 4 of 400 Gbps" in warnings(result)


def test_no_dump_of_infiniband_tells_of_nvlink_between_hosts(tmp_path: Path) -> None:
    trays = fabric({"a": named("tray01"), "b": named("tray02")})
    result = imported(tmp_path, trays, node_type="gb200_tray")
    assert "gb200_tray is a part of gb200_nvl72" in warnings(result)
    result = imported(tmp_path, trays, node_type="h20x4")
    assert "does not show an NVLink domain of several hosts (NVL72)" in unwrapped(result.text)
    assert not warnings(result)


def test_a_skeleton_stands_for_the_hosts_of_a_network(tmp_path: Path) -> None:
    text = fabric({"a": named("gpu01"), "b": named("gpu02")}, "4xEDR")
    result = imported(tmp_path, text, skeleton(4), node_type="a100x8")
    assert result.topology.ranks == 16 and len(nics_of(result.topology)) == 8
    assert "left out" not in warnings(result)
