"""How long each algorithm of the library takes: as NCCL's own table has it, and as published runs do.

``tabled`` is what NCCL chooses by (src/graph/tuning.cc); ``expected`` what it then takes: the same formula with the
shares that large runs reach, the channels that a kernel of this size really opens, and the latency of the fabric.
Rates in GB/s, latencies in microseconds, results in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log2
from typing import Literal

from hetesynth.library.facts import BASE, HOP, NVLS_HOP, NVLS_TREE_NET, PROTOCOLS, TREE_BY_SIZE, Protocol
from hetesynth.library.graphs import Graph, ring_graph, tree_graph
from hetesynth.library.machine import Machine
from hetesynth.model.collective import CollectiveName

Algorithm = Literal["Ring", "Tree", "NVLS", "NVLSTree", "PAT", "sends"]
_PLACE = {protocol: place for place, protocol in enumerate(PROTOCOLS)}
_KB, _MB = 1024.0, 1024.0**2


@dataclass(frozen=True, slots=True)
class LibraryTime:
    """One algorithm with one protocol on so many channels. ``tabled``: seconds by which the library chooses."""

    algorithm: Algorithm
    protocol: Protocol
    channels: int
    tabled: float
    expected: float

    @property
    def label(self) -> str:
        """``ring, 24 channels, Simple``."""
        name = self.algorithm.lower() if self.algorithm in ("Ring", "Tree") else self.algorithm
        plural = "" if self.channels == 1 else "s"
        return f"{name}, {self.channels} channel{plural}, {self.protocol}"


def chosen(machine: Machine, collective: CollectiveName, size: int) -> LibraryTime:
    """What the library takes for ``size`` bytes: the least by its own table."""
    return min(library_times(machine, collective, size), key=lambda t: t.tabled)


def library_times(machine: Machine, collective: CollectiveName, size: int) -> Iterator[LibraryTime]:
    """All that the library could do."""
    model = _Model(machine, collective, size)
    if collective in ("alltoall", "gather", "scatter"):
        yield model.sends()
        return
    for protocol in PROTOCOLS:
        if protocol == "LL128" and not model.ll128:
            continue
        yield model.ring(protocol)
        if collective == "allreduce" and machine.ranks > 2 - (len(machine.nodes) > 1):
            tree = model.tree(protocol)
            if tree is not None:
                yield tree
    yield from model.nvls()
    if collective in ("allgather", "reducescatter") and all(n.gpus == 1 for n in machine.nodes) and machine.ranks > 1:
        yield model.pat()


class _Model:
    def __init__(self, machine: Machine, collective: CollectiveName, size: int) -> None:
        self.machine, self.collective, self.size = machine, collective, float(size)
        self.ranks, self.nodes = machine.ranks, len(machine.nodes)
        self.rings: Graph = ring_graph(machine)
        self.trees = tree_graph(machine, self.rings)
        self.generation = min((n.generation for n in machine.nodes), key=lambda g: g.inside[0])
        self.hardware = "host" if any(n.joined == "host" for n in machine.nodes if n.gpus > 1) else "nvlink"
        self.nth = 0 if self.nodes == 1 else 1 if self.nodes == 2 else 2
        self.inside_total = min(
            (
                n.total * n.generation.ring_share * (n.gpus / (n.gpus - 1) if self.nodes > 1 else 1.0)
                for n in machine.nodes
                if n.gpus > 1
            ),
            default=1e9,
        )
        self.nics = min(n.nic_line for n in machine.nodes) * machine.fabric.share if self.nodes > 1 else 1e9

    @property
    def ll128(self) -> bool:
        return self.hardware == "nvlink" and self.machine.library == "nccl"

    # -- rings

    def ring(self, protocol: Protocol) -> LibraryTime:
        rate = self.rings.inside if self.nodes <= 2 else self.rings.between
        bus = self.rings.channels * rate
        real = min(self.inside_total, self.nics)
        steps = {"allreduce": 2 * (self.ranks - 1), "broadcast": self.ranks, "reduce": self.ranks}.get(
            self.collective, self.ranks - 1
        )
        between = {"allreduce": 2 * (self.nodes - 1), "broadcast": self.nodes, "reduce": self.nodes}.get(
            self.collective, self.nodes - 1
        ) if self.nodes > 1 else 0
        used = self._used(protocol, "Ring")
        seconds = []
        for total, expected in ((bus, False), (real, True)):
            bandwidth = self._protocol(total, protocol) * self.ranks / steps
            if self.collective in ("broadcast", "reduce"):
                bandwidth = self._protocol(total, protocol)
            latency = self._ring_latency(protocol, steps, between, expected)
            if expected:
                bandwidth *= min(1.0, used / self.rings.launched)
                if self.collective in ("broadcast", "reduce"):
                    latency += self._fill(protocol, used, self.ranks - self.nodes, self.nodes - 1)
            elif protocol == "Simple" and self.collective == "allreduce" and self.nodes > 1:
                latency *= 1.9 if self.generation.name == "Volta" else 1.4
            seconds.append(self._seconds(latency, bandwidth, expected))
        return LibraryTime("Ring", protocol, used, *seconds)

    def _fill(self, protocol: Protocol, used: int, inside: int, between: int, share: float = 1.0) -> float:
        """Microseconds until the first step of a pipeline has passed so many hops: a step is stored before it is
        sent on, but inside a node with LL and LL128, whose every line carries its flag."""
        step = min(self.size * share / used, {"LL": 32.0, "LL128": 288.0, "Simple": 512.0}[protocol] * _KB)
        wire = 2.0 if protocol == "LL" else 1.0
        channel = self.inside_total / self.rings.channels / 1.0
        net = self.nics / min(used, self.rings.launched)
        fill = between * wire * step / net / 1e3 if between else 0.0
        if protocol == "Simple":
            fill += inside * step / min(channel, 24.0) / 1e3
        return fill

    def _protocol(self, bus: float, protocol: Protocol) -> float:
        generation = self.generation
        if protocol == "LL":
            most = generation.ll if self.nodes == 1 else {"amd": (22.5, 19.0)}.get(self.machine.cpu, (39.0, 20.4))[self.nth - 1]
            return min(most, bus / 2)
        if protocol == "LL128":
            return min(0.92 * bus, self.rings.channels * generation.ring_ll128)
        return bus

    def _ring_latency(self, protocol: Protocol, steps: int, between: int, expected: bool) -> float:
        place = _PLACE[protocol]
        base, hop = BASE["Ring"][place], HOP["Ring", self.hardware][place]
        net = HOP["Ring", "net"][place] + self._fabric(protocol, expected)
        if self.collective in ("broadcast", "reduce"):
            return base + (net if self.nodes > 1 else hop)
        overhead = (3.0 if protocol == "Simple" else 1.0) * (2.0 if self.machine.cpu == "amd" else 1.0)
        inside = max(hop, overhead) if self.nodes > 1 else hop
        return base + (steps - between) * inside + between * net

    def _fabric(self, protocol: Protocol, expected: bool) -> float:
        fabric = self.machine.fabric
        stated = fabric.stated * (2.0 if protocol == "Simple" else 1.0)
        return max(stated, fabric.stated) + (fabric.hop if expected else 0.0)

    def _used(self, protocol: Protocol, algorithm: str) -> int:
        """How many channels a kernel of this size opens (src/enqueue.cc:2092-2105)."""
        threads = {"LL": 512, "LL128": 640, "Simple": 512}[protocol]
        threshold = {"LL": 8.0 * (self.ranks if algorithm == "Ring" else 1), "LL128": 8.0, "Simple": 64.0}[protocol]
        return max(1, min(self.rings.launched, floor(self.size / (threads * threshold))))

    # -- trees

    def tree(self, protocol: Protocol) -> LibraryTime | None:
        if self.machine.library == "rccl" and self.nodes == 1 and protocol == "Simple":
            return None
        graph, generation = self.trees, self.generation
        rate = graph.inside if self.nodes <= 2 else graph.between
        cap = graph.channels * generation.tree_simple[self.nth]
        bus = min(0.92 * graph.channels * rate, cap)
        if protocol == "LL":
            most = generation.ll if self.nodes == 1 else {"amd": (22.5, 19.0)}.get(self.machine.cpu, (39.0, 20.4))[self.nth - 1]
            bus = min(bus / 3.8, most)
        elif protocol == "LL128":
            factor = 7 / 9 if self.nodes == 1 else 120 / 128
            bus = min(bus * factor, graph.channels * generation.tree_ll128[self.nth])
        place = _PLACE[protocol]
        gpus = max(n.gpus for n in self.machine.nodes)
        log_size = floor(log2(max(1.0, self.size / 64)))
        table = TREE_BY_SIZE[protocol]
        by_size = table[log_size] if log_size < len(table) else 1.0
        net = HOP["Tree", "net"][place]
        if gpus == 1:
            net = HOP["Tree", "net"][2]
        seconds = []
        for expected in (False, True):
            hops = net + self._fabric(protocol, expected)
            latency = BASE["Tree"][place] + 2 * (
                (gpus - 1) * HOP["Tree", self.hardware][place] + floor(log2(self.nodes)) * hops
            )
            bandwidth = bus * by_size / 2
            if expected:
                inside = self.inside_total * 0.92 / 2
                nics = self.nics * (1.0 if self.nodes == 2 else 0.5)
                factor = {"LL": 1 / 3.8, "LL128": 0.92, "Simple": 1.0}[protocol]
                bandwidth = min(min(inside, nics) * factor, cap)
                levels = 2 * floor(log2(self.nodes))
                latency += self._fill(protocol, self._used(protocol, "Tree"), 2 * (gpus - 1), levels)
            seconds.append(self._seconds(latency, bandwidth, expected))
        return LibraryTime("Tree", protocol, self._used(protocol, "Tree"), *seconds)

    # -- NVLS, PAT, sends

    def nvls(self) -> Iterator[LibraryTime]:
        nodes = self.machine.nodes
        if self.collective != "allreduce" or not all(n.reduction and n.gpus > 2 for n in nodes):
            return
        generation, gpus = self.generation, min(n.gpus for n in nodes)
        total = min(n.total for n in nodes)
        heads = min(32, gpus) if self.nodes == 1 else min(len(n.nics) for n in nodes)
        assert generation.nvls is not None
        inside = max(r for r in generation.inside if r <= total / (heads + 1) + 1e-9)
        channels = generation.nvls_channels
        loop = channels * heads * 128 * _KB
        chunk = 128 * _KB
        for loops, smaller in ((64, 64), (8, 32), (2, 16)):
            if self.size < loops * loop:
                chunk = smaller * _KB
        fill = 2 * channels * heads * chunk
        algorithm: Algorithm = "NVLS" if self.nodes == 1 else "NVLSTree"
        bandwidth = heads * min(inside * generation.nvls * (heads - 1) / heads * 2, 1e9)
        real = generation.nvls_share * total * gpus / (gpus + 1)
        latency = NVLS_HOP
        extra = 0.0
        if self.nodes > 1:
            between = self.rings.between * (2 if self.nodes == 2 else 1)
            bandwidth = heads * min(inside * generation.nvls * (heads - 1) / heads * 2, between, generation.nvls_tree[self.nth])
            nics = min(n.nic_line for n in nodes) * 0.90 * (1.0 if self.nodes == 2 else 0.5)
            real = min(0.95 * real, nics)
            hops = 2 * floor(log2(self.nodes))
            latency += hops * (NVLS_TREE_NET + self._fabric("Simple", False))
            extra = hops * self.machine.fabric.hop
        tabled = self._seconds(latency, bandwidth * self.ranks / (2 * (self.ranks - 1)), False)
        expected = self._seconds(latency + extra + fill / real / 1e3, real, True)
        yield LibraryTime(algorithm, "Simple", channels, tabled, expected)

    def pat(self) -> LibraryTime:
        bus = self.rings.channels * self.rings.between
        latency = 8.0 + ceil(log2(self.nodes)) * (14.0 + self._fabric("Simple", False))
        tabled = self._seconds(latency, 0.75 * bus, False)
        expected = self._seconds(latency + ceil(log2(self.nodes)) * self.machine.fabric.hop, 0.75 * self.nics, True)
        return LibraryTime("PAT", "Simple", self.rings.launched, tabled, expected)

    def sends(self) -> LibraryTime:
        ranks = self.ranks
        out = 0.0
        for node in self.machine.nodes:
            inside = node.total * node.generation.ring_share * 0.93
            near = self.size / ranks * (node.gpus - 1)
            far = self.size / ranks * (ranks - node.gpus) * node.gpus
            out = max(out, near / inside / 1e3 if node.gpus > 1 else 0.0, far / self.nics / 1e3 if self.nodes > 1 else 0.0)
        latency = BASE["Ring"][2] + HOP["Ring", "net" if self.nodes > 1 else self.hardware][2] * 2
        seconds = (latency + out) * 1e-6
        return LibraryTime("sends", "Simple", self.rings.launched, seconds, seconds)

    def _seconds(self, latency: float, bandwidth: float, expected: bool) -> float:
        floor_us = 50.0 if expected and not self.machine.processes and self.nodes == 1 and self.ranks >= 8 else 0.0
        return max(latency + self.size / bandwidth / 1e3, floor_us) * 1e-6
