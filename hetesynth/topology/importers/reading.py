"""What a reader is given and what it gives back, and how it says no."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.fabric import Fabric
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.network import Network
from hetesynth.topology.importers.rates import Calibration


@dataclass(frozen=True, slots=True)
class Stated:
    """What the user states of one file; it counts also where the file tells otherwise."""

    model: str = ""
    nic_rate: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its name for messages, its bytes, and what the user states of it."""

    name: str
    data: bytes
    stated: Stated = Stated()

    def with_stated(self, other: Source) -> Source:
        """The source with what is stated of ``other``, a file on the same server, where nothing is of its own."""
        mine, more = self.stated, other.stated
        return replace(self, stated=Stated(mine.model or more.model, mine.nic_rate or more.nic_rate))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user adds to what files tell. ``node_type`` is of the library.

    ``nic_rate`` (bytes per second) and ``model``: where a file does not tell and nothing is stated of it. Readers
    leave NICs without a rate, so that the network's files are asked before ``nic_rate`` is taken.

    ``uplink`` (bytes per second) and ``oversubscription``: of cables between switches whose rate no file tells.
    ``hosts``: patterns with commas between; only hosts of a network that one of them fits are taken.
    """

    calibration: Calibration = "spec"
    nic_rate: Fraction | None = None
    model: str = ""
    node_type: str = ""
    uplink: Fraction | None = None
    oversubscription: Fraction = Fraction(1)
    hosts: str = "*"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one file told: servers, or the network between them, or a whole cluster as text of the language.

    ``files``: the name of the file of each machine, where the reading is of several.
    """

    machines: tuple[Machine, ...] = ()
    fabric: Fabric | None = None
    text: str = ""
    remarks: tuple[Remark, ...] = ()
    network: Network | None = None
    files: tuple[str, ...] = ()


def refused(source: Source, what: str, way_out: str = "see docs/importing.md") -> HetesynthError:
    """The file is not what its format asks for."""
    return HetesynthError(f"{source.name}: {what}", code="HS732", help=way_out)


def lacking(source: Source, what: str, way_out: str) -> HetesynthError:
    """The file is in order, but a cluster needs more than it tells; ``way_out`` names the flag."""
    return HetesynthError(f"{source.name}: {what}", code="HS733", help=way_out)
