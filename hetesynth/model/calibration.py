"""Calibrations: from the figures a topology states to those a transfer gets, as a named choice."""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, get_args

from hetesynth.model.topology import Topology

CalibrationName = Literal["spec", "nccl", "measured", "raw"]
CALIBRATION_NAMES: tuple[CalibrationName, ...] = get_args(CalibrationName)

Factors = tuple[tuple[str, str, Fraction], ...]
"""(prefix of the kind of a wire, prefix of the GPU model, factor), the first that fits counts. Of a wire between
two GPUs the kind ends in `` direct``."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A named set of ``factors`` on bandwidths, by kind and model; without ``overheads`` alpha and gamma are 0."""

    name: CalibrationName
    factors: Factors = ()
    overheads: bool = True

    def factor(self, kind: str, model: str) -> Fraction:
        """Return the factor on the bandwidth of a wire of ``kind`` at a GPU of ``model`` ("" where unknown)."""
        lower_kind, lower_model = kind.lower(), _MAKER.sub("", model.lower())
        for kind_prefix, model_prefix, factor in self.factors:
            if lower_kind.startswith(kind_prefix) and lower_model.startswith(model_prefix):
                return factor
        return Fraction(1)


_MAKER = re.compile(r"^((nvidia|amd|instinct|tesla)[ -]+)+")

LinkRates = tuple[str, str, str]
"""GB/s of one link and direction: by the data sheet after the line code, as NCCL and RCCL count, as signalled."""
NVLINK_RATES: dict[int, LinkRates] = {  # by compute capability times ten, from which on
    100: ("50", "40.1", "53.125"),
    90: ("25", "20.6", "26.562"),
    87: ("25", "20", "25"),
    86: ("14.062", "12", "14.062"),
    80: ("25", "20", "25"),
    70: ("25", "20", "25.781"),
    60: ("20", "18", "20"),
    0: ("25", "20", "25"),
}
XGMI_RATES: dict[str, LinkRates] = {  # by the beginning of the architecture; signalling rates are not known
    "gfx94": ("64", "48", "64"),
    "gfx95": ("76.8", "48", "76.8"),
    "gfx90a": ("50", "36", "50"),
    "gfx908": ("46", "24", "46"),
    "": ("33", "24", "33"),  # gfx906
}
PCIE_RATES: dict[str, LinkRates] = {  # of one lane, by gigatransfers a second
    "2.5": ("0.25", "0.1875", "0.3125"),
    "5": ("0.5", "0.375", "0.625"),
    "8": ("0.984375", "0.75", "1"),
    "16": ("1.96875", "1.5", "2"),
    "32": ("3.9375", "3", "4"),
    "64": ("7.5625", "6", "8"),
}


def _counted(rates: LinkRates) -> Fraction:
    """Return the rate that NCCL's and RCCL's topology models grant a link over the data sheet's payload rate."""
    return Fraction(rates[1]) / Fraction(rates[0])


_NCCL: Factors = (
    ("nvlink", "p100", _counted(NVLINK_RATES[60])),
    ("nvlink", "h", _counted(NVLINK_RATES[90])),  # H100, H200, H20, H800
    ("nvlink", "gh", _counted(NVLINK_RATES[90])),
    ("nvlink", "b", _counted(NVLINK_RATES[100])),
    ("nvlink", "gb", _counted(NVLINK_RATES[100])),
    ("nvlink", "", _counted(NVLINK_RATES[80])),  # V100, A100, A800 and what is not told
    ("xgmi", "mi1", _counted(XGMI_RATES["gfx908"])),
    ("xgmi", "mi2", _counted(XGMI_RATES["gfx90a"])),
    ("xgmi", "mi3", _counted(XGMI_RATES["gfx94"])),
    ("xgmi", "mi50", _counted(XGMI_RATES[""])),
    ("xgmi", "", _counted(XGMI_RATES["gfx90a"])),
    ("pcie_staged", "", Fraction(48, 100)),  # eight RTX 4090 without peer access reach 14.5 to 15 GB/s
    ("pcie", "", _counted(PCIE_RATES["8"])),  # generations 3 to 6 alike
    ("cpu", "", _counted(PCIE_RATES["8"])),  # the slots of its ports
)

# What large published runs of NCCL and RCCL reach (docs/reality.md), over the payload rate of the data sheet.
_MEASURED: Factors = (
    ("nvlink", "p100", Fraction(90, 100)),
    ("nvlink", "v100", Fraction(80, 100)),
    ("nvlink direct", "a100", Fraction(69, 100)),
    ("nvlink", "h", Fraction(824, 1000)),
    ("nvlink", "gh", Fraction(824, 1000)),
    ("nvlink", "b", Fraction(758, 1000)),
    ("nvlink", "gb", Fraction(758, 1000)),
    ("nvlink", "", Fraction(78, 100)),
    ("xgmi", "mi3", Fraction(712, 1000)),
    *(row for row in _NCCL if row[0] in ("xgmi", "pcie_staged", "pcie", "cpu")),
    ("efa", "", Fraction(88, 100)),
    ("tcpxo", "", Fraction(94, 100)),
    ("tcp", "", Fraction(71, 100)),
    ("roce", "", Fraction(90, 100)),
    ("slingshot", "", Fraction(57, 100)),
    ("net", "", Fraction(94, 100)),
    ("ib", "", Fraction(94, 100)),
    ("infiniband", "", Fraction(94, 100)),
)

# Signalling rate over payload rate: nvidia-smi prints 26.562 GB/s for an NVLink that carries 25.
_RAW: Factors = (("nvlink", "", Fraction(17, 16)),)

CALIBRATIONS: dict[str, Calibration] = {
    c.name: c
    for c in (
        Calibration("spec"),
        Calibration("nccl", _NCCL),
        Calibration("measured", _MEASURED),
        Calibration("raw", _RAW, overheads=False),
    )
}


@lru_cache(maxsize=16)
def calibrated(topology: Topology, name: CalibrationName) -> Topology:
    """Return ``topology`` at the rates of calibration ``name``; rates that it states as measured stay."""
    choice = CALIBRATIONS[name]
    if not choice.factors:
        return topology
    vertices, wires = topology.vertices, []
    for w in topology.wires:
        ends = vertices[w.src], vertices[w.dst]
        kind = f"{w.kind} direct" if ends[0].kind == ends[1].kind == "gpu" else w.kind
        if w.bandwidth is None or w.kind.lower() in topology.measured:
            wires.append(w)
        else:
            share = choice.factor(kind, ends[0].model or ends[1].model)
            wires.append(replace(w, bandwidth=w.bandwidth * share))
    limits = [(w.bandwidth * w.lanes, w.bandwidth, w.lanes) if w.bandwidth else None for w in wires]
    links = []
    for link in topology.links:
        _, bandwidth, lanes = min(limit for limit in (limits[i] for i in link.wires) if limit is not None)
        links.append(replace(link, bandwidth=bandwidth, lanes=lanes))
    groups = tuple(
        g if g.kind.lower() in topology.measured else replace(g, bandwidth=g.bandwidth * choice.factor(g.kind, ""))
        for g in topology.groups
    )
    return replace(topology, wires=tuple(wires), links=tuple(links), groups=groups)
