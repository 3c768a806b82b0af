"""hwloc's XML (``lstopo --of xml``, formats 2 and 3) to a machine: PCIe tree with speeds, GPUs, NICs, NVLink.

GPUs are PCI devices of the classes of GPUs; their order is that of CUDA, NVML or ROCm where hwloc names it,
else that of bus ids. NICs are those of InfiniBand and RoCE, and Ethernet where there are none; hwloc does not
tell their rates. Links between GPUs and ports into NVSwitches are in the matrices ``NVLinkBandwidth`` and
``XGMIBandwidth``: MB/s between objects, one row after the other. Objects are given by index, with their type in
front where types differ; those that are neither GPUs nor CPUs are NVSwitches.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from hetesynth.topology.importers.gpu_models import amd_model, gpu_model, model_of, short_name
from hetesynth.topology.importers.machine import (
    Bridge,
    Cpu,
    CpuLink,
    Gpu,
    GpuLink,
    Machine,
    Nic,
    Place,
    Remark,
    SwitchPort,
)
from hetesynth.topology.importers.rates import Calibration, cpu_rate, nvlink_rate, pcie_rate, xgmi_rate
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, refused, root_of

if TYPE_CHECKING:
    from lxml import etree

MAX_SPEED = 10_000  # GB/s of a slot
MAX_OBJECTS = 256
_DOCTYPE = b'<!DOCTYPE topology SYSTEM "hwloc2.dtd">'  # names a file that is never read
_GPU_VENDORS = ("10de", "1002", "1db7", "1ed5")
_GPU_OSDEV = re.compile(r"(cuda|nvml|rsmi)(\d{1,4})")
_MODEL = re.compile(r"\bMI\d{2,3}[AX]?\b")  # of AMD's GPUs
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_NETWORK, _INFINIBAND = 16, 32  # bits of an osdev_type in format 3
_OLD_TYPES = {"2": _NETWORK, "3": _INFINIBAND}  # what format 2 writes
_XGMI_MB = 50_000  # MB/s of one xGMI link
_XGMI_UNTOLD = 100_000  # what hwloc writes for every pair that ROCm SMI calls XGMI, direct or not
_NVLINK_MB = ((100, 50_000), (61, 25_000), (0, 20_000))  # of one NVLink, from a compute capability on
_ONE_CARD = 2  # GPUs of an MI250, which always are neighbours
_OF_CPUS = ("Package", "NUMANode", "Machine")

Links = tuple[Sequence[SwitchPort], Sequence[GpuLink], Sequence[Remark]]
Pairs = list[tuple[int, int | str, int]]  # GPU, another GPU, "switch" or "cpu", value of a matrix


@dataclass(slots=True)
class _Tree:
    """What was met while the objects were walked."""

    old: bool  # format 2
    cpus: list[Cpu] = field(default_factory=list)
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
        what = "no topology of hwloc 2"
        raise refused(source.name, what, "give the output of `lstopo --of xml`, of hwloc 2 or later")
    tree = _Tree(old=version.startswith("2"))
    for child in root.iterchildren("object"):
        _walk(child, tree, Place(), options.calibration)
    if not tree.gpus:
        way_out = "take it with `lstopo --of xml --whole-io` on the server itself"
        raise lacking(source.name, "no GPU in it: PCI devices may be left out", way_out)
    cpus = tree.cpus or [Cpu("cpu0")]

    def rooted(place: Place) -> Place:
        """Below the first CPU, where the file shows it below none."""
        return place if place.parent else replace(place, parent=cpus[0].name)

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
    between = cpu_rate(*tree.cpu)
    bridges = tuple(replace(bridge, place=rooted(bridge.place)) for bridge in tree.bridges)
    joined = tuple(CpuLink(a.name, b.name, between) for a, b in combinations(cpus, 2))
    told = (Remark("found", f"{len(gpus)} GPUs, {len(nics)} NICs, {len(cpus)} CPUs by hwloc"), *remarks)
    parts = (tuple(gpus), tuple(nics), tuple(cpus), bridges, joined, tuple(links), tuple(ports), told)
    machine = Machine(tree.host, *parts)
    return Reading((machine,))


def _walk(element: etree._Element, tree: _Tree, place: Place, calibration: Calibration) -> None:
    """Note an object and what is below it; ``place``: where it is plugged in."""
    kind, bus = element.get("type", ""), element.get("pci_busid", "")
    if kind == "Machine":
        infos = _infos(element)
        tree.host = infos.get("HostName", "")[:200]
        model = _number(infos.get("CPUModelNumber"))
        tree.cpu = (infos.get("CPUVendor", ""), infos.get("Architecture", ""), model)
    elif kind == "Package":
        infos = _infos(element)
        vendor, arch, model = tree.cpu
        model = _number(infos.get("CPUModelNumber")) or model
        tree.cpu = (infos.get("CPUVendor", vendor), arch, model)
        nodes = (e for e in element.iter("object") if e.get("type") == "NUMANode")
        numa = next((_number(node.get("os_index")) for node in nodes), None)
        tree.cpus.append(Cpu(f"cpu{len(tree.cpus)}", numa))
        place = Place(tree.cpus[-1].name, numa=numa)
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
            name = infos.get("GPUModel") or model_of(f"0x{vendor}", f"0x{device}")
            name = name or _infos(element).get("PCIDevice", "")
            indexes = []  # how a matrix may refer to it
            for item in (element, *systems):
                for key in ("gp_index", "os_index"):
                    if value := item.get(key):
                        indexes += [f"{key[:2]}:{value}", f"{key[:2]}:{item.get('type', '')}:{value}"]
            tree.gpus.append(((order, place.bus), Gpu(name[:100], "", place), indexes))
        elif device_class[:2] == "02":
            for system in systems:
                text = system.get("osdev_type", "")
                types = _OLD_TYPES.get(text, 0) if tree.old else _number(text)
                if types & (_NETWORK | _INFINIBAND):
                    nic = Nic(system.get("name", "nic")[:60], None, place=place)
                    tree.nics.append((bool(types & _INFINIBAND), nic))
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


def _pairs(element: etree._Element, numbers: Mapping[str, int]) -> Pairs | None:
    """Every value of a matrix off the diagonal that is a GPU's and not 0; None where it is not square."""
    indexing, kind = element.get("indexing", "gp")[:2], element.get("type", "")
    objects: list[int | str] = []
    for word in _words(element, "indexes"):
        of_cpu = (word.partition(":")[0] if ":" in word else kind) in _OF_CPUS
        objects.append("cpu" if of_cpu else numbers.get(f"{indexing}:{word}", "switch"))
    values = iter([int(word) for word in _words(element, "u64values") if re.fullmatch(r"\d{1,15}", word)])
    square = [(one, other, value) for one in objects for other, value in zip(objects, values, strict=False)]
    if not 1 <= len(objects) <= MAX_OBJECTS or len(square) != len(objects) ** 2 or next(values, None) is not None:
        return None
    return [(one, other, value) for one, other, value in square if isinstance(one, int) and one != other and value]


def _words(element: etree._Element, tag: str) -> Iterator[str]:
    """The words of all children of that tag: hwloc cuts long lists."""
    for child in element.iterchildren(tag):
        yield from (child.text or "").split()


def _gpu_links(
    source: Source, root: etree._Element, numbers: Mapping[str, int], gpus: Sequence[Gpu], options: ReadOptions
) -> Links:
    """What the matrices of a file say; ``numbers``: of the GPUs by index. Nothing where it has none.

    HS733 where neither the values nor the model tell which pairs have how many xGMI links. XGMIHops is 1 for every
    pair where ROCm SMI was asked, so it is only used where it tells pairs apart.
    """
    named = {e.get("name", ""): e for e in root.iter("distances2", "distances2hetero")}
    name = next((name for name in ("NVLinkBandwidth", "XGMIBandwidth") if name in named), "")
    models = [gpu_model(gpu.model) for gpu in gpus]
    if not name:
        doubtful = len(gpus) > 1 and any(model and model.switched for model in models)
        text = "no NVLinkBandwidth in the file, though these GPUs mostly have NVLink: was lstopo built with NVML?"
        return (), (), (Remark("suspicious", text),) if doubtful else ()
    matrix = _pairs(named[name], numbers)
    if matrix is None:
        return (), (), (Remark("suspicious", "a matrix of links that is not square is passed over"),)
    if name == "XGMIBandwidth":
        facts = amd_model(gpus[0].model) or amd_model("MI300X")
        single = facts is None or facts.single
        hops = _pairs(named["XGMIHops"], numbers) if "XGMIHops" in named else None
        far = {(a, b) for a, b, value in hops or () if value > 1}
        values = {(a, b): value for a, b, value in matrix if isinstance(b, int) and a < b and (a, b) not in far}
        if not single and not far and (set(values.values()) == {_XGMI_UNTOLD} or len(gpus) > _ONE_CARD):
            what = "hwloc does not tell which GPUs have how many xGMI links with each other"
            raise lacking(source.name, what, "give `amd-smi topology --json`, or NCCL_TOPO_DUMP_FILE's XML")
        rate = xgmi_rate(facts.arch if facts else "", options.calibration)
        counts = {pair: 1 if single else max(value // _XGMI_MB, 1) for pair, value in values.items()}
        return (), [GpuLink(a, b, count, rate, "xgmi") for (a, b), count in counts.items()], ()
    # links between GPUs, and ports into NVSwitches; those to CPUs (POWER) are told of
    pairs: dict[tuple[int, int], int] = {}
    lanes: dict[int, int] = defaultdict(int)
    to_cpus = False
    uneven: set[int] = set()
    for one, other, value in matrix:
        model = models[one]
        unit = next(unit for least, unit in _NVLINK_MB if (model.sm if model else 70) >= least)
        count = max(value // unit, 1)
        if value % unit:
            uneven.add(unit)
        if other == "cpu":
            to_cpus = True
        elif isinstance(other, int):
            pair = (min(one, other), max(one, other))
            pairs[pair] = min(pairs.get(pair, count), count)
        else:
            lanes[one] += count
    remarks = [Remark("suspicious", f"links that carry no multiple of {u} MB/s") for u in sorted(uneven)]
    if to_cpus:
        remarks.append(Remark("found", "GPUs have NVLinks to their CPU, which are not used here"))
    rates = [nvlink_rate(model.sm if model else 0, options.calibration) for model in models]
    ports = [SwitchPort(gpu, count, rates[gpu]) for gpu, count in sorted(lanes.items())]
    links = [GpuLink(a, b, count, rates[a]) for (a, b), count in sorted(pairs.items()) if a not in lanes]
    return ports, links, remarks
