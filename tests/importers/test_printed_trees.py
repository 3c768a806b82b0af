"""Trees as NCCL and RCCL print them, made of descriptions by the rules of ncclTopoPrint, and what they mean.

A description has devices by address and what the library counts; the lanes and rates it means stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine, gpus_of_nics
from hetesynth.topology.importers.nccl_log import read_nccl_log
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, format_of

GIGA = 10**9
Release = Literal["2.18", "2.22", "2.24", "2.30"]


@dataclass
class Node:
    """A device: ``rate`` of the PCIe link above; ``far``: its other links, as kind, GB/s and other end."""

    kind: str
    address: int
    rate: str = "24.0"
    rank: int = -1
    device: str = "0"
    below: list[Node] = field(default_factory=list)
    far: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass
class Cpu:
    """A CPU; ``to``: others that it is joined to at ``rate``."""

    number: int
    facts: str
    below: list[Node]
    to: tuple[int, ...] = ()
    rate: str = "10.0"
    system: int = 0


def printed(cpus: Sequence[Cpu], release: Release = "2.18", prefix: str = "n1:7:8 [0] NCCL INFO ") -> str:
    """The lines of ncclTopoPrint of a release."""
    lines = ["=== System : maxBw 20.0 totalBw 240.0 ==="]

    def named(kind: str, address: int, system: int) -> str:
        return f"{kind}/{address:X}" if release == "2.18" else f"{kind}/{system:x}-{address:x}"

    def put(node: Node, before: str, system: int) -> None:
        kind, facts = node.kind, {"GPU": f" ({node.rank})", "PCI": f" ({node.device})"}.get(node.kind, "")
        if kind == "GPU" and release == "2.30":
            kind, facts = "DEV", f" ({node.device})"
        lines.append(before + named(kind, node.address, system) + facts)
        offset = " " * len(before)
        if kind == "DEV":
            lines.append(f"{offset}+ LOC[5000.0] - {named('GPU', node.address, system)}")
        for link, rate, end in node.far:
            to, _, number = end.partition("/")
            to = "DEV" if to == "GPU" and release == "2.30" else to
            facts = ""
            if to == "NET":
                facts = f" (a5/1/{float(rate):f})" if release < "2.24" else f" (0/a5/1/{float(rate):f})"
            # 2.22 names the far end of a link as older ones do
            far = (
                f"{to}/{int(number, 16):X}" if release in ("2.18", "2.22") else named(to, int(number, 16), system)
            )
            lines.append(f"{offset}+ {link}[{float(rate):.1f}] - {far}{facts}")
        for child in node.below:
            put(child, f"{offset}+ PCI[{child.rate}] - ", system)

    for cpu in cpus:
        lines.append(f"{named('CPU', cpu.number, cpu.system)} ({cpu.facts})")
        lines += [f"+ SYS[{cpu.rate}] - {named('CPU', other, cpu.system)}" for other in cpu.to]
        for node in cpu.below:
            put(node, f"+ PCI[{node.rate}] - ", cpu.system)
    return "".join(f"{prefix}{line}\n" for line in [*lines, "=" * 42])


def gpu(rank: int, *far: tuple[str, str, str], rate: str = "24.0", device: str = "0") -> Node:
    return Node("GPU", 0x1000 * (16 + rank), rate, rank, device, far=list(far))


def nic(number: int, *rates: str, slot: str = "24.0") -> Node:
    nets = [("NET", rate, f"NET/{number + i:x}") for i, rate in enumerate(rates)]
    return Node("NIC", 0x1000 * (64 + number), slot, far=nets)


def switch(number: int, *below: Node, rate: str = "24.0", device: str = "1000c01010000000") -> Node:
    return Node("PCI", 0x1000 * (128 + number), rate, device=device, below=list(below))


def nvs(rate: str) -> tuple[str, str, str]:
    return "NVL", rate, "NVS/0"


def to(rank: int, rate: str, kind: str = "NVL") -> tuple[str, str, str]:
    return kind, rate, f"GPU/{0x1000 * (16 + rank):x}"


def box(
    rates: Sequence[str], facts: str = "1/1/3", slot: str = "48.0", net: str = "50", device: str = "0"
) -> list[Cpu]:
    """Eight GPUs, each with a NIC below its PCIe switch, on two CPUs; "" is a GPU without NVLink."""
    nodes = []
    for i, rate in enumerate(rates):
        far = [nvs(rate)] if rate else []
        under = [gpu(i, *far, rate=slot, device=device), nic(i, net, slot=slot)]
        nodes.append(switch(i, *under, rate=slot))
    half = len(rates) // 2
    return [Cpu(0, facts, nodes[:half], (1,)), Cpu(1, facts, nodes[half:], (0,))]


def mesh(links: dict[tuple[int, int], str], gpus: int, kind: str = "NVL", facts: str = "1/1/1") -> list[Cpu]:
    """GPUs directly below two CPUs, with links both ways."""
    both = links | {(b, a): rate for (a, b), rate in links.items()}
    nodes = [
        gpu(i, *(to(b, rate, kind) for (a, b), rate in sorted(both.items()) if a == i), rate="12.0")
        for i in range(gpus)
    ]
    return [Cpu(0, facts, nodes[: gpus // 2], (1,)), Cpu(1, facts, nodes[gpus // 2 :], (0,))]


CUBE = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
ALL = [(a, b) for a in range(8) for b in range(a + 1, 8)]
FOUR = [(a, b) for a in range(4) for b in range(a + 1, 4)]
PCIE = [
    Cpu(0, "1/2/-1", [switch(0, gpu(0), gpu(1), nic(0, "12.5"))], (1,), "16.0"),
    Cpu(1, "1/2/-1", [gpu(2), gpu(3)], (0,), "16.0"),
]
VIRTUAL = [
    Cpu(
        0,
        "1/2/-1",
        [switch(i, gpu(i, nvs("370.8"), rate="48.0"), nic(i, "50", slot="48.0"), rate="0.2") for i in range(2)],
    )
]
SOCKET = [
    Cpu(
        0,
        "1/1/2",
        [gpu(0, to(1, "80")), gpu(1, to(0, "80")), Node("NIC", 0, "5000.0", far=[("NET", "1.25", "NET/0")])],
    )
]


@dataclass(frozen=True)
class Expected:
    """Lanes into the switch by GPU, links of pairs, GB/s of a link, NICs in GB/s, GB/s between CPUs."""

    ports: dict[int, int] = field(default_factory=dict)
    links: dict[tuple[int, int], int] = field(default_factory=dict)
    rate: float = 25
    nics: tuple[float, ...] = ()
    between: int = 6
    users: dict[int, tuple[int, ...]] = field(default_factory=dict)
    model: str = ""


def full(lanes: int, **others: int) -> dict[int, int]:
    return {i: others.get(f"gpu{i}", lanes) for i in range(8) if others.get(f"gpu{i}", lanes)}


EIGHT = (50.0,) * 8
OWN = {i: (i,) for i in range(8)}
CASES: dict[str, tuple[list[Cpu], Release, str, Expected]] = {
    "A100, 2.18": (
        box(["240"] * 8, "1/2/-1", "24.0", "25"), "2.18", "",
        Expected(full(12), nics=(25.0,) * 8, between=16, users=OWN),
    ),
    "H100, 2.18, which counts 20": (
        box(["360"] * 8, "1/1/2"), "2.18", "",
        Expected(full(18), nics=EIGHT, between=10),
    ),
    "H100, 2.22": (box(["370.8"] * 8), "2.22", "", Expected(full(18), nics=EIGHT, between=22, users=OWN)),
    "H100, 2.24": (
        box(["370.8"] * 8, "1/1/4"), "2.24", "H100",
        Expected(full(18), nics=EIGHT, between=40, model="H100"),
    ),
    "H800, 2.30, by its device": (
        box(["164.8"] * 8, device="10de232410de17a6"), "2.30", "",
        Expected(full(8), nics=EIGHT, between=22, model="H800"),
    ),
    "H20, 2.30, by --model": (
        box(["370.8"] * 8), "2.30", "H20", Expected(full(18), nics=EIGHT, between=22, model="H20")
    ),
    "a lost link": (
        box(["370.8"] * 3 + ["350.2"] + ["370.8"] * 4), "2.24", "",
        Expected(full(18, gpu3=17), nics=EIGHT, between=22),
    ),
    "a GPU off its switch": (
        box(["370.8"] * 2 + [""] + ["370.8"] * 5), "2.22", "H100",
        Expected(full(18, gpu2=0), nics=EIGHT, between=22, model="H100"),
    ),
    "two GPUs off their switch": (
        box([""] + ["370.8"] * 6 + [""]), "2.18", "H200",
        Expected(full(18, gpu0=0, gpu7=0), nics=EIGHT, between=22, model="H200"),
    ),
    "B200": (
        box(["721.8"] * 8, "1/1/4", "96.0"), "2.30", "",
        Expected(full(18), rate=50, nics=EIGHT, between=40, users=OWN),
    ),
    "the cube of DGX-1": (
        mesh({pair: str(20 * n) for pair, n in CUBE.items()}, 8), "2.18", "", Expected(links=CUBE)
    ),
    "the cube, a link lost": (
        mesh({p: str(20 * n) for p, n in CUBE.items() if p != (0, 2)}, 8), "2.22", "V100",
        Expected(links={p: n for p, n in CUBE.items() if p != (0, 2)}, model="V100"),
    ),
    "P100": (mesh(dict.fromkeys(FOUR, "18"), 4), "2.18", "", Expected(links=dict.fromkeys(FOUR, 1), rate=20)),
    "bridges between A40": (
        mesh({(0, 1): "48", (2, 3): "48"}, 4), "2.24", "", Expected(links={(0, 1): 4, (2, 3): 4}, rate=14.062)
    ),
    "four A100 in a mesh": (
        mesh(dict.fromkeys(FOUR, "80"), 4), "2.22", "",
        Expected(links=dict.fromkeys(FOUR, 4)),
    ),
    "MI100 in one hive": (
        mesh(dict.fromkeys(FOUR, "24"), 4, "XGMI", "1/2/4"), "2.18", "MI100",
        Expected(links=dict.fromkeys(FOUR, 1), rate=46, between=16, model="MI100"),
    ),
    "MI300X": (
        mesh(dict.fromkeys(ALL, "48"), 8, "XGMI", "1/2/4"), "2.30", "MI300X",
        Expected(links=dict.fromkeys(ALL, 1), rate=64, between=16, model="MI300X"),
    ),
    "MI250X by its rate": (
        mesh(dict.fromkeys(FOUR, "36"), 4, "XGMI", "1/2/4"), "2.18", "",
        Expected(links=dict.fromkeys(FOUR, 1), rate=50, between=16),
    ),
    "PCIe alone": (
        PCIE, "2.24", "L40S",
        Expected(nics=(12.5,), between=16, users={0: (0, 1, 2, 3)}, model="L40S"),
    ),
    "bridges of a hypervisor": (VIRTUAL, "2.24", "", Expected({0: 18, 1: 18}, nics=(50.0, 50.0), between=16)),
    "a network without a slot": (
        SOCKET, "2.18", "A30",
        Expected(links={(0, 1): 4}, nics=(1.25,), between=10, model="A30"),
    ),
    "two ports of a card": (
        [Cpu(0, "1/1/2", [switch(0, gpu(0, nvs("240")), gpu(1, nvs("240")), nic(0, "25", "25"))])], "2.18", "A100",
        Expected({0: 12, 1: 12}, nics=(25.0, 25.0), between=10, users={0: (0,), 1: (1,)}, model="A100"),
    ),
}  # fmt: skip


def read(text: str, model: str = "") -> Reading:
    return read_nccl_log(Source("a.log", text.encode()), ReadOptions("spec", None, model))


def lanes(machine: Machine) -> list[int]:
    return [machine.links_of(i) for i in range(len(machine.gpus))]


@pytest.mark.parametrize("name", CASES)
def test_a_tree_is_what_it_says(name: str) -> None:
    cpus, release, model, expected = CASES[name]
    (machine,) = read(printed(cpus, release), model).machines
    assert {port.gpu: port.lanes for port in machine.ports} == expected.ports
    assert {(link.a, link.b): link.count for link in machine.links} == expected.links
    assert {float(x.rate) / GIGA for x in (*machine.ports, *machine.links)} <= {expected.rate}
    assert tuple(float(nic.rate or 0) / GIGA for nic in machine.nics) == expected.nics
    assert machine.between == expected.between * GIGA and {gpu.model for gpu in machine.gpus} == {expected.model}
    assert gpus_of_nics(machine) == expected.users or not expected.users


BOX = box(["370.8"] * 8)


@pytest.mark.parametrize("prefix", ["", "NCCL INFO ", "[1,0]<stdout>:n1:7:8 [0] NCCL INFO ",
                                    "0: n1:7:8 [0] NCCL INFO ",
                                    "[2026-11-27 20:00:00] n1:7:8 [0] NCCL INFO "])  # fmt: skip
def test_prefixes_are_stripped(prefix: str) -> None:
    text = "n1:7:8 [0] NCCL INFO Bootstrap : Using eth0\n" + printed(BOX, prefix=prefix)
    assert format_of(Source("a.log", text.encode())) == "nccl-log"
    assert read(text).machines == read(printed(BOX)).machines


def test_a_log_is_known_below_the_heading_of_many_ranks() -> None:
    rank = "#  Rank   1 Group  0 Pid  12345 on node-1 device  1 [0000:18:00] NVIDIA H100\n"
    assert format_of(Source("a.log", (256 * rank + printed(BOX)).encode())) == "nccl-log"


def test_ranks_print_one_server_in_turns() -> None:
    texts = [printed(BOX, prefix=f"n1:7:{rank} [{rank}] NCCL INFO ").splitlines(True) for rank in range(8)]
    mixed = "".join(line for lines in zip(*texts, strict=True) for line in lines)
    assert read(mixed).machines == read(printed(BOX)).machines


def test_each_host_is_a_server_and_small_groups_are_part_of_one() -> None:
    other = [Cpu(0, "1/1/3", [gpu(0, to(1, "240")), gpu(1, to(0, "240"))])]
    pair = [Cpu(0, "1/1/3", BOX[0].below[:2], (1,))]
    text = printed(BOX) + printed(other, prefix="n2:7:8 [0] NCCL INFO ") + printed(pair)
    machines = read(text).machines
    assert [machine.host for machine in machines] == ["n1", "n2"] and [lanes(m) for m in machines] == [
        [18] * 8,
        [12, 12],
    ]


def test_servers_of_one_nvlink_domain() -> None:
    cpus = [Cpu(0, "3/-1/-1", [gpu(4 * s + i, nvs("721.8")) for i in range(4)], system=s) for s in range(2)]
    machines = read(printed(cpus, "2.24"), "GB200").machines
    assert [lanes(machine) for machine in machines] == [[18] * 4] * 2
    assert len({machine.domain for machine in machines}) == 1 and machines[0].domain


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("n1:7:8 [0] NCCL INFO Bootstrap : Using eth0\n", "HS733", "no tree"),
        (printed(BOX) + printed(BOX).replace("(0)", "(8)"), "HS732", "several servers"),
        (printed(box(["684.5"] * 8)), "HS733", "no multiples"),
        (printed(mesh({(0, 1): "24"}, 2, "XGMI")), "HS733", "several models"),
        (" ".join(printed(BOX).split(" ")).replace("              + ", " + "), "HS732", "below no line"),
        (printed(BOX, "2.30").replace("+ LOC[5000.0] - GPU", "+ LOC[2618.0] - DEV"), "HS732", "MLOPart"),
        (printed([Cpu(0, "1/1/2", [nic(0, "25")])]), "HS732", "without a GPU"),
    ],
)  # fmt: skip
def test_what_a_tree_does_not_tell_is_said(text: str, code: str, words: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        read(text)
    assert caught.value.code == code and words in caught.value.message


def test_a_tree_that_was_cut_off_is_doubted() -> None:
    whole, cut = read(printed(BOX)), read(printed(BOX).replace("=" * 42, ""))
    assert whole.machines == cut.machines and whole.remarks == ()
    assert [remark.kind for remark in cut.remarks] == ["suspicious"]
