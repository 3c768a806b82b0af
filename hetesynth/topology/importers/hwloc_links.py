"""hwloc's matrices ``NVLinkBandwidth`` and ``XGMIBandwidth`` to links between GPUs and ports into NVSwitches.

MB/s between objects, one row after the other. Objects are given by index, with their type in front where types
differ. Those that are neither GPUs nor CPUs are NVSwitches. XGMIHops is 1 for every pair where ROCm SMI was asked,
so it is only used where it tells pairs apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hetesynth.topology.importers.amd_smi import architecture
from hetesynth.topology.importers.gpu_models import gpu_model
from hetesynth.topology.importers.machine import Gpu, GpuLink, Remark, SwitchPort
from hetesynth.topology.importers.rates import nvlink_rate, xgmi_rate
from hetesynth.topology.importers.reading import ReadOptions, Source, lacking

if TYPE_CHECKING:
    from lxml import etree

GpuPlaces = Mapping[str, int]
Links = tuple[tuple[SwitchPort, ...], tuple[GpuLink, ...], tuple[Remark, ...]]
MAX_OBJECTS = 256
_XGMI_MB = 50_000  # MB/s of one xGMI link
_XGMI_UNTOLD = 100_000  # what hwloc writes for every pair that ROCm SMI calls XGMI, direct or not
_NVLINK_MB = ((100, 50_000), (61, 25_000), (0, 20_000))  # of one NVLink, from a compute capability on
_ONE_CARD = 2  # GPUs of an MI250, which always are neighbours
_OF_CPUS = ("Package", "NUMANode", "Machine")
HELP = "give `amd-smi topology --json`, or NCCL_TOPO_DUMP_FILE's XML"


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A square of values between objects: a GPU's number, "switch" or "cpu" each."""

    objects: tuple[int | str, ...]
    values: tuple[int, ...]

    def pairs(self) -> Iterator[tuple[int, int | str, int]]:
        """(GPU, other object, value) of every value off the diagonal that is not 0."""
        size = len(self.objects)
        for i, one in enumerate(self.objects):
            for j, other in enumerate(self.objects):
                if isinstance(one, int) and one != other and self.values[i * size + j]:
                    yield one, other, self.values[i * size + j]


def gpu_links(
    source: Source, root: etree._Element, places: GpuPlaces, gpus: Sequence[Gpu], options: ReadOptions
) -> Links:  # fmt: skip
    """What the matrices of a file say; nothing where it has none."""
    named = {e.get("name", ""): e for e in root.iter("distances2", "distances2hetero")}
    for name in ("NVLinkBandwidth", "XGMIBandwidth"):
        if name in named:
            matrix = _matrix(named[name], places)
            if matrix is None:
                text = "a matrix of links that is not square is passed over"
                return (), (), (Remark("suspicious", text, "warning"),)
            if name == "NVLinkBandwidth":
                return _nvlinks(matrix, gpus, options)
            hops = _matrix(named["XGMIHops"], places) if "XGMIHops" in named else None
            return (), _xgmi(source, matrix, hops, gpus, options), ()
    doubts = [gpu.model for gpu in gpus if (model := gpu_model(gpu.model)) and model.switched]
    text = "no NVLinkBandwidth in the file, though these GPUs mostly have NVLink: was lstopo built with NVML?"
    remarks = (Remark("suspicious", text, "warning"),) if doubts and len(gpus) > 1 else ()
    return (), (), remarks


def _matrix(element: etree._Element, places: GpuPlaces) -> _Matrix | None:
    """A matrix; None where it is not square."""
    indexing, kind = element.get("indexing", "gp")[:2], element.get("type", "")
    objects: list[int | str] = []
    for word in _words(element, "indexes"):
        of_cpu = (word.partition(":")[0] if ":" in word else kind) in _OF_CPUS
        objects.append("cpu" if of_cpu else places.get(f"{indexing}:{word}", "switch"))
    values = [int(word) for word in _words(element, "u64values") if re.fullmatch(r"\d{1,15}", word)]
    if not 1 <= len(objects) <= MAX_OBJECTS or len(values) != len(objects) ** 2:
        return None
    return _Matrix(tuple(objects), tuple(values))


def _nvlinks(matrix: _Matrix, gpus: Sequence[Gpu], options: ReadOptions) -> Links:
    """Links between GPUs, and ports into NVSwitches; those to CPUs (POWER) are told of."""
    pairs: dict[tuple[int, int], int] = {}
    lanes: dict[int, int] = defaultdict(int)
    to_cpus: set[int] = set()
    uneven: set[int] = set()
    for one, other, value in matrix.pairs():
        model = gpu_model(gpus[one].model)
        unit = next(unit for least, unit in _NVLINK_MB if (model.sm if model else 70) >= least)
        count = max(value // unit, 1)
        uneven |= {unit} if value % unit else set()
        if other == "cpu":
            to_cpus.add(one)
        elif isinstance(other, int):
            pair = (min(one, other), max(one, other))
            pairs[pair] = min(pairs.get(pair, count), count)
        else:
            lanes[one] += count
    remarks = [
        Remark("suspicious", f"links that carry no multiple of {u} MB/s", "warning") for u in sorted(uneven)
    ]
    if to_cpus:
        remarks.append(Remark("found", "GPUs have NVLinks to their CPU, which are not used here"))
    ports = tuple(SwitchPort(gpu, count, _rate(gpus[gpu], options)) for gpu, count in sorted(lanes.items()))
    links = tuple(
        GpuLink(a, b, count, _rate(gpus[a], options)) for (a, b), count in sorted(pairs.items()) if a not in lanes
    )
    return ports, links, tuple(remarks)


def _xgmi(
    source: Source, matrix: _Matrix, hops: _Matrix | None, gpus: Sequence[Gpu], options: ReadOptions
) -> tuple[GpuLink, ...]:  # fmt: skip
    """Direct links. HS733 where neither the values nor the model tell which pairs have how many."""
    arch, single = architecture(gpus[0].model) or ("gfx942", True)
    far = {(a, b) for a, b, value in hops.pairs() if value > 1} if hops else set()
    values = {
        (a, b): value for a, b, value in matrix.pairs() if isinstance(b, int) and a < b and (a, b) not in far
    }
    untold = not far and (set(values.values()) == {_XGMI_UNTOLD} or len(gpus) > _ONE_CARD)
    if untold and not single:
        raise lacking(source, "hwloc does not tell which GPUs have how many xGMI links with each other", HELP)
    return tuple(
        GpuLink(a, b, 1 if single else max(value // _XGMI_MB, 1), xgmi_rate(arch, options.calibration), "xgmi")
        for (a, b), value in values.items()
    )


def _words(element: etree._Element, tag: str) -> list[str]:
    """The words of all children of that tag: hwloc cuts long lists."""
    return [word for child in element.iterchildren(tag) for word in (child.text or "").split()]


def _rate(gpu: Gpu, options: ReadOptions) -> Fraction:
    """The rate of one NVLink of a GPU."""
    model = gpu_model(gpu.model)
    return nvlink_rate(model.sm if model else 0, options.calibration)
