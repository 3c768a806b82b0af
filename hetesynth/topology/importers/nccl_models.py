"""What the PCI identity that topology files give says: names of GPUs, for reports alone, and rates of NICs."""

from __future__ import annotations

from fractions import Fraction

_NVIDIA, _AMD = "0x10de", "0x1002"
_MODELS: dict[tuple[str, str], str] = {
    (_NVIDIA, "0x15f9"): "P100",
    (_NVIDIA, "0x1db1"): "V100",
    (_NVIDIA, "0x1db5"): "V100",
    (_NVIDIA, "0x1db8"): "V100",
    (_NVIDIA, "0x20b0"): "A100",
    (_NVIDIA, "0x20b2"): "A100",
    (_NVIDIA, "0x20b5"): "A100 PCIe",
    (_NVIDIA, "0x20f1"): "A100 PCIe",
    (_NVIDIA, "0x20f3"): "A800",
    (_NVIDIA, "0x2230"): "RTX A6000",
    (_NVIDIA, "0x2329"): "H20",
    (_NVIDIA, "0x2330"): "H100",
    (_NVIDIA, "0x2331"): "H100 PCIe",
    (_NVIDIA, "0x2335"): "H200",
    (_NVIDIA, "0x2901"): "B200",
    (_NVIDIA, "0x2b85"): "RTX 5090",
    (_NVIDIA, "0x3182"): "B300",
    (_NVIDIA, "0x31c2"): "GB300",
    (_AMD, "0x66a1"): "MI50",
    (_AMD, "0x738c"): "MI100",
    (_AMD, "0x7408"): "MI250X",
    (_AMD, "0x740c"): "MI250X",
    (_AMD, "0x740f"): "MI210",
    (_AMD, "0x74a0"): "MI300A",
    (_AMD, "0x74a1"): "MI300X",
}
_NICS = {("0x1d0f", "0xefa0"): 100}  # Gbps; EFA of the first generation: p4d and p4de have four, 400 together


def model_of(vendor: str, device: str) -> str:
    """The name, or ""."""
    return _MODELS.get((vendor, device), "")


def nic_rate_of(vendor: str, device: str) -> Fraction | None:
    """What a NIC carries of which there is one speed only, in bytes per second."""
    gigabits = _NICS.get((vendor, device))
    return None if gigabits is None else Fraction(gigabits * 10**9, 8)
