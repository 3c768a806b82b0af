"""Reads written text back: it must be a cluster, with the GPUs, NICs and links that were read.

A difference is a bug of the writer, or a machine that the language cannot say; either way no text is given out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.pcie import gpus_of_nics

if TYPE_CHECKING:
    from hetesynth.model.topology import Topology


def read_back(text: str, name: str) -> Topology:
    """The topology of ``text``; HetesynthError HS735 where the frontend refuses it."""
    from hetesynth.topology.language import parse_topology

    try:
        return parse_topology(text, name)
    except HetesynthError as error:
        raise HetesynthError(
            f"what was read is no cluster that the topology language can say: {error.message}",
            code="HS735",
            help=error.help or "import a dump of one server at a time and join them by hand",
        ) from error


def demand_agreement(topology: Topology, machines: Sequence[Machine]) -> None:
    """HetesynthError HS735 unless the topology has the GPUs, NICs and lanes per GPU of ``machines``."""
    listed = [machine for machine in machines if not machine.node_type]
    if len(listed) < len(machines):
        return  # what the library has is checked by its own tests
    gpus = sum(len(machine.gpus) for machine in listed)
    nics = sum(len(gpus_of_nics(machine)) for machine in listed)
    read = (gpus, nics)
    written = (topology.ranks, sum(vertex.kind == "nic" for vertex in topology.vertices))
    if written != read:
        raise _differs(f"{written[0]} GPUs and {written[1]} NICs", f"{read[0]} and {read[1]}")
    lanes = _lanes(topology)
    first = 0
    for machine in listed:
        for i in range(len(machine.gpus)):
            expected = sum(link.count for link in machine.links if i in (link.a, link.b))
            if lanes[first + i] != expected:
                raise _differs(f"{lanes[first + i]} direct links at rank {first + i}", str(expected))
        first += len(machine.gpus)


def _lanes(topology: Topology) -> Counter[int]:
    """Lanes of direct wires that leave each GPU for another."""
    lanes: Counter[int] = Counter()
    for wire in topology.wires:
        if wire.src < topology.ranks and wire.dst < topology.ranks:
            lanes[wire.src] += wire.lanes
    return lanes


def _differs(written: str, read: str) -> HetesynthError:
    return HetesynthError(
        f"the text that was made has {written}, the files have {read}",
        code="HS735",
        help="this is a bug in hetesynth: please report it with the files",
    )
