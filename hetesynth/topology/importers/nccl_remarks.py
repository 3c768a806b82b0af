"""What is worth saying about a topology file: what is unusual in it, and what cannot be as it stands there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.topology.importers.gpu_models import gpu_model
from hetesynth.topology.importers.machine import Machine, Remark, RemarkKind
from hetesynth.topology.importers.nccl_devices import GpuElement, HostTree, Slot
from hetesynth.topology.importers.rates import pcie_speed_is_known
from hetesynth.topology.importers.wording import bandwidth, network_rate, numbers, parts

_HOPPER = 90


def is_virtual(slot: Slot) -> bool:
    """A bridge that hypervisors invent: one lane of the first generation."""
    return slot.speed.strip().startswith("2.5") and slot.width == 1


@dataclass(frozen=True, slots=True)
class RatesOfNics:
    """``believable``: the Mb/s up to which a NIC's speed is; ``stated`` of this file, ``otherwise`` of others."""

    believable: int
    stated: Fraction | None = None
    otherwise: Fraction | None = None


def of_host(host: HostTree, gpus: Sequence[GpuElement], machine: Machine, rates: RatesOfNics) -> list[Remark]:
    """Everything about one host but its links, which ``nccl.py`` remarks on while it reads them."""
    return [
        *_links_per_gpu(gpus, machine),
        *_hidden(machine),
        *_slots(gpus, machine),
        *_nics(host, machine, rates),
        *_numa(host),
        *_identities(host, gpus),
    ]


def of_domain(machines: Sequence[Machine]) -> tuple[Remark, ...]:
    """About a file of several hosts."""
    if len(machines) < 2:
        return ()
    if all(machine.domain for machine in machines):
        return (Remark("found", f"{len(machines)} hosts in one NVLink domain"),)
    return (Remark("found", f"{len(machines)} hosts in one file"),)


def _warning(text: str) -> Remark:
    return Remark("suspicious", text, "warning")


def _links_per_gpu(gpus: Sequence[GpuElement], machine: Machine) -> Iterable[Remark]:
    """GPUs of one architecture have as many links as each other, unless peers are missing by design."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for i, gpu in enumerate(gpus):
        kinds[gpu.arch].append(i)
    for arch, alike in kinds.items():
        sums = Counter(machine.links_of(i) for i in alike)
        if len(sums) < 2:
            continue
        usual = max(sums, key=lambda links: (sums[links], links))
        fewer = [i for i in alike if machine.links_of(i) < usual]
        told = ", ".join(f"gpu{i} {machine.links_of(i)}" for i in fewer)
        text = f"GPUs of {arch or 'one kind'} have different numbers of links: {usual}, but {told}"
        if any(not machine.links_of(i) for i in fewer):
            yield _warning(f"{text}: was NVLink not readable there?")
        elif machine.ports:
            yield _warning(f"{text}: links may be down")
        elif 2 * len(fewer) < len(alike):
            yield _warning(f"{text}: as wired, or links are down")
        else:
            yield Remark("found", f"{text}: as wired")


def _hidden(machine: Machine) -> Iterable[Remark]:
    """No NVLink where the models mostly have it."""
    models = sorted({gpu.model for gpu in machine.gpus if (facts := gpu_model(gpu.model)) and facts.switched})
    if models and len(machine.gpus) > 1 and not (machine.ports or machine.links):
        yield _warning(f"no NVLink, which {', '.join(models)} mostly have: was it not readable, or is it hidden?")


def _slots(gpus: Sequence[GpuElement], machine: Machine) -> Iterable[Remark]:
    widths = Counter((gpu.slot.speed.split(" ")[0], gpu.slot.width) for gpu in gpus if not gpu.slot.direct)
    if len(widths) > 1:
        told = ", ".join(f"{n} at {speed or '?'} GT/s x{width}" for (speed, width), n in sorted(widths.items()))
        yield _warning(f"GPUs in different slots: {told}")
    untold: dict[Fraction, list[int]] = defaultdict(list)
    for i, (gpu, device) in enumerate(zip(gpus, machine.gpus, strict=True)):
        if device.place.rate is not None and not pcie_speed_is_known(gpu.slot.speed):
            untold[device.place.rate].append(i)
    for rate, those in untold.items():
        what = "16 lanes of what the model is made for, or of PCIe 3 where it is not known"
        yield Remark("assumed", f"{parts('gpu', those)}: the slot's speed is not told: {bandwidth(rate)}, {what}")
    slow = [
        gpu
        for gpu in gpus
        if gpu.arch.startswith("sm") and gpu.sm >= _HOPPER and gpu.slot.speed[:2] in ("8 ", "8.", "16")
    ]
    if slow:
        yield Remark("found", f"{len(slow)} GPUs made for PCIe 5 state {slow[0].slot.speed}: virtual machines do")


def _nics(host: HostTree, machine: Machine, rates: RatesOfNics) -> Iterable[Remark]:
    sayings: dict[tuple[RemarkKind, str], list[str]] = defaultdict(list)  # what is said of which NICs
    for net, nic in zip(host.nets, machine.nics, strict=True):
        told = network_rate(nic.rate) if nic.rate else ""
        if rates.stated is not None:
            sayings["assumed", f"{told}, as --nic-rate says of this file"].append(net.name)
        elif net.speed > rates.believable:
            sayings["suspicious", f"{net.speed} Mb/s, which no NIC has: taken for kb/s, {told}"].append(net.name)
        elif net.speed <= 0:
            who = "NCCL takes it" if rates.otherwise is None else "--nic-rate says"
            sayings["assumed", f"no speed is stated: {told}, as {who}"].append(net.name)
        if "+" in net.name:
            sayings["found", f"several NICs that NCCL merged, {told} together"].append(net.name)
        slot = nic.place.rate
        if slot is not None and nic.rate is not None and slot < nic.rate:
            width = f" x{net.slot.width}" if net.slot.width else ""
            kind: RemarkKind = "suspicious" if 2 * slot < nic.rate else "found"
            sayings[kind, f"{told} in a slot of {bandwidth(slot)}{width}"].append(net.name)
    for (sort, what), names in sayings.items():
        yield Remark(sort, f"{', '.join(names)}: {what}", "warning" if sort == "suspicious" else "note")
    cards: dict[tuple[str, str], list[str]] = defaultdict(list)
    for net in host.nets:
        if net.slot.bus:
            cards[net.slot.bus, net.guid].append(net.name)
    for names in cards.values():
        if len(names) > 1:
            yield Remark("found", f"{', '.join(names)} are ports of one card and share its slot")


def _numa(host: HostTree) -> Iterable[Remark]:
    if any(cpu.numa == -1 for cpu in host.cpus):
        yield Remark("found", "no NUMA node is told (numaid -1), as in virtual machines: distances are not known")
    counts = Counter(cpu.numa for cpu in host.cpus if cpu.numa is not None and cpu.numa >= 0)
    if twice := sorted(numa for numa, n in counts.items() if n > 1):
        yield _warning(f"NUMA node {numbers(twice)} is there twice in one host")
    masks = Counter(cpu.affinity for cpu in host.cpus if cpu.affinity.strip("0,"))
    if any(n > 1 for n in masks.values()):
        yield _warning("different NUMA nodes state the same cores (affinity): they contradict each other")


def _identities(host: HostTree, gpus: Sequence[GpuElement]) -> Iterable[Remark]:
    twice = sorted(bus for bus, n in Counter(host.buses).items() if n > 1 and not bus.startswith("ffff"))
    if twice:
        yield _warning(f"{len(twice)} PCI addresses are there twice ({twice[0]}): edited by hand?")
    if len({(gpu.dev, gpu.part) for gpu in gpus}) < len(gpus):
        yield _warning("two GPUs have the same number (dev): they are numbered in the order of the file")
    if skipped := sum(gpu.rank is None and gpu.tag == "gpu" for gpu in host.gpus):
        yield _warning(f"{skipped} GPUs without a rank are left out, as NCCL does")
    if any(gpu.tag == "apu" for gpu in gpus):
        yield _warning("GPUs are <apu> without links: what joins them directly is not in this file")
    if halves := [i for i, gpu in enumerate(gpus) if gpu.part is not None]:
        text = "share the NVLinks of their GPU evenly; the way inside of it is left out"
        yield Remark("found", f"{parts('gpu', halves)} are parts of GPUs (MLOPart), which {text}")
    if any(gpu.c2c for gpu in gpus):
        yield Remark("found", "GPUs are joined to their CPUs over C2C; between GPUs it is not used here")
