"""A cluster as a communication library sees it: nodes, their GPUs' bandwidth, their NICs.

A node is what NVLink or xGMI joins, as NCCL counts nodes (src/graph/connect.cc), or else a server. GB/s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hetesynth.library.facts import Generation, generation_of
from hetesynth.model.calibration import CALIBRATIONS
from hetesynth.model.topology import Rank, Topology

Joined = Literal["switch", "mesh", "host"]
Cpu = Literal["intel", "amd", "other"]


@dataclass(frozen=True, slots=True)
class Fabric:
    """What joins the nodes. ``share``: of the NICs' line rate that large rings reach. ``hop``: microseconds of a
    hop beyond what NCCL counts. ``stated``: the latency that the NIC's plug-in reports."""

    name: str
    share: float = 0.94
    hop: float = 0.5
    stated: float = 0.0


INFINIBAND = Fabric("InfiniBand")
ROCE = Fabric("RoCE", 0.90, 27.0)
EFA = Fabric("EFA", 0.88, 0.0, 75.0)
TCPXO = Fabric("TCPXO", 0.94, 50.0)


@dataclass(frozen=True, slots=True)
class Node:
    """One node. ``total``: what a GPU sends inside, as the library counts it; ``line``: the line rate of that.
    ``paths``: ``paths[a][b]`` what GPU a sends to b alone. ``nics``: the rate of each NIC as the library counts it;
    ``nic_line``: the line rate of all together."""

    gpus: int
    generation: Generation
    joined: Joined
    total: float
    line: float
    pair: float = 0.0
    nics: tuple[float, ...] = ()
    nic_line: float = 0.0
    reduction: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """All nodes, what joins them, and whose library runs."""

    nodes: tuple[Node, ...]
    library: Literal["nccl", "rccl"] = "nccl"
    fabric: Fabric = INFINIBAND
    cpu: Cpu = "intel"
    version: tuple[int, int] = (2, 30)
    processes: bool = True  # one for each GPU

    @property
    def ranks(self) -> int:
        return sum(node.gpus for node in self.nodes)

    @property
    def library_name(self) -> str:
        return self.library.upper()


_X16 = {"Volta": 12.0, "Ampere": 24.0, "Hopper": 48.0, "Blackwell": 96.0, "CDNA": 48.0}
"""GB/s that NCCL counts for 16 PCIe lanes of the generation that such GPUs have (src/graph/topo.cc:545-556)."""

_SCALE_UP = ("nvlink", "xgmi", "nvswitch", "infinity")
FABRICS: tuple[tuple[str, Fabric], ...] = (
    ("efa", EFA), ("tcpxo", TCPXO), ("tcp", Fabric("TCP", 0.7, 50.0)), ("roce", ROCE),
    ("slingshot", Fabric("Slingshot", 0.57, 30.0)), ("", INFINIBAND),
)  # fmt: skip


def machine_of(topology: Topology) -> Machine:
    """``topology`` as NCCL, or RCCL where all GPUs are AMD's, sees it."""
    factor = CALIBRATIONS["nccl"].factor
    out: dict[Rank, list[int]] = defaultdict(list)
    for index, wire in enumerate(topology.wires):
        if wire.src < topology.ranks and wire.kind.lower().startswith(_SCALE_UP):
            out[wire.src].append(index)
    home = _homes(topology, out)
    groups: dict[int, list[Rank]] = defaultdict(list)
    for rank in range(topology.ranks):
        groups[home[rank]].append(rank)
    node_of = {rank: home[rank] for rank in range(topology.ranks)}
    nodes = []
    kinds = [wire.kind.lower() for wire in topology.wires]
    for ranks in groups.values():
        model = topology.models[ranks[0]]
        generation = generation_of(model)
        lines = [sum(float(w.bandwidth or 0) * w.lanes for w in (topology.wires[i] for i in out[r])) / 1e9 for r in ranks]
        counted = [
            sum(float(w.bandwidth or 0) * w.lanes * factor(w.kind, model) for w in (topology.wires[i] for i in out[r]))
            / 1e9
            for r in ranks
        ]
        switch = any(topology.vertices[topology.wires[i].dst].kind == "switch" for r in ranks for i in out[r])
        joined: Joined = "switch" if switch else "mesh"
        pair = 0.0
        line, total = min(lines), min(counted)
        if len(ranks) > 1 and not all(counted):
            joined = "host"
            inside = [k for k in topology.links if node_of[k.src] == node_of[k.dst] == home[ranks[0]]]
            line = min((float(k.bandwidth * k.lanes) / 1e9 for k in inside), default=12.0)
            total = min((float(k.bandwidth * k.lanes) * factor(k.kind, model) / 1e9 for k in inside), default=12.0)
        elif not switch and len(ranks) > 1:
            pair = total / (len(ranks) - 1)
        limit = _X16[generation.name]
        nics = _nics(topology, ranks, node_of)
        nodes.append(
            Node(len(ranks), generation, joined, total, line, pair, tuple(min(n, limit) for n in nics), sum(nics),
                 joined == "switch" and generation.nvls is not None)
        )  # fmt: skip
    amd = all(model.lower().startswith("mi") for model in topology.models)
    between = {kinds[i] for k in topology.links if node_of[k.src] != node_of[k.dst] for i in k.wires}
    fabric = next(f for prefix, f in FABRICS if any(kind.startswith(prefix) for kind in between) or not prefix)
    return Machine(tuple(nodes), "rccl" if amd else "nccl", fabric)


def _homes(topology: Topology, out: dict[Rank, list[int]]) -> list[int]:
    """The node of each rank: a server, or servers that NVLink joins."""
    parent = list(range(len(topology.vertices)))

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    first: dict[str, int] = {}
    for rank, server in enumerate(topology.servers):
        parent[root(rank)] = root(first.setdefault(server or f"#{rank}", rank))
    for rank, wires in out.items():
        for index in wires:
            parent[root(topology.wires[index].dst)] = root(rank)
    return [root(rank) for rank in range(topology.ranks)]


def _nics(topology: Topology, ranks: Sequence[Rank], node_of: dict[Rank, int]) -> list[float]:
    """The line rate of each NIC of a node in GB/s; of each GPU that is on the network itself."""
    home = node_of[ranks[0]]
    found: dict[int, float] = {}
    for link in topology.links:
        if node_of[link.src] != home or node_of[link.dst] == home:
            continue
        vertices = [topology.wires[i].src for i in link.wires]
        nic = next((v for v in vertices if topology.vertices[v].kind == "nic"), link.src)
        rates = [
            float(w.bandwidth) * w.lanes / 1e9
            for w in (topology.wires[i] for i in link.wires[vertices.index(nic) :])
            if w.bandwidth is not None
        ]
        found[nic] = max(found.get(nic, 0.0), min(rates, default=float(link.bandwidth * link.lanes) / 1e9))
    return [found[v] for v in sorted(found)]
