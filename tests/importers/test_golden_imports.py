"""What files contradict or leave open: said in the text, which is that of the golden file, and never in silence.

A golden file that is not there is written from what the import gives, and the test fails once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from importers.tool_outputs import HWLOC, IB_FABRIC, SLURM_CONF, amd_smi, listed, topo_m
from support.topology_files import SWITCH, bridge, bus, cpu, gpu, nic, switched, system

from hetesynth.cli.main import run
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.network import Fabric
from hetesynth.topology.importers.reading import ReadOptions

GOLDEN = Path(__file__).parent / "golden"
GBPS = Fraction(10**9, 8)


def imported(tmp_path: Path, *files: bytes | str, alone: bool = False, **options: Any) -> ImportedTopology:
    paths = []
    for i, data in enumerate(files):
        paths.append(tmp_path / f"f{i}.txt")
        paths[-1].write_bytes(data if isinstance(data, bytes) else data.encode())
    fabric = Fabric("none") if alone else None
    request = ImportTopologyRequest(tuple(map(str, paths)), fabric=fabric, options=ReadOptions(**options))
    return import_topology(request)


def skeleton(nics: int, device: str = "0xefa0", speed: str = "8 GT/s") -> bytes:
    """A file of a cloud as p4d and p4de have it: slots, and nothing in them."""
    slots = [f'<pci busid="{bus(i)}" class="0x030200" link_speed="{speed}" link_width="16"/>' for i in range(8)]
    slots += [
        f'<pci busid="0000:{0x60 + i:02x}:1b.0" class="0x020000" vendor="0x1d0f" device="{device}" '
        f'link_speed="{speed}" link_width="16"/>'
        for i in range(nics)
    ]
    return system(cpu(0, *slots))


def unstated(text: str) -> str:
    """A slot as it is where Linux tells no speed."""
    return text.replace('link_speed="16.0 GT/s PCIe" link_width="16"', 'link_speed="" link_width="0"', 1)


def fabric(hosts: dict[str, list[str]], speed: str = "4xNDR") -> str:
    """One switch; HOST: descriptions of its NICs. Each card has a GUID of its own."""
    lines = ['Switch 65 "S-00000000000000a1" # "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 5 lmc 0']
    blocks = []
    for port, (guid, description) in enumerate(
        ((16 * h + n, text) for h, texts in enumerate(hosts.values(), 1) for n, text in enumerate(texts)), 1
    ):
        lines.append(f'[{port}] "H-{guid:016x}"[1]({guid:x}) # "{description}" lid 7 {speed}')
        blocks.append(
            f'Ca 1 "H-{guid:016x}" # "{description}"\n'
            f'[1]({guid:x}) "S-00000000000000a1"[{port}] # lid 7 lmc 0 "leaf1" lid 5 {speed}\n'
        )
    return "\n".join([*lines, "", *blocks])


def named(host: str, nics: int = 4) -> list[str]:
    return [f"{host} mlx5_{i}" for i in range(nics)]


FACTORY = "MT4129 ConnectX7 Mellanox Technologies"
PAIR = fabric({"a": named("gpu01"), "b": named("gpu02")})
MANY = fabric({"a": named("gpu01"), "b": named("gpu02.lab"), "c": ["mgmt01 mlx5_0"], "d": ["login1 mlx5_0"]})
TABLE = topo_m(
    4,
    [f"mlx5_{i}" for i in range(4)],
    lambda a, b: "NV18" if a[0] == b[0] == "G" else "PIX" if a[-1] == b[-1] else "SYS",
)
UNPLUGGED = "\n".join(one for one in PAIR.split("\n") if "[2]" not in one and "gpu01 mlx5_1" not in one)
BARE = re.sub(r'\s+pci_link_speed="[0-9.]*"', "", HWLOC.replace("NVLinkBandwidth", "Other"))
UNTOLD = system(
    cpu(0, bridge(0, *(unstated(gpu(i, SWITCH.format(18), sm=90)) for i in range(2)), nic(0, 400_000)))
)
EDGES = {
    "name": "two",
    "assumed": ["alpha is a guess"],
    "nodes": [{"id": "a", "type": "gpu", "server": 0}, {"id": 1, "type": "gpu", "server": 0}],
    "links": [{"src": "a", "dst": 1, "GBps": 50}, {"src": 1, "dst": "a", "GBps": 50}],
}


@dataclass
class Case:
    """Files, options, and words of the text."""

    files: tuple[bytes | str, ...]
    words: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    alone: bool = True


A100, H20, H100 = {"node_type": "a100x8"}, {"node_type": "h20x4"}, {"node_type": "h100x8"}
RATE, MI300X = {"nic_rate": 400 * GBPS}, {"model": "MI300X"}
CASES = {
    # skeletons whose slots contradict their type: p4d has four EFA devices of 100 Gbps, the library's type eight
    "p4d_twice": Case((skeleton(4), skeleton(4)), ("a100x8(nics = 4, rate = 100 Gbps)",), A100, alone=False),
    "narrow_slots": Case((skeleton(4, "0x1"),), ("NICs of 200 Gbps in slots of 15.75 GB/s",), A100),
    # slots without a speed: they are that of the model, and never limit a NIC
    "nic_slot": Case(
        (system(cpu(0, bridge(0, gpu(0), gpu(1), unstated(nic(0, 400_000))))),),
        ("mlx5_0: the slot's speed is not told, 50 GB/s are enough", "port nic0 50 GB/s"),
    ),
    "hwloc_bare": Case((BARE,), ("slots of GPUs whose speed is not", "bridges whose speed is not"), RATE),
    "two_models": Case(
        (switched().replace(b"0x20b0", b"0x2335", 2).replace(b"0x20b0", b"0x2330"),),
        ("GPUs of H100, H200 in one server: `model` of all of them is H100",),
    ),
    "mi300a": Case((json.dumps(amd_smi([[0, 2], [2, 0]])),), ("64 GB/s x 2",), {"model": "MI300A"}),
    # tables of nvidia-smi and amd-smi
    "hidden_nvlink": Case(
        (topo_m(2, [], lambda a, b: "NODE") + listed(2, "A100-SXM4-80GB"),),
        ("no NVLink, which A100 mostly have",),
        {"nic_rate": GBPS},
    ),
    "seventeen_links": Case(
        (topo_m(8, [], lambda a, b: "NV17" if a == "GPU3" else "NV18"),),
        ("18, but gpu3 17", "425 GB/s"),
        {"model": "H200"},
    ),
    "two_tables": Case(
        (TABLE + listed(4, "NVIDIA H100 80GB HBM3") + TABLE.replace("NV18", "NV12"), listed(4, "A100-SXM4")),
        ("h100x4", "a100x4"),
        RATE,
        alone=False,
    ),
    "missing_xgmi": Case(
        (json.dumps(amd_smi([[0, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]])),),
        ("GPU 1 has 2 xGMI links",),
        MI300X,
    ),
    # rules for the network between servers of a library type
    "slurm_tree": Case(
        (SLURM_CONF,),
        ("bandwidth 200 GB/s",),
        {"node_type": "h20x8", "oversubscription": Fraction(2)},
        alone=False,
    ),
    # fabrics of InfiniBand
    "all_alike": Case((fabric({"a": ["gpu01"] * 4, "b": ["gpu02"] * 4}),), ("instance gpu01",), H20, alone=False),
    "every_host": Case((MANY,), ("mgmt01 mlx5_1 mlx5_2 mlx5_3", "--hosts"), H20, alone=False),
    "dead_port_and_dump": Case(
        (UNPLUGGED, TABLE + listed(4, "NVIDIA H100")),
        ("gpu01: mlx5_1: no port in the network", "gpu01.nic[0-2], gpu02.nic[0-3]"),
        alone=False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_golden_one(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    text = imported(tmp_path, *case.files, alone=case.alone and len(case.files) == 1, **case.options).text
    unwrapped = text.replace("\n#   ", " ").replace("\n  #   ", " ")
    assert [word for word in case.words if word not in unwrapped] == []
    path = GOLDEN / f"{name}.dsl"
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"{path} was not there: written")
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("data", "arguments"),
    [
        (skeleton(4), ["--node-type", "a100x8", "--net", "none"]),
        (IB_FABRIC.encode(), ["--node-type", "h20x4"]),
        (json.dumps(EDGES).encode(), []),
        (topo_m(2, ["mlx5_0"], lambda a, b: "NODE").encode(), ["--model", "L40S", "--nic-rate", "400Gbps"]),
    ],
)
def test_every_remark_is_on_the_terminal_and_in_the_text(
    data: bytes, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(data)
    call = ["topo", "import", str(tmp_path / "x"), *arguments]
    assert run([*call, "--json"]) == 0
    remarks = json.loads(capsys.readouterr().out)["remarks"]
    assert remarks
    assert run([*call, "-o", str(tmp_path / "x.dsl")]) == 0
    told, text = capsys.readouterr().err, (tmp_path / "x.dsl").read_text().replace("\n#   ", " ")
    text = text.replace("\n  #   ", " ")
    for remark in remarks:
        label = "warning" if remark["severity"] == "warning" else remark["kind"]
        assert f"{label}: {remark['text']}" in told
        assert f"# {remark['kind']}: {remark['text']}" in text
    assert text.count("# assumed: ") + text.count("# found: ") + text.count("# suspicious: ") == len(remarks)


@pytest.mark.parametrize("description", [FACTORY, "", "(none) mlx5_0", "gpu02 mlx5_0"])
def test_cards_without_the_name_of_a_host_are_no_server(description: str, tmp_path: Path) -> None:
    """Four cards in two hosts were one server of that name."""
    hosts = {"a": [description] * 2, "b": [description] * 2, "c": named("gpu01")}
    result = imported(tmp_path, fabric(hosts), **H100)
    assert [machine.host for machine in result.machines] == ["gpu01"]
    assert "their descriptions name no one host" in result.text.replace("\n#   ", " ")
