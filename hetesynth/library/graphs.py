"""NCCL's search for channels, in outline: how many rings and trees of which rate a machine holds.

On a switch any rings fit whose rates add up to a GPU's total; between nodes a ring takes a NIC each way. The rates
tried are those of NCCL's tables, the fastest first; the first that fills a GPU's total ends the search, and a
slower one is not tried below 0.49 of the best (src/graph/search.cc). Rates in GB/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import floor

from hetesynth.library.machine import Machine, Node


@dataclass(frozen=True, slots=True)
class Graph:
    """``channels`` of the search, their rate inside a node and between nodes; ``launched``: those of a kernel."""

    channels: int
    inside: float
    between: float
    launched: int


@lru_cache(maxsize=256)
def ring_graph(machine: Machine) -> Graph:
    """The rings of all nodes: the fewest channels and the lowest rate that one of them has."""
    several = len(machine.nodes) > 1
    of_nodes = [_rings(node, several=several, rccl=machine.library == "RCCL") for node in machine.nodes]
    channels, rate = min(c for c, _ in of_nodes), min(r for _, r in of_nodes)
    launched = min(2 * channels, 64)
    if machine.library == "RCCL":  # rccl: src/include/device.h:65-66, src/init.cc:1487-1503
        least = {2: 32, 4: 24}.get(machine.ranks, 0)
        launched = max(least, min(2 * channels, 64 if several else 112))
    elif several and rate > 45 and launched < 16 and all(node.generation.nvls for node in machine.nodes):
        launched *= 2  # src/graph/connect.cc:480-483
    return Graph(channels, rate, rate, launched)


@lru_cache(maxsize=256)
def tree_graph(machine: Machine) -> Graph:
    """The trees: as many channels as rings; on several nodes their rate inside is up to twice that between."""
    rings = ring_graph(machine)
    if len(machine.nodes) == 1:
        return rings
    inside = 2 * rings.between
    for node in machine.nodes:
        if node.gpus > 1:
            room = min(inside, node.total / rings.channels * node.gpus / (node.gpus - 1))
            inside = max((rate for rate in node.generation.between if rate <= room), default=rings.between)
    return Graph(rings.channels, max(inside, rings.between), rings.between, rings.launched)


def _rings(node: Node, *, several: bool, rccl: bool) -> tuple[int, float]:
    """Channels and rate of the rings of one node."""
    if rccl and node.joined == "mesh" and node.gpus == 8:
        # written down, not searched: rccl, src/graph/rome_models.cc:575
        return 56, (min(node.total, sum(node.nics)) if several else node.total) / 56
    channels, rate = 0, 0.0
    for tried in node.generation.between if several else node.generation.inside:
        if channels and (tried < 0.49 * rate or channels * rate >= node.total * (1 - 1e-9) > 0):
            break
        fitting = _fitting(node, tried, several)
        if fitting * tried > channels * rate:
            channels, rate = fitting, tried
    if channels == 0:  # slower than the tables go
        return 1, min(rate for rate in (node.total, *node.nics, node.generation.inside[-1]) if rate > 0)
    slow_hopper = node.generation.nvls > 0 and rate < 50 and channels > 4
    if rate >= 25 and not slow_hopper and 2 * channels <= 32:
        return 2 * channels, rate / 2
    return channels, rate


def _fitting(node: Node, rate: float, several: bool) -> int:
    """How many rings of ``rate`` a node holds, 32 at most."""
    limits = [32]
    if several:
        limits.append(sum(floor(nic / rate + 1e-9) for nic in node.nics))
    if node.gpus > 1 and node.joined == "mesh":
        slots = floor(node.pair / rate + 1e-9)
        cycles = slots * (node.gpus - 1)
        if slots % 2 and node.gpus in (4, 6):
            cycles -= 1  # the directed links of these complete graphs are no sum of Hamilton cycles (Tillson 1980)
        limits.append(cycles)
    elif node.gpus > 1:
        passing = (node.gpus - 1) / node.gpus if several and node.joined == "switch" else 1.0
        limits.append(floor(node.total / (rate * passing) + 1e-9))
    return min(limits)
