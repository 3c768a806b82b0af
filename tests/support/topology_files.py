"""Topology files for tests: well-formed ones from a few words, and random ones, right and wrong, by seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

SWITCH = '<nvlink target="0000:f0:00.0" count="{}" tclass="0x068000"/>'
HIDDEN = '<nvlink target="fffffff:ffff:ff" count="{}" tclass="0x068000"/>'
SPEED = "16.0 GT/s PCIe"


def bus(i: int) -> str:
    return f"0000:{0x10 + i:02x}:00.0"


def gpu(i: int, links: str = "", *, sm: int = 80, extra: str = "", width: int = 16, speed: str = SPEED) -> str:
    """A GPU in its slot; ``links`` are elements."""
    slot = f'<pci busid="{bus(i)}" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="{speed}"'
    return f'{slot} link_width="{width}"><gpu dev="{i}" sm="{sm}" rank="{i}" gdr="1" {extra}>{links}</gpu></pci>'


def nic(i: int, speed: int = 200_000, *, width: int = 16, ports: int = 1, name: str = "mlx5_") -> str:
    """A NIC in its slot, with several ports if asked."""
    nets = "".join(
        f'<net name="{name}{i + p}" dev="{i + p}" speed="{speed}" port="{p + 1}" guid="0x{i}" gdr="1"/>'
        for p in range(ports)
    )
    slot = f'<pci busid="0000:{0x80 + i:02x}:00.0" class="0x020700" link_speed="{SPEED}" link_width="{width}">'
    return f"{slot}<nic>{nets}</nic></pci>"


def bridge(i: int, *below: str, speed: str = SPEED, width: int = 16) -> str:
    """A PCIe switch."""
    head = f'<pci busid="0000:{0xC0 + i:02x}:00.0" class="0x060400" link_speed="{speed}" link_width="{width}">'
    return f"{head}{''.join(below)}</pci>"


def cpu(numa: int, *below: str, host: str = "", vendor: str = "GenuineIntel", model: int = 106) -> str:
    """A NUMA node."""
    mask = f"{1 << (max(numa, 0) + 4):08x}"
    head = f'<cpu numaid="{numa}" affinity="{mask}" arch="x86_64" vendor="{vendor}" familyid="6" modelid="{model}"'
    return f"{head}{f' host_hash={chr(34)}{host}{chr(34)}' if host else ''}>{''.join(below)}</cpu>"


def system(*cpus: str, version: int = 1) -> bytes:
    """A whole file."""
    return f'<system version="{version}">{"".join(cpus)}</system>'.encode()


def peers(i: int, counts: dict[int, int], tag: str = "nvlink", kind: str = "0x030200") -> str:
    """Direct links of a GPU."""
    return "".join(f'<{tag} target="{bus(j)}" count="{n}" tclass="{kind}"/>' for j, n in counts.items())


def switched(gpus: int = 4, nics: int = 2, *, lanes: int = 12, host: str = "") -> bytes:
    """A server with an NVSwitch, a PCIe switch for each NIC."""
    each = gpus // nics
    groups = [
        bridge(n, *(gpu(n * each + k, SWITCH.format(lanes)) for k in range(each)), nic(n)) for n in range(nics)
    ]
    return system(cpu(0, *groups, host=host))


def pcie_only(gpus: int = 4, *, sockets: int = 2) -> bytes:
    """A server whose GPUs, A100 for PCIe, meet over it."""
    each = gpus // sockets
    return system(
        *(cpu(s, bridge(s, *(gpu(s * each + k) for k in range(each)), nic(s, 100_000))) for s in range(sockets))
    ).replace(b"0x20b0", b"0x20f1")


_NUMBERS = ["", "0", "1", "2", "16", "-1", "-16", "999999999", "9999999999", "1e3", "x", "0x10", " 7 ", "٣"]
_SPEEDS = [
    "",
    "2.5 GT/s",
    "5 GT/s",
    "8 GT/s",
    SPEED,
    "32.0 GT/s PCIe",
    "64 GT/s",
    "GT/s",
    "0 GT/s",
    "999 GT/s",
    "x",
]
_BUSES = [*(bus(i) for i in range(4)), "", "fffffff:ffff:ff", "fffffff:ff:ff.0", "ffff:ff:01.0", "gg", "1" * 300]
_CLASSES = ["", "0x030200", "0x120000", "0x038000", "0x060400", "0x020700", "0x068000", "0x068001", "0x080100"]
_WORDS = [
    "",
    "x86_64",
    "arm64",
    "ppc64",
    "GenuineIntel",
    "AuthenticAMD",
    "AMD",
    "gfx942",
    "910",
    "906",
    "Ω",
    "a b",
]
_ATTRIBUTES: dict[str, dict[str, Sequence[str]]] = {
    "cpu": {"numaid": _NUMBERS, "affinity": ["", "0,1", "f"], "arch": _WORDS, "vendor": _WORDS,
            "modelid": _NUMBERS, "host_hash": ["", "0x1", "0x2"]},
    "pci": {"busid": _BUSES, "class": _CLASSES, "vendor": ["", "0x10de", "0x1002"], "device": ["", "0x20b0"],
            "link_speed": _SPEEDS, "link_width": _NUMBERS},
    "gpu": {"dev": _NUMBERS, "sm": ["70", "80", "90", "100", *_NUMBERS], "rank": _NUMBERS, "gcn": _WORDS},
    "apu": {"dev": _NUMBERS},
    "nvlink": {"target": _BUSES, "count": _NUMBERS, "tclass": _CLASSES},
    "xgmi": {"target": _BUSES, "count": _NUMBERS, "tclass": _CLASSES},
    "c2c": {"bw": _NUMBERS, "count": _NUMBERS},
    "nic": {},
    "net": {"name": ["", "mlx5_0", "mlx5_0+mlx5_1", "veth1", "\u202e"], "dev": _NUMBERS, "port": _NUMBERS,
            "speed": ["200000", "200000000", *_NUMBERS], "latency": ["", "0", "1.5", "-1", "nan", "1" * 30],
            "guid": ["", "0x1"]},
    "pcilink": {"target": _BUSES},
    "strange": {},
}  # fmt: skip
_BELOW: dict[str, Sequence[str]] = {
    "system": ["cpu", "cpu", "cpu", "nic", "strange"],
    "cpu": ["pci", "pci", "pci", "nic", "strange", "cpu"],
    "pci": ["pci", "gpu", "gpu", "nic", "apu", "pcilink", "strange"],
    "gpu": ["nvlink", "nvlink", "xgmi", "c2c"],
    "apu": ["nvlink"],
    "nic": ["net"],
    "strange": ["cpu", "pci", "gpu", "net"],
}
_LIKELY = 0.9  # that an attribute is one of the first values or there at all, so that many files get far


def random_system(random: Random) -> bytes:
    """A file that follows the grammar of NCCL's topology, with values that are often right."""
    return _element(random, "system", 0).encode()


def _element(random: Random, tag: str, depth: int) -> str:
    names = _ATTRIBUTES.get(tag, {})
    attributes = "".join(f' {k}="{_value(random, k, v)}"' for k, v in names.items() if random.random() < _LIKELY)
    children = _BELOW.get(tag, ())
    count = random.randint(1, 4) if children and depth < 7 else 0
    inside = "".join(_element(random, random.choice(children), depth + 1) for _ in range(count))
    return f"<{tag}{attributes}>{inside}</{tag}>"


_RIGHT = {
    "numaid": ["0", "1"], "modelid": ["106"], "busid": [bus(i) for i in range(40)],
    "class": ["0x030200", "0x060400"],
    "target": [bus(i) for i in range(8)], "count": ["1", "2", "4"], "tclass": ["0x030200", "0x068000"],
    "dev": [str(i) for i in range(16)], "sm": ["80"], "rank": ["0"], "link_width": ["16", "8"], "port": ["1"],
    "speed": ["200000"], "bw": ["44712"], "latency": ["0"],
}  # fmt: skip


def _value(random: Random, name: str, values: Sequence[str]) -> str:
    right = _RIGHT.get(name, values)
    return random.choice(right if random.random() < 0.97 else values)


def mutated(random: Random, data: bytes) -> bytes:
    """``data`` with a few bytes changed, lines repeated or left out, values exchanged."""
    pieces = data.replace(b">", b">\n").split(b"\n")
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(pieces))
        match random.randrange(5):
            case 0:
                pieces.insert(random.randrange(len(pieces)), pieces[at])
            case 1 if len(pieces) > 1:
                del pieces[at]
            case 2 if pieces[at]:
                place = random.randrange(len(pieces[at]))
                pieces[at] = pieces[at][:place] + bytes([random.randrange(256)]) + pieces[at][place + 1 :]
            case 3:
                other = pieces[random.randrange(len(pieces))].split(b'"')
                own = pieces[at].split(b'"')
                if len(own) > 1 and len(other) > 1:
                    own[1] = other[-2]
                pieces[at] = b'"'.join(own)
            case _:
                pieces[at], pieces[0] = pieces[0], pieces[at]
    return b"".join(pieces)


_STRANGE: Sequence[Any] = [
    None,
    True,
    -1,
    0,
    1,
    10**17,
    1.5,
    1e300,
    "",
    "x",
    "gpu",
    "a" * 99,
    [],
    {},
    [0, 1],
    "\u202e",
]


def random_edges(random: Random) -> bytes:
    """An edge list that is often right."""
    servers = random.randint(1, 3)
    nodes: list[Any] = []
    for server in range(servers):
        for _ in range(random.randint(1, 4)):
            nodes.append({"id": len(nodes), "type": "gpu", "server": server, "model": random.choice(["", "H20"])})
    gpus = len(nodes)
    for i in range(random.randint(0, 3)):
        kind = random.choice(["switch", "nic", "border_router", "bus", "cpu"])
        nodes.append({"id": f"{kind}{i}", "type": kind, "server": random.randrange(-1, servers)})
    links: list[Any] = []
    for _ in range(random.randint(gpus, 4 * gpus)):
        a, b = random.choice(nodes)["id"], random.choice(nodes)["id"]
        if a == b and random.random() < 0.99:
            continue
        rate = {"GBps": random.choice([25, 50, 12.5, 400, 0.1]), "count": random.choice([1, 1, 2, 3, 18])}
        rest = {
            "alpha_us": random.choice([None, 0, 0.7, 1.3]),
            "kind": random.choice(["nvlink", "pcie+upi", "", "net"]),
        }
        links.append({"src": a, "dst": b, **rate, **rest})
        if random.random() < 0.8:
            links.append({**links[-1], "src": b, "dst": a})
    edges = [[a, b] for a in range(gpus) for b in range(gpus) if a != b and random.random() < 0.3]
    groups = [{"name": "g", "kind": "x", "GBps": 10, "edges": edges}] if random.random() < 0.3 else []
    document: dict[str, Any] = {"name": "random", "nodes": nodes, "links": links, "groups": groups}
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        target = random.choice([*nodes, *links, *groups, document])
        if target:
            target[random.choice(sorted(target))] = random.choice(_STRANGE)
    return json.dumps(document).encode()
