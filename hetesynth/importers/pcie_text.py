"""The PCIe tree of a machine as switches: what joins fewer than two things is left out.

A bridge with one thing below it is no more than a longer wire: the wire gets the rate of the narrower.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.importers.machine import Machine, Place
from hetesynth.importers.pcie import UNSTATED, slot
from hetesynth.importers.wording import bandwidth, time

CROSSING = (
    Fraction("0.3") / 10**6
)  # of a PCIe switch, a CPU and a CPU link: 1.5 us for the five of the longest way
LATENCIES = f"each PCIe switch, CPU and link between CPUs on a way takes {time(CROSSING)}"

Child = tuple[str, Fraction]  # what hangs below, at which rate


@dataclass(slots=True)
class _Tree:
    below: dict[str, list[Child]] = field(default_factory=lambda: defaultdict(list))

    def hang(self, place: Place, name: str) -> None:
        self.below[place.parent].append((name, place.rate or UNSTATED))


def tree(machine: Machine, number: dict[int, int]) -> list[str]:
    """Statements for the tree; ``number``: the numbers of the NICs that are used. NIC n is ``nic{number[n]}``."""
    hanging = _hanging(machine, number)
    cpus = [cpu.name for cpu in machine.cpus if hanging.below.get(cpu.name)]
    joined = [link for link in machine.cpu_links if link.a in cpus and link.b in cpus]
    names = {name: f"cpu{i}" for i, name in enumerate(cpus)}
    lines: list[str] = []
    switches = [b.name for b in machine.bridges if len(hanging.below.get(b.name, ())) > 1]
    switches += [name for name in hanging.below if name.startswith("slot ")]
    names |= {name: f"pcie{i}" for i, name in enumerate(switches)}
    for name in (*switches, *cpus):
        if name in cpus and not joined and len(hanging.below[name]) == 1:
            continue
        lines += _switch(names[name], [(names.get(child, child), rate) for child, rate in hanging.below[name]])
    lines += [
        f"link {names[k.a]} <-> {names[k.b]} {{ bandwidth {bandwidth(k.rate)}; latency {time(CROSSING)}; kind upi }}"
        for k in joined
    ]
    if loose := [child for child, _ in hanging.below.get("", ())]:
        lines += _switch("pcie_unknown", [(child, UNSTATED) for child in loose])
    return lines


def _hanging(machine: Machine, number: dict[int, int]) -> _Tree:
    """What hangs below each bridge and CPU, bridges of one thing taken out."""
    hanging = _Tree()
    for i, gpu in enumerate(machine.gpus):
        hanging.hang(gpu.place, f"gpu{i}")
    cards: dict[str, list[int]] = defaultdict(list)
    for n in number:
        cards[slot(n, machine.nics[n])].append(n)
    for card, nics in cards.items():
        place = machine.nics[nics[0]].place
        if len(nics) == 1:
            hanging.hang(place, f"nic{number[nics[0]]}")
            continue
        hanging.hang(place, card)
        hanging.below[card] = [(f"nic{number[n]}", place.rate or UNSTATED) for n in nics]
    for bridge in reversed(machine.bridges):  # children stand behind their parents
        below = hanging.below.get(bridge.name, [])
        rate = bridge.place.rate or UNSTATED
        if len(below) == 1:
            child, own = below.pop()
            hanging.below[bridge.place.parent].append((child, min(own, rate)))
        elif below:
            hanging.below[bridge.place.parent].append((bridge.name, rate))
    for below in hanging.below.values():
        below.sort(
            key=lambda child: (not child[0].startswith("gpu"), child[0].startswith("nic"), _order(child[0]))
        )
    return hanging


def _order(name: str) -> tuple[int, str]:
    return (int(name[3:]), "") if name[:3] in ("gpu", "nic") and name[3:].isdigit() else (0, name)


def _switch(name: str, children: list[Child]) -> list[str]:
    """A switch with ports for GPUs and switches of the commonest rate, links for the others, NICs attached."""
    ports: dict[Fraction, list[str]] = defaultdict(list)
    for child, rate in children:
        if not child.startswith("nic"):
            ports[rate].append(child)
    lines = []
    if ports:
        main = max(ports, key=lambda rate: (len(ports[rate]), rate))
        own = ", ".join(ports.pop(main))
        lines.append(
            f"switch {name} {{ ports {own}; bandwidth {bandwidth(main)}; latency {time(CROSSING)}; kind pcie }}"
        )
    for rate, others in ports.items():
        lines += [f"link {other} <-> {name} {{ bandwidth {bandwidth(rate)}; kind pcie }}" for other in others]
    for child, rate in children:
        if child.startswith("nic"):
            lines.append(f"attach {name} -> {child} {{ bandwidth {bandwidth(rate)}; kind pcie }}")
    return lines
