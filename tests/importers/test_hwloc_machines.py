"""Servers as lstopo writes them in formats 2 and 3, from a description whose answer is known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from importers.test_hwloc_formats import matrix

from hetesynth.topology.import_topology import ImportTopologyRequest, import_topology
from hetesynth.topology.importers.reading import ReadOptions

GIGA = 10**9
SXM, PCIE_3, PCIE_4, PCIE_5 = "0302", "15.753846", "31.507692", "63.015385"
ASPEED = ("0300", "1a03:2000", "ASPEED Graphics Family", "card0")
MATROX = ("0300", "102b:0536", "Integrated Matrox G200eW3 Graphics Controller", "card0")
ES1000 = ("0300", "1002:515e", "ES1000", "card0")
QUADRO = ("0300", "10de:1cb3", "GP107GL [Quadro P400]", "card0")
INTEL = ("0300", "8086:a780", "Raptor Lake-S GT1 [UHD Graphics 770]", "card0")
KEPLER = ("0300", "10de:107c", "GF119 [NVS 315]", "card0")


@dataclass(frozen=True)
class Box:
    """A server; ``order``: the library's number of the GPU in each slot, or empty where no library saw them."""

    pci: str = "10de:2330"
    kind: str = SXM
    gpus: int = 8
    speed: str = PCIE_5
    osdev: str = "nvml"
    order: tuple[int, ...] = tuple(range(8))
    name: str = ""  # that the library tells
    described: str = ""  # by the list of PCI ids
    nics: tuple[str, ...] = ("0207",) * 8  # classes
    graphics: tuple[tuple[str, str, str, str], ...] = (ASPEED,)
    lanes: int = 18  # NVLinks of a GPU into a switch, 0 for none
    pairs: tuple[tuple[int, int, int], ...] = ()  # of GPUs by slot, and their links
    sockets: int = 2
    bridged: bool = True
    unit: int = 25_000  # MB/s of a link

    def device(self, index: int, kind: str, pci: str, speed: str, inside: str, described: str = "") -> str:
        info = f'<info name="PCIDevice" value="{described}"/>' if described else ""
        bus = f'gp_index="{1000 + index}" pci_busid="0000:{index:02x}:00.0"'
        return (
            f'<object type="PCIDev" {bus} pci_type="{kind} [{pci}] [0000:0000] a1 00" pci_link_speed="{speed}">'
            f"{info}{inside}</object>"
        )

    def gpu(self, slot: int) -> str:
        systems = ""
        if self.order:
            info = f'<info name="GPUModel" value="{self.name}"/>' if self.name else ""
            head = f'<object type="OSDev" gp_index="{100 + slot}" name="{self.osdev}{self.order[slot]}"'
            systems = f"{head}>{info}</object>"
        return self.device(0x10 + slot, self.kind, self.pci, self.speed, systems, self.described)

    def nic(self, number: int, version: str) -> str:
        ethernet, infiniband = ("2", "3") if version == "2.0" else ("16", "48")
        kind = self.nics[number]
        systems = f'<object type="OSDev" name="net{number}" osdev_type="{ethernet}"/>'
        if kind != "0200":
            systems += f'<object type="OSDev" name="mlx5_{number}" osdev_type="{infiniband}"/>'
        return self.device(0x60 + number, kind, "15b3:1021", self.speed, systems)

    def text(self, version: str) -> bytes:
        places: list[list[str]] = [[] for _ in range(self.sockets)]
        for number in range(self.gpus):
            places[number * self.sockets // self.gpus].append(self.bridge(number, self.gpu(number)))
        for number in range(len(self.nics)):
            place = number * self.sockets // len(self.nics)
            places[place].append(self.bridge(0x30 + number, self.nic(number, version)))
        for number, (kind, pci, name, system) in enumerate(self.graphics):
            inside = f'<object type="OSDev" name="{system}" osdev_type="{1 if version == "2.0" else 4}"/>'
            places[0].append(self.device(0xE0 + number, kind, pci, "0.250000", inside, name))
        packages = "".join(
            f'<object type="Package" gp_index="{5 + i}"><object type="Bridge" bridge_type="0-1">{"".join(below)}'
            "</object></object>"
            for i, below in enumerate(places)
        )
        machine = f'<object type="Machine" gp_index="1">{packages}</object>'
        head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
        return f'{head}<topology version="{version}">{machine}{self.links()}</topology>'.encode()

    def bridge(self, number: int, inside: str) -> str:
        bus = f'pci_busid="0001:{number:02x}:00.0" pci_link_speed="{self.speed}"'
        return f'<object type="Bridge" bridge_type="1-1" {bus}>{inside}</object>' if self.bridged else inside

    def links(self) -> str:
        if not self.lanes and not self.pairs:
            return ""
        size = self.gpus + bool(self.lanes)
        values = [[1_000_000 if i == j else 0 for j in range(size)] for i in range(size)]
        for i in range(self.gpus if self.lanes else 0):
            values[i][-1] = values[-1][i] = self.lanes * self.unit
        for a, b, count in self.pairs:
            values[a][b] = values[b][a] = count * self.unit
        objects = [f"OSDev:{100 + i}" for i in range(self.gpus)] + ["PCIDev:9999"] * bool(self.lanes)
        return matrix("NVLinkBandwidth", objects, values)


H100 = {"name": "NVIDIA H100 80GB HBM3"}
ALL = tuple((a, b, 2) for a in range(4) for b in range(a))
NONE: tuple[str, ...] = ()
CARDS = {"osdev": "cuda", "lanes": 0, "gpus": 4, "nics": ("0200",) * 2}

# the server; its model, NICs that are used, GB/s of a GPU's slot
KINDS: dict[str, tuple[Box, str, int, Fraction]] = {
    "H100": (Box(**H100), "H100", 8, Fraction(63)),
    "H100 in another order": (Box(**H100, order=(7, 6, 5, 4, 3, 2, 1, 0)), "H100", 8, Fraction(63)),
    "H100 by CUDA": (Box(**H100, osdev="cuda"), "H100", 8, Fraction(63)),
    "H100 by its id": (Box(lanes=0, order=()), "H100", 8, Fraction(63)),
    "H100 without NICs": (Box(**H100, nics=NONE), "H100", 0, Fraction(63)),
    "H100 without bridges": (Box(**H100, bridged=False), "H100", 8, Fraction(63)),
    "H100, one socket": (Box(**H100, sockets=1), "H100", 8, Fraction(63)),
    "H100, four NICs": (Box(**H100, nics=("0207",) * 4), "H100", 4, Fraction(63)),
    "H100, Ethernet of the board too": (Box(**H100, nics=("0207",) * 8 + ("0200",) * 2), "H100", 8, Fraction(63)),
    "H100, RoCE": (Box(**H100, nics=("0280",) * 8), "H100", 8, Fraction(63)),
    "H200": (Box("10de:2335", name="NVIDIA H200"), "H200", 8, Fraction(63)),
    "B200": (Box("10de:2901", name="NVIDIA B200", unit=50_000), "B200", 8, Fraction(63)),
    "A100": (Box("10de:20b0", speed=PCIE_4, lanes=12), "A100", 8, Fraction("31.5")),
    "A100 mesh": (Box("10de:20b0", gpus=4, speed=PCIE_4, lanes=0, pairs=ALL), "A100", 8, Fraction("31.5")),
    "V100 mesh": (Box("10de:1db1", gpus=4, speed=PCIE_3, lanes=0, pairs=ALL), "V100", 8, Fraction("15.75")),
    "L40S": (Box("10de:26b9", speed=PCIE_4, **CARDS), "L40S", 2, Fraction("31.5")),
    "RTX 4090": (Box("10de:2684", "0300", speed=PCIE_4, **CARDS), "RTX 4090", 2, Fraction("31.5")),
    "3090 without a library": (
        Box("10de:2204", "0300", speed=PCIE_4, **{**CARDS, "order": ()}),
        "RTX 3090",
        2,
        Fraction("31.5"),
    ),
    "RTX PRO 5000": (Box("10de:2bb3", "0300", **CARDS), "RTX PRO 5000", 2, Fraction(63)),
    "MI300X": (Box("1002:74a1", "1200", osdev="rsmi", lanes=0), "MI300X", 8, Fraction(63)),
    "MI300X VF": (Box("1002:74b5", "1200", osdev="rsmi", lanes=0), "MI300X", 8, Fraction(63)),
    "MI350X": (Box("1002:75a0", "1200", osdev="rsmi", lanes=0), "MI350X", 8, Fraction(63)),
    "old InfiniBand": (
        Box("10de:20f1", speed=PCIE_4, **{**CARDS, "nics": ("0c06",)}),
        "A100 PCIe",
        1,
        Fraction("31.5"),
    ),
    "Matrox": (Box(**H100, graphics=(MATROX,)), "H100", 8, Fraction(63)),
    "graphics of GPU makers": (Box(**H100, graphics=(ES1000, QUADRO, KEPLER)), "H100", 8, Fraction(63)),
    "graphics of a CPU": (
        Box("10de:2684", "0300", speed=PCIE_4, graphics=(INTEL,), **CARDS),
        "RTX 4090",
        2,
        Fraction("31.5"),
    ),
}


@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_what_was_written(kind: str, version: str, tmp_path: Path) -> None:
    box, model, nics, slot = KINDS[kind]
    path = tmp_path / "node.xml"
    path.write_bytes(box.text(version))
    result = import_topology(
        ImportTopologyRequest((str(path),), options=ReadOptions(nic_rate=Fraction(50 * GIGA)))
    )
    (machine,) = result.machines
    assert [gpu.model for gpu in machine.gpus] == [model] * box.gpus
    assert len(machine.nics) == nics and result.topology.ranks == box.gpus
    assert all(abs(gpu.place.rate - slot * GIGA) < GIGA / 10 for gpu in machine.gpus if gpu.place.rate)
    assert all(gpu.place.rate for gpu in machine.gpus)
    slots = sorted(range(box.gpus), key=lambda i: box.order[i] if box.order else i)
    assert [int(gpu.place.bus[5:7], 16) for gpu in machine.gpus] == [0x10 + i for i in slots]
    assert [port.lanes for port in machine.ports] == [box.lanes] * (box.gpus if box.lanes else 0)
    assert sorted((link.b, link.a, link.count) for link in machine.links) == sorted(box.pairs)
