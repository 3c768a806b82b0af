"""NCCL's and RCCL's topology file (NCCL_TOPO_DUMP_FILE) -> the servers that it describes.

A full dump has GPUs, their links and NICs. A skeleton, as clouds ship it for NCCL_TOPO_FILE, has the PCIe tree
alone and needs a node type of the library. A dump of several hosts is that of one NVLink domain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hetesynth.topology.importers import nccl_remarks
from hetesynth.topology.importers.gpu_models import gpu_model
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
    SwitchPort,
)
from hetesynth.topology.importers.nccl_devices import Devices, GpuElement, HostTree, NetElement, Slot
from hetesynth.topology.importers.nccl_models import model_of, nic_rate_of
from hetesynth.topology.importers.rates import (
    Calibration,
    cpu_rate,
    nvlink_rate,
    pcie_rate,
    pcie_speed_is_known,
    xgmi_rate,
)
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, refused
from hetesynth.topology.importers.wording import bandwidth, network_rate, parts
from hetesynth.topology.importers.xml_source import root_of

MAX_CPUS = 256
MAX_LANES = 256
_SWITCH, _CPU = "0x0680", "0x068001"
_HIDDEN = "fffffff"  # how the address begins that stands for a switch which the server cannot see
_BELIEVABLE = 1_600_000  # Mb/s: twice the fastest port there is
_UNSTATED = 10_000  # Mb/s, as NCCL takes it


def read(source: Source, options: ReadOptions) -> Reading:
    """The servers of one file. Raises HetesynthError HS732, HS733."""
    root = root_of(source)
    if root.tag == "graphs":
        raise refused(
            source,
            "it is a dump of NCCL's graph search, which says nothing about the hardware",
            "give it to synth or compare with --rings; the topology is what NCCL_TOPO_DUMP_FILE writes",
        )
    if root.tag != "system":
        raise refused(source, f"its root element is <{str(root.tag)[:40]}>, not <system>")
    hosts = Devices(source).read(root)
    if any(len(host.gpus) > MAX_GPUS_OF_A_MACHINE or len(host.cpus) > MAX_CPUS for host in hosts):
        raise refused(source, "it has more GPUs or CPUs than a server can have")
    if not any(host.gpus for host in hosts):
        return Reading((_skeleton(source, hosts, options),))
    machines = [_machine(source, host, options) for host in hosts if _ranked(host)]
    if len(machines) > 1:
        machines = [
            replace(machine, domain=f"domain of {source.name}" if machine.ports else "") for machine in machines
        ]
    remarks = nccl_remarks.of_domain(machines)
    if options.node_type:
        remarks += (Remark("found", f"{source.name} lists its GPUs, so that --node-type is not used for it"),)
    return Reading(tuple(machines), remarks=remarks)


def _skeleton(source: Source, hosts: Sequence[HostTree], options: ReadOptions) -> Machine:
    """A file without GPUs, under the node type that the user names."""
    from hetesynth.topology.importers.node_types import gpus_of, nic_rates, with_nics

    gpus = sum(host.bare_gpus for host in hosts)
    nics = [slot for host in hosts for slot in host.bare_nics]
    seen = f"{gpus} slots of GPUs and {len(nics)} of NICs"
    if not options.node_type:
        raise lacking(
            source,
            f"it is a skeleton without GPUs, NVLinks and NIC speeds ({seen})",
            "name the kind of server with --node-type, for example --node-type a100x8",
        )
    expected = gpus_of(options.node_type)
    if gpus and gpus != expected:
        raise refused(
            source, f"it has {seen}, a {options.node_type} has {expected} GPUs", "name another --node-type"
        )
    text = f"{source.name} is a skeleton with {seen}; everything else is the library's {options.node_type}"
    of_devices = {nic_rate_of(slot.vendor, slot.device) for slot in nics}
    rate = source.stated.nic_rate or (of_devices.pop() if len(of_devices) == 1 else None) or options.nic_rate
    node_type, doubts = with_nics(options.node_type, len(nics), rate)
    machine = Machine("", (), node_type=node_type)
    carried = max(nic_rates(machine), default=Fraction(0))
    slots = [pcie_rate(slot.speed, abs(slot.width), "spec") for slot in nics if pcie_speed_is_known(slot.speed)]
    if slots and min(slots) < carried:
        doubts += (
            f"NICs of {network_rate(carried)} in slots of {bandwidth(min(slots))}: --nic-rate states theirs",
        )
    remarks = (Remark("suspicious", f"{source.name}: {doubt}", "warning") for doubt in doubts)
    return replace(machine, remarks=(Remark("assumed", text), *remarks))


def _ranked(host: HostTree) -> list[GpuElement]:
    """The GPUs that NCCL uses, in the order of their numbers."""
    return sorted((gpu for gpu in host.gpus if gpu.rank is not None or gpu.tag == "apu"), key=lambda gpu: gpu.dev)


def _machine(source: Source, host: HostTree, options: ReadOptions) -> Machine:
    gpus = _ranked(host)
    calibration = options.calibration
    links, link_remarks = _links(source, gpus, calibration)
    devices = [_gpu(gpu, source, options) for gpu in gpus]
    nics = [_nic(net, source, options) for net in host.nets]
    bridges, bridge_remarks = _bridges(host, devices, nics, calibration)
    machine = Machine(
        "",
        tuple(devices),
        tuple(nics),
        tuple(Cpu(cpu.name, cpu.numa, cpu.vendor) for cpu in host.cpus),
        bridges,
        _cpu_links(host),
        links,
        _ports(source, gpus, calibration),
        identity=host.identity,
    )
    own = nccl_remarks.of_host(host, gpus, machine, _of_nics(source, options))
    return replace(machine, remarks=(*link_remarks, *bridge_remarks, *own))


def _place(slot: Slot, calibration: Calibration) -> Place:
    if slot.direct:
        return Place(slot.parent)
    return Place(slot.parent, pcie_rate(slot.speed, abs(slot.width), calibration), slot.bus)


def _gpu(gpu: GpuElement, source: Source, options: ReadOptions) -> Gpu:
    """A GPU; its slot has 16 lanes of what the model is made for where no speed is told."""
    model, place = _model(gpu.slot, source, options), _place(gpu.slot, options.calibration)
    made_for = gpu_model(model)
    if made_for and not gpu.slot.direct and not pcie_speed_is_known(gpu.slot.speed):
        place = replace(place, rate=pcie_rate(made_for.pcie, 0, options.calibration))
    return Gpu(model, gpu.arch, place)


def _model(slot: Slot, source: Source, options: ReadOptions) -> str:
    return source.stated.model or model_of(slot.vendor, slot.device) or options.model


def _of_nics(source: Source, options: ReadOptions) -> nccl_remarks.RatesOfNics:
    return nccl_remarks.RatesOfNics(_BELIEVABLE, source.stated.nic_rate, options.nic_rate)


def _nic(net: NetElement, source: Source, options: ReadOptions) -> Nic:
    speed = net.speed if net.speed > 0 else _UNSTATED
    if speed > _BELIEVABLE:
        speed = max(1, speed // 1000)  # written in kb/s
    rate = source.stated.nic_rate or (net.speed <= 0 and options.nic_rate) or Fraction(speed) * 10**6 / 8
    latency = Fraction(0)
    if net.latency.replace(".", "", 1).isascii() and net.latency.replace(".", "", 1).isdigit():
        latency = Fraction(net.latency[:16]) / 10**6
    place = _place(net.slot, options.calibration)
    if not pcie_speed_is_known(net.slot.speed):
        place = replace(place, rate=None)
    return Nic(net.name, rate, latency, place)


def _rates(gpus: Sequence[GpuElement], tag: str, calibration: Calibration) -> list[Fraction]:
    """What each GPU has of a link. Parts of a GPU (MLOPart) list all of its links and share them, as in NCCL."""
    parts_in = Counter(gpu.slot.bus for gpu in gpus if gpu.part is not None)
    return [
        (xgmi_rate(gpu.arch, calibration) if tag == "xgmi" else nvlink_rate(gpu.sm, calibration))
        / (parts_in[gpu.slot.bus] or 1)
        for gpu in gpus
    ]


def _is_switch(target: str, kind: str) -> bool:
    return target.startswith(_HIDDEN) or (kind.startswith(_SWITCH) and not kind.startswith(_CPU))


def _ports(source: Source, gpus: Sequence[GpuElement], calibration: Calibration) -> tuple[SwitchPort, ...]:
    """Links into NVSwitches, which are one switch to those who use it."""
    ports = []
    rates = _rates(gpus, "nvlink", calibration)
    for i, gpu in enumerate(gpus):
        lanes = sum(max(0, k.count) for k in gpu.links if _is_switch(k.target, k.kind))
        if lanes > MAX_LANES:
            raise refused(source, f"GPU {gpu.dev} has {lanes} links")
        if lanes:
            ports.append(SwitchPort(i, lanes, rates[i]))
    return tuple(ports)


def _links(
    source: Source, gpus: Sequence[GpuElement], calibration: Calibration
) -> tuple[tuple[GpuLink, ...], list[Remark]]:
    """Direct links, which the file states from both ends."""
    numbers: dict[str, list[int]] = {}  # several where a GPU is split
    for i, gpu in enumerate(gpus):
        if gpu.slot.bus:
            numbers[gpu.slot.bus] = [*(numbers.get(gpu.slot.bus, []) if gpu.part is not None else []), i]
    counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    dropped: dict[str, list[int]] = defaultdict(list)
    for i, gpu in enumerate(gpus):
        for link in gpu.links:
            if _is_switch(link.target, link.kind) or link.kind.startswith(_CPU) or link.count < 1:
                continue
            peers = numbers.get(link.target, [])
            if not peers or i in peers:
                dropped["itself" if i in peers else "a device that the file does not list"].append(i)
                continue
            for peer in peers:
                counts[i, peer][link.tag] += link.count
    remarks = [
        Remark("suspicious", f"{parts('gpu', sorted(set(those)))}: links to {what} are left out", "warning")
        for what, those in dropped.items()
    ]
    links = []
    rates = {tag: _rates(gpus, tag, calibration) for tag in ("nvlink", "xgmi")}
    parts_of = [len(numbers.get(gpu.slot.bus, [i])) for i, gpu in enumerate(gpus)]
    for a, b in sorted({(min(pair), max(pair)) for pair in counts}):
        there, back = counts.get((a, b), Counter()), counts.get((b, a), Counter())
        tag = "xgmi" if "xgmi" in there or "xgmi" in back else "nvlink"
        told = [total for total in (there.total(), back.total()) if total]
        if len(set(told)) > 1 or len(told) < 2:
            text = (
                f"gpu{a} and gpu{b} disagree on their links: {there.total()} and {back.total()}; {min(told)} taken"
            )
            remarks.append(Remark("suspicious", text, "warning"))
        if min(told) > MAX_LANES:
            raise refused(source, f"GPUs {gpus[a].dev} and {gpus[b].dev} have {min(told)} links")
        rate = min(rates[tag][a] / parts_of[b], rates[tag][b] / parts_of[a])
        links.append(GpuLink(a, b, min(told), rate, tag))
    return tuple(links), remarks


def _bridges(
    host: HostTree, gpus: Sequence[Gpu], nics: Sequence[Nic], calibration: Calibration
) -> tuple[tuple[Bridge, ...], list[Remark]]:
    """Bridges with their rates; one that a hypervisor invented, or whose speed is not told, gets that of the
    fastest device below it."""
    below: dict[str, Fraction] = defaultdict(Fraction)
    for gpu in gpus:
        below[gpu.place.parent] = max(below[gpu.place.parent], gpu.place.rate or Fraction(0))
    for nic in nics:
        below[nic.place.parent] = max(below[nic.place.parent], nic.place.rate or nic.rate or Fraction(0))
    places: dict[str, Place] = {}
    virtual: list[str] = []
    unstated: list[str] = []
    for name, slot in reversed(host.bridges.items()):
        rate = pcie_rate(slot.speed, abs(slot.width), calibration)
        kind = virtual if nccl_remarks.is_virtual(slot) else unstated
        if below[name] > rate and (kind is virtual or not pcie_speed_is_known(slot.speed)):
            kind.append(slot.bus)
            rate = below[name]
        places[name] = Place(slot.parent, rate, slot.bus)
        below[slot.parent] = max(below[slot.parent], rate)
    remarks = []
    if unstated:
        text = f"{len(unstated)} bridges whose speed is not told are as fast as the fastest device below them"
        remarks.append(Remark("assumed", text))
    if virtual:
        text = f"{len(virtual)} bridges claim 2.5 GT/s x1 above faster devices ({virtual[-1]}): taken for virtual"
        remarks.append(Remark("suspicious", text, "warning"))
    return tuple(Bridge(name, places[name]) for name in host.bridges), remarks


def _cpu_links(host: HostTree) -> tuple[CpuLink, ...]:
    """Every two CPUs, at the lower of their rates."""
    rates = [cpu_rate(cpu.vendor, cpu.arch, cpu.model) for cpu in host.cpus]
    return tuple(
        CpuLink(a.name, b.name, min(rates[i], rates[j]))
        for i, a in enumerate(host.cpus)
        for j, b in enumerate(host.cpus)
        if i < j
    )
