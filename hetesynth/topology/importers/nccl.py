"""NCCL's and RCCL's topology file (NCCL_TOPO_DUMP_FILE) -> the servers that it describes.

A full dump has GPUs, their links and NICs. A skeleton, as clouds ship it for NCCL_TOPO_FILE, has the PCIe tree
alone and needs a node type of the library. A dump of several hosts is that of one NVLink domain.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from hetesynth.topology.importers.gpu_models import gpu_model, model_of, nic_rate_of
from hetesynth.topology.importers.machine import (
    MAX_GPUS_OF_A_MACHINE,
    Bridge,
    Cpu,
    CpuLink,
    Gpu,
    GpuLink,
    Machine,
    Nic,
    Place,
    Remark,
    RemarkKind,
    SwitchPort,
)
from hetesynth.topology.importers.node_types import file_of, nic_rates, with_nics
from hetesynth.topology.importers.rates import (
    Calibration,
    cpu_rate,
    nvlink_rate,
    pcie_rate,
    pcie_speed_is_known,
    xgmi_rate,
)
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, refused, root_of
from hetesynth.topology.importers.wording import bandwidth, network_rate, numbers, parts
from hetesynth.topology.language.library import library_type

if TYPE_CHECKING:
    from lxml import etree

_TEXT = re.compile(r"(?s:.{1,255})")  # what NCCL's own parser takes
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_MAX_LANES = 256
_BUS = re.compile(r"[0-9a-fA-F:.]{1,24}")
_SWITCH, _CPU = "0x0680", "0x068001"
_HIDDEN = "fffffff"  # how the address begins that stands for a switch which the server cannot see
_BELIEVABLE = 1_600_000  # Mb/s: twice the fastest port there is
_UNSTATED = 10_000  # Mb/s, as NCCL takes it
_HOPPER = 90


@dataclass(frozen=True, slots=True)
class _Slot:
    """A ``<pci>`` or a place directly below a CPU, where ``direct`` is true and there is no rate."""

    parent: str
    bus: str = ""
    kind: str = ""  # class
    vendor: str = ""
    device: str = ""
    speed: str = ""
    width: int = 0
    direct: bool = False

    def place(self, calibration: Calibration) -> Place:
        if self.direct:
            return Place(self.parent)
        return Place(self.parent, pcie_rate(self.speed, abs(self.width), calibration), self.bus)


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A ``<gpu>`` or ``<apu>`` in its slot. ``part``: which one it is of a split GPU (MLOPart).

    ``links``: tag, target, count and class of every ``<nvlink>`` and ``<xgmi>``.
    """

    slot: _Slot
    tag: str
    dev: int
    sm: int
    arch: str
    rank: str | None
    links: tuple[tuple[str, str, int, str], ...]
    c2c: bool
    part: int | None


@dataclass(frozen=True, slots=True)
class _Net:
    """A ``<net>``: speed in Mb/s, latency in us."""

    slot: _Slot
    name: str
    speed: int
    latency: str
    guid: str


@dataclass(slots=True)
class _Host:
    """Everything of one host: CPUs with their affinity and rate between them, bridges by name.

    ``bare``: GPU and NIC slots without a ``<gpu>`` or ``<nic>``.
    """

    identity: str
    cpus: list[tuple[Cpu, str, Fraction]] = field(default_factory=list)
    bridges: dict[str, _Slot] = field(default_factory=dict)
    gpus: list[_Gpu] = field(default_factory=list)
    nets: list[_Net] = field(default_factory=list)
    bare_gpus: int = 0
    bare_nics: list[_Slot] = field(default_factory=list)
    buses: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Attributes:
    """Reads those of an element of the file called ``name``; HS732 where one is not what it should be."""

    name: str
    element: etree._Element

    def text(self, attribute: str, form: re.Pattern[str] = _TEXT, what: str = "text of 255 characters") -> str:
        text = (self.element.get(attribute) or "").strip()
        if text and not form.fullmatch(text):
            raise refused(self.name, f"<{self.element.tag}> has {attribute}={text[:40]!r}, which is no {what}")
        return text

    def bus(self, attribute: str) -> str:
        return self.text(attribute, _BUS, "PCI address").lower()

    def number(self, attribute: str) -> int | None:
        text = self.text(attribute, _NUMBER, "number")
        return int(text) if text else None


def read(source: Source, options: ReadOptions) -> Reading:
    """Return the servers of one file; HetesynthError HS732, HS733."""
    root = root_of(source.name, source.data)
    if root.tag == "graphs":
        what = "it is a dump of NCCL's graph search, which says nothing about the hardware"
        help_ = "give it to synth or compare with --rings; the topology is what NCCL_TOPO_DUMP_FILE writes"
        raise refused(source.name, what, help_)
    if root.tag != "system":
        raise refused(source.name, f"its root element is <{str(root.tag)[:40]}>, not <system>")
    by_identity: dict[str, _Host] = {}
    for element in root.iter("cpu"):
        stated = _Attributes(source.name, element)
        identity = stated.text("host_hash")
        host = by_identity.setdefault(identity, _Host(identity))
        cpu = Cpu(f"cpu{len(host.cpus)}", stated.number("numaid"))
        affinity, arch, vendor = (stated.text(attribute) for attribute in ("affinity", "arch", "vendor"))
        host.cpus.append((cpu, affinity, cpu_rate(vendor, arch, stated.number("modelid") or 0)))
        _take_in(source.name, host, element, _Slot(cpu.name, direct=True))
    hosts = list(by_identity.values())
    if not hosts:
        raise refused(source.name, "it has no <cpu>, so nothing hangs anywhere")
    if any(len(host.gpus) > MAX_GPUS_OF_A_MACHINE or len(host.cpus) > 256 for host in hosts):
        raise refused(source.name, "it has more GPUs or CPUs than a server can have")
    if not any(host.gpus for host in hosts):
        return Reading((_skeleton(source, hosts, options),))
    machines = []
    for host in hosts:  # with the GPUs that NCCL uses, in the order of their numbers
        gpus = [gpu for gpu in host.gpus if gpu.rank is not None or gpu.tag == "apu"]
        if gpus:
            machines.append(_machine(source, host, sorted(gpus, key=lambda gpu: gpu.dev), options))
    remarks = []
    if len(machines) > 1:
        domain = f"domain of {source.name}"
        machines = [replace(machine, domain=domain if machine.ports else "") for machine in machines]
        where = "in one NVLink domain" if all(machine.domain for machine in machines) else "in one file"
        remarks.append(Remark("found", f"{len(machines)} hosts {where}"))
    if options.node_type:
        remarks.append(Remark("found", f"{source.name} lists its GPUs, so that --node-type is not used for it"))
    return Reading(tuple(machines), remarks=tuple(remarks))


def _take_in(name: str, host: _Host, top: etree._Element, slot: _Slot) -> None:
    """Note what is below ``top``, in document order; unknown elements are passed through."""
    stack = [(child, slot) for child in reversed(top) if isinstance(child.tag, str)]
    while stack:
        element, here = stack.pop()
        stated = _Attributes(name, element)
        match element.tag:
            case "pci":
                bus = stated.bus("busid")
                kind, vendor, device = (stated.text(one).lower() for one in ("class", "vendor", "device"))
                speed, width = stated.text("link_speed"), stated.number("link_width") or 0
                here = _Slot(here.parent, bus, kind, vendor, device, speed, width)
                if here.bus:
                    host.buses.append(here.bus)
                tags = {child.tag for child in element.iter() if isinstance(child.tag, str)} - {"pci", "pcilink"}
                if element.find("pci") is not None or (here.kind.startswith("0x0604") and tags):
                    bridge = f"bridge{len(host.bridges)}"
                    host.bridges[bridge] = here
                    here = _Slot(bridge, direct=True)
                elif not tags and here.kind.startswith(("0x03", "0x12")):
                    host.bare_gpus += 1
                elif not tags and here.kind.startswith("0x02"):
                    host.bare_nics.append(here)
            case "gpu" | "apu":
                links = []
                for link in (*element.iterfind("nvlink"), *element.iterfind("xgmi")):
                    own = _Attributes(name, link)
                    links.append((str(link.tag), own.bus("target"), own.number("count") or 0, own.text("tclass")))
                gcn = stated.text("gcn").lower()
                arch = {"": "", "910": "gfx90a"}.get(gcn, gcn if gcn.startswith("gfx") else f"gfx{gcn}")
                sm, dev = max(0, stated.number("sm") or 0), stated.number("dev")
                number, c2c = len(host.gpus) if dev is None else dev, element.find("c2c") is not None
                rank, part = element.get("rank"), stated.number("mlopart")
                arch = arch or (f"sm{sm}" if sm else "")
                host.gpus.append(_Gpu(here, str(element.tag), number, sm, arch, rank, tuple(links), c2c, part))
            case "net" if element.get("dev") is not None:  # NCCL passes the others over
                label = stated.text("name") or f"net{len(host.nets)}"
                mbps = stated.number("speed") or 0
                host.nets.append(_Net(here, label, mbps, stated.text("latency"), stated.text("guid")))
                stated.number("port")  # nothing here counts it, but it is refused where it is none
            case "cpu":
                continue
        stack += [(child, here) for child in reversed(element) if isinstance(child.tag, str)]


def _skeleton(source: Source, hosts: Sequence[_Host], options: ReadOptions) -> Machine:
    """A file without GPUs, under the node type that the user names."""
    gpus = sum(host.bare_gpus for host in hosts)
    nics = [slot for host in hosts for slot in host.bare_nics]
    seen = f"{gpus} slots of GPUs and {len(nics)} of NICs"
    if not options.node_type:
        what = f"it is a skeleton without GPUs, NVLinks and NIC speeds ({seen})"
        way_out = "name the kind of server with --node-type, for example --node-type a100x8"
        raise lacking(source.name, what, way_out)
    file_of(options.node_type)
    expected = library_type(options.node_type).gpus
    if gpus and gpus != expected:
        what = f"it has {seen}, a {options.node_type} has {expected} GPUs"
        raise refused(source.name, what, "name another --node-type")
    text = f"{source.name} is a skeleton with {seen}; everything else is the library's {options.node_type}"
    of_devices = {nic_rate_of(slot.vendor, slot.device) for slot in nics}
    rate = source.stated.nic_rate or (of_devices.pop() if len(of_devices) == 1 else None) or options.nic_rate
    node_type, doubts = with_nics(options.node_type, len(nics), rate)
    machine = Machine("", (), node_type=node_type)
    carried = max(nic_rates(machine), default=Fraction(0))
    slots = [pcie_rate(slot.speed, abs(slot.width), "spec") for slot in nics if pcie_speed_is_known(slot.speed)]
    if slots and min(slots) < carried:
        slow = bandwidth(min(slots))
        doubts += (f"NICs of {network_rate(carried)} in slots of {slow}: --nic-rate states theirs",)
    remarks = (Remark("suspicious", f"{source.name}: {doubt}") for doubt in doubts)
    return replace(machine, remarks=(Remark("assumed", text), *remarks))


def _machine(source: Source, host: _Host, gpus: Sequence[_Gpu], options: ReadOptions) -> Machine:
    calibration = options.calibration
    links, link_remarks = _links(source.name, gpus, calibration)
    devices = []
    for gpu in gpus:
        model = source.stated.model or model_of(gpu.slot.vendor, gpu.slot.device) or options.model
        place, facts = gpu.slot.place(calibration), gpu_model(model)
        if facts and not gpu.slot.direct and not pcie_speed_is_known(gpu.slot.speed):
            place = replace(place, rate=pcie_rate(facts.pcie, 0, calibration))  # 16 lanes of what it is made for
        devices.append(Gpu(model, gpu.arch, place))
    nics = []
    for net in host.nets:
        speed = net.speed if net.speed > 0 else _UNSTATED
        if speed > _BELIEVABLE:
            speed = max(1, speed // 1000)  # written in kb/s
        rate = source.stated.nic_rate or (net.speed <= 0 and options.nic_rate) or Fraction(speed) * 10**6 / 8
        digits = net.latency.replace(".", "", 1)
        latency = Fraction(net.latency[:16]) / 10**6 if digits.isascii() and digits.isdigit() else Fraction(0)
        place = net.slot.place(calibration)
        if not pcie_speed_is_known(net.slot.speed):
            place = replace(place, rate=None)
        nics.append(Nic(net.name, rate, latency, place))
    bridges, bridge_remarks = _bridges(host, devices, nics, calibration)
    ports = []  # NVSwitches are one switch to those who use them
    shares = _rates(gpus, "nvlink", calibration)
    for i, gpu in enumerate(gpus):
        lanes = sum(max(0, count) for _, target, count, kind in gpu.links if _is_switch(target, kind))
        if lanes > _MAX_LANES:
            raise refused(source.name, f"GPU {gpu.dev} has {lanes} links")
        if lanes:
            ports.append(SwitchPort(i, lanes, shares[i]))
    between = {cpu.name: rate for cpu, _, rate in host.cpus}
    cpu_links = tuple(CpuLink(a, b, min(between[a], between[b])) for a, b in combinations(between, 2))
    tree = (tuple(cpu for cpu, _, _ in host.cpus), bridges, cpu_links)
    machine = Machine("", tuple(devices), tuple(nics), *tree, links, tuple(ports), identity=host.identity)
    remarks = [
        *link_remarks,
        *bridge_remarks,
        *_remarks_on_gpus(gpus, machine),
        *_remarks_on_nics(host, machine, source, options),
        *_remarks_on_identities(host, gpus),
    ]
    return replace(machine, remarks=tuple(remarks))


def _rates(gpus: Sequence[_Gpu], tag: str, calibration: Calibration) -> list[Fraction]:
    """What each GPU has of a link. Parts of a GPU (MLOPart) list all of its links and share them, as in NCCL."""
    parts_in = Counter(gpu.slot.bus for gpu in gpus if gpu.part is not None)
    return [
        (xgmi_rate(gpu.arch, calibration) if tag == "xgmi" else nvlink_rate(gpu.sm, calibration))
        / (parts_in[gpu.slot.bus] or 1)
        for gpu in gpus
    ]


def _is_switch(target: str, kind: str) -> bool:
    return target.startswith(_HIDDEN) or (kind.startswith(_SWITCH) and not kind.startswith(_CPU))


def _links(name: str, gpus: Sequence[_Gpu], calibration: Calibration) -> tuple[tuple[GpuLink, ...], list[Remark]]:
    """Direct links, which the file states from both ends."""
    ranks: dict[str, list[int]] = {}  # several where a GPU is split
    for i, gpu in enumerate(gpus):
        if gpu.slot.bus:
            ranks[gpu.slot.bus] = [*(ranks.get(gpu.slot.bus, []) if gpu.part is not None else []), i]
    counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    dropped: dict[str, list[int]] = defaultdict(list)
    for i, gpu in enumerate(gpus):
        for tag, target, count, kind in gpu.links:
            if _is_switch(target, kind) or kind.startswith(_CPU) or count < 1:
                continue
            peers = ranks.get(target, [])
            if not peers or i in peers:
                dropped["itself" if i in peers else "a device that the file does not list"].append(i)
                continue
            for peer in peers:
                counts[i, peer][tag] += count
    remarks = [
        Remark("suspicious", f"{parts('gpu', sorted(set(those)))}: links to {what} are left out")
        for what, those in dropped.items()
    ]
    links = []
    rates = {tag: _rates(gpus, tag, calibration) for tag in ("nvlink", "xgmi")}
    parts_of = [len(ranks.get(gpu.slot.bus, [i])) for i, gpu in enumerate(gpus)]
    for a, b in sorted({(min(pair), max(pair)) for pair in counts}):
        there, back = counts.get((a, b), Counter()), counts.get((b, a), Counter())
        tag = "xgmi" if "xgmi" in there or "xgmi" in back else "nvlink"
        told = [total for total in (there.total(), back.total()) if total]
        if len(set(told)) > 1 or len(told) < 2:
            text = f"gpu{a} and gpu{b} disagree on their links: {there.total()} and {back.total()}"
            remarks.append(Remark("suspicious", f"{text}; {min(told)} taken"))
        if min(told) > _MAX_LANES:
            raise refused(name, f"GPUs {gpus[a].dev} and {gpus[b].dev} have {min(told)} links")
        rate = min(rates[tag][a] / parts_of[b], rates[tag][b] / parts_of[a])
        links.append(GpuLink(a, b, min(told), rate, tag))
    return tuple(links), remarks


def _bridges(
    host: _Host, gpus: Sequence[Gpu], nics: Sequence[Nic], calibration: Calibration
) -> tuple[tuple[Bridge, ...], list[Remark]]:
    """Bridges with their rates; one that a hypervisor invented, or whose speed is not told, gets that of the
    fastest device below it."""
    below: dict[str, Fraction] = defaultdict(Fraction)
    devices: tuple[Gpu | Nic, ...] = (*gpus, *nics)
    for device in devices:
        rate = device.place.rate or (device.rate if isinstance(device, Nic) else None) or Fraction(0)
        below[device.place.parent] = max(below[device.place.parent], rate)
    bridges: list[Bridge] = []
    virtual: list[str] = []
    unstated: list[str] = []
    for name, slot in reversed(host.bridges.items()):
        rate = pcie_rate(slot.speed, abs(slot.width), calibration)
        # hypervisors invent bridges of one lane of the first generation
        kind = virtual if slot.speed.strip().startswith("2.5") and slot.width == 1 else unstated
        if below[name] > rate and (kind is virtual or not pcie_speed_is_known(slot.speed)):
            kind.append(slot.bus)
            rate = below[name]
        bridges.insert(0, Bridge(name, Place(slot.parent, rate, slot.bus)))
        below[slot.parent] = max(below[slot.parent], rate)
    remarks = []
    if unstated:
        text = f"{len(unstated)} bridges whose speed is not told are as fast as the fastest device below them"
        remarks.append(Remark("assumed", text))
    if virtual:
        text = f"{len(virtual)} bridges claim 2.5 GT/s x1 above faster devices ({virtual[-1]}): taken for virtual"
        remarks.append(Remark("suspicious", text))
    return tuple(bridges), remarks


def _remarks_on_gpus(gpus: Sequence[_Gpu], machine: Machine) -> Iterator[Remark]:
    """GPUs of one architecture have as many links as each other, unless peers are missing by design."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for i, gpu in enumerate(gpus):
        kinds[gpu.arch].append(i)
    for arch, alike in kinds.items():
        sums = Counter(machine.links_of(i) for i in alike)
        usual = max(sums, key=lambda links: (sums[links], links))
        fewer = [i for i in alike if machine.links_of(i) < usual]
        if len(sums) < 2:
            continue
        told = ", ".join(f"gpu{i} {machine.links_of(i)}" for i in fewer)
        kind: RemarkKind = "suspicious"
        if any(not machine.links_of(i) for i in fewer):
            why = "was NVLink not readable there?"
        elif machine.ports:
            why = "links may be down"
        elif 2 * len(fewer) < len(alike):
            why = "as wired, or links are down"
        else:
            kind, why = "found", "as wired"
        yield Remark(
            kind, f"GPUs of {arch or 'one kind'} have different numbers of links: {usual}, but {told}: {why}"
        )
    models = sorted({gpu.model for gpu in machine.gpus if (facts := gpu_model(gpu.model)) and facts.switched})
    if models and len(machine.gpus) > 1 and not (machine.ports or machine.links):
        text = f"no NVLink, which {', '.join(models)} mostly have: was it not readable, or is it hidden?"
        yield Remark("suspicious", text)
    widths = Counter((gpu.slot.speed.split(" ")[0], gpu.slot.width) for gpu in gpus if not gpu.slot.direct)
    if len(widths) > 1:
        told = ", ".join(f"{n} at {speed or '?'} GT/s x{width}" for (speed, width), n in sorted(widths.items()))
        yield Remark("suspicious", f"GPUs in different slots: {told}")
    untold: dict[Fraction, list[int]] = defaultdict(list)
    for i, (gpu, device) in enumerate(zip(gpus, machine.gpus, strict=True)):
        if device.place.rate is not None and not pcie_speed_is_known(gpu.slot.speed):
            untold[device.place.rate].append(i)
    for rate, those in untold.items():
        what = "16 lanes of what the model is made for, or of PCIe 3 where it is not known"
        yield Remark("assumed", f"{parts('gpu', those)}: the slot's speed is not told: {bandwidth(rate)}, {what}")
    hopper = [gpu for gpu in gpus if gpu.arch.startswith("sm") and gpu.sm >= _HOPPER]
    if slow := [gpu for gpu in hopper if gpu.slot.speed[:2] in ("8 ", "8.", "16")]:
        yield Remark("found", f"{len(slow)} GPUs made for PCIe 5 state {slow[0].slot.speed}: virtual machines do")


def _remarks_on_nics(host: _Host, machine: Machine, source: Source, options: ReadOptions) -> Iterator[Remark]:
    sayings: dict[tuple[RemarkKind, str], list[str]] = defaultdict(list)  # what is said of which NICs
    cards: dict[tuple[str, str], list[str]] = defaultdict(list)
    for net, nic in zip(host.nets, machine.nics, strict=True):
        told = network_rate(nic.rate) if nic.rate else ""
        if source.stated.nic_rate is not None:
            sayings["assumed", f"{told}, as --nic-rate says of this file"].append(net.name)
        elif net.speed > _BELIEVABLE:
            sayings["suspicious", f"{net.speed} Mb/s, which no NIC has: taken for kb/s, {told}"].append(net.name)
        elif net.speed <= 0:
            who = "NCCL takes it" if options.nic_rate is None else "--nic-rate says"
            sayings["assumed", f"no speed is stated: {told}, as {who}"].append(net.name)
        if "+" in net.name:
            sayings["found", f"several NICs that NCCL merged, {told} together"].append(net.name)
        slot = nic.place.rate
        if slot is not None and nic.rate is not None and slot < nic.rate:
            width = f" x{net.slot.width}" if net.slot.width else ""
            kind: RemarkKind = "suspicious" if 2 * slot < nic.rate else "found"
            sayings[kind, f"{told} in a slot of {bandwidth(slot)}{width}"].append(net.name)
        if net.slot.bus:
            cards[net.slot.bus, net.guid].append(net.name)
    for (kind, what), names in sayings.items():
        yield Remark(kind, f"{', '.join(names)}: {what}")
    for names in cards.values():
        if len(names) > 1:
            yield Remark("found", f"{', '.join(names)} are ports of one card and share its slot")


def _remarks_on_identities(host: _Host, gpus: Sequence[_Gpu]) -> Iterator[Remark]:
    """NUMA nodes and addresses that contradict each other, and GPUs of odd kinds."""
    nodes = [cpu.numa for cpu, _, _ in host.cpus if cpu.numa is not None]
    twice = sorted({numa for numa in nodes if numa >= 0 and nodes.count(numa) > 1})
    masks = [affinity for _, affinity, _ in host.cpus if affinity.strip("0,")]
    buses = sorted(bus for bus, n in Counter(host.buses).items() if n > 1 and not bus.startswith("ffff"))
    skipped = sum(gpu.rank is None and gpu.tag == "gpu" for gpu in host.gpus)
    halves = [i for i, gpu in enumerate(gpus) if gpu.part is not None]
    doubts = {
        f"NUMA node {numbers(twice)} is there twice in one host": twice,
        "different NUMA nodes state the same cores (affinity): they contradict each other": masks[
            len(set(masks)) :
        ],
        f"{len(buses)} PCI addresses are there twice ({', '.join(buses[:1])}): edited by hand?": buses,
        "two GPUs have the same number (dev): they are numbered in the order of the file": (
            len({(gpu.dev, gpu.part) for gpu in gpus}) < len(gpus)
        ),
        f"{skipped} GPUs without a rank are left out, as NCCL does": skipped,
        "GPUs are <apu> without links: what joins them directly is not in this file": (
            any(gpu.tag == "apu" for gpu in gpus)
        ),
    }
    if -1 in nodes:
        yield Remark("found", "no NUMA node is told (numaid -1), as in virtual machines: distances are not known")
    yield from (Remark("suspicious", text) for text, holds in doubts.items() if holds)
    if halves:
        text = "share the NVLinks of their GPU evenly; the way inside of it is left out"
        yield Remark("found", f"{parts('gpu', halves)} are parts of GPUs (MLOPart), which {text}")
    if any(gpu.c2c for gpu in gpus):
        yield Remark("found", "GPUs are joined to their CPUs over C2C; between GPUs it is not used here")
