"""What a reader is given and what it gives back, and how it says no."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.importers.fabric import Fabric
from hetesynth.importers.machine import Machine, Remark
from hetesynth.importers.network import Network
from hetesynth.importers.rates import Calibration


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its name for messages, and its bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user adds to what files tell. ``nic_rate`` in bytes per second; ``node_type`` of the library.

    ``uplink`` (bytes per second) and ``oversubscription``: of cables between switches whose rate no file tells.
    """

    calibration: Calibration = "spec"
    nic_rate: Fraction | None = None
    model: str = ""
    node_type: str = ""
    uplink: Fraction | None = None
    oversubscription: Fraction = Fraction(1)


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
