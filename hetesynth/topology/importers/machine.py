"""One server as a file describes it: GPUs, NICs, the PCIe tree, the links between GPUs, and what was remarked.

Units: bandwidth in bytes per second and one direction, latency in seconds, both exact; None where the file does
not tell. GPUs, NICs and bridges are named by their place in their tuple, as gpu0 and nic0 in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

RemarkKind = Literal["found", "assumed", "suspicious"]  # read from the file, added to it, or hard to believe
MAX_GPUS_OF_A_MACHINE = 1024


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about what was read."""

    kind: RemarkKind
    text: str

    @property
    def severity(self) -> Literal["note", "warning"]:
        """A warning for what is suspicious: it should be looked at before the text is used."""
        return "warning" if self.kind == "suspicious" else "note"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is plugged in: below a PCIe bridge or a CPU, at ``rate``; None where it is not known."""

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
    """A NIC or one port of it. ``gpus``: those next to it, where the file tells that rather than a PCIe tree."""

    name: str
    rate: Fraction | None
    latency: Fraction | None = None
    place: Place = Place()
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bridge:
    """A PCIe switch, or one of its ports: what is below it meets in it."""

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
    """GPU ``gpu`` has ``lanes`` links into the NVSwitch fabric, each at ``rate``."""

    gpu: int
    lanes: int
    rate: Fraction


@dataclass(frozen=True, slots=True)
class Machine:
    """A server. ``between``: what every two of its CPUs have between them. ``domain``: the NVLink domain that its
    ports join, where that reaches beyond the server.

    ``node_type``: a type of the node library that stands for the whole server, in place of what is listed.
    """

    host: str
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...] = ()
    cpus: tuple[str, ...] = ()
    bridges: tuple[Bridge, ...] = ()
    between: Fraction = Fraction(0)
    links: tuple[GpuLink, ...] = ()
    ports: tuple[SwitchPort, ...] = ()
    remarks: tuple[Remark, ...] = ()
    domain: str = ""
    node_type: str = ""

    def links_of(self, gpu: int) -> int:
        """Return how many NVLink or xGMI links leave a GPU, direct ones and those into a switch."""
        direct = sum(link.count for link in self.links if gpu in (link.a, link.b))
        return direct + sum(port.lanes for port in self.ports if port.gpu == gpu)

    @property
    def is_joined(self) -> bool:
        """True where GPUs meet over NVLink or xGMI: a switch, or a link for every pair."""
        pairs = len(self.gpus) * (len(self.gpus) - 1) // 2
        return bool(self.ports or self.domain) or len(self.links) >= pairs


def one_nic_a_gpu(
    parents: list[str], rate: Fraction | None, otherwise: Fraction | None
) -> tuple[tuple[Nic, ...], Remark]:
    """Return what stands for NICs that a tool does not name: none, or one a GPU where their rate is stated.

    They are next to their GPUs, or below the same ``parents`` where these are known.
    """
    if rate is None and otherwise is None:
        return (), Remark("assumed", "no NICs: the tool names none; --nic-rate adds one a GPU")
    nics = tuple(
        Nic(f"nic{gpu}", rate, place=Place(parent), gpus=() if parent else (gpu,))
        for gpu, parent in enumerate(parents)
    )
    return nics, Remark("assumed", "one NIC a GPU: the tool names none")
