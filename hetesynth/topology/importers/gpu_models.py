"""What a GPU's name tells, as `nvidia-smi -L` or people write it, and what a link carries in one direction."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.model.calibration import NVLINK_RATES, PCIE_RATES, XGMI_RATES, LinkRates
from hetesynth.model.target import Vendor

Calibration = Literal["spec", "nccl", "raw"]  # data sheets, what NCCL counts on, the signalling rate
GIGA = 10**9
_UNSTATED_PCIE = "8"  # what NCCL takes where the speed is not told
PCIE_SPEED = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*GT/s")


@dataclass(frozen=True, slots=True)
class GpuModel:
    """``sm``: compute capability times ten; ``links``: NVLinks at most; ``pcie``: GT/s of a lane."""

    sm: int
    links: int
    pcie: str
    switched: bool = False  # mostly in servers with NVLink: a table without any is hard to believe


# the first row whose pattern is in the name counts
_MODELS: tuple[tuple[str, GpuModel], ...] = (
    (r"G?B300", GpuModel(103, 18, "64 GT/s", True)),
    (r"G?B200", GpuModel(100, 18, "64 GT/s", True)),
    (r"RTX PRO [456]000|(RTX )?50[789]0", GpuModel(120, 0, "32 GT/s")),
    (r"GB10", GpuModel(121, 0, "32 GT/s")),
    (r"GH200", GpuModel(90, 18, "32 GT/s", True)),
    (r"H800.*(PCIe|NVL)", GpuModel(90, 8, "32 GT/s")),
    (r"H100.*(PCIe|NVL)", GpuModel(90, 12, "32 GT/s")),
    (r"H200 NVL", GpuModel(90, 18, "32 GT/s")),
    (r"H800", GpuModel(90, 8, "32 GT/s", True)),
    (r"H(100|200|20e?)\b", GpuModel(90, 18, "32 GT/s", True)),
    (r"L40S?|L4|L20|(RTX )?40[6789]0|RTX 4\d\d\d|RTX [456]000 Ada", GpuModel(89, 0, "16 GT/s")),
    (r"A800.*PCIe", GpuModel(80, 8, "16 GT/s")),
    (r"A800", GpuModel(80, 8, "16 GT/s", True)),
    (r"A100.*(PCIe|PCIE)", GpuModel(80, 12, "16 GT/s")),
    (r"A30", GpuModel(80, 4, "16 GT/s")),
    (r"A100", GpuModel(80, 12, "16 GT/s", True)),
    (r"A40|A6000|A5000|A5500|A4500|(RTX )?3090", GpuModel(86, 4, "16 GT/s")),
    (r"A10|A16|A2|RTX 30\d\d", GpuModel(86, 0, "16 GT/s")),
    (r"V100.*(SXM|DGXS)", GpuModel(70, 6, "8 GT/s", True)),
    (r"V100.*PCIE", GpuModel(70, 0, "8 GT/s")),
    (r"V100", GpuModel(70, 6, "8 GT/s", True)),
    (r"RTX 20\d\d|RTX [68]000", GpuModel(75, 2, "8 GT/s")),
    (r"T4", GpuModel(75, 0, "8 GT/s")),
    (r"P100.*PCIE", GpuModel(60, 0, "8 GT/s")),
    (r"P100", GpuModel(60, 4, "8 GT/s")),
    (r"P40|P4|GTX 10\d\d|TITAN Xp?|M40|M60|K80|K40", GpuModel(61, 0, "8 GT/s")),
)


@dataclass(frozen=True, slots=True)
class AmdModel:
    """``links``: xGMI links at most; ``single``: a pair of GPUs has one at most; ``most``: GPUs of a server."""

    name: str
    arch: str
    links: int
    single: bool
    pcie: str
    most: int


_AMD_MODELS = (
    (r"MI3[57]\d[XA]?", "gfx950", 7, True, "32 GT/s", 8),
    (r"MI300A", "gfx942", 8, False, "32 GT/s", 4),
    (r"MI3[02]\d[XA]?", "gfx942", 7, True, "32 GT/s", 8),
    (r"MI2[15]0X?", "gfx90a", 7, False, "16 GT/s", 16),
    (r"MI100", "gfx908", 3, True, "16 GT/s", 16),
    (r"MI[56]0", "gfx906", 2, True, "16 GT/s", 8),
)
AMD_MODELS = "MI50, MI100, MI250X, MI300A, MI300X, MI325X, MI355X"
_AMD = re.compile(r"\bAMD\b|\bMI ?\d{2,3}", re.IGNORECASE)
_SLOTS = {"PCIE": "PCIe", "NVL": "NVL"}  # words behind a model's name that tell it from the one with a socket
KNOWN_MODELS = "GB200, B300, B200, H200, H100, H20, H800, A100, A800, A40, A6000, L40S, RTX 5090, V100, P100, K80"
PART = re.compile(r"(?<![a-z0-9])mig(?![a-z])|(?<![a-z0-9])\dg\.\d+gb", re.IGNORECASE)
"""What is in the names of parts of GPUs: MIG, or a profile of it such as 1g.10gb."""
_DEVICES = {  # PCI ids by vendor and model; source: pci.ids
    "0x10de": {
        "P100": "15f9",
        "P100 PCIe": "15f7 15f8",
        "V100": "1db1 1db5 1db8",
        "V100 PCIe": "1db4 1db6 1df6",
        "T4": "1eb8",
        "A100": "20b0 20b2 20b3",
        "A100 PCIe": "20b1 20b5 20f1",
        "A30": "20b7",
        "A800": "20bd 20f3",
        "A800 PCIe": "20f5 20f6",
        "RTX 3090": "2203 2204",
        "RTX A6000": "2230",
        "A40": "2235",
        "A10": "2236",
        "H100": "2330 2336 2337 2338 2339",
        "H100 PCIe": "2331",
        "H100 NVL": "2321",
        "H800": "2324",
        "H800 PCIe": "2322",
        "H20": "2329 232c",
        "H200": "2335",
        "H200 NVL": "233b",
        "GH200": "2342 2348",
        "RTX 4090": "2684",
        "RTX 6000 Ada": "26b1",
        "L4": "27b8",
        "L20": "26b7 26ba",
        "L40": "26b5",
        "L40S": "26b9",
        "B200": "2901 2909",
        "GB200": "2941",
        "RTX 5090": "2b85",
        "RTX PRO 5000": "2bb3",
        "RTX PRO 6000": "2bb1 2bb4 2bb5",
        "B300": "3182",
        "GB300": "31c2 31c3",
    },
    "0x1002": {
        "MI50": "66a1",
        "MI100": "738c 738e",
        "MI250X": "7408 740c",
        "MI210": "740f",
        "MI300A": "74a0",
        "MI300X": "74a1 74a9 74b5 74bd",
        "MI308X": "74a2",
        "MI325X": "74a5 74b9",
        "MI350X": "75a0",
        "MI355X": "75a3",
    },
}
MODELS = {
    (vendor, f"0x{device}"): model
    for vendor, models in _DEVICES.items()
    for model, devices in models.items()
    for device in devices.split()
}
"""By vendor and device."""
# B/s of NICs of which there is one speed only: EFA of the first generation, of which p4d and p4de have four
NIC_RATES = {("0x1d0f", "0xefa0"): Fraction(100 * 10**9, 8)}


def gpu_model(name: str) -> GpuModel | None:
    """Return the model that ``name`` names; None where it is none of those in the table, or a part of a GPU."""
    for pattern, model in _MODELS if not PART.search(name) else ():
        if re.search(rf"(?<![A-Za-z0-9])(?:{pattern})(?![0-9])", name, re.IGNORECASE):
            return model
    return None


def amd_model(name: str) -> AmdModel | None:
    """Return the model of AMD that ``name`` names; None where it is none of those in the table."""
    for pattern, *facts in _AMD_MODELS:
        if match := re.search(rf"(?<![A-Za-z0-9])({pattern})(?![0-9])", name, re.IGNORECASE):
            return AmdModel(match[1], *facts)  # type: ignore[arg-type]
    return None


def gpu_vendor(name: str) -> Vendor | None:
    """Return the maker of the GPU that ``name`` names, NVIDIA or AMD; None if the name does not tell."""
    if _AMD.search(name):
        return "AMD"
    return "NVIDIA" if gpu_model(name) is not None or "NVIDIA" in name.upper() else None


def short_name(name: str) -> str:
    """Return the name without vendor and memory: "H100" of "NVIDIA H100 80GB HBM3"; a slot (PCIe) stays."""
    if PART.search(name):
        return name.strip()[:40]
    plain = re.sub(r"NVIDIA|Tesla|GeForce", "", name)
    match = re.search(r"\b(?:RTX (?:PRO )?)?[A-Z]{0,3}\d{1,4}[A-Z]{0,2}\b", plain)
    slot = re.search(r"\b(PCIe|NVL)\b", name, re.IGNORECASE)
    return match[0] + (f" {_SLOTS[slot[1].upper()]}" if slot else "") if match else name.strip()[:40]


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
    match = PCIE_SPEED.match(speed)
    lane = f"{float(match[1]):g}" if match else ""
    return _in(PCIE_RATES.get(lane, PCIE_RATES[_UNSTATED_PCIE]), calibration) * (width or 16)


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
