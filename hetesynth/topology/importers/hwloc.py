"""hwloc's XML (``lstopo --of xml``, formats 2 and 3) to a machine: PCIe tree with speeds, GPUs, NICs, NVLink.

The order of GPUs is that of CUDA, NVML or ROCm where hwloc names it, else that of bus ids. NICs are those of
InfiniBand and RoCE, and Ethernet where there are none; hwloc does not tell their rates. The matrix
``NVLinkBandwidth`` has MB/s between objects, one row after the other. Objects are given by index, with their type
in front where types differ; those that are neither GPUs nor CPUs are NVSwitches.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lxml.etree import _Element

from hetesynth.topology.importers.gpu_models import (
    MODELS,
    Calibration,
    amd_model,
    cpu_rate,
    gpu_model,
    nvlink_rate,
    pcie_rate,
    short_name,
)
from hetesynth.topology.importers.machine import Bridge, Gpu, GpuLink, Machine, Nic, Place, Remark, SwitchPort
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, refused, root_of

MAX_SPEED = 10_000  # GB/s of a slot
MAX_OBJECTS = 256
_DOCTYPE = b'<!DOCTYPE topology SYSTEM "hwloc2.dtd">'  # names a file that is never read
_GPU_VENDORS = ("10de", "1002", "1db7", "1ed5")
_COMPUTING = ("0302", "1200")
"""PCI classes of GPUs that compute and draw nothing; what draws has class 0300, on-board graphics too."""
_GPU_OSDEV = re.compile(r"(cuda|nvml|rsmi)(\d{1,4})")
_MODEL = re.compile(r"\bMI\d{2,3}[AX]?\b")  # of AMD's GPUs
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_NETWORK, _INFINIBAND = 16, 32  # bits of an osdev_type in format 3
_OLD_TYPES = {"2": _NETWORK, "3": _INFINIBAND}  # what format 2 writes
_NVLINK_MB = ((100, 50_000), (61, 25_000), (0, 20_000))  # of one NVLink, from a compute capability on
_OF_CPUS = ("Package", "NUMANode", "Machine")

Links = tuple[Sequence[SwitchPort], Sequence[GpuLink], Sequence[Remark]]
Pairs = list[tuple[int, int | str, int]]  # GPU, another GPU, "switch" or "cpu", value of a matrix


@dataclass(slots=True)
class _Tree:
    """The devices and facts that were found while walking the objects of the file."""

    old: bool  # format 2
    cpus: list[str] = field(default_factory=list)
    bridges: list[Bridge] = field(default_factory=list)
    gpus: list[tuple[tuple[int, str], Gpu, list[str]]] = field(default_factory=list)  # order, GPU, indexes
    nics: list[tuple[bool, Nic]] = field(default_factory=list)  # True for InfiniBand and RoCE
    host: str = ""
    cpu: tuple[str, str, int] = ("", "", 0)  # vendor, architecture, model


def read_hwloc(source: Source, options: ReadOptions) -> Reading:
    """Return the server of a file; HS732 where it is no such file, HS733 where it shows no GPU."""
    root = root_of(source.name, source.data.replace(_DOCTYPE, b"", 1))
    version = root.get("version", "2")
    if root.tag != "topology" or not version.startswith(("2", "3")):
        way_out = "give the output of `lstopo --of xml` of hwloc 2 or later"
        raise refused(source.name, "no topology of hwloc 2", way_out)
    tree = _Tree(old=version.startswith("2"))
    for child in root.iterchildren("object"):
        _walk(child, tree, Place(), options.calibration)
    if not tree.gpus:
        way_out = "take it with `lstopo --of xml --whole-io` on the server itself"
        raise lacking(source.name, "no GPU in it: PCI devices may be left out", way_out)
    cpus = tree.cpus or ["cpu0"]

    def rooted(place: Place) -> Place:
        """Return ``place``, below the first CPU if the file shows it below none."""
        return place if place.parent else replace(place, parent=cpus[0])

    tree.gpus.sort(key=lambda entry: entry[0])
    gpus = []
    for _, gpu, _ in tree.gpus:  # the model as stated of the file, as hwloc names it, or as stated otherwise
        listed = gpu.model if _MODEL.search(gpu.model) or gpu_model(gpu.model) else ""
        name = source.stated.model or listed or options.model or gpu.model
        model = gpu_model(name)
        gpus.append(Gpu(short_name(name) if name else "", f"sm{model.sm}" if model else "", rooted(gpu.place)))
    used = [nic for of_fabric, nic in tree.nics if of_fabric] or [nic for _, nic in tree.nics]
    nics = [replace(nic, rate=source.stated.nic_rate, place=rooted(nic.place)) for nic in used]
    numbers = {index: i for i, (_, _, indexes) in enumerate(tree.gpus) for index in indexes}
    ports, links, remarks = _gpu_links(source, root, numbers, gpus, options)
    bridges = tuple(replace(bridge, place=rooted(bridge.place)) for bridge in tree.bridges)
    told = (Remark("found", f"{len(gpus)} GPUs, {len(nics)} NICs, {len(cpus)} CPUs by hwloc"), *remarks)
    parts = (tuple(gpus), tuple(nics), tuple(cpus), bridges, cpu_rate(*tree.cpu), tuple(links), tuple(ports), told)
    return Reading((Machine(tree.host, *parts),))


def _walk(element: _Element, tree: _Tree, place: Place, calibration: Calibration) -> None:
    """Note an object, which is plugged in at ``place``, and what is below it."""
    kind, bus = element.get("type", ""), element.get("pci_busid", "")
    if kind in ("Machine", "Package"):
        infos = _infos(element)
        vendor, arch, model = tree.cpu
        model = _number(infos.get("CPUModelNumber")) or model
        tree.cpu = (infos.get("CPUVendor", vendor), infos.get("Architecture", arch), model)
        tree.host = infos.get("HostName", tree.host)[:200]
    if kind == "Package":
        tree.cpus.append(f"cpu{len(tree.cpus)}")
        place = Place(tree.cpus[-1])
    elif kind == "Bridge" and bus:
        name = f"pcie{len(tree.bridges)}"
        tree.bridges.append(Bridge(name, replace(place, rate=_speed(element, calibration), bus=bus)))
        place = replace(place, parent=name, rate=None)
    elif kind == "PCIDev":
        place = replace(place, rate=_speed(element, calibration), bus=bus)
        match = _PCI_TYPE.match(element.get("pci_type", ""))
        device_class, vendor, device = (match[1], match[2].lower(), match[3].lower()) if match else ("", "", "")
        systems = [child for child in element.iterchildren("object") if child.get("type") == "OSDev"]
        if device_class[:2] in ("03", "12") and vendor in _GPU_VENDORS:
            infos = {key: value for system in systems for key, value in _infos(system).items()}
            numbered = [m for s in systems if (m := _GPU_OSDEV.fullmatch(s.get("name", "")))]
            order = min((int(m[2]) for m in numbered), default=10**6)
            name = infos.get("GPUModel") or MODELS.get((f"0x{vendor}", f"0x{device}"), "")
            name = name or _infos(element).get("PCIDevice", "")
            listed = gpu_model(name) or amd_model(name)
            if not (numbered or listed or device_class in _COMPUTING):  # graphics of the board
                return
            indexes = []  # how a matrix may refer to it
            for item in (element, *systems):
                for key in ("gp_index", "os_index"):
                    if value := item.get(key):
                        indexes += [f"{key[:2]}:{value}", f"{key[:2]}:{item.get('type', '')}:{value}"]
            tree.gpus.append(((order, place.bus), Gpu(name[:100], "", place), indexes))
        elif device_class[:2] == "02" or device_class == "0c06":  # older InfiniBand
            for system in systems:
                text = system.get("osdev_type", "")
                types = _OLD_TYPES.get(text, 0) if tree.old else _number(text)
                if types & (_NETWORK | _INFINIBAND):
                    nic = Nic(system.get("name", "nic")[:60], None, place=place)
                    tree.nics.append((bool(types & _INFINIBAND), nic))
        return
    for child in element.iterchildren("object"):
        _walk(child, tree, place, calibration)


def _infos(element: _Element) -> dict[str, str]:
    return {info.get("name", ""): info.get("value", "") for info in element.iterchildren("info")}


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,9}", text) else 0


def _speed(element: _Element, calibration: Calibration) -> Fraction | None:
    """Return the rate of the link above a PCI device; hwloc states it after the line code, in GB/s."""
    text = element.get("pci_link_speed", "")
    if not re.fullmatch(r"\d{1,5}(\.\d{1,9})?", text) or not 0 < Fraction(text) <= MAX_SPEED:
        return None
    factor = pcie_rate("8 GT/s", 1, calibration) / pcie_rate("8 GT/s", 1, "spec")
    return Fraction(text).limit_denominator(1000) * 10**9 * factor


def _pairs(element: _Element, numbers: Mapping[str, int]) -> Pairs | None:
    """Return the values of a matrix from GPUs, off the diagonal and not 0; None if it is not square."""
    indexing, kind = element.get("indexing", "gp")[:2], element.get("type", "")
    parts = (element.iterchildren(tag) for tag in ("indexes", "u64values"))  # hwloc cuts long lists
    indexes, values = (" ".join(part.text or "" for part in of_tag).split() for of_tag in parts)
    objects: list[int | str] = []
    for word in indexes[:MAX_OBJECTS]:
        of_cpu = (word.partition(":")[0] if ":" in word else kind) in _OF_CPUS
        objects.append("cpu" if of_cpu else numbers.get(f"{indexing}:{word}", "switch"))
    if not objects or len(values) != len(objects) ** 2:
        return None
    square = zip(((one, other) for one in objects for other in objects), map(_number, values), strict=True)
    return [
        (one, other, value) for (one, other), value in square if isinstance(one, int) and one != other and value
    ]


def _gpu_links(
    source: Source, root: _Element, numbers: Mapping[str, int], gpus: Sequence[Gpu], options: ReadOptions
) -> Links:
    """Return the ports into NVSwitches, the links between GPUs and remarks; ``numbers``: GPUs by index."""
    matrices = {e.get("name", ""): e for e in root.iter("distances2", "distances2hetero")}
    if "XGMIBandwidth" in matrices:
        what = "hwloc does not tell which GPUs have how many xGMI links with each other"
        raise lacking(source.name, what, "give `amd-smi topology --json`, or NCCL_TOPO_DUMP_FILE's XML")
    models = [gpu_model(gpu.model) for gpu in gpus]
    matrix = _pairs(matrices["NVLinkBandwidth"], numbers) if "NVLinkBandwidth" in matrices else []
    if not matrix:
        doubtful = len(gpus) > 1 and any(model and model.switched for model in models)
        text = "no square NVLinkBandwidth, though these GPUs mostly have NVLink: was lstopo built with NVML?"
        return (), (), (Remark("suspicious", text),) if doubtful or matrix is None else ()
    pairs: dict[tuple[int, int], int] = {}
    lanes: dict[int, int] = defaultdict(int)
    for one, other, value in matrix:
        model = models[one]
        unit = next(unit for least, unit in _NVLINK_MB if (model.sm if model else 70) >= least)
        count = max(value // unit, 1)
        if isinstance(other, int):
            pair = (min(one, other), max(one, other))
            pairs[pair] = min(pairs.get(pair, count), count)
        elif other == "switch":
            lanes[one] += count
    rates = [nvlink_rate(model.sm if model else 0, options.calibration) for model in models]
    ports = [SwitchPort(gpu, count, rates[gpu]) for gpu, count in sorted(lanes.items())]
    links = [GpuLink(a, b, count, rates[a]) for (a, b), count in sorted(pairs.items()) if a not in lanes]
    return ports, links, ()
