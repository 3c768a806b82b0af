"""What a link of a generation carries, per direction, in one of three calibrations that no import mixes."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from hetesynth.model.calibration import NVLINK_RATES, PCIE_RATES, XGMI_RATES, LinkRates

Calibration = Literal["spec", "nccl", "raw"]  # data sheets, what NCCL counts on, the signalling rate
GIGA = 10**9
_UNSTATED_PCIE = "8"  # what NCCL takes where the speed is not told
_SPEED = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*GT/s")


def _in(rates: LinkRates, calibration: Calibration) -> Fraction:
    return Fraction(rates[("spec", "nccl", "raw").index(calibration)]) * GIGA


def nvlink_rate(sm: int, calibration: Calibration) -> Fraction:
    """Return what one NVLink of a GPU of compute capability ``sm`` / 10 carries."""
    return _in(next(rates for least, rates in NVLINK_RATES.items() if max(sm, 0) >= least), calibration)


def xgmi_rate(arch: str, calibration: Calibration) -> Fraction:
    """Return what one xGMI link of a GPU of architecture ``arch`` carries."""
    return _in(next(rates for start, rates in XGMI_RATES.items() if arch.startswith(start)), calibration)


def pcie_rate(speed: str, width: int, calibration: Calibration) -> Fraction:
    """Return the rate of a PCIe link by the speed of a lane ("16.0 GT/s PCIe") and its width; 0 lanes mean 16."""
    match = _SPEED.match(speed)
    lane = f"{float(match[1]):g}" if match else ""
    return _in(PCIE_RATES.get(lane, PCIE_RATES[_UNSTATED_PCIE]), calibration) * (width or 16)


def pcie_speed_is_known(speed: str) -> bool:
    """Return True where a speed is told at all."""
    return bool(_SPEED.match(speed))


def cpu_rate(vendor: str, arch: str, model: int) -> Fraction:
    """Return the rate between two sockets as NCCL counts; data sheets give no such figure."""
    if arch.startswith("ppc64"):
        return Fraction(32) * GIGA
    if "AMD" in vendor:
        return Fraction(16) * GIGA
    if vendor == "GenuineIntel":
        steps = ((0xCF, 40), (0x8F, 22), (0x55, 10))
        return Fraction(next((rate for least, rate in steps if model >= least), 6)) * GIGA
    return Fraction(6) * GIGA
