"""How long each algorithm of the library takes: by NCCL's own table, and as published runs do.

``tabled``: latency + bytes / bandwidth, by which NCCL chooses (src/graph/tuning.cc). ``expected``: the same with
the shares that large runs reach, the channels a kernel of this size opens, and the filling of its pipeline. Rates
in GB/s, latencies in microseconds, results in seconds. Channels are those of NCCL's search in outline
(src/graph/search.cc). Not modeled: CollNet and SHARP, tuner plug-ins, symmetric kernels, copy engines."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, log2
from typing import Literal

from hetesynth.library.facts import NVLS_HOP, NVLS_TREE_NET, TABLES, Steps, Tables
from hetesynth.library.machine import Machine, Node
from hetesynth.model.collective import COLLECTIVES, CollectiveName
from hetesynth.model.program import Protocol
from hetesynth.model.runtime_costs import PROTOCOLS

Algorithm = Literal["Ring", "Tree", "NVLS", "NVLSTree", "PAT", "MSCCL", "sends"]
_KB, _MB = 1024.0, 1024.0**2
_NO_LIMIT = 1e9  # GB/s


@dataclass(frozen=True, slots=True)
class LibraryTime:
    """The times of an algorithm with a protocol and a number of channels. ``tabled``: seconds by which the library
    chooses; ``expected``: seconds that it takes."""

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


def chosen(
    machine: Machine, collective: CollectiveName, size: int, algorithm: Algorithm | None = None
) -> LibraryTime:
    """Return what the library takes for ``size`` bytes: the least by its table, of ``algorithm`` if it is set."""
    times = [t for t in library_times(machine, collective, size) if algorithm in (None, t.algorithm)]
    if not times:
        raise ValueError(f"{algorithm} does not do {collective} on this machine")
    return min(times, key=lambda t: t.tabled)


def library_times(machine: Machine, collective: CollectiveName, size: int) -> Iterator[LibraryTime]:
    """Yield each algorithm's times for ``size`` bytes, the larger buffer of a rank, as nccl-tests counts."""
    call, kind = _Call(machine, collective, float(size)), COLLECTIVES[collective]
    if kind.personalized:
        yield _sends(call)
        return
    if call.msccl:  # rccl: before its tables are asked. All to all in two phases, a flag beside each word
        rate = call.passing / 4 * call.ranks / (call.ranks - 1)
        seconds = call.seconds(13.2, rate)
        yield LibraryTime("MSCCL", "LL", call.rings.launched, seconds, seconds)
    for protocol in PROTOCOLS:
        if protocol != "LL128" or call.ll128:
            yield _ring(call, protocol)
            rccl_simple = machine.library == "RCCL" and call.nodes == 1 and protocol == "Simple"
            if kind.composed and not rccl_simple:  # rccl: src/graph/tuning.cc:365
                yield _tree(call, protocol)
    if kind.composed and call.heads > 1:
        yield _nvls(call)
    if kind.input_blocks != kind.output_blocks and call.gpus == 1 and machine.library == "NCCL":
        # Bruck's algorithm in trees: nodes of one GPU
        levels, net = ceil(log2(call.nodes)), TABLES.tree.net[2]
        latency, expected = (8.0 + levels * (net + call.fabric("Simple", expected=runs)) for runs in (False, True))
        tabled = call.seconds(latency, 0.75 * call.rings.channels * call.rings.between)
        rate = 0.75 * call.nics * call.ranks / (call.ranks - 1)
        yield LibraryTime("PAT", "Simple", call.rings.launched, tabled, call.measured(expected, rate))


class _Call:
    """A collective of ``size`` bytes on a machine, and what all algorithms ask of it."""

    def __init__(self, machine: Machine, collective: CollectiveName, size: float) -> None:
        nodes = machine.nodes
        joined = [node for node in nodes if node.gpus > 1]
        self.machine, self.collective, self.size = machine, collective, size
        self.chain, self.composed = COLLECTIVES[collective].chain, COLLECTIVES[collective].composed
        self.ranks, self.nodes, self.gpus = machine.ranks, len(nodes), max(node.gpus for node in nodes)
        self.several = self.nodes > 1
        self.node_class = min(self.nodes, 3) - 1  # the place of a figure on one, two and more nodes
        self.generation = min((node.generation for node in nodes), key=lambda generation: generation.inside[0])
        self.host = any(node.joined == "host" for node in nodes)
        possible = not self.host and machine.library == "NCCL"
        self.ll128 = possible and (machine.ll128 or not self.several)
        self.rings = ring_graph(machine)
        mesh = not self.several and nodes[0].joined == "mesh" and self.ranks == 8
        self.msccl = mesh and machine.library == "RCCL" and machine.processes and self.composed and size <= _MB
        # what large rings carry inside nodes: on several, each of them leaves one of a node's GPUs by a NIC
        crossed = (node.reached * node.gpus / (node.gpus - self.several) for node in joined)
        self.passing = min(crossed, default=_NO_LIMIT)
        self.nics = min(node.nic_line for node in nodes) * machine.fabric.share if self.several else _NO_LIMIT
        self.ring_rate = min(self.passing, self.nics, self.rings.launched * self.generation.channel)
        self.heads = 0  # GPUs that load and store for NVLS: of one node all, of several those with a NIC
        if all(node.nvls for node in nodes):
            self.heads = min(32, *(min(node.gpus, len(node.nics) if self.several else 32) for node in nodes))

    @property
    def wait(self) -> float:
        """The microseconds that an AllReduce waits for the fabric's buffers, until 16 MiB fill them."""
        return self.machine.fabric.wait * min(16.0, self.size / _MB) if self.several and self.composed else 0.0

    def used(self, protocol: Protocol, *, ring: bool) -> float:
        """Return how many channels a kernel of this size opens, unrounded (src/enqueue.cc:2092-2105)."""
        least = {"LL": 4 * _KB * (self.ranks if ring else 1), "LL128": 5 * _KB, "Simple": 32 * _KB}
        return max(1.0, min(self.rings.launched, self.size / least[protocol]))

    def inside(self, steps: Steps, protocol: Protocol) -> float:
        """The latency of a hop inside a node."""
        return (steps.host if self.host else steps.nvlink)[PROTOCOLS.index(protocol)]

    def fabric(self, protocol: Protocol, *, expected: bool) -> float:
        """Return the microseconds that this fabric adds to a hop: as it states to NCCL, or as runs do. NCCL counts
        them twice for Simple, and fits the stated figure to that."""
        fabric = self.machine.fabric
        if protocol == "Simple":
            return 2.0 * max(fabric.stated, fabric.hop if expected else 0.0)
        return fabric.hop if expected else fabric.stated

    def seconds(self, latency: float, bandwidth: float) -> float:
        return (latency + self.size / bandwidth / 1e3) * 1e-6

    def measured(self, latency: float, bandwidth: float) -> float:
        """Return ``seconds`` or, if that is more, the 50 us in which one process launches eight GPUs."""
        launch = 0.0 if self.machine.processes or self.ranks < 8 else 50e-6
        return max(self.seconds(latency, bandwidth), launch)


# rings


def _ring(call: _Call, protocol: Protocol) -> LibraryTime:
    """Return the times of rings; Broadcast and Reduce are chains of the same channels."""
    rounds = 2 if call.composed else 1
    steps, between = rounds * (call.ranks - 1) + call.chain, rounds * (call.nodes - 1) + call.chain
    between *= call.several
    turns = 1.0 if call.chain else steps / call.ranks
    machine, graph = call.machine, call.rings
    tables = machine.tables

    latency = _ring_latency(call, protocol, tables, steps, between, expected=False)
    if protocol == "Simple" and call.composed and call.several:
        latency *= max(tables.plateau, 1.9 if call.generation.name == "Volta" else 1.0)
    bus = graph.channels * graph.inside
    tabled = call.seconds(latency, _ring_bandwidth(call, protocol, tables, bus) / turns)

    used = call.used(protocol, ring=True)
    rate = _ring_bandwidth(call, protocol, TABLES, call.ring_rate) * used / graph.launched
    latency = _ring_latency(call, protocol, TABLES, steps, between, expected=True)
    if call.chain:  # what the test measures overlaps: its repetitions follow each other down the chain
        latency = TABLES.ring.base[PROTOCOLS.index(protocol)] + call.inside(TABLES.ring, protocol)
        if call.several:
            latency += _fill(call, protocol, used, call.ranks - call.nodes, call.nodes - 1)
            rate *= 0.75 if protocol == "LL" else 1.0
    elif protocol == "Simple":  # half a chunk is passed on at a time
        slice_ = min(1 * _MB, call.size / call.ranks / used / 2)
        latency += slice_ / (call.ring_rate / graph.launched) / 1e3
    if call.chain or machine.version < (2, 9):  # one channel is launched after the other; no later run of a chain
        latency += 1.1 * used
    latency += call.wait
    return LibraryTime("Ring", protocol, floor(used), tabled, call.measured(latency, rate / turns))


def _ring_bandwidth(call: _Call, protocol: Protocol, tables: Tables, bus: float) -> float:
    """Return the GB/s with ``protocol`` of rings that carry ``bus`` GB/s with Simple."""
    if protocol == "LL":
        return min(_ll_most(call), bus * tables.ring_ll)
    if protocol == "LL128":
        return min(0.92 * bus, call.rings.channels * (tables.ll128 or call.generation.ring_ll128))
    return bus


def _ll_most(call: _Call) -> float:
    """Return the most GB/s of LL: on one node by its GPUs, on several by their processors, here Intel's."""
    return (call.generation.ll, 39.0, 20.4)[call.node_class]


def _ring_latency(
    call: _Call, protocol: Protocol, tables: Tables, steps: int, between: int, *, expected: bool
) -> float:
    place = PROTOCOLS.index(protocol)
    base, hop = tables.ring.base[place], call.inside(tables.ring, protocol)
    net = (tables.ring if call.gpus > 1 else tables.tree).net[place] + call.fabric(protocol, expected=expected)
    if call.chain:
        unlike = any(node.joined == "mesh" for node in call.machine.nodes)  # channels in unlike orders
        if unlike and protocol == "Simple":
            net, hop = tables.tree.net[place], call.inside(tables.tree, protocol)
        return base + (steps if unlike else 1) * (net if call.several else hop)
    inside = max(hop, 3.0 if protocol == "Simple" else 1.0) if call.several else hop  # beside what NICs take
    return base + (steps - between) * inside + between * net


def _fill(call: _Call, protocol: Protocol, used: float, inside: int, between: int) -> float:
    """Return the microseconds until a pipeline's first step has passed hops ``inside`` and ``between`` nodes. A
    step is stored before it is sent on, but inside a node with LL and LL128, whose every line carries its flag."""
    step = min(call.size / used, {"LL": 32.0, "LL128": 288.0, "Simple": 512.0}[protocol] * _KB)
    microseconds = 0.0
    if between:  # the flags of LL are as long as its data
        microseconds += between * (2.0 if protocol == "LL" else 1.0) * step / (call.nics / used) / 1e3
    if protocol == "Simple":
        block = min(call.generation.channel, call.generation.tree_simple[0], call.passing / call.rings.channels)
        microseconds += (inside + between) * step / block / 1e3
    return microseconds


# trees


def _tree(call: _Call, protocol: Protocol) -> LibraryTime:
    """Return the times of a chain inside each node and a double binary tree between nodes; AllReduce only."""
    machine, graph, generation = call.machine, tree_graph(call.machine), call.generation
    levels = 2 * floor(log2(call.nodes))
    most = graph.channels * generation.tree_simple[call.node_class]
    tables = machine.tables

    bus = min(0.92 * graph.channels * (graph.inside if call.nodes <= 2 else graph.between), most)
    if protocol == "LL":
        bus = min(bus * tables.tree_ll, _ll_most(call))
    elif protocol == "LL128":
        cap = tables.ll128 or generation.tree_ll128[call.node_class]
        bus = min(bus * (7 / 9 if call.nodes == 1 else 120 / 128), graph.channels * cap)
    else:
        bus *= tables.tree_simple[call.node_class]
    bus *= tables.by_size(protocol, call.size)
    tabled = call.seconds(_tree_latency(call, protocol, tables, levels, expected=False), bus / 2)

    used = call.used(protocol, ring=False)
    rate = min(0.92 * call.passing / 2, call.nics * (1.0 if call.nodes == 2 else 0.5))
    if call.nodes > 2:  # on two nodes trees exceed it
        rate = min(rate, most / 2)
    rate *= {"LL": 1 / 3.8, "LL128": 0.92, "Simple": 1.0}[protocol] * used / graph.launched
    rate *= TABLES.by_size(protocol, call.size)
    latency = _tree_latency(call, protocol, TABLES, levels, expected=True)
    latency += _fill(call, protocol, used, 0, levels) + call.wait
    return LibraryTime("Tree", protocol, floor(used), tabled, call.measured(latency, rate))


def _tree_latency(call: _Call, protocol: Protocol, tables: Tables, levels: int, *, expected: bool) -> float:
    place = PROTOCOLS.index(protocol)
    net = tables.tree.net[place] + call.fabric(protocol, expected=expected)
    return tables.tree.base[place] + 2 * (call.gpus - 1) * call.inside(tables.tree, protocol) + levels * net


# NVLS, sends


def _nvls(call: _Call) -> LibraryTime:
    """Return the times of switches that reduce and copy; between nodes a tree of the heads. AllReduce only."""
    nodes, generation, heads = call.machine.nodes, call.generation, call.heads
    total, gpus = min(node.total for node in nodes), min(node.gpus for node in nodes)
    levels, turns = 2 * floor(log2(call.nodes)), 2 * (call.ranks - 1) / call.ranks
    fitting = [rate for rate in generation.inside if rate <= total / (heads + 1) + 1e-9]
    head = max(fitting, default=generation.inside[-1]) * generation.nvls * (heads - 1) / heads * 2
    rate = 0.95 * heads * head / turns  # what runs of NVL72 keep
    if gpus <= 32:  # S (c + 1) / c bytes cross the links of each of c heads, which loads its own part twice
        rate = generation.nvls_share * total * heads / (heads + 1)
    if call.several:
        head = min(head, call.rings.between * (2 if call.nodes == 2 else 1), generation.nvls_tree[call.node_class])
        limit = 1.05 * heads * generation.nvls_tree[call.node_class] / turns  # runs exceed it by up to 5 %
        rate = min(0.95 * rate, call.nics * (1.0 if call.nodes == 2 else 0.5), limit)
    chunk, loop = 128 * _KB, generation.nvls_channels * heads * 128 * _KB
    for loops, smaller in ((64, 64 * _KB), (8, 32 * _KB), (2, 16 * _KB)):  # src/enqueue.cc:2263-2275
        if call.size < loops * loop:
            chunk = smaller
    # two loops before full speed; on NVL72 three of whole chunks
    fill = 2 * loop * chunk / (128 * _KB) if gpus <= 32 else min(3 * loop, call.size / 2)
    latency, expected = (
        NVLS_HOP + levels * (NVLS_TREE_NET + call.fabric("Simple", expected=runs)) for runs in (False, True)
    )
    return LibraryTime(
        "NVLS" if call.nodes == 1 else "NVLSTree",
        "Simple",
        generation.nvls_channels,
        call.seconds(latency, heads * head / turns),
        call.measured(expected + fill / rate / 1e3 + call.wait, rate),
    )


def _sends(call: _Call) -> LibraryTime:
    """Return the times of plain sends: of all GPUs, or of the root of Gather and Scatter, rank 0; far ones over
    all NICs of a node. Sends reach 0.935 of NCCL's total inside (H100 346 of 371, B300 676 of 722 GB/s)."""
    part, together = call.size / call.ranks, COLLECTIVES[call.collective].exchange
    seconds_of = [0.0]
    for node in call.machine.nodes if together else call.machine.nodes[:1]:
        far = part * (call.ranks - node.gpus)
        leaving = part * (node.gpus - 1) + (0.0 if together else far)
        if node.gpus > 1:
            seconds_of.append(leaving / (0.935 * node.total))
        if call.several:
            seconds_of.append(far * (node.gpus if together else 1) / call.nics)
    latency = TABLES.ring.base[2] + (call.gpus - 1) * call.inside(TABLES.ring, "Simple")
    if call.several:
        latency += TABLES.ring.net[2] + call.fabric("Simple", expected=True)
    step = min(512 * _KB, call.size / call.rings.launched)
    latency += step / (call.ring_rate / call.rings.launched) / 1e3
    seconds = call.measured(latency + max(seconds_of) / 1e3, _NO_LIMIT)
    return LibraryTime("sends", "Simple", call.rings.launched, seconds, seconds)


# channels


@dataclass(frozen=True, slots=True)
class Graph:
    """Channels of the search with GB/s inside a node and between nodes; ``launched``: channels of a kernel."""

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
    """Return the channels of the rings of one node, and the GB/s of each."""
    if rccl and node.joined == "mesh" and node.gpus == 8:
        # written down, not searched: rccl, src/graph/rome_models.cc:575
        return 56, (min(node.total, sum(node.nics)) if several else node.total) / 56
    channels, rate = 0, 0.0
    for tried in node.generation.between if several else node.generation.inside:
        if channels and (tried < 0.49 * rate or channels * rate >= node.total * (1 - 1e-9) > 0):
            break
        limits = [32]  # how many rings of this rate the node holds
        if several:
            limits.append(sum(floor(nic / tried + 1e-9) for nic in node.nics))
        if node.gpus > 1 and node.joined == "mesh":
            slots = floor(node.pair / tried + 1e-9)
            # the directed links of complete graphs of 4 and 6 are no sum of Hamilton cycles (Tillson 1980)
            limits.append(slots * (node.gpus - 1) - (slots % 2 and node.gpus in (4, 6)))
        elif node.gpus > 1:
            passing = (node.gpus - 1) / node.gpus if several and node.joined == "switch" else 1.0
            limits.append(floor(node.total / (tried * passing) + 1e-9))
        fitting = min(limits)
        if fitting * tried > channels * rate:
            channels, rate = fitting, tried
    if channels == 0:  # slower than the tables go
        return 1, min(rate for rate in (node.total, *node.nics, node.generation.inside[-1]) if rate > 0)
    slow_hopper = node.generation.nvls > 0 and rate < 50 and channels > 4
    if rate >= 25 and not slow_hopper and 2 * channels <= 32:
        return 2 * channels, rate / 2
    return channels, rate
