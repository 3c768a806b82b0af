"""Dumps as the writers of NCCL 2.27 to 2.30 and of RCCL write them, from a description whose answer is known.

The writer here follows src/graph/xml.cc and topo.cc of v2.27.7-1, v2.29.7-1, v2.30.4-1 and v2.30.7-1. NICs have
``net`` from 2.29 on, with ``gin`` where a plug-in has it; 2.30.7 adds ``mlopart`` to GPUs, ``rma``, ``rail`` and
``plane`` to NICs, and tells the present speed of a GPU's slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.reading import ReadOptions

GIGA = 10**9
RELEASES = ("2.27.7", "2.29.7", "2.30.4", "2.30.7")
LANES = {"8": Fraction("15.75"), "16": Fraction("31.5"), "32": Fraction(63)}  # GB/s of 16 lanes by GT/s


def element(tag: str, attributes: Mapping[str, object], *below: str) -> str:
    words = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items())
    return f"<{tag}{words}>\n{''.join(below)}</{tag}>\n" if below else f"<{tag}{words}/>\n"


def pci(bus: str, kind: str, device: str, speed: str, *below: str, width: object = 16) -> str:
    """A device or bridge; ``device`` is vendor and device, ``speed`` in GT/s."""
    vendor, _, number = device.partition(":")
    ids = {"vendor": f"0x{vendor}", "device": f"0x{number}", "subsystem_vendor": "0x10de"}
    told = f"{float(speed):.1f} GT/s PCIe" if speed else ""
    rest = {"subsystem_device": "0x1463", "link_speed": told, "link_width": width}
    return element("pci", {"busid": bus, "class": kind, **ids, **rest}, *below)


def gpu_bus(i: int) -> str:
    return f"{i // 8:04x}:{0x10 + i % 8:02x}:00.0"


@dataclass(frozen=True)
class Box:
    """A server; ``wiring``: "switch", "hidden" (what a guest sees of one), "mesh", or "" for PCIe alone."""

    device: str = "10de:2330"  # H100
    sm: int = 90
    gpus: int = 8
    wiring: str = "switch"
    lanes: int = 18  # NVLinks of a GPU, in a mesh of a pair
    rates: tuple[int, ...] = (400_000,) * 8  # Mb/s of the NICs
    ports: int = 1  # of a card
    pcie: str = "32"
    arch: str = "x86_64"
    sockets: int = 2
    depth: int = 1  # bridges above each other
    nested: bool = True  # NICs stand beside GPUs below one bridge
    gdr: int = 1
    collective: bool = False  # a plug-in such as SHARP
    c2c: int = 0
    host: str = "0x7d3c9f2a11b45e60"
    first: int = 0  # rank
    latency: str = "0"

    def cpu(self, numa: int, *below: str) -> str:
        attributes: dict[str, object] = {"host_hash": self.host, "numaid": numa}
        attributes |= {"affinity": f"{0xFFFF << (16 * numa):08x}", "arch": self.arch}
        if self.arch == "x86_64":
            attributes |= {"vendor": "GenuineIntel", "familyid": 6, "modelid": 143}
        return element("cpu", attributes, *below)

    def gpu(self, i: int, release: str) -> str:
        links = []
        if self.wiring == "switch":
            links = [element("nvlink", {"target": "0000:b0:00.0", "count": self.lanes, "tclass": "0x068000"})]
        elif self.wiring == "hidden":
            links = [element("nvlink", {"target": "fffffff:ffff:ff", "count": self.lanes, "tclass": "0x068000"})]
        elif self.wiring == "mesh":
            links = [
                element("nvlink", {"target": gpu_bus(j), "count": self.lanes, "tclass": "0x030200"})
                for j in range(self.gpus)
                if j != i
            ]
        if self.c2c:
            links.append(element("c2c", {"bw": 44712, "count": self.c2c}))
        attributes = {"dev": i, "sm": self.sm, "keep": 1, "rank": self.first + i, "gdr": self.gdr}
        attributes |= {"mlopart": -1} if release == "2.30.7" else {}
        return pci(gpu_bus(i), "0x030200", self.device, self.pcie, element("gpu", attributes, *links))

    def nic(self, card: int, release: str) -> str:
        nets = []
        for i in range(card * self.ports, (card + 1) * self.ports):
            facts: dict[str, object] = {"name": f"mlx5_{i}", "keep": 1, "dev": i}
            facts |= {"latency": self.latency, "speed": self.rates[i], "port": 1}
            facts |= {"rail": i, "plane": 0} if release == "2.30.7" else {}
            facts |= {"guid": f"0x{0x5A2B0300C0FFEE + i:x}", "maxconn": 131072, "gdr": self.gdr}
            facts |= {"net": 1} if release > "2.29" else {}
            facts |= {"coll": 1} if self.collective else {}
            facts |= {"gin": 1} if release >= "2.30" else {}
            facts |= {"rma": 1} if release == "2.30.7" else {}
            nets.append(element("net", facts))
        return pci(f"00f0:{card + 1:02x}:00.0", "0x020700", "15b3:1021", self.pcie, element("nic", {}, *nets))

    def cpus(self, release: str) -> str:
        """GPU i and card i stand below bridge i, where there is one, on the sockets in turn of equal parts."""
        cards = len(self.rates) // self.ports
        places: list[list[str]] = [[] for _ in range(self.sockets)]
        for i in range(max(self.gpus, cards)):
            own = [self.gpu(i, release)] if i < self.gpus else []
            of_card = [self.nic(i, release)] if i < cards else []
            nested, loose = ([*own, *of_card], []) if self.nested else (own, of_card)
            for level in range(self.depth):
                bus = f"00{0xC0 + level:02x}:{i + 1:02x}:00.0"
                nested = [pci(bus, "0x060400", "1000:c030", self.pcie, *nested)]
            places[i * self.sockets // max(self.gpus, cards)] += [*nested, *loose]
        return "".join(self.cpu(numa, *below) for numa, below in enumerate(places))


def dump(release: str, *boxes: Box) -> bytes:
    return element("system", {"version": 1}, *(box.cpus(release) for box in boxes)).encode()


def imported(tmp_path: Path, data: bytes) -> ImportedTopology:
    path = tmp_path / "node.xml"
    path.write_bytes(data)
    return import_topology(ImportTopologyRequest((str(path),), options=ReadOptions()))


V100 = Box("10de:1db1", 70, 4, "mesh", 2, (100_000,) * 2, pcie="8")
A100 = Box("10de:20b0", 80, 8, "switch", 12, (200_000,) * 8, pcie="16")
GRACE = Box("10de:2941", 100, 4, "hidden", 18, (400_000,) * 4, arch="arm64", c2c=10)
CARDS = Box("10de:20f1", 80, 4, "", 0, (100_000,) * 2, pcie="16", nested=False)

# the machine; GB/s of a GPU's NVLink in all (to each other GPU in a mesh), 0 without; NICs that its GPUs use
KINDS: dict[str, tuple[Box, Fraction, int]] = {
    "H100, a NIC a GPU": (Box(), Fraction(450), 8),
    "H100 of a guest": (Box(wiring="hidden"), Fraction(450), 8),
    "H100, two NICs a GPU": (Box(rates=(200_000,) * 16, ports=2), Fraction(450), 16),
    "H100 without a NIC": (Box(rates=()), Fraction(450), 0),
    "H100, gdr off": (Box(gdr=0), Fraction(450), 8),
    "H100 with SHARP": (Box(collective=True), Fraction(450), 8),
    "H100, bridges in bridges": (Box(depth=3), Fraction(450), 8),
    "H100, a NIC with latency": (Box(latency="2"), Fraction(450), 8),
    "H100, four GPUs": (Box(gpus=4, rates=(400_000,) * 4), Fraction(450), 4),
    "H100, one socket": (Box(sockets=1), Fraction(450), 8),
    "H100, other numbers of ranks": (Box(first=24), Fraction(450), 8),
    "H200": (Box("10de:2335"), Fraction(450), 8),
    "H20": (Box("10de:2329", rates=(200_000,) * 8), Fraction(450), 8),
    "B200": (Box("10de:2901", 100), Fraction(900), 8),
    "A100": (A100, Fraction(300), 8),
    "A100 mesh": (Box("10de:20b0", 80, 4, "mesh", 4, (200_000,) * 4, pcie="16"), Fraction(100), 4),
    "A800": (Box("10de:20f3", 80, 8, "switch", 8, (200_000,) * 8, pcie="16"), Fraction(200), 8),
    "V100 mesh": (V100, Fraction(50), 2),
    "GB200 tray": (GRACE, Fraction(900), 4),
    "GH200": (Box("10de:2342", 90, 1, "", 0, (400_000,), arch="arm64", sockets=1, c2c=10), Fraction(0), 1),
    "A100 over PCIe": (CARDS, Fraction(0), 2),
    "L40S": (Box("10de:26b9", 89, 8, "", 0, (400_000,) * 2, pcie="16"), Fraction(0), 2),
    "RTX PRO 5000": (Box("10de:2bb3", 120, 4, "", 0, (100_000,)), Fraction(0), 1),
    "NICs of two rates": (Box(rates=(400_000, 100_000) * 4), Fraction(450), 8),
}


def direct(result: ImportedTopology) -> dict[tuple[int, int], Fraction]:
    """What a GPU sends to another over links of their own."""
    rates: Counter[tuple[int, int]] = Counter()
    for wire in result.topology.wires:
        if max(wire.src, wire.dst) < result.topology.ranks and wire.bandwidth:
            rates[wire.src, wire.dst] += wire.bandwidth * wire.lanes
    return {pair: Fraction(rate) for pair, rate in rates.items()}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_what_was_written(kind: str, release: str, tmp_path: Path) -> None:
    box, nvlink, used = KINDS[kind]
    result = imported(tmp_path, dump(release, box))
    (machine,) = result.machines
    assert (len(machine.gpus), len(machine.nics), result.topology.ranks) == (box.gpus, len(box.rates), box.gpus)
    assert [nic.rate for nic in machine.nics] == [rate * 10**6 // 8 for rate in box.rates]
    assert {nic.latency for nic in machine.nics} <= {Fraction(box.latency) / 10**6}
    assert sum(vertex.kind == "nic" for vertex in result.topology.vertices) == used
    assert {gpu.place.rate for gpu in machine.gpus} == {LANES[box.pcie] * GIGA}
    into_switch = {port.gpu: port.rate * port.lanes for port in machine.ports}
    if box.wiring in ("switch", "hidden"):
        assert into_switch == dict.fromkeys(range(box.gpus), nvlink * GIGA) and not direct(result)
    elif box.wiring == "mesh":
        pairs = [pair for a, b in combinations(range(box.gpus), 2) for pair in ((a, b), (b, a))]
        assert direct(result) == dict.fromkeys(pairs, nvlink * GIGA) and not into_switch
    else:
        assert not machine.links and not into_switch
    assert not [remark.text for remark in result.remarks if remark.kind == "suspicious"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("trays", [1, 2, 18])
def test_trays_of_one_domain(trays: int, release: str, tmp_path: Path) -> None:
    """Trays are told apart by ``host_hash``; all their GPUs are at one switch."""
    boxes = [Box(**{**GRACE.__dict__, "host": hex(0xA0 + n), "first": 4 * n}) for n in range(trays)]
    result = imported(tmp_path, dump(release, *boxes))
    assert len(result.machines) == trays and result.topology.ranks == 4 * trays
    assert all(len(machine.nics) == 4 for machine in result.machines)
    assert {machine.domain for machine in result.machines} == ({""} if trays == 1 else {"domain of node.xml"})
    ports = Counter(
        wire.dst for wire in result.topology.wires if wire.src < result.topology.ranks and wire.kind == "nvlink"
    )
    assert sorted(ports.values()) == [4 * trays]


@pytest.mark.parametrize("part", [0, 1])
def test_parts_of_gpus_are_refused(part: int, tmp_path: Path) -> None:
    data = dump("2.30.7", Box("10de:2901", 100)).replace(b'mlopart="-1"', f'mlopart="{part}"'.encode(), 1)
    with pytest.raises(HetesynthError, match="parts of GPUs") as caught:
        imported(tmp_path, data)
    assert caught.value.code == "HS732"


def test_a_second_rank_on_a_gpu_is_no_second_gpu(tmp_path: Path) -> None:
    """NCCL 2.30 lets ranks share a GPU: its slot then has a ``<gpu>`` for each."""
    box = Box(gpus=2, rates=(400_000,) * 2)
    one = box.gpu(1, "2.30.7")
    start, end = one.index("<gpu"), one.index("</pci>")
    both = one[:end] + one[start:end].replace('rank="1"', 'rank="2"') + one[end:]
    result = imported(tmp_path, dump("2.30.7", box).replace(one.encode(), both.encode()))
    assert result.topology.ranks == 2
    assert any("1 further ranks" in remark.text for remark in result.remarks)


@pytest.mark.parametrize("plugin", ["gin", "rma", "coll"])
def test_a_device_of_another_plug_in_is_no_nic(plugin: str, tmp_path: Path) -> None:
    """``net="0"``: NCCL adds no network device for it."""
    other = element("net", {"name": "gdaki0", "keep": 1, "dev": 9, "speed": 400_000, "net": 0, plugin: 1})
    data = dump("2.30.7", Box()).replace(b"<nic>\n", f"<nic>\n{other}".encode(), 1)
    assert len(imported(tmp_path, data).machines[0].nics) == 8


def test_an_idle_gpu_is_named(tmp_path: Path) -> None:
    """NCCL 2.30.7 asks NVML for the present generation, which power saving lowers."""
    box = Box(gpus=2, rates=(400_000,))
    busy = box.gpu(1, "2.30.7")
    result = imported(tmp_path, dump("2.30.7", box).replace(busy.encode(), busy.replace("32.0", "2.5").encode()))
    texts = [remark.text for remark in result.remarks if remark.kind == "suspicious"]
    assert any(text.startswith("gpu1: a slot of 2.5 GT/s, the model is made for 32 GT/s") for text in texts)


@pytest.mark.parametrize("width", ["255", "-1", "0", ""])
def test_a_width_that_no_slot_has_is_not_told(width: str, tmp_path: Path) -> None:
    """Virtual functions state 255 lanes or none; NCCL takes 16 for 0."""
    slot = pci(
        gpu_bus(0), "0x030200", "10de:2330", "32", element("gpu", {"dev": 0, "sm": 90, "rank": 0}), width=width
    )
    data = element("system", {"version": 1}, Box().cpu(0, slot)).encode()
    assert imported(tmp_path, data).machines[0].gpus[0].place.rate == 63 * GIGA


AMD = {"MI300X": ("1002:74a1", "gfx942", 8, 64), "MI300X VF": ("1002:74b5", "gfx942", 8, 64),
       "MI350X": ("1002:75a0", "gfx950", 8, Fraction("76.8")), "MI100": ("1002:738c", "908", 4, 46)}  # fmt: skip


@pytest.mark.parametrize("name", AMD)
def test_rccl_joins_every_pair(name: str, tmp_path: Path) -> None:
    """RCCL names the architecture (``gcn``), has the multiprocessors in ``sm``, and xgmi in place of nvlink."""
    device, gcn, gpus, rate = AMD[name]
    slots = []
    for i in range(gpus):
        others = [j for j in range(gpus) if j != i]
        links = [element("xgmi", {"target": gpu_bus(j), "count": 1, "tclass": "0x120000"}) for j in others]
        facts = {"dev": i, "sm": 94, "gcn": gcn, "arch": 38911, "rank": i, "gdr": 1}
        slots.append(pci(gpu_bus(i), "0x120000", device, "32", element("gpu", facts, *links)))
    cpu = {
        "numaid": 0,
        "affinity": "ffff",
        "arch": "x86_64",
        "vendor": "AuthenticAMD",
        "familyid": 175,
        "modelid": 17,
    }
    result = imported(tmp_path, element("system", {"version": 2}, element("cpu", cpu, *slots)).encode())
    pairs = [pair for a, b in combinations(range(gpus), 2) for pair in ((a, b), (b, a))]
    assert direct(result) == dict.fromkeys(pairs, rate * GIGA)
    assert {gpu.model for gpu in result.machines[0].gpus} == {name.removesuffix(" VF")}
