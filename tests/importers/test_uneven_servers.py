"""Tables of servers that are broken, uneven or badly pasted: GPUs, rates and NICs as told by hand."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from importers.tool_outputs import listed, nvlink_s, topo_m

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine, gpus_of_nics
from hetesynth.topology.importers.nccl_log import read_nccl_log
from hetesynth.topology.importers.nvidia_smi import read_nvidia_smi
from hetesynth.topology.importers.reading import ReadOptions, Source

ROOT = Path(__file__).resolve().parents[2]
HELD = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data")) / "reports4"
GIGA = 10**9
Pairs = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Expected:
    """What a table says: lanes into a switch, links of pairs and their rate, GPUs of NICs, GB/s between CPUs."""

    ports: dict[int, int] = field(default_factory=dict)
    links: dict[tuple[int, int], int] = field(default_factory=dict)
    rate: float = 25
    nics: dict[str, tuple[int, ...]] = field(default_factory=dict)
    between: int = 0
    slots: dict[int, float] = field(default_factory=dict)


def table(gpus: int, nics: int, default: str, cells: Pairs, numa: str = "", **how: bool) -> str:
    """A table with ``default`` between GPUs, SYS to NICs, and ``cells``, which hold both ways."""

    def cell(one: str, other: str) -> str:
        told = cells.get((one, other)) or cells.get((other, one))
        return told or (default if one[:3] == other[:3] == "GPU" else "SYS")

    return topo_m(gpus, [f"NIC{i}" for i in range(nics)], cell, list(numa), **how)


def off(gpu: int, gpus: int = 8) -> Pairs:
    """The cells of a GPU without NVLink."""
    return {(f"GPU{gpu}", f"GPU{i}"): "NODE" if i // 4 == gpu // 4 else "SYS" for i in range(gpus) if i != gpu}


def at(cell: str, *pairs: str) -> Pairs:
    """``cell`` for pairs as ``0-2``: GPU 0 and NIC 2."""
    return {(f"GPU{pair.split('-')[0]}", f"NIC{pair.split('-')[1]}"): cell for pair in pairs}


def bound(cell: str, *pairs: str) -> Pairs:
    """The same of two GPUs."""
    return {(f"GPU{pair.split('-')[0]}", f"GPU{pair.split('-')[1]}"): cell for pair in pairs}


EACH = [f"{i}-{i}" for i in range(8)]
ONE_EACH = {f"NIC{i}": (i,) for i in range(8)}
EVEN = at("PIX", "0-0", "2-1", "4-2", "6-3")
SHARED = {"NIC0": (0, 1), "NIC1": (2, 3), "NIC2": (4, 5), "NIC3": (6, 7)}
# the cube of DGX-1: two links on the double edges
CUBE = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
CUBE_CELLS = {(f"GPU{a}", f"GPU{b}"): f"NV{n}" for (a, b), n in CUBE.items()}
FULL = dict.fromkeys(range(8), 18)
TWO_SOCKETS = {**bound("NODE", "0-1", "2-3"), **at("PIX", "0-0"), **at("NODE", "1-0")}
LSCPU = "Architecture:     x86_64\nVendor ID:     {}\n  Model name:     a CPU\n    Model:     {}\n"
FOUR_ROWS = table(4, 2, "NV18", at("PIX", "0-0", "1-0", "2-1", "3-1"), "0011")
# rows of GPUs end with the columns of GPUs: rows of NICs tell
BY_NIC_ROWS = "\n".join(
    " ".join(line.split()[:5]) if line.startswith("GPU") else line for line in FOUR_ROWS.split("\n")
)
# rows of GPUs end with the second NIC of three, and NICs have no rows
CUT_RIGHT = table(8, 3, "NV18", at("PXB", "0-0", "1-0", "2-1", "3-1"))
CUT_RIGHT = re.sub(r"(?m)^(GPU\d(?: +\S+){10}).*$", r"\1", re.sub(r"(?m)^NIC\d.*\n", "", CUT_RIGHT))
LISTED_MIG = listed(2, "A100-SXM4-80GB").replace("\n", "\n  MIG 1g.10gb Device  0: (UUID: MIG-7)\n")


def wrapped(text: str, columns: int) -> str:
    """The table as a terminal breaks it between words."""
    lines = []
    for line in text.split("\n"):
        while len(line) > columns and " " in line[:columns].strip():
            cut = line[:columns].rindex(" ")
            lines.append(line[:cut])
            line = line[cut + 1 :]
        lines.append(line)
    return "\n".join(lines)


CASES: dict[str, tuple[str, str, Expected]] = {
    "a B200 off its switch": (
        table(8, 8, "NV18", {**off(2), **at("PXB", *EACH)}, "00001111"), "B200",
        Expected({i: 18 for i in range(8) if i != 2}, rate=50, nics=ONE_EACH, slots={2: 121}),
    ),
    "two H100 off their switch": (
        table(8, 0, "NV18", {**off(3), **off(6)}), "H100",
        Expected({i: 18 for i in range(8) if i not in (3, 6)}, slots={3: 63, 6: 63}),
    ),
    "the first A100 off its switch": (
        table(8, 0, "NV12", off(0)), "A100", Expected(dict.fromkeys(range(1, 8), 12), slots={0: 31.5})
    ),
    "one of four H100 off": (
        table(4, 0, "NV18", off(3, 4)), "H100", Expected(dict.fromkeys(range(3), 18), slots={3: 63})
    ),
    "an H200 with seventeen links": (
        topo_m(8, [], lambda a, b: "NV17" if a == "GPU3" else "NV18"), "H200", Expected({**FULL, 3: 17})
    ),
    "two links of an H20 inactive": (
        table(8, 0, "NV18", {}) + nvlink_s(8, "NVIDIA H20", 18, "26.562", [(5, 7), (5, 9)]), "",
        Expected({**FULL, 5: 16}),
    ),
    "all links of an H20 inactive": (
        table(8, 0, "NV18", {}) + nvlink_s(8, "NVIDIA H20", 18, "26.562", [(1, k) for k in range(18)]), "",
        Expected({i: 18 for i in range(8) if i != 1}, slots={1: 63}),
    ),
    "an A800 of eight links": (table(8, 0, "NV8", {}), "A800", Expected(dict.fromkeys(range(8), 8))),
    "the cube of DGX-1": (table(8, 0, "SYS", CUBE_CELLS, "00001111"), "V100", Expected(links=CUBE, between=10)),
    "the cube with a lost link": (
        table(8, 0, "SYS", {**CUBE_CELLS, ("GPU0", "GPU3"): "NV1"}, "00001111"), "V100",
        Expected(links={**CUBE, (0, 3): 1}, between=10),
    ),
    "four A100 in a mesh": (
        table(4, 0, "NV4", {}), "A100", Expected(links={(a, b): 4 for a in range(4) for b in range(a + 1, 4)})
    ),
    "bridges between A40": (
        table(4, 1, "SYS", {**bound("NV4", "0-1", "2-3"), **at("PIX", "0-0")}, "0011"), "A40",
        Expected(links={(0, 1): 4, (2, 3): 4}, rate=14.062, between=10, slots=dict.fromkeys(range(4), 31.5)),
    ),
    "L40S over PCIe": (
        table(4, 2, "SYS", {**bound("PIX", "0-1"), **bound("PXB", "2-3"), **at("PXB", "0-0", "1-0"),
                            **at("PIX", "2-1"), **at("PXB", "3-1")}), "L40S",
        Expected(nics={"NIC0": (0, 1), "NIC1": (2, 3)}, between=10, slots=dict.fromkeys(range(4), 31.5)),
    ),
    "P100 on Broadwell": (
        table(4, 1, "SYS", TWO_SOCKETS), "P100", Expected(nics={"NIC0": (0, 1, 2, 3)}, between=6)
    ),
    "RTX 4090 on EPYC": (
        table(4, 1, "SYS", TWO_SOCKETS) + LSCPU.format("AuthenticAMD", 17), "RTX 4090",
        Expected(nics={"NIC0": (0, 1, 2, 3)}, between=16),
    ),
    "V100 beside Sapphire Rapids": (
        LSCPU.format("GenuineIntel", 143) + table(4, 1, "SYS", TWO_SOCKETS), "V100-PCIE-32GB",
        Expected(nics={"NIC0": (0, 1, 2, 3)}, between=22),
    ),
    "H100 PCIe, CPUs not told": (
        table(4, 1, "SYS", TWO_SOCKETS), "H100 PCIe", Expected(nics={"NIC0": (0, 1, 2, 3)}, between=22)
    ),
    "NICs at even GPUs, by NUMA": (table(8, 6, "NV18", EVEN, "00001111"), "H100", Expected(FULL, nics=SHARED)),
    "NICs at even GPUs, no NUMA": (table(8, 6, "NV18", EVEN), "H100", Expected(FULL, nics=SHARED)),
    "NICs in rows of their own only": (
        BY_NIC_ROWS, "H100", Expected(dict.fromkeys(range(4), 18), nics={"NIC0": (0, 1), "NIC1": (2, 3)})
    ),
    "columns cut off at the right": (
        CUT_RIGHT, "H100", Expected(FULL, nics={"NIC0": (0, 1, 4, 5), "NIC1": (2, 3, 6, 7)})
    ),
    "MIG instances in the list": (
        table(2, 0, "NV12", {}) + LISTED_MIG, "", Expected(links={(0, 1): 12})
    ),
    "tabs and colours": (
        table(8, 6, "NV18", EVEN, "00001111", tabs=True, color=True), "H100", Expected(FULL, nics=SHARED)
    ),
    "broken by a terminal": (
        wrapped(table(8, 6, "NV18", EVEN, "00001111"), 80), "H100", Expected(FULL, nics=SHARED)
    ),
}  # fmt: skip


def machine_of(text: str, model: str) -> Machine:
    (machine,) = read_nvidia_smi([Source("a.txt", text.encode())], ReadOptions("spec", None, model)).machines
    return machine


@pytest.mark.parametrize("name", CASES)
def test_a_table_is_what_it_says(name: str) -> None:
    text, model, expected = CASES[name]
    machine = machine_of(text, model)
    assert {port.gpu: port.lanes for port in machine.ports} == expected.ports
    assert {(link.a, link.b): link.count for link in machine.links} == expected.links
    assert {float(x.rate) / GIGA for x in (*machine.ports, *machine.links)} <= {expected.rate}
    nics = {machine.nics[n].name: gpus for n, gpus in gpus_of_nics(machine).items()}
    assert nics == expected.nics or not expected.nics
    assert machine.between == expected.between * GIGA
    for gpu, rate in expected.slots.items():
        assert machine.gpus[gpu].place.rate == Fraction(rate) * GIGA


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (table(8, 0, "NV12", {}, "00001111").replace("NV12    0-31", "NV120-31"), "at GPU7: 'NV120-31"),
        (table(8, 2, "NV12", {}).replace("SYS    SYS\n", "SYSSYS\n"), "at NIC0: 'SYSSYS'"),
        (table(8, 0, "NV12", {}).replace("GPU3    GPU4", "GPU3GPU4", 1), "at the heading: 'GPU3GPU4'"),
        (table(4, 0, "NV4", {}).replace("X     NV4", "XNV4", 1), "at GPU0: 'XNV4'"),
    ],
)
def test_columns_that_run_into_each_other_are_named(text: str, words: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        machine_of(text, "A100")
    assert caught.value.code == "HS732" and words in caught.value.message


def held(name: str) -> str:
    if not (HELD / name).is_file():
        pytest.skip(f"no such file in {HELD}")
    return (HELD / name).read_text()


def test_held_tables_and_tree_are_read() -> None:
    lost = machine_of(held("smi__b200_gpu2_lost_nvlink.txt"), "B200")
    assert {port.gpu: port.lanes * port.rate for port in lost.ports} == {i: 900 * GIGA for i in range(8) if i != 2}
    assert lost.links == () and {n.name: n.gpus for n in lost.nics} == ONE_EACH
    even = machine_of(held("smi__h100_4nics_even_gpus.txt"), "H100")
    assert {n.name: n.gpus for n in even.nics} == SHARED
    with pytest.raises(HetesynthError, match="at GPU7: 'NV120-31'"):
        machine_of(held("smi__a100_glued_gpu7_cpu.txt"), "A100")
    (tree,) = read_nccl_log(
        Source("a.log", held("smi__nccl_info_tree.log").encode()), ReadOptions("spec", None, "H100")
    ).machines
    assert [tree.links_of(i) for i in (0, 1)] == [18, 18] and len(tree.ports) == 2
    assert [nic.rate for nic in tree.nics] == [25 * GIGA] * 2 and set(gpus_of_nics(tree).values()) == {(0,), (1,)}
