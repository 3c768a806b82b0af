"""Distances between devices (PIX, PXB, PHB, NODE, SYS) to a PCIe tree: CPUs, switches, and where devices hang.

PIX: one PCIe switch between them; PXB: several; PHB and NODE: one CPU; SYS: two. Cells with NVLink hide the
distance, so what they join is placed by its other distances and its NUMA node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hetesynth.topology.importers.machine import Bridge, Cpu, Place


@dataclass(frozen=True, slots=True)
class SlotTree:
    """CPUs, PCIe switches (parents first), and the parent of each device."""

    cpus: tuple[Cpu, ...]
    bridges: tuple[Bridge, ...]
    parents: Mapping[str, str]


def slot_tree(
    devices: Sequence[str], distance: Callable[[str, str], str | None], numa: Mapping[str, str]
) -> SlotTree:
    """The tree in which the distances are those given. Rates are the caller's."""
    sockets = _parts(devices, lambda a, b: _one_cpu(a, b, distance, numa))
    cpus: list[Cpu] = []
    bridges: list[Bridge] = []
    parents: dict[str, str] = {}
    for number, socket in enumerate(sockets):
        cpu = f"cpu{number}"
        nodes = {numa[device] for device in socket if device in numa}
        node = nodes.pop() if len(nodes) == 1 else ""
        cpus.append(Cpu(cpu, int(node) if node.isdigit() else None))
        for group in _parts(socket, lambda a, b: distance(a, b) in ("PIX", "PXB")):
            switches = _parts(group, lambda a, b: distance(a, b) == "PIX")
            above = cpu
            if len(switches) > 1:
                above = f"pcie{len(bridges)}"
                bridges.append(Bridge(above, Place(cpu)))
            for switch in switches:
                below = above
                if len(switch) > 1:
                    below = f"pcie{len(bridges)}"
                    bridges.append(Bridge(below, Place(above)))
                parents |= dict.fromkeys(switch, below)
    return SlotTree(tuple(cpus), tuple(bridges), parents)


def _one_cpu(a: str, b: str, distance: Callable[[str, str], str | None], numa: Mapping[str, str]) -> bool:
    """Whether two devices are at one CPU: by their distance, else, where NVLink hides it, by their NUMA nodes."""
    cell = distance(a, b) or ""
    if cell.startswith("NV"):
        return a in numa and numa[a] == numa.get(b)
    return cell in ("PIX", "PXB", "PHB", "NODE")


def _parts(devices: Sequence[str], joined: Callable[[str, str], bool]) -> list[list[str]]:
    """The devices in groups: those joined, directly or by others, together; in the order of the first of each."""
    groups: list[list[str]] = []
    for device in devices:
        joining = [group for group in groups if any(joined(device, other) for other in group)]
        merged = [other for group in joining for other in group] + [device]
        position = groups.index(joining[0]) if joining else len(groups)
        groups = [group for group in groups if group not in joining]
        groups.insert(position, merged)
    return [sorted(group, key=devices.index) for group in groups]
