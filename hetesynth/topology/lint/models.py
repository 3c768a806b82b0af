"""What a GPU of a model is able to do: NVLink or xGMI, its slot, how many stand in a server, the NICs beside it.

Facts of data sheets, per direction and in B/s. Knows nothing of topologies.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.topology.importers.gpu_models import amd_model, gpu_model, short_name
from hetesynth.topology.importers.rates import nvlink_rate, pcie_rate, xgmi_rate
from hetesynth.topology.lint.roles import GB


@dataclass(frozen=True, slots=True)
class Limits:
    """``spec``, ``least``, ``most``: of one link, in the data sheet, as libraries count it and as signalled.

    ``slot``: sixteen lanes of its PCIe; ``together``: GPUs that one server or NVLink domain has at most;
    ``nic``: what a NIC beside it mostly has, Gbps; 0 where anything is usual; ``always``: none is without links.
    """

    name: str
    word: str  # NVLink or xGMI
    links: int
    spec: Fraction
    least: Fraction
    most: Fraction
    slot: Fraction
    together: int
    nic: int = 0
    always: bool = False


_GFX906_LINK = Fraction(50) * GB  # the most that AMD stated of MI50 and MI60; 33, which imports take, is measured
_NIC = {100: 400, 90: 400, 80: 200, 70: 100}  # Gbps, by compute capability: in servers with NVLink
_WHOLE = {100: 8, 90: 8, 80: 16, 70: 16}
OTHERS = ("V100", "A800", "A100", "H100", "B200")  # by what NVLink of a GPU has


@functools.cache
def limits_of(model: str) -> Limits | None:
    """The limits of ``model`` as people or drivers write it; None where it is not known."""
    if amd := amd_model(model):
        spec, least = (xgmi_rate(amd.arch, way) for way in ("spec", "nccl"))
        most = _GFX906_LINK if amd.arch == "gfx906" else spec
        return Limits(amd.name, "xGMI", amd.links, spec, least, most, pcie_rate(amd.pcie, 16, "raw"), amd.most)
    gpu = gpu_model(model)
    if gpu is None:
        return None
    spec, least, raw = (nvlink_rate(gpu.sm, way) for way in ("spec", "nccl", "raw"))
    together = _WHOLE.get(gpu.sm // 10 * 10, 16) if gpu.switched else 32
    if grace := re.search(r"G[BH]\d00", model, re.IGNORECASE):
        together = 72 if grace[0][1] in "Bb" else 256
    return Limits(
        short_name(model),
        "NVLink",
        gpu.links,
        spec,
        least,
        max(spec, raw),
        pcie_rate(gpu.pcie, 16, "raw"),
        together,
        _NIC.get(gpu.sm // 10 * 10, 0) if gpu.switched else 0,
        gpu.switched and gpu.sm // 10 == 10,
    )


def model_with(rate: Fraction) -> str:
    """The model whose NVLink of a GPU has ``rate``, in the data sheet, as counted or as signalled; "" for none."""
    for name in OTHERS:
        limits = limits_of(name)
        links = (limits.spec, limits.least, limits.most) if limits is not None else ()
        if limits is not None and any(abs(rate - link * limits.links) * 200 <= rate for link in links):
            return name
    return ""
