"""ASTRA-sim's network file to text of the topology language: a product of rings, switches and full meshes.

Dimension 0 is that of the numbers next to each other. A ring has a link each way between neighbours, a full
mesh between every two, a switch a port for each; ``latency`` is that of a link in nanoseconds, so a transfer
through a switch takes it twice. A bandwidth is read as 10^9 bytes a second and direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod

from hetesynth.topology.importers.plain_yaml import plain_yaml
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, refused
from hetesynth.topology.importers.wording import decimal

RING, SWITCH, FULL = "Ring", "Switch", "FullyConnected"
MAX_NPUS = 2048
MAX_DIMENSIONS = 8
MAX_FIGURE = 10**12
HELP = "an ASTRA-sim network has lists topology, npus_count, bandwidth (GB/s), latency (ns), an entry a dimension"


@dataclass(frozen=True, slots=True)
class Dimension:
    """A factor of the product: bytes per second of a link or port, and seconds of a link."""

    shape: str
    size: int
    bandwidth: Fraction
    latency: Fraction

    def __post_init__(self) -> None:
        if self.shape not in (RING, SWITCH, FULL) or self.size < 1 or self.bandwidth <= 0 or self.latency < 0:
            raise ValueError(f"no dimension of a network: {self}")


def is_astra_sim(document: object) -> bool:
    """Whether a value of YAML has the shape of such a network."""
    return isinstance(document, dict) and {"topology", "npus_count"} <= document.keys()


def read_astra_sim(source: Source, options: ReadOptions) -> Reading:
    """The cluster as text."""
    dimensions = read_dimensions(source)
    return Reading(text=cluster_text(dimensions, source.stated.model or options.model))


def read_dimensions(source: Source) -> tuple[Dimension, ...]:
    """The dimensions of a file; HS732 where it is no such file or its lists do not fit together."""
    document = plain_yaml(source.data, source.name)
    if not isinstance(document, dict) or not is_astra_sim(document):
        raise refused(source, "no network of ASTRA-sim", HELP)
    lists = [document.get(key) for key in ("topology", "npus_count", "bandwidth", "latency")]
    columns = [column if isinstance(column, list) else [column] for column in lists]
    if len({len(column) for column in columns}) != 1 or not 1 <= len(columns[0]) <= MAX_DIMENSIONS:
        raise refused(source, f"lists of different lengths, or more than {MAX_DIMENSIONS} dimensions", HELP)
    dimensions = []
    for shape, size, bandwidth, latency in zip(*columns, strict=True):
        if shape not in (RING, SWITCH, FULL):
            raise refused(source, f"{str(shape)[:40]!r} is none of {RING}, {SWITCH}, {FULL}", HELP)
        if type(size) is not int or not 1 <= size <= MAX_NPUS:
            raise refused(source, f"npus_count {str(size)[:40]} is no number from 1 to {MAX_NPUS}", HELP)
        rate, delay = _figure(source, bandwidth), _figure(source, latency)
        if rate <= 0:
            raise refused(source, "a bandwidth of 0", HELP)
        dimensions.append(Dimension(shape, size, rate * 10**9, delay / 10**9))
    if prod(dimension.size for dimension in dimensions) > MAX_NPUS:
        raise refused(source, f"more than {MAX_NPUS} NPUs", "import a smaller network of the same shape")
    return tuple(dimensions)


def _figure(source: Source, value: object) -> Fraction:
    """A number of the file, exact as it is written."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_FIGURE:
        return Fraction(repr(value)).limit_denominator(MAX_FIGURE)
    raise refused(source, f"{str(value)[:40]!r} is no number of GB/s or ns", HELP)


def cluster_text(dimensions: Sequence[Dimension], model: str = "") -> str:
    """The cluster: dimension 0 is a node type, the others join its instances."""
    first, others = dimensions[0], dimensions[1:]
    instances = prod(dimension.size for dimension in others)
    lines = [
        "# A network of ASTRA-sim: " + " x ".join(f"{d.shape} {d.size}" for d in dimensions),
        "",
        "node npus {",
    ]
    lines += [f'  model "{model}"'] if model else []
    lines += [
        f"  gpus {first.size}",
        *(f"  {line}" for line in _node_lines(first)),
        "}",
        "",
        "cluster astra_sim {",
    ]
    lines.append(f"  instance n[0-{instances - 1}] = npus" if instances > 1 else "  instance n0 = npus")
    stride = 1
    for number, dimension in enumerate(others, 1):
        lines += [f"  {line}" for line in _lines_between(dimension, number, stride, instances, first.size)]
        stride *= dimension.size
    return "\n".join([*lines, "}", ""])


def _node_lines(dimension: Dimension) -> Iterator[str]:
    """The statements of the node type."""
    size, rates = dimension.size, _rates(dimension)
    if size == 1:
        return
    if dimension.shape == SWITCH:
        yield f"switch sw {{ ports gpu[0-{size - 1}]; {rates} }}"
    elif dimension.shape == FULL or size == 2:
        yield f"mesh gpu[0-{size - 1}] {{ {rates} }}"
    else:
        yield f"link gpu[0-{size - 2}] <-> gpu[1-{size - 1}] {{ {rates} }}"
        yield f"link gpu{size - 1} <-> gpu0 {{ {rates} }}"


def _lines_between(dimension: Dimension, number: int, stride: int, instances: int, gpus: int) -> Iterator[str]:
    """The statements of a dimension between instances ``stride`` apart."""
    size, rates = dimension.size, _rates(dimension)
    for base in range(instances):
        if size == 1 or base // stride % size:
            continue
        line = [f"n{base + k * stride}" for k in range(size)]
        if dimension.shape == SWITCH:
            for gpu in range(gpus):
                ports = ", ".join(f"{name}.gpu{gpu}" for name in line)
                yield f"switch sw{number}_{base}_{gpu} {{ ports {ports}; {rates} }}"
            continue
        pairs = [(a, b) for i, a in enumerate(line) for b in line[i + 1 :]]
        if dimension.shape == RING:
            pairs = [*pairwise(line), *([(line[-1], line[0])] if size > 2 else [])]
        for a, b in pairs:
            yield f"link {a}.gpu[0-{gpus - 1}] <-> {b}.gpu[0-{gpus - 1}] {{ {rates} }}"


def _rates(dimension: Dimension) -> str:
    """Bandwidth and latency; those of a switch are of a crossing, two links."""
    crossings = 2 if dimension.shape == SWITCH else 1
    rate = decimal(dimension.bandwidth / 10**9)
    return f"bandwidth {rate} GB/s; latency {decimal(dimension.latency * crossings * 10**9)} ns"
