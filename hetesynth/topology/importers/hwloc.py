"""hwloc's XML (``lstopo --of xml``, formats 2 and 3) to a machine: PCIe tree with speeds, GPUs, NICs, NVLink.

GPUs are PCI devices of the classes of GPUs; their order is that of CUDA, NVML or ROCm where hwloc names it,
else that of bus ids. NICs are those of InfiniBand and RoCE, and Ethernet where there are none; hwloc does not
tell their rates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hetesynth.topology.importers.gpu_models import gpu_model, short_name
from hetesynth.topology.importers.hwloc_links import GpuPlaces, gpu_links
from hetesynth.topology.importers.machine import Bridge, Cpu, CpuLink, Gpu, Machine, Nic, Place, Remark
from hetesynth.topology.importers.nccl_models import model_of
from hetesynth.topology.importers.rates import Calibration, cpu_rate, pcie_rate
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, Stated, lacking, refused
from hetesynth.topology.importers.xml_source import root_of

if TYPE_CHECKING:
    from lxml import etree

HELP = "give the output of `lstopo --of xml`, of hwloc 2 or later"
MAX_SPEED = 10_000  # GB/s of a slot
_DOCTYPE = b'<!DOCTYPE topology SYSTEM "hwloc2.dtd">'  # names a file that is never read
_GPU_VENDORS = ("10de", "1002", "1db7", "1ed5")
_GPU_OSDEV = re.compile(r"(cuda|nvml|rsmi)(\d{1,4})")
_MODEL = re.compile(r"\bMI\d{2,3}[AX]?\b")  # of AMD's GPUs
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_NETWORK, _INFINIBAND = 16, 32  # bits of an osdev_type in format 3
_OLD_TYPES = {"2": _NETWORK, "3": _INFINIBAND}  # what format 2 writes


@dataclass(slots=True)
class _Tree:
    """What was met while the objects were walked."""

    cpus: list[Cpu] = field(default_factory=list)
    bridges: list[Bridge] = field(default_factory=list)
    gpus: list[tuple[tuple[int, str], Gpu, tuple[str, ...]]] = field(default_factory=list)  # order, GPU, indexes
    nics: list[tuple[bool, Nic]] = field(default_factory=list)  # whether of InfiniBand or RoCE
    host: str = ""
    cpu: tuple[str, str, int] = ("", "", 0)  # vendor, architecture, model
    old: bool = True  # format 2


def read_hwloc(source: Source, options: ReadOptions) -> Reading:
    """The server of a file. HS732 where it is no such file, HS733 where it shows no GPU."""
    root = root_of(replace(source, data=source.data.replace(_DOCTYPE, b"", 1)))
    if root.tag != "topology" or not root.get("version", "2").startswith(("2", "3")):
        raise refused(source, "no topology of hwloc 2", HELP)
    tree = _Tree(old=root.get("version", "2").startswith("2"))
    for child in root.iterchildren("object"):
        _walk(child, tree, Place(), options.calibration)
    if not tree.gpus:
        raise lacking(source, "no GPU in it: PCI devices may be left out",
            "take it with `lstopo --of xml --whole-io` on the server itself")  # fmt: skip
    return Reading((_machine(source, root, tree, options),))


def _walk(element: etree._Element, tree: _Tree, place: Place, calibration: Calibration) -> None:
    """Note an object and what is below it; ``place``: where it is plugged in."""
    kind = element.get("type", "")
    if kind == "Machine":
        infos = _infos(element)
        tree.host = infos.get("HostName", "")[:200]
        tree.cpu = (
            infos.get("CPUVendor", ""),
            infos.get("Architecture", ""),
            _number(infos.get("CPUModelNumber")),
        )
    elif kind == "Package":
        infos = _infos(element)
        vendor = infos.get("CPUVendor", tree.cpu[0])
        tree.cpu = (vendor, tree.cpu[1], _number(infos.get("CPUModelNumber")) or tree.cpu[2])
        numa = next(
            (_number(e.get("os_index")) for e in element.iter("object") if e.get("type") == "NUMANode"), None
        )
        tree.cpus.append(Cpu(f"cpu{len(tree.cpus)}", numa, vendor))
        place = Place(tree.cpus[-1].name, numa=numa)
    elif kind == "Bridge":
        rate = _speed(element, calibration)
        if element.get("pci_busid"):
            name = f"pcie{len(tree.bridges)}"
            tree.bridges.append(Bridge(name, replace(place, rate=rate, bus=element.get("pci_busid", ""))))
            place = replace(place, parent=name, rate=None)
    elif kind == "PCIDev":
        _device(element, tree, replace(place, rate=_speed(element, calibration), bus=element.get("pci_busid", "")))
        return
    for child in element.iterchildren("object"):
        _walk(child, tree, place, calibration)


def _infos(element: etree._Element) -> dict[str, str]:
    return {info.get("name", ""): info.get("value", "") for info in element.iterchildren("info")}


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,9}", text) else 0


def _speed(element: etree._Element, calibration: Calibration) -> Fraction | None:
    """The rate of the link above a PCI device: hwloc states what remains after the line code, in GB/s."""
    text = element.get("pci_link_speed", "")
    if not re.fullmatch(r"\d{1,5}(\.\d{1,9})?", text) or not 0 < Fraction(text) <= MAX_SPEED:
        return None
    factor = pcie_rate("8 GT/s", 1, calibration) / pcie_rate("8 GT/s", 1, "spec")
    return Fraction(text).limit_denominator(1000) * 10**9 * factor


def _device(element: etree._Element, tree: _Tree, place: Place) -> None:
    """Note a PCI device if it is a GPU or a NIC."""
    match = _PCI_TYPE.match(element.get("pci_type", ""))
    device_class, vendor, device = (match[1], match[2].lower(), match[3].lower()) if match else ("", "", "")
    systems = [child for child in element.iterchildren("object") if child.get("type") == "OSDev"]
    if device_class[:2] in ("03", "12") and vendor in _GPU_VENDORS:
        infos = {key: value for system in systems for key, value in _infos(system).items()}
        numbered = [m for s in systems if (m := _GPU_OSDEV.fullmatch(s.get("name", "")))]
        order = min((int(m[2]) for m in numbered), default=10**6)
        name = infos.get("GPUModel") or model_of(f"0x{vendor}", f"0x{device}")
        name = name or _infos(element).get("PCIDevice", "")
        indexes = tuple(index for item in (element, *systems) for index in _indexes(item))
        tree.gpus.append(((order, place.bus), Gpu(name[:100], "", place), indexes))
    elif device_class[:2] == "02":
        for system in systems:
            text = system.get("osdev_type", "")
            types = _OLD_TYPES.get(text, 0) if tree.old else _number(text)
            if types & (_NETWORK | _INFINIBAND):
                nic = Nic(system.get("name", "nic")[:60], None, place=place)
                tree.nics.append((bool(types & _INFINIBAND), nic))


def _indexes(element: etree._Element) -> Iterator[str]:
    """How a matrix of distances may refer to an object."""
    kind = element.get("type", "")
    for key in ("gp_index", "os_index"):
        if value := element.get(key):
            yield f"{key[:2]}:{value}"
            yield f"{key[:2]}:{kind}:{value}"


def _machine(source: Source, root: etree._Element, tree: _Tree, options: ReadOptions) -> Machine:
    """The machine of the walk, with the links of the matrices."""
    stated = source.stated
    cpus = tree.cpus or [Cpu("cpu0")]
    ordered = sorted(tree.gpus, key=lambda entry: entry[0])
    gpus = tuple(_gpu(gpu, stated, options, cpus) for _, gpu, _ in ordered)
    fabric = [nic for is_fabric, nic in tree.nics if is_fabric]
    nics = [
        replace(n, rate=stated.nic_rate, place=_rooted(n.place, cpus)) for n in fabric or [n for _, n in tree.nics]
    ]
    places: GpuPlaces = {index: i for i, (_, _, indexes) in enumerate(ordered) for index in indexes}
    ports, links, remarks = gpu_links(source, root, places, gpus, options)
    between = cpu_rate(*tree.cpu)
    cpu_links = tuple(CpuLink(a.name, b.name, between) for i, a in enumerate(cpus) for b in cpus[i + 1 :])
    bridges = tuple(replace(b, place=_rooted(b.place, cpus)) for b in tree.bridges)
    notes = [Remark("found", f"{len(gpus)} GPUs, {len(nics)} NICs, {len(cpus)} CPUs by hwloc"), *remarks]
    return Machine(tree.host, gpus, tuple(nics), tuple(cpus), bridges, cpu_links, links, ports, tuple(notes))


def _rooted(place: Place, cpus: list[Cpu]) -> Place:
    """A place below the first CPU, where the file shows it below none."""
    return place if place.parent else replace(place, parent=cpus[0].name)


def _gpu(gpu: Gpu, stated: Stated, options: ReadOptions, cpus: list[Cpu]) -> Gpu:
    """A GPU with its model, as stated of the file, as hwloc names it, or as stated otherwise."""
    name = stated.model or (gpu.model if _MODEL.search(gpu.model) or gpu_model(gpu.model) else "")
    name = name or options.model or gpu.model
    model = gpu_model(name)
    return Gpu(short_name(name) if name else "", f"sm{model.sm}" if model else "", _rooted(gpu.place, cpus))
