"""NCCL's and RCCL's topology file (NCCL_TOPO_DUMP_FILE) -> the servers that it describes.

A skeleton, as clouds ship it for NCCL_TOPO_FILE, has the PCIe tree alone and needs a node type of the library. A
dump of several hosts is that of one NVLink domain.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lxml.etree import _Element

from hetesynth.topology.importers.gpu_models import (
    MODELS,
    NIC_RATES,
    PCIE_SPEED,
    Calibration,
    cpu_rate,
    gpu_model,
    nvlink_rate,
    pcie_rate,
    xgmi_rate,
)
from hetesynth.topology.importers.machine import (
    MAX_GPUS_OF_A_MACHINE,
    Bridge,
    Gpu,
    GpuLink,
    Machine,
    Nic,
    Place,
    Remark,
    RemarkKind,
    remarks_on_gpus,
    switch_ports,
)
from hetesynth.topology.importers.network import file_of, nic_rates, with_nics
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, refused, root_of
from hetesynth.topology.importers.wording import bandwidth, network_rate, parts
from hetesynth.topology.language.library import library_type

_MAX_LANES = 256
_MAX_CPUS = 256
_SWITCH, _CPU = "0x0680", "0x068001"
_HIDDEN = "fffffff"  # how the address begins that stands for a switch which the server cannot see
_BELIEVABLE = 1_600_000  # Mb/s: twice the fastest port there is
_UNSTATED = 10_000  # Mb/s, as NCCL takes it
_VIRTUAL = 5  # GT/s at most that ports claim which are no links
_MAX_WIDTH = 32  # lanes of a slot: a virtual device states 255


@dataclass(frozen=True, slots=True)
class _Slot:
    """A ``<pci>``, or a place directly below a CPU, which has no rate."""

    parent: str
    bus: str = ""
    kind: str = ""  # class
    vendor: str = ""
    device: str = ""
    speed: str = ""
    width: int = 0

    @property
    def lane(self) -> float:
        """The GT/s of a lane, 0 if no speed is told."""
        match = PCIE_SPEED.match(self.speed)
        return float(match[1]) if match else 0.0

    def place(self, calibration: Calibration) -> Place:
        if not self.kind + self.bus:
            return Place(self.parent)
        return Place(self.parent, pcie_rate(self.speed, self.width, calibration), self.bus)


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A ``<gpu>`` or ``<apu>`` in its slot."""

    slot: _Slot
    dev: int
    sm: int
    arch: str
    links: tuple[tuple[str, str, int], ...]  # with other GPUs: kind, target, count
    lanes: int  # of links into a switch


@dataclass(slots=True)
class _Host:
    """The parts of one host in the file called ``name``."""

    name: str
    cpus: list[str] = field(default_factory=list)
    between: list[Fraction] = field(default_factory=list)  # CPUs
    cores: list[str] = field(default_factory=list)  # that CPUs state
    bridges: dict[str, _Slot] = field(default_factory=dict)
    gpus: list[_Gpu] = field(default_factory=list)
    nets: list[tuple[_Slot, _Element]] = field(default_factory=list)
    empty: list[_Slot] = field(default_factory=list)  # without a ``<gpu>`` or ``<nic>``
    buses: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)  # where a GPU has a further rank
    c2c: bool = False  # GPUs are joined to their CPUs

    def number(self, element: _Element, attribute: str) -> int | None:
        text = (element.get(attribute) or "").strip()
        if text and not re.fullmatch(r"-?[0-9]{1,9}", text):
            what = f"<{element.tag}> has {attribute}={text[:40]!r}, which is no number"
            raise refused(self.name, what)
        return int(text) if text else None

    def gpu(self, element: _Element, slot: _Slot) -> _Gpu:
        links, lanes = [], 0
        for link in (*element.iterfind("nvlink"), *element.iterfind("xgmi")):
            target, kind = link.get("target", "").lower(), link.get("tclass", "")
            count = max(self.number(link, "count") or 0, 0)
            if target.startswith(_HIDDEN) or (kind.startswith(_SWITCH) and not kind.startswith(_CPU)):
                lanes += count
            elif count and not kind.startswith(_CPU):
                links.append((str(link.tag), target, count))
        if max([lanes, *(count for _, _, count in links)]) > _MAX_LANES:
            raise refused(self.name, f"a GPU has more than {_MAX_LANES} links")
        part = self.number(element, "mlopart")  # -1, or none before NCCL 2.30.7: the whole GPU
        if part is not None and part >= 0:
            raise refused(self.name, "parts of GPUs (mlopart) are not read", "take the dump with whole GPUs")
        gcn, sm = element.get("gcn", "").strip().lower(), max(0, self.number(element, "sm") or 0)
        arch = {"": f"sm{sm}" if sm else "", "910": "gfx90a"}.get(gcn, f"gfx{gcn.removeprefix('gfx')}")
        dev = self.number(element, "dev")
        return _Gpu(slot, len(self.gpus) if dev is None else dev, sm, arch, tuple(links), lanes)

    def take_in(self, top: _Element, slot: _Slot) -> None:
        """Note what is below ``top``, in document order; unknown elements are passed through."""
        for element in top:
            here = slot
            match element.tag:
                case "pci":
                    words = ("busid", "class", "vendor", "device")
                    bus, kind, vendor, device = (element.get(word, "").strip().lower() for word in words)
                    speed, width = element.get("link_speed", ""), self.number(element, "link_width") or 0
                    width = width if 0 < width <= _MAX_WIDTH else 0
                    here = _Slot(here.parent, bus, kind, vendor, device, speed, width)
                    self.buses.append(here.bus)
                    tags = {child.tag for child in element.iter() if isinstance(child.tag, str)}
                    tags -= {"pci", "pcilink"}
                    if element.find("pci") is not None or (here.kind.startswith("0x0604") and tags):
                        bridge = f"bridge{len(self.bridges)}"
                        self.bridges[bridge] = here
                        here = _Slot(bridge)
                    elif not tags:
                        self.empty.append(here)
                case "gpu" | "apu":
                    self.c2c = self.c2c or element.find("c2c") is not None
                    if element.get("rank") is not None or element.tag == "apu":  # NCCL uses no others
                        gpu = self.gpu(element, here)
                        if self.gpus and self.gpus[-1].slot is here:
                            self.shared.append(here.bus)
                        else:
                            self.gpus.append(gpu)
                case "net" if element.get("dev") is not None and element.get("net") != "0":
                    self.nets.append((here, element))
                case "cpu":
                    continue
            self.take_in(element, here)


def read(source: Source, options: ReadOptions) -> Reading:
    """Return the servers of one file; HetesynthError HS732, HS733."""
    root = root_of(source.name, source.data)
    if root.tag != "system":
        what = f"its root element is <{str(root.tag)[:40]}>, not <system>: "
        what += "<graphs> says nothing about the hardware"
        raise refused(source.name, what, "give what NCCL_TOPO_DUMP_FILE writes; a dump of graphs goes to --rings")
    by_identity: dict[str, _Host] = {}
    for element in root.iter("cpu"):
        host = by_identity.setdefault(element.get("host_hash", ""), _Host(source.name))
        host.cpus.append(f"cpu{len(host.cpus)}")
        model = host.number(element, "modelid") or 0
        host.between.append(cpu_rate(element.get("vendor", ""), element.get("arch", ""), model))
        host.cores.append(element.get("affinity", ""))
        host.take_in(element, _Slot(host.cpus[-1]))
    hosts = list(by_identity.values())
    if not hosts:
        raise refused(source.name, "it has no <cpu>, so nothing hangs anywhere")
    if any(len(host.gpus) > MAX_GPUS_OF_A_MACHINE or len(host.cpus) > _MAX_CPUS for host in hosts):
        raise refused(source.name, "it has more GPUs or CPUs than a server can have")
    if not any(host.gpus for host in hosts):
        return Reading((_skeleton(source, hosts, options),))
    machines = [_machine(source, host, options) for host in hosts if host.gpus]
    remarks = []
    if len(machines) > 1:
        domain = f"domain of {source.name}"
        machines = [replace(machine, domain=domain if machine.ports else "") for machine in machines]
        where = "in one NVLink domain" if all(machine.domain for machine in machines) else "in one file"
        remarks.append(Remark("found", f"{len(machines)} hosts {where}"))
    if options.node_type:
        remarks.append(Remark("found", f"{source.name} lists its GPUs, so that --node-type is not used for it"))
    return Reading(tuple(machines), remarks=tuple(remarks))


def _skeleton(source: Source, hosts: Sequence[_Host], options: ReadOptions) -> Machine:
    """Return the machine of a file without GPUs, under the node type that the user names."""
    slots = [slot for host in hosts for slot in host.empty]
    gpus = sum(slot.kind.startswith(("0x03", "0x12")) for slot in slots)
    nics = [slot for slot in slots if slot.kind.startswith("0x02")]
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
    of_devices = {NIC_RATES.get((slot.vendor, slot.device)) for slot in nics}
    rate = source.stated.nic_rate or (of_devices.pop() if len(of_devices) == 1 else None) or options.nic_rate
    node_type, doubts = with_nics(options.node_type, len(nics), rate)
    machine = Machine("", (), node_type=node_type)
    carried = max(nic_rates(machine), default=Fraction(0))
    rates = [pcie_rate(slot.speed, slot.width, "spec") for slot in nics if slot.lane]
    if rates and min(rates) < carried:
        slow = bandwidth(min(rates))
        doubts += (f"NICs of {network_rate(carried)} in slots of {slow}: --nic-rate states theirs",)
    remarks = (Remark("suspicious", f"{source.name}: {doubt}") for doubt in doubts)
    return replace(machine, remarks=(Remark("assumed", text), *remarks))


def _devices(gpus: Sequence[_Gpu], source: Source, options: ReadOptions) -> tuple[list[Gpu], list[Remark]]:
    """Return the GPUs, and what is odd about the speeds of their slots."""
    devices: list[Gpu] = []
    odd: dict[tuple[RemarkKind, str], list[int]] = defaultdict(list)
    for gpu in gpus:
        model = source.stated.model or MODELS.get((gpu.slot.vendor, gpu.slot.device)) or options.model
        place, facts = gpu.slot.place(options.calibration), gpu_model(model)
        if facts and place.rate and not gpu.slot.lane:
            place = replace(place, rate=pcie_rate(facts.pcie, 0, options.calibration))
        if place.rate is not None and not gpu.slot.lane:
            text = f"the slot's speed is not told: {bandwidth(place.rate)}, 16 lanes of what the "
            odd["assumed", f"{text}model is made for, or of PCIe 3 where it is not known"].append(len(devices))
        if facts and 0 < 2 * gpu.slot.lane < float(facts.pcie.split()[0]):
            text = f"a slot of {gpu.slot.lane:g} GT/s, the model is made for {facts.pcie}: "
            odd["suspicious", f"{text}is it an idle GPU's, as NCCL from 2.30.7 on tells?"].append(len(devices))
        devices.append(Gpu(model, gpu.arch, place))
    return devices, [Remark(kind, f"{parts('gpu', those)}: {text}") for (kind, text), those in odd.items()]


def _machine(source: Source, host: _Host, options: ReadOptions) -> Machine:
    calibration = options.calibration
    gpus = sorted(host.gpus, key=lambda gpu: gpu.dev)
    devices, of_slots = _devices(gpus, source, options)
    nics: list[Nic] = []
    sayings: dict[tuple[RemarkKind, str], list[str]] = defaultdict(list)  # what is said of which NICs
    cards: dict[tuple[str, str], list[str]] = defaultdict(list)
    for slot, net in host.nets:
        name, mbps = net.get("name") or f"net{len(nics)}", host.number(net, "speed") or 0
        speed = mbps if mbps > 0 else _UNSTATED
        if speed > _BELIEVABLE:
            speed = max(1, speed // 1000)  # written in kb/s
        rate = source.stated.nic_rate or (mbps <= 0 and options.nic_rate) or Fraction(speed) * 10**6 / 8
        latency = re.fullmatch(r"\d{1,9}(\.\d{0,6})?", net.get("latency", "").strip())
        place = slot.place(calibration) if slot.lane else replace(slot.place(calibration), rate=None)
        nics.append(Nic(name, rate, Fraction(latency[0] if latency else 0) / 10**6, place))
        told = network_rate(rate)
        if source.stated.nic_rate is not None:
            sayings["assumed", f"{told}, as --nic-rate says of this file"].append(name)
        elif mbps > _BELIEVABLE:
            sayings["suspicious", f"{mbps} Mb/s, which no NIC has: taken for kb/s, {told}"].append(name)
        elif mbps <= 0:
            who = "NCCL takes it" if options.nic_rate is None else "--nic-rate says"
            sayings["assumed", f"no speed is stated: {told}, as {who}"].append(name)
        if "+" in name:
            sayings["found", f"several NICs that NCCL merged, {told} together"].append(name)
        if place.rate is not None and place.rate < rate:
            width = f" x{slot.width}" if slot.width else ""
            kind: RemarkKind = "suspicious" if 2 * place.rate < rate else "found"
            sayings[kind, f"{told} in a slot of {bandwidth(place.rate)}{width}"].append(name)
        if slot.bus:
            cards[slot.bus, net.get("guid", "")].append(name)
    links, link_remarks = _links(gpus, calibration)
    bridges, virtual = _bridges(host, devices, nics, calibration)
    rates = [nvlink_rate(gpu.sm, calibration) for gpu in gpus]
    ports = switch_ports([gpu.lanes for gpu in gpus], rates)
    tree = (tuple(host.cpus), bridges, min(host.between))
    machine = Machine("", tuple(devices), tuple(nics), *tree, links, ports)
    remarks = [*link_remarks, *virtual, *remarks_on_gpus(machine), *of_slots]
    remarks += [Remark(kind, f"{', '.join(names)}: {what}") for (kind, what), names in sayings.items()]
    shared = [", ".join(names) for names in cards.values() if len(names) > 1]
    remarks += [Remark("found", f"{names} are ports of one card and share its slot") for names in shared]
    masks = [cores for cores in host.cores if cores.strip("0,")]
    if len(set(masks)) < len(masks):
        text = "different NUMA nodes state the same cores (affinity): they contradict each other"
        remarks.append(Remark("suspicious", text))
    buses = sorted(bus for bus, n in Counter(host.buses).items() if n > 1 and bus and not bus.startswith("ffff"))
    if buses:
        text = f"{len(buses)} PCI addresses are there twice ({buses[0]}): edited by hand?"
        remarks.append(Remark("suspicious", text))
    if host.shared:
        text = f"{len(host.shared)} further ranks run on GPUs that are there already ({host.shared[0]})"
        remarks.append(Remark("found", text))
    if host.c2c:
        text = "GPUs are joined to their CPUs over C2C; between GPUs it is not used here"
        remarks.append(Remark("found", text))
    return replace(machine, remarks=tuple(remarks))


def _links(gpus: Sequence[_Gpu], calibration: Calibration) -> tuple[tuple[GpuLink, ...], list[Remark]]:
    """Return the direct links, which the file states from both ends, and remarks."""
    ranks = {gpu.slot.bus: i for i, gpu in enumerate(gpus) if gpu.slot.bus}
    counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    dropped: dict[str, list[int]] = defaultdict(list)
    for i, gpu in enumerate(gpus):
        for tag, target, count in gpu.links:
            peer = ranks.get(target, i)
            if peer == i:
                dropped["itself" if target in ranks else "a device that the file does not list"].append(i)
            else:
                counts[i, peer][tag] += count
    left_out = ((parts("gpu", sorted(set(those))), what) for what, those in dropped.items())
    remarks = [Remark("suspicious", f"{names}: links to {what} are left out") for names, what in left_out]
    links = []
    for a, b in sorted({(min(pair), max(pair)) for pair in counts}):
        there, back = counts.get((a, b), Counter()), counts.get((b, a), Counter())
        told = [total for total in (there.total(), back.total()) if total]
        if len(set(told)) > 1 or len(told) < 2:
            text = f"gpu{a} and gpu{b} disagree on their links: {there.total()} and {back.total()}"
            remarks.append(Remark("suspicious", f"{text}; {min(told)} taken"))
        if "xgmi" in there or "xgmi" in back:
            rate = min(xgmi_rate(gpus[end].arch, calibration) for end in (a, b))
            links.append(GpuLink(a, b, min(told), rate, "xgmi"))
        else:
            rate = min(nvlink_rate(gpus[end].sm, calibration) for end in (a, b))
            links.append(GpuLink(a, b, min(told), rate))
    return tuple(links), remarks


def _bridges(
    host: _Host, gpus: Sequence[Gpu], nics: Sequence[Nic], calibration: Calibration
) -> tuple[tuple[Bridge, ...], list[Remark]]:
    """Return the bridges; one that a hypervisor invented, or of no speed, is as fast as the devices below."""
    below: dict[str, Fraction] = defaultdict(Fraction)
    carried = [(gpu.place, gpu.place.rate) for gpu in gpus]
    carried += [(nic.place, nic.place.rate or nic.rate) for nic in nics]
    for place, rate in carried:
        below[place.parent] = max(below[place.parent], rate or Fraction(0))
    bridges: list[Bridge] = []
    virtual: list[str] = []
    for name, slot in reversed(host.bridges.items()):
        rate = pcie_rate(slot.speed, slot.width, calibration)
        above = host.bridges.get(slot.parent)
        while above and 0 < above.lane <= _VIRTUAL:
            above = host.bridges.get(above.parent)
        # ports inside a switch claim 5 GT/s between faster links, hypervisors one lane of the first generation
        invented = 0 < slot.lane <= _VIRTUAL and (above or (slot.lane, slot.width) == (2.5, 1))
        if below[name] > rate and (invented or not slot.lane):
            rate = below[name]
            virtual += [slot.bus] if invented else []
        bridges.insert(0, Bridge(name, Place(slot.parent, rate, slot.bus)))
        below[slot.parent] = max(below[slot.parent], rate)
    last = virtual[-1] if virtual else ""
    text = f"{len(virtual)} bridges claim 2.5 or 5 GT/s above faster devices ({last}): taken for virtual"
    return tuple(bridges), [Remark("suspicious", text)] if virtual else []
