"""Outputs of tools as they print them, from a description of the machine: what tests feed to readers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

CELLS = ("NV1", "NV2", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS")


def topo_m(
    gpus: int,
    nics: Sequence[str],
    cell: Callable[[str, str], str],
    numa: Sequence[str] = (),
    *,
    tabs: bool = False,
    color: bool = False,
) -> str:
    """A table of `nvidia-smi topo -m`."""
    devices = [*(f"GPU{i}" for i in range(gpus)), *nics]
    trailing = ["CPU Affinity", "NUMA Affinity"] if numa else []
    gap = "\t" if tabs else "    "
    heading = gap.join(["", *devices, *trailing])
    lines = [f"\x1b[4m{heading}\x1b[0m" if color else heading]
    for device in devices:
        cells = [" X " if other == device else cell(device, other) for other in devices]
        index = devices.index(device)
        rest = ["0-31,64-95", numa[index]] if numa and index < gpus else []
        lines.append(gap.join([device, *cells, *rest]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  SYS  = Connection ...", ""])


def listed(gpus: int, model: str) -> str:
    """`nvidia-smi -L`."""
    return "".join(f"GPU {i}: {model} (UUID: GPU-{i:08x})\n" for i in range(gpus))


def nvlink_s(gpus: int, model: str, links: int, rate: str, inactive: Sequence[tuple[int, int]] = ()) -> str:
    """`nvidia-smi nvlink -s`."""
    text = ""
    for gpu in range(gpus):
        text += f"GPU {gpu}: {model} (UUID: GPU-{gpu:08x})\n"
        text += "".join(
            f"\t Link {k}: {'<inactive>' if (gpu, k) in inactive else rate + ' GB/s'}\n" for k in range(links)
        )
    return text


def rocm_smi(weights: Sequence[Sequence[int]], numa: Sequence[int]) -> str:
    """`rocm-smi --showtopo`; a weight of 20 and more that is no multiple of 15 is PCIe."""
    size = len(weights)
    heading = "       " + "".join(f"GPU{i:<10}" for i in range(size))

    def table(title: str, cell: Callable[[int, int], str]) -> str:
        rows = [f"GPU{i}   " + "".join(f"{cell(i, j):<13}" for j in range(size)) for i in range(size)]
        return "\n".join([f"{'=' * 20} {title} {'=' * 20}", heading, *rows, ""])

    return (
        "======== ROCm System Management Interface ========\n"
        + table("Weight between two GPUs", lambda i, j: str(weights[i][j]))
        + table("Hops between two GPUs", lambda i, j: "0" if i == j else "1")
        + table(
            "Link Type between two GPUs",
            lambda i, j: "0" if i == j else "XGMI" if weights[i][j] % 15 == 0 else "PCIE",
        )
        + "======== Numa Nodes ========\n"
        + "".join(f"GPU[{i}]\t\t: (Topology) Numa Node: {node}\n" for i, node in enumerate(numa))
    )


def amd_smi(links: Sequence[Sequence[int]]) -> list[dict[str, object]]:
    """The document of `amd-smi topology --json`: ``links`` of each pair, 0 where it is two hops."""
    size = range(len(links))
    return [
        {
            "gpu": i,
            "bdf": f"0000:{i:02x}:00.0",
            "links": [
                {
                    "gpu": j,
                    "bdf": f"0000:{j:02x}:00.0",
                    "weight": 0 if i == j else 15 if links[i][j] else 30,
                    "link_status": "ENABLED",
                    "link_type": "SELF" if i == j else "XGMI",
                    "num_hops": 0 if i == j else 1,
                    "bandwidth": "N/A" if i == j else f"50000-{50000 * max(links[i][j], 1)}",
                }
                for j in size
            ],
        }
        for i in size
    ]


IB_FABRIC = """#
# Topology file: generated on Sat Nov 21 10:00:00 2026
#
vendid=0x2c9
switchguid=0xa1(a1)
Switch\t41 "S-00000000000000a1"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 5 lmc 0
[1]\t"H-0000000000000011"[1](11) \t\t# "node01 mlx5_0" lid 10 4xHDR
[2]\t"H-0000000000000021"[1](21) \t\t# "node02 mlx5_0" lid 11 4xHDR
[21]\t"S-00000000000000c1"[1]\t\t# "MF0;spine1:MQM8700/U1" lid 3 4xHDR
[22]\t"S-00000000000000c1"[2]\t\t# "MF0;spine1:MQM8700/U1" lid 3 4xHDR
[41]\t"H-00000000000000ff"[1](ff) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR

Switch\t41 "S-00000000000000a2"\t\t# "MF0;leaf2:MQM8700/U1" enhanced port 0 lid 6 lmc 0
[1]\t"H-0000000000000012"[1](12) \t\t# "node01 mlx5_1" lid 12 4xHDR
[2]\t"H-0000000000000022"[1](22) \t\t# "node02 mlx5_1" lid 13 4xHDR
[21]\t"S-00000000000000c1"[3]\t\t# "MF0;spine1:MQM8700/U1" lid 3 4xEDR

Ca\t1 "H-0000000000000011"\t\t# "node01 mlx5_0"
[1](11) \t"S-00000000000000a1"[1]\t\t# lid 10 lmc 0 "MF0;leaf1:MQM8700/U1" lid 5 4xHDR
"""

SLURM_CONF = """# tree
SwitchName=s0 Nodes=node[00-01] LinkSpeed=100
SwitchName=s1 Nodes=node[02-03]
SwitchName=top Switches=s[0-1]
"""

SLURM_YAML = """---
- topology: flat
  cluster_default: false
  flat: true
- topology: net
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[0-1]
      - switch: s0
        nodes: node[00-01]
      - switch: s1
        nodes: node[02-03]
"""

HWLOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" gp_index="1"><info name="HostName" value="node01"/>
  <object type="Package" os_index="0" gp_index="2"><info name="CPUVendor" value="GenuineIntel"/>
   <info name="CPUModelNumber" value="143"/>
   <object type="NUMANode" os_index="0" gp_index="3"/>
   <object type="Bridge" gp_index="4" bridge_type="0-1" bridge_pci="0000:[00-2f]">
    <object type="Bridge" gp_index="5" bridge_type="1-1" pci_busid="0000:15:01.0" pci_link_speed="63.015385">
     <object type="PCIDev" gp_index="6" pci_busid="0000:17:00.0" pci_type="0302 [10de:2330] [10de:16c1]"
       pci_link_speed="63.015385">
      <object type="OSDev" gp_index="7" name="nvml1" subtype="NVML" osdev_type="1">
       <info name="GPUModel" value="NVIDIA H100 80GB HBM3"/></object></object>
     <object type="PCIDev" gp_index="8" pci_busid="0000:18:00.0" pci_type="0207 [15b3:1021] [15b3:0041]"
       pci_link_speed="63.015385"><object type="OSDev" gp_index="9" name="ib0" osdev_type="2"/>
      <object type="OSDev" gp_index="10" name="mlx5_0" osdev_type="3"/></object>
    </object></object></object>
  <object type="Package" os_index="1" gp_index="12"><object type="NUMANode" os_index="1" gp_index="13"/>
   <object type="Bridge" gp_index="14" bridge_type="0-1" bridge_pci="0000:[80-af]">
    <object type="PCIDev" gp_index="16" pci_busid="0000:97:00.0" pci_type="0302 [10de:2330] [10de:16c1]"
       pci_link_speed="31.507692">
      <object type="OSDev" gp_index="17" name="nvml0" subtype="NVML" osdev_type="1">
       <info name="GPUModel" value="NVIDIA H100 80GB HBM3"/></object></object>
    <object type="PCIDev" gp_index="20" pci_busid="0000:03:00.0" pci_type="0300 [1a03:2000] [1a03:2000]"/>
  </object></object>
 </object>
 <distances2hetero nbobjs="3" kind="9" name="NVLinkBandwidth">
  <indexes length="30">OSDev:17 OSDev:7 PCIDev:55</indexes>
  <u64values length="40">1000000 0 450000 0 1000000 </u64values><u64values length="20">425000 450000 425000 0
  </u64values></distances2hetero>
</topology>
"""

ASTRA = "topology: [ Switch, Ring ]\nnpus_count: [ 8, 2 ]\nbandwidth: [ 400.0, 50.0 ]\nlatency: [ 936.25, 1000 ]\n"

NS3 = "5 1 5\n4\n" + "".join(f"4 {i} 400Gbps 0.0005ms 0\n" for i in range(4)) + "0 1 25GB/s 25ns 0.01\n"
SIMAI = "8 2 2 2 8 H100\n4 5 6 7\n" + "".join(
    f"{gpu} {4 + gpu // 2} 2880Gbps 0.000025ms 0\n{gpu} 6 100Gbps 0.5us 0\n" for gpu in range(4)
)
SLURM_SEVERAL = """
- topology: tree
  cluster_default: true
  tree: {switches: [{switch: top, children: "s[0-1]"},
    {switch: s0, nodes: "n[0-1]"}, {switch: s1, nodes: "n[2-3]"}]}
- {topology: none, flat: true}
- topology: round
  ring: {rings: [{ring: r0, nodes: "n[0-3]"}, {ring: r1, nodes: "n[4-6]"}]}
- topology: cube
  torus3d:
    toruses:
    - name: pod
      dims: {x: 3, y: 2, z: 1}
      regions: [{anchor: {x: 1, y: 0, z: 0}, dims: {x: 2, y: 2, z: 1}, nodes: "n[0-3]"}]
"""
TACCL_NDV2 = """{"name": "NDv2_1MB", "gpus_per_node": 8, "nics_per_node": 1, "alpha": 0.3,
 "node_betas_list": [23, 46], "node_invbws_list": [23, 46],
 "remote_invbw": 107, "remote_alpha": 2.6, "remote_beta": 105}"""
TACCL_MATRICES = """{"name": "own", "gpus_per_node": 2, "alpha": 1.5,
 "links": [[0, 2],
 [1, 0]],
 "betas": [[0, 40],
 [10, 0]], "invbws": [[0, 40], [10, 0]]}"""
TOPOGRAPH = """
switches:
  S1:
    switches: [S2, S3]
blocks:
- switch: S2
  nodes: ["n[1-2]", n5]
  annotations: {accelerator.topology.test/domain: nvl2}
- switch: S3
  nodes: ["n[6-8]"]
"""
TOPOGRAPH_LISTS = """
switches:
- name: S1
  switches: [S2, S3]
- name: S2
  capacity_blocks: [cb2]
- name: S3
  capacity_blocks: [cb3]
capacity_blocks:
- {name: cb2, type: H100, nvlink: nvl2, nodes: [n1, n2, n5]}
- {name: cb3, type: H100, nodes: [n6, n7, n8]}
"""


def random_table(rng: random.Random) -> str:
    """A table as the tool could print it, symmetric or not, whole or not, with other sections around it."""
    gpus = rng.choice((1, 2, 4, 8))
    nics = [rng.choice(("NIC{}", "mlx5_{}", "mlx4_{}")).format(i) for i in range(rng.randrange(5))]
    same = rng.choice((*CELLS, ""))
    cells: dict[frozenset[str], str] = {}

    def cell(one: str, other: str) -> str:
        if rng.random() < 0.002:
            return rng.choice((*CELLS, "SOC", "OK", "", "?"))
        hidden = same if same and one[0] == other[0] == "G" else rng.choice(CELLS)
        return cells.setdefault(
            frozenset((one, other)), hidden if one[0] == other[0] == "G" else rng.choice(CELLS[4:])
        )

    numa = [str(rng.randrange(2)) for _ in range(gpus)] if rng.random() < 0.5 else ()
    text = topo_m(gpus, nics, cell, numa, tabs=rng.random() < 0.5, color=rng.random() < 0.1)
    if rng.random() < 0.3:
        text += listed(gpus, rng.choice(("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "NVIDIA L4", "what")))
    if rng.random() < 0.3:
        inactive = [(rng.randrange(gpus), rng.randrange(18)) for _ in range(rng.randrange(3))]
        text += nvlink_s(gpus, "NVIDIA H20", 18, "26.562", inactive)
    return text


def mutated(text: str, rng: random.Random) -> str:
    """``text`` with a few parts dropped, doubled, moved or replaced."""
    pieces = list(text) if rng.random() < 0.3 else text.splitlines(keepends=True)
    for _ in range(rng.randrange(1, 4)):
        if not pieces:
            break
        at = rng.randrange(len(pieces))
        match rng.randrange(6):
            case 0:
                del pieces[at]
            case 1:
                pieces.insert(at, pieces[rng.randrange(len(pieces))])
            case 2:
                pieces[at] = rng.choice(
                    ("\t", "\n", "[", "]", '"', "=", "9" * 30, "\x00", "é", "-1", "{", "<", "&x;", "*a")
                )
            case 3:
                pieces = pieces[:at] if rng.random() < 0.3 else pieces
            case 4:
                words = pieces[at].split(" ")
                rng.shuffle(words)
                pieces[at] = " ".join(words)
            case _:
                pieces[at] = pieces[at].replace("1", rng.choice(("0", "", "99999999999999999999")), 1)
    return "".join(pieces)
