"""What joins servers: stated on the command line (``--net``), or read from a file about the network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.network import Network

FabricKind = Literal["switch", "rails", "leafspine", "leaves", "network", "none"]
MAX_SERVERS_OF_A_LEAF = 1024


@dataclass(frozen=True, slots=True)
class Leaf:
    """A switch that servers are plugged into, by host; ``uplink``: bytes per second to the spine, if known."""

    name: str
    hosts: tuple[str, ...]
    uplink: Fraction | None = None
    spine: str = "spine"

    def __post_init__(self) -> None:
        if not self.hosts or (self.uplink is not None and self.uplink <= 0):
            raise ValueError(f"{self.name}: a leaf needs servers, and its uplink a positive rate")


@dataclass(frozen=True, slots=True)
class Fabric:
    """The network between servers.

    ``switch``: one that joins every NIC. ``rails``: one for each number of NIC. ``leafspine``: a leaf for every
    ``servers`` of them, below a spine, with uplinks of 1/``oversubscription`` of what the leaf's NICs carry.
    ``leaves``: those listed; ``network``: as a file describes it. ``none``: nothing, for a single server.
    """

    kind: FabricKind
    servers: int = 0
    oversubscription: Fraction = Fraction(1)
    leaves: tuple[Leaf, ...] = ()
    network: Network | None = None

    def __post_init__(self) -> None:
        if self.kind == "leafspine" and not 1 <= self.servers <= MAX_SERVERS_OF_A_LEAF:
            raise ValueError("servers of a leaf out of range")
        if self.oversubscription <= 0:
            raise ValueError("the oversubscription must be positive")
        if (self.kind == "network") != (self.network is not None):
            raise ValueError("a network is given for the kind that has it, and only for it")
        if (self.kind == "leaves") != bool(self.leaves):
            raise ValueError("leaves are listed for the kind that has them, and only for it")


_LEAFSPINE = re.compile(r"leafspine:([0-9]{1,4})(?::([0-9]{1,4}(?:\.[0-9]{1,4})?))?")


def parse_fabric(text: str) -> Fabric:
    """``switch``, ``rails``, ``leafspine:SERVERS[:OVERSUBSCRIPTION]`` or ``none``; HetesynthError HS731."""
    match text:
        case "switch" | "rails" | "none":
            return Fabric(text)
    rule = _LEAFSPINE.fullmatch(text)
    try:
        if rule:
            return Fabric("leafspine", int(rule[1]), Fraction(rule[2] or 1))
    except ValueError:
        pass
    raise HetesynthError(
        f"--net {text[:40]!r} is no rule for the network between servers",
        code="HS731",
        help="switch, rails, none, or leafspine:4:2 for 4 servers a leaf, oversubscribed 2 to 1",
    )
