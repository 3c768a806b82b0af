"""Topology files for tests: well-formed ones from a few words, and random ones, right and wrong, by seed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

from verify import hostile_mutations

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


_ODD = (
    "", "0", "1", "2", "-1", "9999999999", "1e3", "x", "0x10", " 7 ", "nan", "1" * 300, "\u202e", "0 GT/s",
    "fffffff:ffff:ff", "ffff:ff:01.0", "0x030200", "0x120000", "0x060400", "0x068000", "arm64",
    "ppc64", "AMD", "gfx942", "910", "mlx5_0+mlx5_1", *(bus(i) for i in range(4)),
)  # fmt: skip
_ODD_JSON: Sequence[Any] = (
    None,
    True,
    -1,
    0,
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
)


def random_system(random: Random) -> bytes:
    """A file of NCCL's topology some of whose values are odd."""
    links = (peers(k, {1 - k: 4}) for k in range(2))
    direct = system(cpu(0, *(gpu(k, each) for k, each in enumerate(links)), nic(0)))
    text = random.choice((switched(), switched(8), pcie_only(), direct)).decode()
    share = random.choice((0.0, 0.01, 0.05))
    odd = re.sub('="[^"]*"', lambda m: f'="{random.choice(_ODD)}"' if random.random() < share else m[0], text)
    return odd.encode()


def mutated(random: Random, data: bytes) -> bytes:
    """``data`` with something wrong."""
    return hostile_mutations.mutated(random.randrange(2**32), [data])


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
        kind = random.choice(["nvlink", "pcie+upi", "", "net"])
        rest = {"alpha_us": random.choice([None, 0, 0.7, 1.3]), "kind": kind}
        links.append({"src": a, "dst": b, **rate, **rest})
        if random.random() < 0.8:
            links.append({**links[-1], "src": b, "dst": a})
    edges = [[a, b] for a in range(gpus) for b in range(gpus) if a != b and random.random() < 0.3]
    groups = [{"name": "g", "kind": "x", "GBps": 10, "edges": edges}] if random.random() < 0.3 else []
    document: dict[str, Any] = {"name": "random", "nodes": nodes, "links": links, "groups": groups}
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        target = random.choice([*nodes, *links, *groups, document])
        if target:
            target[random.choice(sorted(target))] = random.choice(_ODD_JSON)
    return json.dumps(document).encode()
