"""A topology to ASTRA-sim's network file, where it is a product of rings, switches and full meshes.

Wires between GPUs are edges; a switch or a fabric whose ports are GPUs, or NICs of one GPU each, is a switch.
The sizes and shapes of the dimensions are searched, and every edge and switch has to belong to exactly one of
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology, Wire
from hetesynth.topology.importers.astra_sim import FULL, MAX_NPUS, RING, SWITCH, Dimension

Rates = tuple[Fraction, Fraction]  # bytes per second, seconds
Edges = dict[tuple[int, int], Rates]
Switches = dict[frozenset[int], Rates]
MAX_TRIALS = 10_000


@dataclass(frozen=True, slots=True)
class _Graph:
    """The edges between GPUs (both ways) and the switches, by their GPUs."""

    size: int
    edges: Edges
    switches: Switches


def astra_sim_network(topology: Topology) -> str:
    """The YAML of the network; HS746 where ASTRA-sim cannot say it."""
    dimensions = product(topology)
    columns: dict[str, list[str]] = {
        "topology": [dimension.shape for dimension in dimensions],
        "npus_count": [str(dimension.size) for dimension in dimensions],
        "bandwidth": [str(float(dimension.bandwidth / 10**9)) for dimension in dimensions],
        "latency": [str(float(dimension.latency * 10**9)) for dimension in dimensions],
    }
    units = {"bandwidth": "  # GB/s", "latency": "  # ns"}
    return "".join(f"{key}: [ {', '.join(values)} ]{units.get(key, '')}\n" for key, values in columns.items())


def product(topology: Topology) -> tuple[Dimension, ...]:
    """The dimensions whose product a topology is; HS746 where there are none."""
    graph = _graph(topology)
    trials = [MAX_TRIALS]
    dimensions = _dimensions(graph, 1, frozenset(), frozenset(), trials)
    if dimensions is None:
        raise _refused(f"{topology.name} is no product of rings, switches and full meshes with equal rates")
    return dimensions


def _refused(what: str) -> HetesynthError:
    return HetesynthError(
        what, code="HS746", help="ASTRA-sim's networks are regular: the same shape along each dimension"
    )


def _graph(topology: Topology) -> _Graph:
    """What the topology's wires make of GPUs, edges and switches."""
    if not 2 <= topology.ranks <= MAX_NPUS:
        raise _refused(f"{topology.name} has {topology.ranks} GPUs, and 2 to {MAX_NPUS} can be exported")
    if topology.groups:
        raise _refused(f"{topology.name} states shared limits, which ASTRA-sim does not know")
    out: dict[int, list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        out[wire.src].append(wire)
    edges: Edges = {}
    ports: dict[int, list[tuple[int, Rates, Rates]]] = defaultdict(list)
    for gpu in range(topology.ranks):
        for wire, hub, rates in _ways(topology, out, gpu):
            if hub < topology.ranks:
                if (gpu, hub) in edges:
                    raise _refused(
                        f"{topology.wire_name(topology.wires.index(wire))} is not the only one of its pair"
                    )
                edges[gpu, hub] = rates
            else:
                ports[hub].append((gpu, rates, _back(topology, out, hub, gpu)))
    switches: Switches = {}
    for hub, entries in ports.items():
        unlike = {(min(there[0], back[0]), there[1] + back[1]) for _, there, back in entries}
        members = frozenset(gpu for gpu, _, _ in entries)
        if len(unlike) != 1 or members in switches or len(members) != len(entries):
            raise _refused(f"{topology.vertices[hub].name} has unequal ports, or is not the only one of its GPUs")
        rate, latency = unlike.pop()
        switches[members] = (rate, latency / 2)
    return _Graph(topology.ranks, edges, switches)


def _ways(topology: Topology, out: dict[int, list[Wire]], gpu: int) -> Iterator[tuple[Wire, int, Rates]]:
    """(first wire, GPU or switch at its end, rates) of every way out of a GPU, through NICs of one GPU."""
    for wire in out[gpu]:
        kind = topology.vertices[wire.dst].kind
        if kind != "nic":
            if kind not in ("gpu", "switch", "fabric"):
                raise _refused(f"{topology.vertices[wire.dst].name}, a {kind}, is nothing that ASTRA-sim knows")
            yield wire, wire.dst, _rates(wire)
            continue
        onward = [other for other in out[wire.dst] if topology.vertices[other.dst].kind != "gpu"]
        back = [other for other in out[wire.dst] if topology.vertices[other.dst].kind == "gpu"]
        if len(back) != 1 or len(onward) > 1:
            raise _refused(f"{topology.vertices[wire.dst].name} is shared, which ASTRA-sim does not know")
        for other in onward:
            yield wire, other.dst, _chain(_rates(wire), _rates(other))


def _back(topology: Topology, out: dict[int, list[Wire]], hub: int, gpu: int) -> Rates:
    """The rates of the way from a switch to a GPU."""
    for wire in out[hub]:
        if wire.dst == gpu:
            return _rates(wire)
        if wire.dst >= topology.ranks and topology.vertices[wire.dst].kind == "nic":
            for other in out[wire.dst]:
                if other.dst == gpu:
                    return _chain(_rates(wire), _rates(other))
            continue
        if wire.dst >= topology.ranks:
            raise _refused(f"{topology.vertices[hub].name} is joined to another switch")
    raise _refused(f"{topology.vertices[hub].name} has a port of one direction")


_UNLIMITED = Fraction(10**30)


def _rates(wire: Wire) -> Rates:
    return (_UNLIMITED if wire.bandwidth is None else wire.bandwidth * wire.lanes, wire.latency)


def _chain(one: Rates, other: Rates) -> Rates:
    return min(one[0], other[0]), one[1] + other[1]


def _dimensions(
    graph: _Graph, stride: int, edges: frozenset[tuple[int, int]], switches: frozenset[frozenset[int]],
    trials: list[int],
) -> tuple[Dimension, ...] | None:  # fmt: skip
    """The dimensions from ``stride`` on, ``edges`` and ``switches`` being those of the ones before."""
    if stride == graph.size:
        whole = len(edges) == len(graph.edges) and len(switches) == len(graph.switches)
        return () if whole else None
    for size in range(2, graph.size // stride + 1):
        if graph.size // stride % size:
            continue
        for shape in (SWITCH, RING, FULL):
            trials[0] -= 1
            if trials[0] < 0:
                return None
            fit = _fit(graph, shape, stride, size)
            if fit is None or fit[1] & edges or fit[2] & switches:
                continue
            rest = _dimensions(graph, stride * size, edges | fit[1], switches | fit[2], trials)
            if rest is not None:
                return (fit[0], *rest)
    return None


def _fit(
    graph: _Graph, shape: str, stride: int, size: int
) -> tuple[Dimension, frozenset[tuple[int, int]], frozenset[frozenset[int]]] | None:
    """The dimension of this shape and size with all its edges and switches, if they are there with equal rates."""
    rates: set[Rates] = set()
    edges: set[tuple[int, int]] = set()
    switches: set[frozenset[int]] = set()
    for base in range(graph.size):
        if base // stride % size:
            continue
        line = [base + k * stride for k in range(size)]
        if shape == SWITCH:
            members = frozenset(line)
            if members not in graph.switches:
                return None
            switches.add(members)
            rates.add(graph.switches[members])
        else:
            pairs = [(a, b) for i, a in enumerate(line) for b in line[i + 1 :]]
            if shape == RING:
                pairs = [*pairwise(line), *([(line[-1], line[0])] if size > 2 else [])]
            for pair in (p for a, b in pairs for p in ((a, b), (b, a))):
                if pair not in graph.edges:
                    return None
                edges.add(pair)
                rates.add(graph.edges[pair])
        if len(rates) > 1:
            return None
    rate, latency = rates.pop()
    return (
        (Dimension(shape, size, rate, latency), frozenset(edges), frozenset(switches))
        if rate < _UNLIMITED
        else None
    )
