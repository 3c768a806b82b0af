"""Ways over the PCIe tree of a machine: which NICs are next to a GPU, and what a way between them carries.

An edge of the tree is named after its lower end: ``gpu0``, a bridge, or the slot of a NIC, which the ports of one
card share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from hetesynth.topology.importers.machine import Machine, Nic, Place, Remark
from hetesynth.topology.importers.wording import bandwidth

Name = TypeVar("Name", int, str)
UNSTATED = Fraction("15.75") * 10**9  # a slot of a GPU of 16 lanes of PCIe 3, where no file tells
_OVER_A_CPU = 1000  # more than any number of bridges
_BETWEEN_CPUS = 2000
_VIRTUAL = ("veth", "docker", "virbr", "br-", "lo")  # of containers: no cable is plugged into these


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
    """Return the machine with rates for the slots of NICs that the file has without one.

    They carry what the NICs need, and no less than the slots of the GPUs: what is not told must not limit a NIC.
    """
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
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    tree = Tree(machine)
    for index, gpu in enumerate(machine.gpus):
        far = {n: tree.distance(gpu.place, machine.nics[n].place) for n in usable}
        least = min(far.values())
        rates = {n: machine.nics[n].rate or 0 for n in usable if far[n] == least}
        fastest = max(rates.values())  # of NICs that are as near over a CPU libraries choose the fastest
        groups[tuple(n for n, rate in rates.items() if rate == fastest)].append(index)
    pairs = spread(groups)
    return {nic: pairs[nic] for nic in sorted(pairs)}


def spread(groups: Mapping[tuple[Name, ...], Sequence[int]]) -> dict[Name, tuple[int, ...]]:
    """Return the GPUs of each NIC, where those of a group share the NICs that it is under evenly and in order."""
    pairs: dict[Name, set[int]] = defaultdict(set)
    for nics, gpus in groups.items():
        most = max(len(nics), len(gpus))
        for i in range(most):
            pairs[nics[i * len(nics) // most]].add(gpus[i * len(gpus) // most])
    return {nic: tuple(sorted(those)) for nic, those in pairs.items()}
