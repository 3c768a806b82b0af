"""A cluster as a communication library sees it: nodes, what joins their GPUs, their NICs.

Not modeled are GPUs of a node that meet neither on a switch nor in a full mesh nor over the host, and GPUs that
neither library runs. A node is a server, or servers that NVLink joins, as NCCL counts nodes
(src/graph/connect.cc). Rates in GB/s.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from typing import Literal

from hetesynth.library.facts import TABLES, TABLES_BEFORE_2_18, TABLES_RCCL, Generation, Tables, generation_of
from hetesynth.model.calibration import CALIBRATIONS
from hetesynth.model.runtime_costs import EFA, INFINIBAND, SCALE_UP, Fabric, fabric_of
from hetesynth.model.topology import Link, Rank, Topology
from hetesynth.search.bounds.regions import components
from hetesynth.topology.importers.gpu_models import gpu_vendor

Joined = Literal["switch", "mesh", "host"]
Library = Literal["NCCL", "RCCL"]


_GPU_LOST = re.compile(r"\.gpu\d+ is disabled$")
NEWER_EFA = {"Hopper": Fabric("EFA", 0.94, 22.0, 75.0), "Blackwell": Fabric("EFA", 0.94, 22.0, 35.0)}


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with rates in GB/s. ``total``: what a GPU sends inside, as the library counts; ``pair``: in a mesh,
    what it sends to one other. ``nics``: of each NIC, as the library counts; ``nic_line``: of all, line rate."""

    gpus: int
    generation: Generation
    joined: Joined
    total: float
    pair: float = 0.0
    nics: tuple[float, ...] = ()
    nic_line: float = 0.0

    @property
    def nvls(self) -> bool:
        """True where the switch reduces and NCCL uses it: from Hopper on, with three GPUs (transport/nvls.cc)."""
        return self.joined == "switch" and self.generation.nvls > 0 and self.gpus > 2

    @property
    def reached(self) -> float:
        """The rate in GB/s that large rings reach of ``total``."""
        share = self.generation.mesh_share if self.joined == "mesh" else self.generation.switch_share
        return self.total * share


@dataclass(frozen=True, slots=True)
class Machine:
    """The nodes of a cluster, what joins them, and the library that runs. ``model``: of all GPUs, empty where they
    differ or it is not stated. ``plain``: no links share a stated limit, and none but whole GPUs are lost or slow.
    What a topology does not say: ``version`` of NCCL, ``processes`` (one for each GPU, or one for all) and
    ``ll128``, False where NICs are so far from GPUs that NCCL does not use it."""

    nodes: tuple[Node, ...]
    library: Library = "NCCL"
    fabric: Fabric = INFINIBAND
    version: tuple[int, int] = (2, 30)
    processes: bool = True
    ll128: bool = True
    model: str = ""
    plain: bool = True
    ranks: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", sum(node.gpus for node in self.nodes))
        if self.ranks < 2:
            raise ValueError("a collective needs two GPUs")

    @property
    def tables(self) -> Tables:
        """The tables by which its library chooses."""
        if self.library == "RCCL":
            return TABLES_RCCL
        return TABLES if self.version >= (2, 18) else TABLES_BEFORE_2_18


@lru_cache(maxsize=8)  # sizes and collectives of a topology follow each other
def machine_of(topology: Topology) -> Machine | None:
    """``topology`` as NCCL, or RCCL where all GPUs are AMD's, sees it; None where that is not modeled."""
    library = library_of(topology)
    if topology.ranks < 2 or library is None:
        return None
    out: dict[Rank, list[int]] = defaultdict(list)
    for index, wire in enumerate(topology.wires):
        if wire.src < topology.ranks and wire.kind.lower().startswith(SCALE_UP):
            out[wire.src].append(index)
    # a node is a server, or servers that NVLink joins
    first: dict[str, Rank] = {}
    pairs = [(first.setdefault(server, rank), rank) for rank, server in enumerate(topology.servers) if server]
    pairs += [(rank, topology.wires[i].dst) for rank, wires in out.items() for i in wires]
    parts = components(len(topology.vertices), pairs)
    home_of = {vertex: number for number, part in enumerate(parts) for vertex in part}
    homes = [home_of[rank] for rank in range(topology.ranks)]
    groups: dict[int, list[Rank]] = defaultdict(list)
    for rank, home in enumerate(homes):
        groups[home].append(rank)
    inside: dict[int, list[Link]] = defaultdict(list)
    leaving: dict[int, list[Link]] = defaultdict(list)
    for link in topology.links:
        (inside if homes[link.src] == homes[link.dst] else leaving)[homes[link.src]].append(link)
    crossed = {i for links in leaving.values() for link in links for i in link.wires}
    kinds = {topology.wires[i].kind.lower() for i in crossed}
    fabric = fabric_of(kinds)
    nodes = []
    for home, ranks in groups.items():
        joined = _joined(topology, ranks, out, inside[home])
        nics = _nics(topology, leaving[home], len(ranks), fabric)
        if joined is None or (len(groups) > 1 and not nics):
            return None
        how, total = joined
        generation = generation_of(topology.models[ranks[0]])
        pair = total / (len(ranks) - 1) if how == "mesh" else 0.0
        counted = tuple(min(nic, generation.slot) for nic in nics)
        nodes.append(Node(len(ranks), generation, how, total, pair, counted, sum(nics)))
    if fabric is EFA:
        fabric = NEWER_EFA.get(nodes[0].generation.name, EFA)
    if any(kind in kinds and not kind.startswith(SCALE_UP) for kind in topology.measured):
        fabric = replace(fabric, share=1.0)
    models = {*topology.models}
    plain = not topology.groups and all(_GPU_LOST.search(note) for note in topology.notes)
    return Machine(tuple(nodes), library, fabric, model=models.pop() if len(models) == 1 else "", plain=plain)


def library_of(topology: Topology) -> Library | None:
    """The library that runs on all GPUs of ``topology``; NCCL where no model is stated."""
    vendors = {gpu_vendor(model) if model else "NVIDIA" for model in topology.models}
    if vendors == {"NVIDIA"}:
        return "NCCL"
    return "RCCL" if vendors == {"AMD"} else None


def _joined(
    topology: Topology, ranks: Sequence[Rank], out: dict[Rank, list[int]], inside: Sequence[Link]
) -> tuple[Joined, float] | None:
    """Return how the GPUs of a node are joined and the GB/s that the weakest sends inside; None: not modeled."""
    model = topology.models[ranks[0]]
    generation, nccl = generation_of(model), CALIBRATIONS["nccl"]

    def factor(kind: str, to: int) -> float:
        """Return the library's factor for a link of ``kind``; for a measured rate, one over the share reached."""
        if kind.lower() in topology.measured:
            return 1 / (generation.mesh_share if to < topology.ranks else generation.switch_share)
        return float(nccl.factor(kind, model))

    if len(ranks) == 1:
        return "switch", 0.0
    sent: dict[Rank, float] = {}
    beside: dict[Rank, dict[int, float]] = {}  # to each vertex that a GPU is wired to
    for rank in ranks:
        beside[rank] = defaultdict(float)
        for wire in (topology.wires[i] for i in out[rank]):
            beside[rank][wire.dst] += float(wire.bandwidth or 0) * wire.lanes * factor(wire.kind, wire.dst) / 1e9
        sent[rank] = sum(beside[rank].values())
    if all(sent.values()):
        switches = [{v for v in beside[rank] if topology.vertices[v].kind == "switch"} for rank in ranks]
        if set.intersection(*switches):
            return "switch", min(sent.values())
        if all(set(beside[rank]) == set(ranks) - {rank} for rank in ranks):
            return "mesh", (len(ranks) - 1) * min(rate for to in beside.values() for rate in to.values())
    best: dict[tuple[Rank, Rank], float] = {}
    for link in inside:
        rate = float(link.bandwidth * link.lanes) * factor(link.kind, link.dst) / 1e9
        best[link.src, link.dst] = max(best.get((link.src, link.dst), 0.0), rate)
    complete = len(best) == len(ranks) * (len(ranks) - 1)
    return ("host", min(best.values())) if complete else None


def _nics(topology: Topology, leaving: Sequence[Link], gpus: int, fabric: Fabric) -> list[float]:
    """Return the line rate of each NIC of a node, or of each GPU that is on the network itself; EFA shows the NICs
    of a GPU as one."""
    rates = [inf if w.bandwidth is None else float(w.bandwidth) * w.lanes / 1e9 for w in topology.wires]
    of_nic: dict[int, float] = {}
    for link in leaving:
        sources = [topology.wires[i].src for i in link.wires]
        at = next((place for place, v in enumerate(sources) if topology.vertices[v].kind == "nic"), 0)
        slowest = min(rates[i] for i in link.wires[at:])
        line = slowest if slowest < inf else float(link.bandwidth * link.lanes) / 1e9
        of_nic[sources[at]] = max(of_nic.get(sources[at], 0.0), line)
    lines = [of_nic[nic] for nic in sorted(of_nic)]
    of_gpu = len(lines) // gpus
    if fabric is EFA and of_gpu > 1:
        return [sum(lines[i : i + of_gpu]) for i in range(0, of_gpu * gpus, of_gpu)]
    return lines
