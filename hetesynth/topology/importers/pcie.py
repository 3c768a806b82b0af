"""Ways over the PCIe tree of a machine: which NICs are next to a GPU, and what a way between them carries.

An edge of the tree is named after its lower end: ``gpu0``, a bridge, or the slot of a NIC, which the ports of one
card share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.topology.importers.machine import Machine, Nic, Place, Remark
from hetesynth.topology.importers.wording import bandwidth

UNSTATED = Fraction("15.75") * 10**9  # a slot of a GPU of 16 lanes of PCIe 3, where no file tells
_OVER_A_CPU = 1000  # more than any number of bridges
_BETWEEN_CPUS = 2000
_VIRTUAL = ("veth", "docker", "virbr", "br-", "lo")

Edge = tuple[str, Fraction]


@dataclass(frozen=True, slots=True)
class Tree:
    """The bridges of a machine by name."""

    machine: Machine
    places: dict[str, Place]

    @classmethod
    def of(cls, machine: Machine) -> Tree:
        """The tree of a machine."""
        return cls(machine, {bridge.name: bridge.place for bridge in machine.bridges})

    def above(self, place: Place) -> tuple[str, ...]:
        """Bridges and the CPU above a device, nearest first."""
        chain: list[str] = []
        while place.parent:
            chain.append(place.parent)
            place = self.places.get(place.parent, Place())
        return tuple(chain)

    def distance(self, gpu: Place, nic: Place) -> int:
        """PIX and PXB by the number of bridges, then PHB, then SYS."""
        left, right = self.above(gpu), self.above(nic)
        cpus = {cpu.name for cpu in self.machine.cpus}
        for up, name in enumerate(left):
            if name in right:
                return _OVER_A_CPU if name in cpus else up + right.index(name)
        return _BETWEEN_CPUS

    def way(self, gpu: int, nic: int) -> tuple[Edge, ...]:
        """The edges between a GPU and a NIC, in no order; a CPU link is one of them."""
        machine = self.machine
        ends = (machine.gpus[gpu].place, machine.nics[nic].place)
        left, right = (self.above(place) for place in ends)
        shared = set(left) & set(right)
        edges = [
            (f"gpu{gpu}", ends[0].rate),
            (slot(nic, machine.nics[nic]), ends[1].rate),
            *((name, self.places[name].rate) for name in (*left, *right) if self._is_crossed(name, shared)),
        ]
        if left and right and not shared:
            top = {left[-1], right[-1]}
            edges += [(f"{k.a}-{k.b}", k.rate) for k in machine.cpu_links if {k.a, k.b} == top]
        return tuple((name, rate) for name, rate in edges if rate is not None)

    def _is_crossed(self, name: str, shared: set[str]) -> bool:
        return name in self.places and name not in shared


def slot(index: int, nic: Nic) -> str:
    """The name of the edge above a NIC; ports of one card have the same."""
    return f"slot {nic.place.bus}" if nic.place.bus else f"nic{index}"


def with_nic_slots(machine: Machine) -> Machine:
    """The machine with rates for the slots of NICs that the file has without one: what the NICs need, and no less
    than the slots of the GPUs. What is not told must not limit a NIC."""
    of_gpus = max((gpu.place.rate or Fraction(0) for gpu in machine.gpus), default=Fraction(0))
    nics = []
    assumed: dict[Fraction, list[str]] = defaultdict(list)
    for nic in machine.nics:
        if nic.place.parent and nic.place.rate is None and nic.rate is not None and not is_virtual(nic):
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
    """Whether a GPU and a NIC that it uses hang on two CPUs."""
    tree = Tree.of(machine)
    return any(
        tree.distance(machine.gpus[gpu].place, machine.nics[nic].place) == _BETWEEN_CPUS
        for nic, gpus in gpus_of_nics(machine).items()
        for gpu in gpus
    )


def narrowest(edges: Sequence[Edge]) -> Fraction | None:
    """The rate of the slowest edge."""
    return min((rate for _, rate in edges), default=None)


def gpus_of_nics(machine: Machine) -> dict[int, tuple[int, ...]]:
    """NIC -> the GPUs that use it: the nearest to each, in order where several are; unused NICs are absent."""
    stated = {n: nic.gpus for n, nic in enumerate(machine.nics) if nic.gpus}
    usable = [n for n, nic in enumerate(machine.nics) if not is_virtual(nic)]
    if stated or not usable:
        return stated
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    tree = Tree.of(machine)
    for gpu, it in enumerate(machine.gpus):
        groups[_nearest(tree, it.place, usable)].append(gpu)
    pairs: dict[int, set[int]] = defaultdict(set)
    for nics, gpus in groups.items():
        for i in range(max(len(nics), len(gpus))):
            many_nics = len(nics) >= len(gpus)
            nic = nics[i] if many_nics else nics[i * len(nics) // len(gpus)]
            pairs[nic].add(gpus[i * len(gpus) // len(nics)] if many_nics else gpus[i])
    return {nic: tuple(sorted(pairs[nic])) for nic in sorted(pairs)}


def is_virtual(nic: Nic) -> bool:
    """An interface of containers, which no cable is plugged into."""
    return nic.name.startswith(_VIRTUAL)


def _nearest(tree: Tree, place: Place, usable: Sequence[int]) -> tuple[int, ...]:
    """The NICs nearest to a GPU; of those that are as near over a CPU the fastest, as libraries choose."""
    nics = tree.machine.nics
    far = {n: tree.distance(place, nics[n].place) for n in usable}
    nearest = [n for n in usable if far[n] == min(far.values())]
    fastest = max(nics[n].rate or 0 for n in nearest)
    return tuple(n for n in nearest if (nics[n].rate or 0) == fastest)
