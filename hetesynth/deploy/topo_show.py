"""A topology, looked at: its facts, its capacities, pictures of it.

In: a topology file, how to quantize it, where pictures go. Out: capacities and facts; the files, both or none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hetesynth.engine.places import demand_place
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Diagnostic
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.report.cluster_facts import ClusterFacts, cluster_facts
from hetesynth.search.chunking import Chunking, ChunkingOptions, chunk

MAX_DRAWN_WIRES = 50_000


@dataclass(frozen=True, slots=True)
class Pictures:
    """Where the drawing and the graph go, if anywhere."""

    svg: Path | None = None
    graphml: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files to be written."""
        return tuple(path for path in (self.svg, self.graphml) if path is not None)


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to show: capacities, facts, and what is doubtful about the file."""

    chunking: Chunking
    facts: ClusterFacts
    warnings: tuple[Diagnostic, ...]


def look(path: os.PathLike[str], options: ChunkingOptions, pictures: Pictures, policy: Policy = DEFAULT) -> Look:
    """Capacities, facts and warnings of the topology at ``path``; its pictures are written."""
    from hetesynth.deploy.lint_files import linted_topology

    for place in pictures.paths:
        demand_place(place)
    topology, findings = linted_topology(path, policy.compile)
    chunking = chunk(topology, options)
    facts = cluster_facts(topology)
    _draw(topology, pictures)
    return Look(chunking, facts, tuple(d for d in findings if d.severity == "warning"))


def _draw(topology: Topology, pictures: Pictures) -> None:
    files: dict[Path, bytes] = {}
    if pictures.svg is not None:
        from hetesynth.report.svg import topology_svg

        if len(topology.wires) > MAX_DRAWN_WIRES:
            raise HetesynthError(
                f"{len(topology.wires)} wires are too many to draw: at most {MAX_DRAWN_WIRES}",
                code="HS574",
                help="describe all-to-all joined GPUs by a switch, or use --graphml",
            )
        files[pictures.svg] = topology_svg(topology).encode()
    if pictures.graphml is not None:
        from hetesynth.report.svg import graphml

        files[pictures.graphml] = graphml(topology)
    if files:
        from hetesynth.files.atomic import write_all

        write_all(files)
