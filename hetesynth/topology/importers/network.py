"""The network between servers as a file tells it: which host hangs below which switch, and what joins switches.

Units as everywhere: bytes per second and one direction, exact; None where the file does not tell.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.topology.importers.machine import Remark

MAX_SWITCHES = 10_000
MAX_ATTACHMENTS = 200_000


class TooLarge(ValueError):
    """A network past the limits."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A host at a switch: with the NIC of that name, or with all of its NICs ("")."""

    host: str
    switch: str
    nic: str = ""
    rate: Fraction | None = None

    def __post_init__(self) -> None:
        if not self.host or not self.switch or (self.rate is not None and self.rate <= 0):
            raise ValueError("an attachment needs a host, a switch and a positive rate")


@dataclass(frozen=True, slots=True)
class Trunk:
    """``lanes`` cables between two switches, each at ``rate``."""

    a: str
    b: str
    lanes: int = 1
    rate: Fraction | None = None

    def __post_init__(self) -> None:
        if self.a == self.b or self.lanes < 1 or (self.rate is not None and self.rate <= 0):
            raise ValueError("a trunk needs two switches, a cable and a positive rate")


@dataclass(frozen=True, slots=True)
class Network:
    """Switches by name, what is attached to them and what joins them.

    ``uplink`` and ``oversubscription`` are of trunks without a rate: stated, or what hosts carry, divided.
    """

    attachments: tuple[Attachment, ...]
    trunks: tuple[Trunk, ...] = ()
    remarks: tuple[Remark, ...] = ()
    uplink: Fraction | None = None
    oversubscription: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not self.attachments:
            raise ValueError("a network needs hosts")
        if len(self.attachments) > MAX_ATTACHMENTS or len(self.tiers()) > MAX_SWITCHES:
            raise TooLarge(f"more than {MAX_ATTACHMENTS} hosts and NICs, or {MAX_SWITCHES} switches")
        if len({(one.host, one.nic) for one in self.attachments}) != len(self.attachments):
            raise ValueError("a NIC is attached twice")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host once, in the order of the file."""
        return tuple(dict.fromkeys(one.host for one in self.attachments))

    def tiers(self) -> dict[str, int]:
        """How far each switch is from the hosts, 0 being a leaf; switches that no host reaches are left out."""
        neighbours: dict[str, list[str]] = defaultdict(list)
        for trunk in self.trunks:
            neighbours[trunk.a].append(trunk.b)
            neighbours[trunk.b].append(trunk.a)
        tiers = dict.fromkeys((one.switch for one in self.attachments), 0)
        border = list(tiers)
        while border:
            border = [
                other for switch in border for other in neighbours[switch]
                if tiers.setdefault(other, tiers[switch] + 1) == tiers[switch] + 1
            ]  # fmt: skip
            border = list(dict.fromkeys(border))
        return tiers


def usual_nics(network: Network) -> tuple[str, ...]:
    """The names of the NICs of the host that has most: where others have fewer of them, ports are down."""
    nics: dict[str, list[str]] = defaultdict(list)
    for one in network.attachments:
        nics[one.host].append(one.nic)
    most = max(len(names) for names in nics.values())
    return next(tuple(names) for names in nics.values() if len(names) == most)
