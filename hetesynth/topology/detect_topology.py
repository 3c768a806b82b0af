"""The machine itself -> a topology file: its tools are run, and what they print is imported."""

from __future__ import annotations

import socket
from dataclasses import replace

from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.detect import FABRIC, detect, nic_rates
from hetesynth.topology.importers.reading import ReadOptions


def detect_topology(options: ReadOptions, *, fabric: bool, name: str = "detected") -> ImportedTopology:
    """Import what the machine's tools print; with ``fabric`` also the network that ibnetdiscover sees.

    Raises HetesynthError HS745 where no tool answers, and those of importing.
    """
    answers = [detect(), *([detect(FABRIC)] if fabric else [])]
    host = socket.gethostname().split(".")[0]
    sources = [source for answer in answers for source in answer.sources]
    named = [replace(source, name=f"{host}.{source.name.split()[0]}") for source in sources]
    request = ImportTopologyRequest(
        files=(),
        options=options,
        name=name,
        sources=tuple((source, 1) for source in (named if fabric else sources)),
        remarks=tuple(remark for answer in answers for remark in answer.remarks),
        nic_rates=nic_rates(),
    )
    return import_topology(request)
