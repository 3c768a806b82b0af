"""The elements of an NCCL topology file as devices in a tree of CPUs and bridges; what is missing stays missing.

In: the XML. Out: one ``HostTree`` for each host. What links and rates mean is said in ``nccl.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetesynth.topology.importers.reading import refused

if TYPE_CHECKING:
    from lxml import etree

MAX_NUMBER_DIGITS = 9
MAX_TEXT = 255  # what NCCL's own parser takes
_BUS = re.compile(r"[0-9a-fA-F:.]{1,24}")


@dataclass(frozen=True, slots=True)
class Slot:
    """A ``<pci>`` or a place directly below a CPU, where ``direct`` is true and there is no rate."""

    parent: str
    bus: str = ""
    kind: str = ""  # class
    vendor: str = ""
    device: str = ""
    speed: str = ""
    width: int = 0
    direct: bool = False


@dataclass(frozen=True, slots=True)
class LinkElement:
    """An ``<nvlink>`` or ``<xgmi>``."""

    tag: str
    target: str
    count: int
    kind: str  # tclass


@dataclass(frozen=True, slots=True)
class GpuElement:
    """A ``<gpu>`` or ``<apu>`` and the slot that it is in. ``part``: which one it is of a split GPU (MLOPart)."""

    slot: Slot
    tag: str
    dev: int
    sm: int
    arch: str
    rank: str | None
    links: tuple[LinkElement, ...]
    c2c: bool
    part: int | None


@dataclass(frozen=True, slots=True)
class NetElement:
    """A ``<net>``: speed in Mb/s, latency in us."""

    slot: Slot
    name: str
    speed: int
    latency: str
    guid: str


@dataclass(frozen=True, slots=True)
class CpuElement:
    """A ``<cpu>``."""

    name: str
    numa: int | None
    affinity: str
    arch: str
    vendor: str
    model: int


@dataclass(slots=True)
class HostTree:
    """Everything of one host. Bridges by name; ``bare``: GPU and NIC slots without a ``<gpu>`` or ``<nic>``."""

    identity: str
    cpus: list[CpuElement] = field(default_factory=list)
    bridges: dict[str, Slot] = field(default_factory=dict)
    gpus: list[GpuElement] = field(default_factory=list)
    nets: list[NetElement] = field(default_factory=list)
    bare_gpus: int = 0
    bare_nics: list[Slot] = field(default_factory=list)
    buses: list[str] = field(default_factory=list)


class Devices:
    """Walks the tree of the file called ``name`` once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, root: etree._Element) -> list[HostTree]:
        """Return the hosts in the order of the file."""
        hosts: dict[str, HostTree] = {}
        for element in root.iter("cpu"):
            identity = self._text(element, "host_hash")
            host = hosts.setdefault(identity, HostTree(identity))
            cpu = CpuElement(
                f"cpu{len(host.cpus)}",
                self._number(element, "numaid"),
                self._text(element, "affinity"),
                self._text(element, "arch"),
                self._text(element, "vendor"),
                self._number(element, "modelid") or 0,
            )
            host.cpus.append(cpu)
            self._below(host, element, Slot(cpu.name, direct=True))
        if not hosts:
            raise refused(self._name, "it has no <cpu>, so nothing hangs anywhere")
        return list(hosts.values())

    def _below(self, host: HostTree, top: etree._Element, slot: Slot) -> None:
        """Take in what is below ``top``, in document order; unknown elements are passed through."""
        stack = [(child, slot) for child in reversed(top) if isinstance(child.tag, str)]
        while stack:
            element, above = stack.pop()
            here = above
            match element.tag:
                case "pci":
                    here = self._pci(host, element, above.parent)
                case "gpu" | "apu":
                    self._gpu(host, element, above)
                case "net" if element.get("dev") is not None:  # NCCL passes the others over
                    net = NetElement(
                        above,
                        self._text(element, "name") or f"net{len(host.nets)}",
                        self._number(element, "speed") or 0,
                        self._text(element, "latency"),
                        self._text(element, "guid"),
                    )
                    host.nets.append(net)
                case "cpu":
                    continue
            stack += [(child, here) for child in reversed(element) if isinstance(child.tag, str)]

    def _pci(self, host: HostTree, element: etree._Element, parent: str) -> Slot:
        slot = Slot(
            parent,
            self._bus(element, "busid"),
            self._text(element, "class").lower(),
            self._text(element, "vendor").lower(),
            self._text(element, "device").lower(),
            self._text(element, "link_speed"),
            self._number(element, "link_width") or 0,
        )
        if slot.bus:
            host.buses.append(slot.bus)
        tags = {child.tag for child in element.iter() if isinstance(child.tag, str)} - {"pci", "pcilink"}
        if element.find("pci") is not None or (slot.kind.startswith("0x0604") and tags):
            name = f"bridge{len(host.bridges)}"
            host.bridges[name] = slot
            return Slot(name, direct=True)
        if not tags and slot.kind.startswith(("0x03", "0x12")):
            host.bare_gpus += 1
        elif not tags and slot.kind.startswith("0x02"):
            host.bare_nics.append(slot)
        return slot

    def _gpu(self, host: HostTree, element: etree._Element, slot: Slot) -> None:
        links = [
            LinkElement(
                str(child.tag),
                self._bus(child, "target"),
                self._number(child, "count") or 0,
                self._text(child, "tclass"),
            )
            for tag in ("nvlink", "xgmi")
            for child in element.iterfind(tag)
        ]
        gcn = self._text(element, "gcn").lower()
        arch = {"": "", "910": "gfx90a"}.get(gcn, gcn if gcn.startswith("gfx") else f"gfx{gcn}")
        sm = max(0, self._number(element, "sm") or 0)
        dev = self._number(element, "dev")
        gpu = GpuElement(
            slot,
            str(element.tag),
            len(host.gpus) if dev is None else dev,
            sm,
            arch or (f"sm{sm}" if sm else ""),
            element.get("rank"),
            tuple(links),
            element.find("c2c") is not None,
            self._number(element, "mlopart"),
        )
        host.gpus.append(gpu)

    def _text(self, element: etree._Element, attribute: str) -> str:
        text = element.get(attribute) or ""
        if len(text) > MAX_TEXT:
            raise refused(self._name, f"<{element.tag}> has {attribute} of more than {MAX_TEXT} characters")
        return text

    def _bus(self, element: etree._Element, attribute: str) -> str:
        text = self._text(element, attribute).strip().lower()
        if text and not _BUS.fullmatch(text):
            raise refused(self._name, f"<{element.tag}> has {attribute}={text[:40]!r}, which is no PCI address")
        return text

    def _number(self, element: etree._Element, attribute: str) -> int | None:
        text = (element.get(attribute) or "").strip()
        if not text:
            return None
        if not re.fullmatch(rf"-?[0-9]{{1,{MAX_NUMBER_DIGITS}}}", text):
            raise refused(self._name, f"<{element.tag}> has {attribute}={text[:40]!r}, which is no number")
        return int(text)
