"""What a link of a generation carries, in three calibrations that are never mixed in one import.

``spec``: data sheets, after the line code (the figures of the node library); ``nccl``: what NCCL and RCCL count
on, less than that; ``raw``: the signalling rate, as `nvidia-smi nvlink -s` prints it. All per direction, in GB/s.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

Calibration = Literal["spec", "nccl", "raw"]
CALIBRATIONS: tuple[Calibration, ...] = ("spec", "nccl", "raw")
GIGA = 10**9

# compute capability times ten, from which on: (spec, nccl, raw) of one NVLink
_NVLINK: tuple[tuple[int, tuple[str, str, str]], ...] = (
    (100, ("50", "40.1", "53.125")),
    (90, ("25", "20.6", "26.562")),
    (87, ("25", "20", "25")),
    (86, ("14.062", "12", "14.062")),
    (80, ("25", "20", "25")),
    (70, ("25", "20", "25.781")),
    (60, ("20", "18", "20")),
    (0, ("25", "20", "25")),
)
_XGMI: tuple[tuple[str, tuple[str, str, str]], ...] = (
    ("gfx94", ("64", "48", "64")),
    ("gfx95", ("76.8", "48", "76.8")),
    ("gfx90a", ("50", "36", "50")),
    ("gfx908", ("46", "24", "46")),
    ("gfx906", ("33", "24", "33")),
    ("", ("33", "24", "33")),
)
# gigatransfers a second of a lane: (spec, nccl, raw) of one lane
_PCIE: dict[str, tuple[str, str, str]] = {
    "2.5": ("0.25", "0.1875", "0.3125"),
    "5": ("0.5", "0.375", "0.625"),
    "8": ("0.984375", "0.75", "1"),
    "16": ("1.96875", "1.5", "2"),
    "32": ("3.9375", "3", "4"),
    "64": ("7.5625", "6", "8"),
}
_UNSTATED_PCIE = "8"  # what NCCL takes where the speed is not told
_FULL_WIDTH = 16
_SPEED = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*GT/s")


def _in(figures: tuple[str, str, str], calibration: Calibration) -> Fraction:
    return Fraction(figures[CALIBRATIONS.index(calibration)]) * GIGA


def nvlink_rate(sm: int, calibration: Calibration) -> Fraction:
    """One NVLink of a GPU of compute capability ``sm`` / 10."""
    return _in(next(figures for least, figures in _NVLINK if max(sm, 0) >= least), calibration)


def xgmi_rate(arch: str, calibration: Calibration) -> Fraction:
    """One xGMI link of a GPU of architecture ``arch``; signalling rates are not known, so raw is spec."""
    return _in(next(figures for start, figures in _XGMI if arch.startswith(start)), calibration)


def pcie_rate(speed: str, width: int, calibration: Calibration) -> Fraction:
    """A PCIe link, from the speed of a lane ("16.0 GT/s PCIe") and its width; 0 lanes mean 16, as in NCCL."""
    match = _SPEED.match(speed)
    lane = match[1].rstrip("0").rstrip(".") if match and "." in match[1] else match[1] if match else ""
    return _in(_PCIE.get(lane, _PCIE[_UNSTATED_PCIE]), calibration) * (width or _FULL_WIDTH)


def pcie_speed_is_known(speed: str) -> bool:
    """Whether a speed is told at all."""
    return bool(_SPEED.match(speed))


def cpu_rate(vendor: str, arch: str, model: int) -> Fraction:
    """Between two sockets, GB/s as NCCL counts; used in every calibration, as data sheets give no such figure."""
    if arch.startswith("ppc64"):
        return Fraction(32) * GIGA
    if "AMD" in vendor:
        return Fraction(16) * GIGA
    if vendor == "GenuineIntel":
        steps = ((0xCF, 40), (0x8F, 22), (0x55, 10))
        return Fraction(next((rate for least, rate in steps if model >= least), 6)) * GIGA
    return Fraction(6) * GIGA
