"""The network between servers: stated on the command line (``--net``), or as a file tells it.

Units as everywhere: bytes per second and one direction, exact; None where the file does not tell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Remark

MAX_SWITCHES = 10_000
MAX_ATTACHMENTS = 200_000
MAX_SERVERS_OF_A_LEAF = 1024
_LEAFSPINE = re.compile(r"leafspine:([0-9]{1,4})(?::([0-9]{1,4}(?:\.[0-9]{1,4})?))?")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A host at a switch: with the NIC of that name, or with all of its NICs ("")."""

    host: str
    switch: str
    nic: str = ""
    rate: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Trunk:
    """``lanes`` cables between two switches, each at ``rate``."""

    a: str
    b: str
    lanes: int = 1
    rate: Fraction | None = None


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
        if len(self.attachments) > MAX_ATTACHMENTS or len(self.tiers()) > MAX_SWITCHES:
            what = f"the network has more than {MAX_ATTACHMENTS} hosts and NICs, or {MAX_SWITCHES} switches"
            raise HetesynthError(what, code="HS732", help="import a part of it")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host once, in the order of the file."""
        return tuple(dict.fromkeys(one.host for one in self.attachments))

    def by_host(self) -> dict[str, list[Attachment]]:
        """Return what is attached of each host, in the order of the file."""
        attached: dict[str, list[Attachment]] = defaultdict(list)
        for one in self.attachments:
            attached[one.host].append(one)
        return attached

    def usual_nics(self) -> list[str]:
        """Return the names of the NICs of the host that has most: where others have fewer, ports are down."""
        return [one.nic for one in max(self.by_host().values(), key=len)]

    def tiers(self) -> dict[str, int]:
        """Return how far each switch is from the hosts, 0 being a leaf, without switches that no host reaches."""
        neighbours: dict[str, list[str]] = defaultdict(list)
        for trunk in self.trunks:
            neighbours[trunk.a].append(trunk.b)
            neighbours[trunk.b].append(trunk.a)
        tiers = dict.fromkeys((one.switch for one in self.attachments), 0)
        border = list(tiers)
        for switch in border:  # grows while it is walked
            for other in neighbours[switch]:
                if other not in tiers:
                    tiers[other] = tiers[switch] + 1
                    border.append(other)
        return tiers


@dataclass(frozen=True, slots=True)
class Fabric:
    """The network between servers.

    ``switch``: one that joins every NIC. ``rails``: one for each number of NIC. ``leafspine``: a leaf for every
    ``servers`` of them, below a spine, with uplinks of 1/``oversubscription`` of what the leaf's NICs carry.
    ``network``: as a file describes it. ``none``: nothing, for a single server.
    """

    kind: Literal["switch", "rails", "leafspine", "network", "none"]
    servers: int = 0
    oversubscription: Fraction = Fraction(1)
    network: Network | None = None


def parse_fabric(text: str) -> Fabric:
    """Read ``switch``, ``rails``, ``leafspine:SERVERS[:OVERSUBSCRIPTION]`` or ``none``; HetesynthError HS731."""
    if text in ("switch", "rails", "none"):
        return Fabric(text)  # type: ignore[arg-type]
    if rule := _LEAFSPINE.fullmatch(text):
        servers, oversubscription = int(rule[1]), Fraction(rule[2] or 1)
        if 1 <= servers <= MAX_SERVERS_OF_A_LEAF and oversubscription:
            return Fabric("leafspine", servers, oversubscription)
    what = f"--net {text[:40]!r} is no rule for the network between servers"
    help_ = "switch, rails, none, or leafspine:4:2 for 4 servers a leaf, oversubscribed 2 to 1"
    raise HetesynthError(what, code="HS731", help=help_)
