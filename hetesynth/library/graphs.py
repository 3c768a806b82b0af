"""NCCL's search for channels, in outline: how many rings of which rate a node holds (src/graph/search.cc).

On a switch any rings fit whose rates add up to a GPU's total; between nodes a ring takes a NIC each way. The rates
tried are those of NCCL's tables, the fastest first; the first that fills a GPU's total ends the search, and a
slower one is not tried below 0.49 of the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from hetesynth.library.machine import Machine, Node

_MOST = 32
_NOT_FOUND_K = (4, 6)
"""Complete graphs whose directed links are no sum of Hamilton cycles (Tillson 1980)."""


@dataclass(frozen=True, slots=True)
class Graph:
    """``channels`` of the search, their rate inside a node and between nodes in GB/s; ``launched``: of the kernel."""

    channels: int
    inside: float
    between: float
    launched: int


def ring_graph(machine: Machine) -> Graph:
    """The rings of all nodes: the fewest channels and the lowest rate that one of them has."""
    found = [_rings(node, several=len(machine.nodes) > 1) for node in machine.nodes]
    channels, rate = min(c for c, _ in found), min(r for _, r in found)
    launched = min(2 * channels, 64)
    hopper = all(node.generation.nvls is not None for node in machine.nodes)
    if hopper and len(machine.nodes) > 1 and rate > 45 and launched < 16:
        launched *= 2
    return Graph(channels, rate, rate, launched)


def tree_graph(machine: Machine, rings: Graph) -> Graph:
    """The trees: as many channels, inside up to twice the rate between nodes."""
    if len(machine.nodes) == 1:
        return rings
    inside = rings.inside
    for node in machine.nodes:
        share = (node.gpus - 1) / node.gpus if node.gpus > 1 else 1.0
        room = node.total / rings.channels / share if node.gpus > 1 else rings.between
        table = [r for r in node.generation.inside if r <= min(room, 2 * rings.between, 2 * node.total)]
        best = max([r for r in table if r >= rings.between], default=rings.between)
        inside = best if node is machine.nodes[0] else min(inside, best)
    return Graph(rings.channels, inside, rings.between, rings.launched)


def _rings(node: Node, *, several: bool) -> tuple[int, float]:
    table = node.generation.between if several else node.generation.inside
    best: tuple[int, float] = (0, 0.0)
    for rate in table:
        if best[0] and rate < 0.49 * best[1]:
            break
        channels = _fitting(node, rate, several)
        if channels * rate > best[0] * best[1]:
            best = channels, rate
        if best[0] and best[0] * best[1] >= node.total * (1 - 1e-9):
            break
    channels, rate = best
    if channels == 0:
        return 1, max(min([node.total, *node.nics]), table[-1]) if node.gpus > 1 else (1, min(node.nics))[1]
    slow_hopper = node.generation.nvls is not None and rate < 50 and channels > 4
    if rate >= 25 and not slow_hopper and 2 * channels <= _MOST:
        channels, rate = 2 * channels, rate / 2
    return channels, rate


def _fitting(node: Node, rate: float, several: bool) -> int:
    """How many rings of ``rate`` a node holds."""
    limits = [_MOST]
    if several:
        limits.append(sum(floor(nic / rate + 1e-9) for nic in node.nics))
    if node.gpus > 1 and node.joined == "switch":
        passing = (node.gpus - 1) / node.gpus if several else 1.0
        limits.append(floor(node.total / (rate * passing) + 1e-9))
    elif node.gpus > 1 and node.joined == "mesh":
        slots = floor(node.pair / rate + 1e-9)
        cycles = slots * (node.gpus - 1)
        if slots % 2 and node.gpus in _NOT_FOUND_K:
            cycles -= 1
        limits.append(min(cycles, floor(node.total / rate + 1e-9)))
    elif node.gpus > 1:
        limits.append(floor(node.total / rate + 1e-9))
    return min(limits)
