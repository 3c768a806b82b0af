"""What a designer says of the schedules to search among: a communication sketch (TACCL, NSDI 2023, section 3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank, Topology

Permutation = tuple[Rank, ...]
"""Where each rank goes."""
Connection = Literal["fully-connected", "direct-map"]


@dataclass(frozen=True, slots=True)
class Sketch:
    """A communication sketch from the file ``name``. GPUs are numbered inside their server.

    ``servers``: their number; None: any. ``between``: pairs of a GPU and one of another server to which it sends,
    or all to all, or each to its like; None: not stated. ``relays``: for a GPU those by which its chunks leave
    their server; empty: any. ``offsets``: symmetries, each an offset and the size of the blocks of ranks inside
    which all ranks move by the offset. ``chunks``: per rank, where stated. ``largest``: the largest number of a
    GPU that the sketch names. ``unused``: statements of the sketch that are not used, in words."""

    name: str
    servers: int | None
    between: frozenset[tuple[int, int]] | Connection | None
    relays: tuple[tuple[int, frozenset[int]], ...]
    offsets: tuple[tuple[int, int], ...]
    chunks: int | None
    largest: int = 0
    unused: tuple[str, ...] = ()

    def links(self, topology: Topology) -> list[int]:
        """Return the links of ``topology`` that may be used; HetesynthError HS628: the sketch does not fit it."""
        place, servers = places(topology.servers), topology.servers
        self._demand_fits(topology, place)
        ends = [None if servers[x.src] == servers[x.dst] else (place[x.src], place[x.dst]) for x in topology.links]
        there = {pair for pair in ends if pair is not None}
        if isinstance(self.between, frozenset):
            missing = self.between - there if there else None
            if missing:
                src, dst = min(missing)
                raise self._foreign(f"no link leads from GPU {src} to GPU {dst} of another server")
            there = set(self.between)
        elif self.between == "direct-map":
            there = {(src, dst) for src, dst in there if src == dst}
        return [i for i, pair in enumerate(ends) if pair is None or pair in there]

    def _demand_fits(self, topology: Topology, place: Sequence[int]) -> None:
        count = len(set(topology.servers))
        if self.servers not in (None, count):
            raise self._foreign(f"it is for {self.servers} servers, and here are {count}")
        if self.between is None and count > 1:
            raise self._foreign(f"it has no internode_sketch, and here are {count} servers")
        if self.largest > max(place):
            raise self._foreign(f"it names GPU {self.largest}, and the largest server has {max(place) + 1}")
        for offset, size in self.offsets:
            if topology.ranks % size:
                raise self._foreign(f"its symmetry [{offset}, {size}] does not divide {topology.ranks} ranks")

    def _foreign(self, why: str) -> HetesynthError:
        way_out = "GPUs are numbered inside their server as `hetesynth topo show` lists them"
        return HetesynthError(f"{self.name} is a sketch of another cluster: {why}", code="HS628", help=way_out)

    def permutations(self, ranks: int) -> list[Permutation]:
        """Return the symmetries on ``ranks`` ranks, each as a permutation."""
        return [
            tuple(rank // size * size + (rank % size + offset) % size for rank in range(ranks))
            for offset, size in self.offsets
        ]

    def breaches(self, topology: Topology, collective: Collective, schedule: Schedule) -> Iterator[str]:
        """Yield in words what ``schedule`` breaks of the symmetries and the relay map; links are not checked."""
        links, servers, place = topology.links, topology.servers, places(topology.servers)
        for (offset, size), moved in zip(self.offsets, self.permutations(topology.ranks), strict=True):
            images = chunk_images(collective, moved)
            sent = [(t.start, t.end, t.chunk, links[t.link].src, links[t.link].dst) for t in schedule.transfers]
            there = Counter(sent)
            like = Counter((start, end, images.get(k, -1), moved[a], moved[b]) for start, end, k, a, b in sent)
            alone = (there - like).total()
            if alone:
                yield f"{alone} of {there.total()} transfers have no like under the symmetry [{offset}, {size}]"
        if self.relays and collective.reduces:
            yield "sums do not follow its relay map, only copies do"
        elif self.relays:
            homes = ((min(collective.pre[t.chunk]), links[t.link]) for t in schedule.transfers)
            across = [(home, x.src) for home, x in homes if servers[home] == servers[x.src] != servers[x.dst]]
            relays = dict(self.relays)
            wrong = sum(place[by] not in relays.get(place[home], ()) for home, by in across)
            if wrong:
                yield f"{wrong} of {len(across)} chunks leave their server by another GPU than its relay map says"


def chunk_images(collective: Collective, moved: Permutation) -> dict[int, int]:
    """Return for each chunk its image where ranks are ``moved``: the chunk with the moved block, starts and ends.
    Chunks without an image are left out."""
    numbers = {(chunk.block, chunk.part): chunk.index for chunk in collective.chunks}
    images = {}
    for chunk in collective.chunks:
        image = numbers.get((tuple(moved[rank] for rank in chunk.block), chunk.part))
        if image is not None:
            ends = (collective.pre, collective.post)
            if all(frozenset(moved[r] for r in at[chunk.index]) == at[image] for at in ends):
                images[chunk.index] = image
    return images


def places(servers: Sequence[str]) -> list[int]:
    """Return the number of each rank in its server, given the server of each rank."""
    seen: dict[str, int] = defaultdict(int)
    numbers = []
    for server in servers:
        numbers.append(seen[server])
        seen[server] += 1
    return numbers
