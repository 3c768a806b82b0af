"""ASTRA-sim's network file to text of the language: a product of rings, switches and full meshes.

Dimension 0 is that of the numbers next to each other. ``latency`` is that of a link in nanoseconds, so a transfer
through a switch takes it twice. A bandwidth is read as 10^9 bytes a second and direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import prod

from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, plain_yaml, refused
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


def read_astra_sim(source: Source, options: ReadOptions) -> Reading:
    """Return the cluster as text."""
    return Reading(text=cluster_text(read_dimensions(source), source.stated.model or options.model))


def read_dimensions(source: Source) -> tuple[Dimension, ...]:
    """Return the dimensions of a file; HS732 where it is no such file or its lists do not fit together."""
    document = plain_yaml(source.data, source.name)
    facts = document if isinstance(document, dict) else {}
    lists = [facts.get(key) for key in ("topology", "npus_count", "bandwidth", "latency")]
    columns = [column if isinstance(column, list) else [column] for column in lists]
    if len({len(column) for column in columns}) != 1 or not 1 <= len(columns[0]) <= MAX_DIMENSIONS:
        raise refused(source.name, f"lists of different lengths, or more than {MAX_DIMENSIONS} dimensions", HELP)
    dimensions = []
    for shape, size, *figures in zip(*columns, strict=True):
        whole = shape in (RING, SWITCH, FULL) and type(size) is int and 1 <= size <= MAX_NPUS
        numbers = [value for value in figures if type(value) in (int, float) and 0 <= value <= MAX_FIGURE]
        if not whole or len(numbers) != 2 or not numbers[0]:
            shown = ", ".join(str(value)[:40] for value in (shape, size, *figures))
            raise refused(source.name, f"no dimension of up to {MAX_NPUS} NPUs: {shown}", HELP)
        rate, latency = (Fraction(repr(value)).limit_denominator(MAX_FIGURE) for value in numbers)
        dimensions.append(Dimension(shape, size, rate * 10**9, latency / 10**9))
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
        bases = [base for base in range(instances) if base // stride % dimension.size == 0]
        for base in bases if dimension.size > 1 else ():
            line = range(base, base + dimension.size * stride, stride)
            pairs = list(combinations(line, 2)) if dimension.shape == FULL else []
            if dimension.shape == RING:
                pairs = [*pairwise(line), *([(line[-1], base)] if len(line) > 2 else [])]
            for gpu in range(size) if dimension.shape == SWITCH else ():
                ports = ", ".join(f"n{i}.gpu{gpu}" for i in line)
                lines.append(f"  switch sw{number}_{base}_{gpu} {{ ports {ports}; {rates} }}")
            for a, b in pairs:
                lines.append(f"  link n{a}.gpu[0-{size - 1}] <-> n{b}.gpu[0-{size - 1}] {{ {rates} }}")
        stride *= dimension.size
    return "\n".join([*lines, "}", ""])


def _stated(dimension: Dimension) -> str:
    """Return the text of bandwidth and latency; the latency of a switch is of a crossing, two links."""
    crossings = 2 if dimension.shape == SWITCH else 1
    rate = decimal(dimension.bandwidth / 10**9)
    return f"bandwidth {rate} GB/s; latency {decimal(dimension.latency * crossings * 10**9)} ns"
