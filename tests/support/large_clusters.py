"""Clusters of 96 to 256 GPUs in which no two servers are alike, as text of the topology language.

In: a kind, a number of GPUs, a seed. Out: the text, the same for the same three. Rates inside servers are those of
data sheets; those of NICs are drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal, get_args

Kind = Literal["NICs", "measured", "rail", "mixed", "meshes", "spine", "PCIe", "limits", "all", "grid"]
KINDS: tuple[Kind, ...] = get_args(Kind)
GBPS = (100, 200, 200, 400)


def large_cluster(kind: Kind, gpus: int, seed: int) -> str:
    """A cluster of that kind and of so many GPUs, or up to seven fewer."""
    rng = random.Random(f"{kind} {gpus} {seed}")
    if kind == "grid":
        return _grid(gpus, rng)
    sizes = _sizes(kind, gpus, rng)
    nodes, joins = [], []
    for number, size in enumerate(sizes):
        nodes += [f"node s{number} {{", *(f"  {line}" for line in _inside(kind, size, rng)), "}"]
        joins.append(f"instance n{number} = s{number}")
    body = ["chunk 1 MB", *joins, *_network(kind, len(sizes), rng)]
    return "\n".join([*nodes, f"cluster large_{gpus} {{", *(f"  {line}" for line in body), "}", ""])


def _sizes(kind: Kind, gpus: int, rng: random.Random) -> list[int]:
    """GPUs of each server."""
    if kind != "mixed":
        return [8] * (gpus // 8)
    sizes = [4] * (gpus // 32)  # a few of four among those of eight and sixteen
    while gpus - sum(sizes) >= 8:
        sizes.append(16 if gpus - sum(sizes) >= 16 and rng.random() < 0.2 else 8)
    rng.shuffle(sizes)
    return sizes


def _inside(kind: Kind, size: int, rng: random.Random) -> Iterator[str]:
    last = size - 1
    yield from (f"gpus {size}", 'model "H100"', "reduce 1005 GB/s")
    if kind == "PCIe":
        yield "switch plx0 { ports gpu[0-3]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }"
        yield "switch plx1 { ports gpu[4-7]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }"
        yield "bus host { members plx0 <-> plx1; bandwidth 31.5 GB/s; latency 1.5 us; kind upi }"
        for nic in (0, 1):
            yield f"nic nic{nic} {{ bandwidth {rng.choice((25, 40, 100))} Gbps }}"
            yield f"attach plx{nic} -> nic{nic}"
        return
    if kind in ("meshes", "limits", "all") and size <= 8:
        yield from _mesh(last, rng)
    else:
        yield f"switch nvswitch {{ ports gpu[0-{last}]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }}"
    rate = rng.choice(GBPS)
    for gpu in range(size):
        yield f"nic nic{gpu} {{ bandwidth {_gbps(kind, rate, rng):g} Gbps }}"
        yield f"attach gpu{gpu} -> nic{gpu}"


def _mesh(last: int, rng: random.Random) -> Iterator[str]:
    """Every two GPUs joined, some by a link at a part of its rate."""
    slow = (rng.randrange(last), last)
    for a in range(last + 1):
        for b in range(a + 1, last + 1):
            rate = 50 * (rng.choice((0.1, 0.25, 0.5)) if (a, b) == slow else 1)
            yield f"link gpu{a} <-> gpu{b} {{ bandwidth {rate:g} GB/s; latency 0.7 us; kind nvlink }}"


def _gbps(kind: Kind, rate: int, rng: random.Random) -> float:
    """Of one NIC in a server whose NICs are sold with ``rate``."""
    if kind in ("measured", "all"):
        return round(rate * rng.uniform(0.85, 1.0), 1)
    return rate * rng.choice((0.25, 0.5)) if rng.random() < 0.04 else rate


def _network(kind: Kind, servers: int, rng: random.Random) -> Iterator[str]:
    if kind == "rail":
        yield from (f"fabric rail{i} {{ join *.nic{i}; latency 1.3 us }}" for i in range(8))
        return
    if kind in ("spine", "all"):
        leaves = [range(first, min(first + 4, servers)) for first in range(0, servers, 4)]
        for number, leaf in enumerate(leaves):
            joined = ", ".join(f"n{i}.nic*" for i in leaf)
            yield f"fabric leaf{number} {{ join {joined}; latency 1.3 us }}"
        uplink = "bandwidth 200 GB/s; latency 0.7 us; kind uplink"
        yield f"switch spine {{ ports leaf[0-{len(leaves) - 1}]; {uplink} }}"
    else:
        yield "fabric net { join *.nic*; latency 1.3 us }"
    if kind in ("limits", "all"):
        for server in range(0, servers, 3):
            others = ", ".join(f"n{other}.gpu*" for other in range(servers) if other != server)
            yield f"shared host{server} {rng.choice((60, 90, 120))} GB/s {{ n{server}.gpu* <-> {others} }}"


def _grid(gpus: int, rng: random.Random) -> str:
    """One server: rows of eight GPUs or of sixteen, neighbours joined by links of unequal rates."""
    width = 16 if gpus > 128 else 8
    lines = [f"gpus {gpus}", "reduce 1005 GB/s"]
    for gpu in range(gpus):
        for other in (gpu + 1, gpu + width):
            if other < gpus and (other % width or other == gpu + width):
                rate = rng.choice((12.5, 25, 25, 50))
                link = f"bandwidth {rate} GB/s; latency 0.7 us; kind nvlink"
                lines.append(f"link gpu{gpu} <-> gpu{other} {{ {link} }}")
    body = "\n".join(f"  {line}" for line in lines)
    return f"node grid {{\n{body}\n}}\ncluster large_{gpus} {{\n  chunk 1 MB\n  instance a = grid\n}}\n"
