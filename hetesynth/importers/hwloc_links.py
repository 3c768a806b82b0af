"""hwloc's matrices ``NVLinkBandwidth`` and ``XGMIBandwidth`` to links between GPUs and ports into NVSwitches.

MB/s between objects, one row after the other. Objects are given by index, with their type in front where types
differ. Those that are no GPUs are NVSwitches. XGMIHops is not used: it is known to be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from hetesynth.importers.gpu_models import gpu_model
from hetesynth.importers.machine import Gpu, GpuLink, Remark, SwitchPort
from hetesynth.importers.rates import nvlink_rate, xgmi_rate
from hetesynth.importers.reading import ReadOptions

if TYPE_CHECKING:
    from lxml import etree

GpuPlaces = Mapping[str, int]
Links = tuple[tuple[SwitchPort, ...], tuple[GpuLink, ...], tuple[Remark, ...]]
MAX_OBJECTS = 256
XGMI_MB = 50_000  # MB/s of one xGMI link
NVLINK_MB = 25_000  # of one NVLink of generations 2 to 4


def gpu_links(root: etree._Element, places: GpuPlaces, gpus: Sequence[Gpu], options: ReadOptions) -> Links:
    """What the matrices of a file say; nothing where it has none."""
    for element in root.iter("distances2", "distances2hetero"):
        name = element.get("name", "")
        if name in ("NVLinkBandwidth", "XGMIBandwidth"):
            return _links(element, places, gpus, options, xgmi=name.startswith("XGMI"))
    doubts = [gpu.model for gpu in gpus if (model := gpu_model(gpu.model)) and model.switched]
    text = "no NVLinkBandwidth in the file, though these GPUs mostly have NVLink: was lstopo built with NVML?"
    remarks = (Remark("suspicious", text, "warning"),) if doubts and len(gpus) > 1 else ()
    return (), (), remarks


def _links(
    element: etree._Element, places: GpuPlaces, gpus: Sequence[Gpu], options: ReadOptions, *, xgmi: bool
) -> Links:  # fmt: skip
    """The links of one matrix."""
    indexing = element.get("indexing", "gp")[:2]
    objects = [places.get(f"{indexing}:{word}") for word in _words(element, "indexes")]
    values = [int(word) for word in _words(element, "u64values") if re.fullmatch(r"\d{1,15}", word)]
    size = len(objects)
    if not 1 <= size <= MAX_OBJECTS or len(values) != size * size:
        return (), (), (Remark("suspicious", "a matrix of links that is not square is passed over", "warning"),)
    unit = XGMI_MB if xgmi else NVLINK_MB
    pairs: dict[tuple[int, int], int] = {}
    lanes: dict[int, int] = {}
    uneven = False
    for i, one in enumerate(objects):
        for j, other in enumerate(objects):
            value = values[i * size + j]
            if one is None or one == other or not value:
                continue
            count = max(value // unit, 1)
            uneven |= value % unit != 0
            if other is None:
                lanes[one] = lanes.get(one, 0) + count
            else:
                pair = (min(one, other), max(one, other))
                pairs[pair] = min(pairs.get(pair, count), count)
    remarks = [Remark("suspicious", f"links that carry no multiple of {unit} MB/s", "warning")] if uneven else []
    ports = tuple(SwitchPort(gpu, count, _rate(gpus[gpu], options, xgmi)) for gpu, count in sorted(lanes.items()))
    kind = "xgmi" if xgmi else "nvlink"
    links = tuple(
        GpuLink(a, b, count, _rate(gpus[a], options, xgmi), kind)
        for (a, b), count in sorted(pairs.items())
        if a not in lanes
    )
    return ports, links, tuple(remarks)


def _words(element: etree._Element, tag: str) -> list[str]:
    """The words of all children of that tag: hwloc cuts long lists."""
    return [word for child in element.iterchildren(tag) for word in (child.text or "").split()]


def _rate(gpu: Gpu, options: ReadOptions, xgmi: bool) -> Fraction:
    """The rate of one link of a GPU."""
    if xgmi:
        return xgmi_rate("gfx90a" if re.search(r"MI2\d\d", gpu.model) else "gfx942", options.calibration)
    model = gpu_model(gpu.model)
    return nvlink_rate(model.sm if model else 0, options.calibration)
