"""The PCIe tree of a machine as `pcie` and `cpu` statements: what joins fewer than two things is left out.

A bridge with one thing below it is no more than a longer wire: the wire gets the rate of the narrower.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.topology.importers.machine import Machine, Place
from hetesynth.topology.importers.pcie import UNSTATED, slot
from hetesynth.topology.importers.wording import bandwidth, listed, time

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
        word = "cpu" if name in cpus else "pcie"
        lines.append(
            _switch(word, names[name], [(names.get(child, child), rate) for child, rate in hanging.below[name]])
        )
    crossing = time(CROSSING)
    for k in joined:
        rest = f"{{ bandwidth {bandwidth(k.rate)}; latency {crossing} }}"
        lines.append(f"upi {names[k.a]} <-> {names[k.b]} {rest}")
    if loose := hanging.below.get(""):
        lines.append(_switch("pcie", "pcie_unknown", loose))
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
        rate = bridge.place.rate or max((rate for _, rate in below), default=UNSTATED)
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


def _switch(word: str, name: str, children: list[Child]) -> str:
    """A switch with ports at the commonest rate, and those at another stated one by one."""
    ports: dict[Fraction, list[str]] = defaultdict(list)
    for child, rate in children:
        ports[rate].append(child)
    main = max(ports, key=lambda rate: (len(ports[rate]), rate))
    body = [f"ports {listed(ports.pop(main))}", f"bandwidth {bandwidth(main)}"]
    body += [f"port {listed(others)} {bandwidth(rate)}" for rate, others in ports.items()]
    return f"{word} {name} {{ {'; '.join(body)}; latency {time(CROSSING)} }}"
