"""One server as a file describes it: GPUs, NICs, the PCIe tree, the links between GPUs, and what was remarked.

Units: bandwidth in bytes per second and one direction, latency in seconds, both exact; None where the file does
not tell. GPUs, NICs, CPUs and bridges are named by their place in their tuple, as gpu0 and nic0 in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

RemarkKind = Literal["found", "assumed", "suspicious"]  # read from the file, added to it, or hard to believe
MAX_GPUS_OF_A_MACHINE = 1024


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about what was read. ``severity``: a warning should be looked at before the text is used.

    What is suspicious is a warning, in the text and on the terminal, and nothing else is.
    """

    kind: RemarkKind
    text: str
    severity: Literal["note", "warning"] = "note"

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("a remark needs a text")
        if (self.kind == "suspicious") != (self.severity == "warning"):
            raise ValueError(f"a remark of the kind {self.kind} is no {self.severity}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is plugged in: below a PCIe bridge or a CPU, at ``rate``; None where it is not known."""

    parent: str = ""  # the name of a Bridge or a Cpu, "" where the file does not tell
    rate: Fraction | None = None
    bus: str = ""
    numa: int | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate <= 0:
            raise ValueError(f"{self.bus}: the rate of a slot must be positive")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU; ``model`` and ``arch`` ("sm90", "gfx942") as far as the file tells."""

    model: str = ""
    arch: str = ""
    place: Place = Place()


@dataclass(frozen=True, slots=True)
class Nic:
    """A NIC or one port of it. ``gpus``: those next to it, where the file tells that rather than a PCIe tree."""

    name: str
    rate: Fraction | None
    latency: Fraction | None = None
    place: Place = Place()
    gpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate <= 0:
            raise ValueError(f"{self.name}: the rate of a NIC must be positive")
        if self.latency is not None and self.latency < 0:
            raise ValueError(f"{self.name}: the latency of a NIC must not be negative")


@dataclass(frozen=True, slots=True)
class Cpu:
    """A socket or a NUMA node of one."""

    name: str
    numa: int | None = None
    vendor: str = ""


@dataclass(frozen=True, slots=True)
class Bridge:
    """A PCIe switch, or one of its ports: what is below it meets in it."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class CpuLink:
    """Two CPUs, both directions."""

    a: str
    b: str
    rate: Fraction


@dataclass(frozen=True, slots=True)
class GpuLink:
    """``count`` lanes from GPU ``a`` to GPU ``b`` and as many back, each at ``rate``."""

    a: int
    b: int
    count: int
    rate: Fraction
    kind: str = "nvlink"

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise ValueError(f"gpu{self.a}: a link to itself")
        if self.count < 1 or self.rate <= 0:
            raise ValueError(f"gpu{self.a}-gpu{self.b}: lanes and rate must be positive")


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """GPU ``gpu`` has ``lanes`` links into the NVSwitch fabric, each at ``rate``."""

    gpu: int
    lanes: int
    rate: Fraction

    def __post_init__(self) -> None:
        if self.lanes < 1 or self.rate <= 0:
            raise ValueError(f"gpu{self.gpu}: lanes and rate must be positive")


@dataclass(frozen=True, slots=True)
class Machine:
    """A server. ``domain``: the NVLink domain that its ports join, where that reaches beyond the server.

    ``node_type``: a type of the node library that stands for the whole server, in place of what is listed.
    """

    host: str
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...] = ()
    cpus: tuple[Cpu, ...] = ()
    bridges: tuple[Bridge, ...] = ()
    cpu_links: tuple[CpuLink, ...] = ()
    links: tuple[GpuLink, ...] = ()
    ports: tuple[SwitchPort, ...] = ()
    remarks: tuple[Remark, ...] = ()
    domain: str = ""
    node_type: str = ""
    identity: str = ""  # what the file calls the server to tell it from others, such as a hash of its name

    def __post_init__(self) -> None:
        if not (self.gpus or self.node_type):
            raise ValueError("a machine needs a GPU, or a node type of the library")
        if len(self.gpus) > MAX_GPUS_OF_A_MACHINE:
            raise ValueError(f"a machine of more than {MAX_GPUS_OF_A_MACHINE} GPUs")
        ends = [i for link in self.links for i in (link.a, link.b)]
        ends += [port.gpu for port in self.ports] + [i for nic in self.nics for i in nic.gpus]
        if any(not 0 <= i < len(self.gpus) for i in ends):
            raise ValueError("a link, a port or a NIC names a GPU that the machine lacks")
        pairs = [frozenset((link.a, link.b)) for link in self.links]
        if len(set(pairs)) != len(pairs):
            raise ValueError("two entries for the links of one pair of GPUs")
        if len({port.gpu for port in self.ports}) != len(self.ports):
            raise ValueError("two entries for the ports of one GPU")
        self._check_tree()

    def _check_tree(self) -> None:
        """Names are unique, and every parent is a CPU or a bridge that stands before its children."""
        names = [cpu.name for cpu in self.cpus]
        for bridge in self.bridges:
            if bridge.place.parent and bridge.place.parent not in names:
                raise ValueError(
                    f"{bridge.name} hangs below {bridge.place.parent}, which does not stand before it"
                )
            names.append(bridge.name)
        if len(set(names)) != len(names):
            raise ValueError("two CPUs or bridges have the same name")
        for place in (*(gpu.place for gpu in self.gpus), *(nic.place for nic in self.nics)):
            if place.parent and place.parent not in names:
                raise ValueError(f"a device hangs below {place.parent}, which the machine lacks")
        if any(end not in {cpu.name for cpu in self.cpus} for link in self.cpu_links for end in (link.a, link.b)):
            raise ValueError("a link between CPUs that the machine lacks")

    def links_of(self, gpu: int) -> int:
        """How many NVLink or xGMI links leave a GPU, direct ones and those into a switch."""
        direct = sum(link.count for link in self.links if gpu in (link.a, link.b))
        return direct + sum(port.lanes for port in self.ports if port.gpu == gpu)
