"""Calibrations: from the figures a topology states to those a transfer gets, as a named choice.

In: the kind of a wire and the model of the GPU at its end. Out: a factor on its bandwidth. docs/model.md tells
where each factor comes from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

CalibrationName = Literal["spec", "nccl", "measured", "raw"]
CALIBRATION_NAMES: tuple[CalibrationName, ...] = get_args(CalibrationName)

Factors = tuple[tuple[str, str, float], ...]
"""(prefix of the kind of a wire, prefix of the GPU model, factor), the first that fits counts."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """``factors`` on bandwidths by kind and model; without ``overheads`` alpha and gamma are 0."""

    name: CalibrationName
    factors: Factors = ()
    overheads: bool = True

    def factor(self, kind: str, model: str) -> float:
        """The factor on the bandwidth of a wire of ``kind`` at a GPU of ``model`` ("" where unknown)."""
        lower_kind, lower_model = kind.lower(), _MAKER.sub("", model.lower())
        for kind_prefix, model_prefix, factor in self.factors:
            if lower_kind.startswith(kind_prefix) and lower_model.startswith(model_prefix):
                return factor
        return 1.0


_MAKER = re.compile(r"^((nvidia|amd|instinct|tesla)[ -]+)+")

# What NCCL's and RCCL's topology models grant a link, over the payload rate of its data sheet.
_NCCL: Factors = (
    ("nvlink", "p100", 18.0 / 20.0),
    ("nvlink", "h", 20.6 / 25.0),  # H100, H200, H20, H800
    ("nvlink", "gh", 20.6 / 25.0),
    ("nvlink", "b", 40.1 / 50.0),
    ("nvlink", "gb", 40.1 / 50.0),
    ("nvlink", "", 20.0 / 25.0),  # V100, A100, A800 and what is not told
    ("xgmi", "mi1", 24.0 / 46.0),
    ("xgmi", "mi2", 36.0 / 50.0),
    ("xgmi", "mi3", 48.0 / 64.0),
    ("xgmi", "mi50", 24.0 / 33.0),
    ("xgmi", "", 36.0 / 50.0),
    ("pcie", "", 12.0 / 15.75),  # generations 3 to 6 alike
)

# What large published runs of NCCL and RCCL reach (docs/reality.md), over the payload rate of the data sheet.
_MEASURED: Factors = (
    ("nvlink", "p100", 18.0 / 20.0),
    ("nvlink", "v100", 20.0 / 25.0),
    ("nvlink", "h", 20.6 / 25.0),
    ("nvlink", "gh", 20.6 / 25.0),
    ("nvlink", "b", 0.945 * 40.1 / 50.0),
    ("nvlink", "gb", 0.945 * 40.1 / 50.0),
    ("nvlink", "", 0.975 * 20.0 / 25.0),
    ("xgmi", "mi3", 0.949 * 48.0 / 64.0),
    *(row for row in _NCCL if row[0] in ("xgmi", "pcie")),
    ("efa", "", 0.88),
    ("tcpxo", "", 0.94),
    ("tcp", "", 0.71),
    ("roce", "", 0.90),
    ("slingshot", "", 0.57),
    ("net", "", 0.94),
    ("ib", "", 0.94),
    ("infiniband", "", 0.94),
)

# Signalling rate over payload rate: nvidia-smi prints 26.562 GB/s for an NVLink that carries 25.
_RAW: Factors = (("nvlink", "", 26.5625 / 25.0),)

CALIBRATIONS: dict[str, Calibration] = {
    c.name: c
    for c in (
        Calibration("spec"),
        Calibration("nccl", _NCCL),
        Calibration("measured", _MEASURED),
        Calibration("raw", _RAW, overheads=False),
    )
}
