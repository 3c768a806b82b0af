"""Where each rank runs: host, server, number of the GPU there.

GPUs out of order have no rank and so no place.
"""

import re
from dataclasses import dataclass

from hetesynth.model.pods import PodCluster
from hetesynth.model.topology import Rank, Topology

_NUMBER = re.compile(r"[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class RankPlace:
    """The place of a rank. ``host``: the machine's name, "" where the topology states none. ``server``: its
    instance in the topology. ``device``: the GPU's number there, the driver's for the types of the library."""

    rank: Rank
    host: str
    server: str
    device: int

    @property
    def machine(self) -> str:
        """The host, or the instance's name where no host is stated."""
        return self.host or self.server

    @property
    def gpu(self) -> str:
        """The GPU's name inside its server."""
        return f"gpu{self.device}"


def rank_places(topology: Topology | PodCluster) -> tuple[RankPlace, ...]:
    """Return the place of each rank, in the order of the ranks."""
    places = []
    for rank, vertex in enumerate(topology.vertices[: topology.ranks]):
        number = _NUMBER.search(vertex.name)
        device = int(number[0]) if number else 0
        places.append(RankPlace(rank, vertex.host, vertex.server, device))
    return tuple(places)


def places_document(topology: Topology | PodCluster) -> list[dict[str, str | int]]:
    """Return for JSON, in the order of the ranks, each one's host ("" where none is stated), server and GPU."""
    return [{"host": p.host, "server": p.server, "gpu": p.device} for p in rank_places(topology)]


def places_comment(topology: Topology) -> bytes:
    """Return for XML a comment with a line for each rank; nothing where no host is stated."""
    places = rank_places(topology)
    if not any(place.host for place in places):
        return b""
    lines = [f"rank {p.rank}: {p.machine} {p.server} {p.gpu}" for p in places]
    text = "\n".join(lines).replace("--", "-%2D")  # two of them end a comment
    return f"<!-- ranks: host server gpu\n{text}\n-->\n".encode("ascii", "replace")
