"""One server as a file describes it: GPUs, NICs, the PCIe tree, the links between GPUs, and what was remarked.

Units: bytes per second and one direction, seconds; None where the file does not tell. An edge of the PCIe tree is
named after its lower end: ``gpu0``, a bridge, or the slot of a NIC, which the ports of one card share.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeVar

from hetesynth.topology.importers.gpu_models import gpu_model
from hetesynth.topology.importers.wording import bandwidth

RemarkKind = Literal["found", "assumed", "suspicious"]  # read from the file, added to it, or hard to believe
MAX_GPUS_OF_A_MACHINE = 1024
Name = TypeVar("Name", int, str)
UNSTATED = Fraction("15.75") * 10**9  # a slot of a GPU of 16 lanes of PCIe 3, where no file tells
_OVER_A_CPU = 1000  # more than any number of bridges
_BETWEEN_CPUS = 2000
_VIRTUAL = ("veth", "docker", "virbr", "br-", "lo")  # of containers: no cable is plugged into these


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about what was read."""

    kind: RemarkKind
    text: str

    @property
    def severity(self) -> Literal["note", "warning"]:
        """The severity: a warning for a suspicious remark, which should be looked at before the text is used."""
        return "warning" if self.kind == "suspicious" else "note"


@dataclass(frozen=True, slots=True)
class Place:
    """The slot of a device: below a PCIe bridge or a CPU, at ``rate`` (None: not known)."""

    parent: str = ""  # the name of a Bridge or a CPU, "" where the file does not tell
    rate: Fraction | None = None
    bus: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU; ``model`` and ``arch`` ("sm90", "gfx942") as far as the file tells."""

    model: str = ""
    arch: str = ""
    place: Place = Place()


@dataclass(frozen=True, slots=True)
class Nic:
    """A NIC or a port of one. ``gpus``: the nearest GPUs, if the file tells these rather than a PCIe tree."""

    name: str
    rate: Fraction | None
    latency: Fraction | None = None
    place: Place = Place()
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bridge:
    """A PCIe switch, or one of its ports; the devices below meet in it."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class GpuLink:
    """``count`` lanes from GPU ``a`` to GPU ``b`` and as many back, each at ``rate``."""

    a: int
    b: int
    count: int
    rate: Fraction
    kind: str = "nvlink"


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """The ``lanes`` links of GPU ``gpu`` into the NVSwitch fabric, each at ``rate``."""

    gpu: int
    lanes: int
    rate: Fraction


@dataclass(frozen=True, slots=True)
class Machine:
    """A server with its GPUs, NICs, CPUs, bridges and links."""

    host: str
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...] = ()
    cpus: tuple[str, ...] = ()
    bridges: tuple[Bridge, ...] = ()
    between: Fraction = Fraction(0)  # what every two CPUs have between them
    links: tuple[GpuLink, ...] = ()
    ports: tuple[SwitchPort, ...] = ()
    remarks: tuple[Remark, ...] = ()
    domain: str = ""  # the NVLink domain that its ports join, where that reaches beyond the server
    node_type: str = ""  # of the node library, which stands for the whole server in place of what is listed

    def links_of(self, gpu: int) -> int:
        """Return how many NVLink or xGMI links leave a GPU, direct ones and those into a switch."""
        direct = sum(link.count for link in self.links if gpu in (link.a, link.b))
        return direct + sum(port.lanes for port in self.ports if port.gpu == gpu)

    @property
    def is_joined(self) -> bool:
        """True if GPUs meet over NVLink or xGMI: by a switch, or by a link for every pair."""
        pairs = len(self.gpus) * (len(self.gpus) - 1) // 2
        return bool(self.ports or self.domain) or len(self.links) >= pairs


def one_nic_a_gpu(
    parents: list[str], rate: Fraction | None, otherwise: Fraction | None
) -> tuple[tuple[Nic, ...], Remark]:
    """Return what stands for NICs that a tool does not name: none, or one a GPU where a rate is stated."""
    if rate is None and otherwise is None:
        return (), Remark("assumed", "no NICs: the tool names none; --nic-rate adds one a GPU")
    nics = tuple(
        Nic(f"nic{gpu}", rate, place=Place(parent), gpus=() if parent else (gpu,))
        for gpu, parent in enumerate(parents)
    )
    return nics, Remark("assumed", "one NIC a GPU: the tool names none")


def switch_ports(lanes: Sequence[int], rates: Sequence[Fraction]) -> tuple[SwitchPort, ...]:
    """Return the ports of GPUs with ``lanes`` into NVSwitches, which are one switch to those who use them."""
    return tuple(SwitchPort(i, n, rate) for i, (n, rate) in enumerate(zip(lanes, rates, strict=True)) if n)


def remarks_on_gpus(machine: Machine) -> Iterator[Remark]:
    """Yield what is odd: GPUs with fewer links than others of their architecture, none, or in other slots."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for i, gpu in enumerate(machine.gpus):
        kinds[gpu.arch].append(i)
    for arch, alike in kinds.items():
        sums = Counter(machine.links_of(i) for i in alike)
        usual = max(sums, key=lambda links: (sums[links], links))
        fewer = [i for i in alike if machine.links_of(i) < usual]
        if len(sums) < 2:
            continue
        told = ", ".join(f"gpu{i} {machine.links_of(i)}" for i in fewer)
        kind: RemarkKind = "suspicious"
        why = "links may be down"
        if any(not machine.links_of(i) for i in fewer):
            why = "was NVLink not readable there?"
        elif not machine.ports and 2 * len(fewer) >= len(alike):
            kind, why = "found", "as wired"
        text = f"GPUs of {arch or 'one kind'} have different numbers of links: {usual}, but {told}: {why}"
        yield Remark(kind, text)
    models = sorted({gpu.model for gpu in machine.gpus if (facts := gpu_model(gpu.model)) and facts.switched})
    if models and len(machine.gpus) > 1 and not (machine.ports or machine.links):
        text = f"no NVLink, which {', '.join(models)} mostly have: was it not readable, or is it hidden?"
        yield Remark("suspicious", text)
    slots = Counter(gpu.place.rate for gpu in machine.gpus if gpu.place.rate)
    if len(slots) > 1:
        told = ", ".join(f"{n} of {bandwidth(rate)}" for rate, n in sorted(slots.items()))
        yield Remark("suspicious", f"GPUs in different slots: {told}")


class Tree:
    """A machine with its bridges by name."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.places = {bridge.name: bridge.place for bridge in machine.bridges}

    def above(self, place: Place) -> list[str]:
        """Return the bridges and the CPU above a device, nearest first."""
        chain: list[str] = []
        while place.parent:
            chain.append(place.parent)
            place = self.places.get(place.parent, Place())
        return chain

    def distance(self, gpu: Place, nic: Place) -> int:
        """Return how far two devices are: PIX and PXB by the number of bridges, then PHB, then SYS."""
        left, right = self.above(gpu), self.above(nic)
        for up, name in enumerate(left):
            if name in right:
                return _OVER_A_CPU if name in self.machine.cpus else up + right.index(name)
        return _BETWEEN_CPUS

    def way(self, gpu: int, nic: int) -> list[tuple[str, Fraction]]:
        """Return the edges between a GPU and a NIC with their rates, in no order; a CPU link is one of them."""
        machine = self.machine
        ends = (machine.gpus[gpu].place, machine.nics[nic].place)
        left, right = (self.above(place) for place in ends)
        shared = set(left) & set(right)
        edges = [(f"gpu{gpu}", ends[0].rate), (slot(nic, machine.nics[nic]), ends[1].rate)]
        crossed = [name for name in (*left, *right) if name in self.places and name not in shared]
        edges += [(name, self.places[name].rate) for name in crossed]
        if left and right and not shared and machine.between:
            edges.append(("-".join(sorted((left[-1], right[-1]))), machine.between))
        return [(name, rate) for name, rate in edges if rate is not None]


def slot(index: int, nic: Nic) -> str:
    """Return the name of the edge above a NIC; ports of one card have the same."""
    return f"slot {nic.place.bus}" if nic.place.bus else f"nic{index}"


def with_nic_slots(machine: Machine) -> Machine:
    """Return the machine with rates for the slots of NICs that the file has without one: they limit no NIC."""
    of_gpus = max((gpu.place.rate or Fraction(0) for gpu in machine.gpus), default=Fraction(0))
    nics = []
    assumed: dict[Fraction, list[str]] = defaultdict(list)
    for nic in machine.nics:
        virtual = nic.name.startswith(_VIRTUAL)
        if nic.place.parent and nic.place.rate is None and nic.rate is not None and not virtual:
            rate = max(nic.rate, of_gpus)
            assumed[rate].append(nic.name)
            nic = replace(nic, place=replace(nic.place, rate=rate))
        nics.append(nic)
    remarks = tuple(
        Remark("assumed", f"{', '.join(names)}: the slot's speed is not told, {bandwidth(rate)} are enough")
        for rate, names in assumed.items()
    )
    return replace(machine, nics=tuple(nics), remarks=(*machine.remarks, *remarks))


def over_cpus(machine: Machine) -> bool:
    """Return True where a GPU and a NIC that it uses hang on two CPUs."""
    tree = Tree(machine)
    return any(
        tree.distance(machine.gpus[gpu].place, machine.nics[nic].place) == _BETWEEN_CPUS
        for nic, gpus in gpus_of_nics(machine).items()
        for gpu in gpus
    )


def gpus_of_nics(machine: Machine) -> dict[int, tuple[int, ...]]:
    """Return the GPUs that use each NIC: the nearest to each, in order where several are; no unused NICs."""
    stated = {n: nic.gpus for n, nic in enumerate(machine.nics) if nic.gpus}
    usable = [n for n, nic in enumerate(machine.nics) if not nic.name.startswith(_VIRTUAL)]
    if stated or not usable:
        return stated
    tree = Tree(machine)
    far = [{n: tree.distance(gpu.place, machine.nics[n].place) for n in usable} for gpu in machine.gpus]
    pairs = nearest(far, {n: machine.nics[n].rate or Fraction(0) for n in usable})
    return {nic: pairs[nic] for nic in sorted(pairs)}


def nearest(far: Sequence[Mapping[Name, int]], rates: Mapping[Name, Fraction]) -> dict[Name, tuple[int, ...]]:
    """Return the GPUs of each NIC: those that it is nearest to, of NICs as near the fastest; evenly, in order."""
    groups: dict[tuple[Name, ...], list[int]] = defaultdict(list)
    for gpu, distances in enumerate(far):
        least = min(distances.values())
        near = {nic: rates.get(nic, Fraction(0)) for nic, distance in distances.items() if distance == least}
        groups[tuple(nic for nic, rate in near.items() if rate == max(near.values()))].append(gpu)
    pairs: dict[Name, set[int]] = defaultdict(set)
    for nics, gpus in groups.items():
        most = max(len(nics), len(gpus))
        for i in range(most):
            pairs[nics[i * len(nics) // most]].add(gpus[i * len(gpus) // most])
    return {nic: tuple(sorted(those)) for nic, those in pairs.items()}
