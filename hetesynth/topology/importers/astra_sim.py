"""ASTRA-sim's network file to text of the language and back: a product of rings, switches and full meshes.

Dimension 0 is that of the numbers next to each other. A ring has a link each way between neighbours, a full
mesh between every two, a switch a port for each; ``latency`` is that of a link in nanoseconds, so a transfer
through a switch takes it twice. A bandwidth is read as 10^9 bytes a second and direction.

In a topology that is exported wires between GPUs are edges; a switch or a fabric whose ports are GPUs, or NICs of
one GPU each, is a switch. The sizes and shapes of the dimensions are searched, and every edge and switch has to
belong to exactly one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from itertools import product as product_of
from math import prod

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology, Wire
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, plain_yaml, refused
from hetesynth.topology.importers.wording import decimal

RING, SWITCH, FULL = "Ring", "Switch", "FullyConnected"
MAX_NPUS = 2048
MAX_DIMENSIONS = 8
MAX_FIGURE = 10**12
MAX_TRIALS = 10_000
HELP = "an ASTRA-sim network has lists topology, npus_count, bandwidth (GB/s), latency (ns), an entry a dimension"
_UNLIMITED = Fraction(10**30)

Rates = tuple[Fraction, Fraction]  # bytes per second, seconds
Edges = dict[tuple[int, int], Rates]
Switches = dict[frozenset[int], Rates]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A factor of the product: bytes per second of a link or port, and seconds of a link."""

    shape: str
    size: int
    bandwidth: Fraction
    latency: Fraction


def read_astra_sim(source: Source, options: ReadOptions) -> Reading:
    """Return the cluster as text."""
    return Reading(text=cluster_text(read_dimensions(source), source.stated.model or options.model))


def read_dimensions(source: Source) -> tuple[Dimension, ...]:
    """Return the dimensions of a file; HS732 where it is no such file or its lists do not fit together."""
    document = plain_yaml(source.data, source.name)
    if not isinstance(document, dict) or not {"topology", "npus_count"} <= document.keys():
        raise refused(source.name, "no network of ASTRA-sim", HELP)
    lists = [document.get(key) for key in ("topology", "npus_count", "bandwidth", "latency")]
    columns = [column if isinstance(column, list) else [column] for column in lists]
    if len({len(column) for column in columns}) != 1 or not 1 <= len(columns[0]) <= MAX_DIMENSIONS:
        raise refused(source.name, f"lists of different lengths, or more than {MAX_DIMENSIONS} dimensions", HELP)
    dimensions = []
    for shape, size, *figures in zip(*columns, strict=True):
        if shape not in (RING, SWITCH, FULL):
            raise refused(source.name, f"{str(shape)[:40]!r} is none of {RING}, {SWITCH}, {FULL}", HELP)
        if type(size) is not int or not 1 <= size <= MAX_NPUS:
            raise refused(source.name, f"npus_count {str(size)[:40]} is no number from 1 to {MAX_NPUS}", HELP)
        exact = []
        for value in figures:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value <= MAX_FIGURE:
                raise refused(source.name, f"{str(value)[:40]!r} is no number of GB/s or ns", HELP)
            exact.append(Fraction(repr(value)).limit_denominator(MAX_FIGURE))
        if exact[0] <= 0:
            raise refused(source.name, "a bandwidth of 0", HELP)
        dimensions.append(Dimension(shape, size, exact[0] * 10**9, exact[1] / 10**9))
    if prod(dimension.size for dimension in dimensions) > MAX_NPUS:
        raise refused(source.name, f"more than {MAX_NPUS} NPUs", "import a smaller network of the same shape")
    return tuple(dimensions)


def cluster_text(dimensions: Sequence[Dimension], model: str = "") -> str:
    """Return the cluster: dimension 0 is a node type, the others join its instances."""
    first, others = dimensions[0], dimensions[1:]
    size, rates = first.size, _stated(first)
    instances = prod(dimension.size for dimension in others)
    shapes = " x ".join(f"{d.shape} {d.size}" for d in dimensions)
    lines = [f"# A network of ASTRA-sim: {shapes}", "", "node npus {"]
    if model:
        lines.append(f'  model "{model}"')
    lines.append(f"  gpus {size}")
    if size > 1 and first.shape == SWITCH:
        lines.append(f"  switch sw {{ ports gpu[0-{size - 1}]; {rates} }}")
    elif size == 2 or (size > 1 and first.shape == FULL):
        lines.append(f"  mesh gpu[0-{size - 1}] {{ {rates} }}")
    elif size > 1:
        lines.append(f"  link gpu[0-{size - 2}] <-> gpu[1-{size - 1}] {{ {rates} }}")
        lines.append(f"  link gpu{size - 1} <-> gpu0 {{ {rates} }}")
    names = f"n[0-{instances - 1}]" if instances > 1 else "n0"
    lines += ["}", "", "cluster astra_sim {", f"  instance {names} = npus"]
    stride = 1
    for number, dimension in enumerate(others, 1):
        rates = _stated(dimension)
        for line in _lines(dimension.size, stride, instances) if dimension.size > 1 else ():
            if dimension.shape == SWITCH:
                for gpu in range(size):
                    ports = ", ".join(f"n{i}.gpu{gpu}" for i in line)
                    lines.append(f"  switch sw{number}_{line[0]}_{gpu} {{ ports {ports}; {rates} }}")
            for a, b in _pairs(dimension.shape, line):
                lines.append(f"  link n{a}.gpu[0-{size - 1}] <-> n{b}.gpu[0-{size - 1}] {{ {rates} }}")
        stride *= dimension.size
    return "\n".join([*lines, "}", ""])


def _lines(size: int, stride: int, total: int) -> Iterator[list[int]]:
    """What a dimension of a size puts in line with each other, of ``total`` things."""
    for base in range(total):
        if base // stride % size == 0:
            yield [base + k * stride for k in range(size)]


def _pairs(shape: str, line: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of a line that have a link; none where it has a switch."""
    if shape == RING:
        return [*pairwise(line), *([(line[-1], line[0])] if len(line) > 2 else [])]
    return list(combinations(line, 2)) if shape == FULL else []


def _stated(dimension: Dimension) -> str:
    """Bandwidth and latency; those of a switch are of a crossing, two links."""
    crossings = 2 if dimension.shape == SWITCH else 1
    rate = decimal(dimension.bandwidth / 10**9)
    return f"bandwidth {rate} GB/s; latency {decimal(dimension.latency * crossings * 10**9)} ns"


def astra_sim_network(topology: Topology) -> str:
    """Return the YAML of the network; HS746 where ASTRA-sim cannot say it."""
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
    """Return the dimensions whose product a topology is; HS746 where there are none."""
    edges, switches = _graph(topology)
    trials = MAX_TRIALS

    def along(stride: int, crossed: frozenset[object]) -> tuple[Dimension, ...] | None:
        """The dimensions from ``stride`` on; ``crossed``: the edges and switches of the ones before."""
        nonlocal trials
        if stride == topology.ranks:
            return () if len(crossed) == len(edges) + len(switches) else None
        sizes = [size for size in range(2, topology.ranks // stride + 1) if topology.ranks // stride % size == 0]
        for size, shape in product_of(sizes, (SWITCH, RING, FULL)):
            trials -= 1
            if trials < 0:
                return None
            lines = [*_lines(size, stride, topology.ranks)]
            own = {frozenset(line): switches.get(frozenset(line)) for line in lines if shape == SWITCH}
            pairs = [pair for line in lines for a, b in _pairs(shape, line) for pair in ((a, b), (b, a))]
            rates = {*own.values(), *(edges.get(pair) for pair in pairs)}
            rate = rates.pop()
            if rates or rate is None or rate[0] >= _UNLIMITED or crossed & {*own, *pairs}:
                continue
            rest = along(stride * size, crossed | {*own, *pairs})
            if rest is not None:
                return (Dimension(shape, size, *rate), *rest)
        return None

    dimensions = along(1, frozenset())
    if dimensions is None:
        raise _no_network(f"{topology.name} is no product of rings, switches and full meshes with equal rates")
    return dimensions


def _no_network(what: str) -> HetesynthError:
    help_ = "ASTRA-sim's networks are regular: the same shape along each dimension"
    return HetesynthError(what, code="HS746", help=help_)


def _graph(topology: Topology) -> tuple[Edges, Switches]:
    """The edges between GPUs, both ways, and the switches by their GPUs."""
    vertices, ranks = topology.vertices, topology.ranks
    if not 2 <= ranks <= MAX_NPUS:
        raise _no_network(f"{topology.name} has {ranks} GPUs, and 2 to {MAX_NPUS} can be exported")
    if topology.groups:
        raise _no_network(f"{topology.name} states shared limits, which ASTRA-sim does not know")
    forward, back = ({rank: dict[int, Rates]() for rank in range(ranks)} for _ in range(2))
    for there, leaves in ((forward, True), (back, False)):
        beside: dict[int, list[tuple[int, Wire]]] = defaultdict(list)
        for wire in topology.wires:
            ends = (wire.src, wire.dst) if leaves else (wire.dst, wire.src)
            beside[ends[0]].append((ends[1], wire))
        for gpu in range(ranks):
            for end, rates in _ways(topology, beside, gpu):
                if end in there[gpu] and end < ranks:
                    pair = f"{vertices[gpu].name} to {vertices[end].name}"
                    raise _no_network(f"the link of {pair} is not the only one of its pair")
                there[gpu].setdefault(end, rates)
    for wire in topology.wires:
        if not {vertices[wire.src].kind, vertices[wire.dst].kind} & {"gpu", "nic"}:
            raise _no_network(f"{vertices[wire.src].name} is joined to another switch")
    edges = {(gpu, end): rates for gpu, ends in forward.items() for end, rates in ends.items() if end < ranks}
    ports: dict[int, list[tuple[int, Rates, Rates]]] = defaultdict(list)
    for gpu, hubs in forward.items():
        for hub, rates in hubs.items():
            if hub >= ranks and hub not in back[gpu]:
                raise _no_network(f"{vertices[hub].name} has a port of one direction")
            if hub >= ranks:
                ports[hub].append((gpu, rates, back[gpu][hub]))
    switches: Switches = {}
    for hub, entries in ports.items():
        unlike = {(min(there[0], back[0]), there[1] + back[1]) for _, there, back in entries}
        members = frozenset(gpu for gpu, _, _ in entries)
        if len(unlike) != 1 or members in switches or len(members) != len(entries):
            raise _no_network(f"{vertices[hub].name} has unequal ports, or is not the only one of its GPUs")
        rate, latency = unlike.pop()
        switches[members] = (rate, latency / 2)
    return edges, switches


def _ways(topology: Topology, beside: dict[int, list[tuple[int, Wire]]], gpu: int) -> Iterator[tuple[int, Rates]]:
    """(GPU or switch at its end, rates) of every way out of or into a GPU, through NICs of one GPU."""
    for end, wire in beside[gpu]:
        far = topology.vertices[end]
        if far.kind in ("gpu", "switch", "fabric"):
            yield end, _rates(wire)
            continue
        if far.kind != "nic":
            raise _no_network(f"{far.name}, a {far.kind}, is nothing that ASTRA-sim knows")
        onward = [(last, other) for last, other in beside[end] if topology.vertices[last].kind != "gpu"]
        if len(beside[end]) - len(onward) != 1 or len(onward) > 1:
            raise _no_network(f"{far.name} is shared, which ASTRA-sim does not know")
        for last, other in onward:
            yield last, _rates(wire, other)


def _rates(*wires: Wire) -> Rates:
    """What a way over wires carries, and how long it takes."""
    limits = [_UNLIMITED if wire.bandwidth is None else wire.bandwidth * wire.lanes for wire in wires]
    return min(limits), sum((wire.latency for wire in wires), Fraction(0))
