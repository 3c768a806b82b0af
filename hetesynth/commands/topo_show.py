"""A topology, looked at: its facts, its capacities, pictures of it.

In: a topology file, how to quantize it, where pictures go. Out: capacities and facts; the files, both or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hetesynth.chunking import Chunking, ChunkingOptions
from hetesynth.commands.places import demand_place
from hetesynth.compile.problem import load_chunking
from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.report.cluster_facts import ClusterFacts, cluster_facts

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


def look(path: Path, options: ChunkingOptions, pictures: Pictures) -> tuple[Chunking, ClusterFacts]:
    """Capacities and facts of the topology at ``path``; its pictures are written."""
    for place in pictures.paths:
        demand_place(place)
    chunking = load_chunking(path, options)
    facts = cluster_facts(chunking.topology)
    _draw(chunking.topology, pictures)
    return chunking, facts


def _draw(topology: Topology, pictures: Pictures) -> None:
    files: dict[Path, bytes] = {}
    if pictures.svg is not None:
        from hetesynth.report.topology_svg import topology_svg

        if len(topology.wires) > MAX_DRAWN_WIRES:
            raise HetesynthError(
                f"{len(topology.wires)} wires are too many to draw: at most {MAX_DRAWN_WIRES}",
                code="HS574",
                help="describe all-to-all joined GPUs by a switch, or use --graphml",
            )
        files[pictures.svg] = topology_svg(topology).encode()
    if pictures.graphml is not None:
        from hetesynth.report.graphml import graphml

        files[pictures.graphml] = graphml(topology)
    if files:
        from hetesynth.files.atomic import write_all

        write_all(files)
