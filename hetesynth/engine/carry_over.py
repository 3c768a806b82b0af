"""An old schedule on a changed cluster: the same GPUs by name, the same links by their path."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from hetesynth.engine.recipe import topology_hash
from hetesynth.engine.schedule_replay import foreign_link
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import ScheduleDocument
from hetesynth.model.collective import Collective
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Link, Rank, Topology


@dataclass(frozen=True)
class CarryOver:
    """A mapping from the cluster ``before`` to the cluster ``after``; GPUs are the same where their names are."""

    before: Topology
    after: Topology

    @cached_property
    def ranks(self) -> tuple[Rank | None, ...]:
        """The new rank of each old one; None: it is lost."""
        new = {vertex.name: rank for rank, vertex in enumerate(self.after.vertices[: self.after.ranks])}
        return tuple(new.get(vertex.name) for vertex in self.before.vertices[: self.before.ranks])

    @cached_property
    def links(self) -> tuple[int | None, ...]:
        """The new link of each old one: over the same wires, else the next between the same GPUs; None: lost."""
        exact: dict[tuple[str, ...], list[int]] = defaultdict(list)
        between: dict[tuple[Rank, Rank], list[int]] = defaultdict(list)
        for i, link in enumerate(self.after.links):
            exact[_path(self.after, link)].append(i)
            between[link.src, link.dst].append(i)
        turn: dict[object, int] = defaultdict(int)
        mapped: list[int | None] = []
        for link in self.before.links:
            path, src, dst = _path(self.before, link), self.ranks[link.src], self.ranks[link.dst]
            key: object = path if path in exact else (src, dst)
            fitting = exact.get(path) or (
                between.get((src, dst), []) if src is not None and dst is not None else []
            )
            mapped.append(fitting[turn[key] % len(fitting)] if fitting else None)
            turn[key] += 1
        return tuple(mapped)

    @property
    def lost_gpus(self) -> tuple[str, ...]:
        """The names of the GPUs that are in the old cluster only."""
        return tuple(self.before.vertices[old].name for old, new in enumerate(self.ranks) if new is None)

    @property
    def new_gpus(self) -> tuple[str, ...]:
        """The names of the GPUs that are in the new cluster only."""
        kept = set(self.ranks)
        return tuple(self.after.vertices[rank].name for rank in range(self.after.ranks) if rank not in kept)

    @property
    def lost_links(self) -> int:
        """The number of lost links between GPUs that are still there."""
        ranks = self.ranks
        return sum(
            new is None and ranks[link.src] is not None and ranks[link.dst] is not None
            for link, new in zip(self.before.links, self.links, strict=True)
        )

    def root(self, old: Rank | None) -> Rank | None:
        """Return the new number of the root ``old``; None: there is none. HetesynthError HS652: it is lost."""
        if old is None:
            return None
        new = self.ranks[old]
        if new is None:
            message = f"the root, {self.before.vertices[old].name}, is lost"
            raise HetesynthError(message, code="HS652", help="synthesize anew with another --root")
        return new

    def chunks(self, before: Collective, after: Collective) -> list[int | None]:
        """Return the new number of each old chunk, as its block and part tell; None: it is lost, or blocks are cut
        into another number of chunks."""
        if before.chunks_per_rank != after.chunks_per_rank:
            return [None] * len(before.chunks)
        new = {(chunk.block, chunk.part): chunk.index for chunk in after.chunks}
        mapped: list[int | None] = []
        for chunk in before.chunks:
            block = tuple(self.ranks[rank] for rank in chunk.block)
            mapped.append(None if None in block else new.get((block, chunk.part)))  # type: ignore[arg-type]
        return mapped

    def transfers(self, schedule: Schedule, before: Collective, after: Collective) -> Schedule:
        """Return the transfers of ``schedule`` whose chunks and links are still there, by their new numbers."""
        chunks, links = self.chunks(before, after), self.links
        kept: list[Transfer] = []
        for t in schedule.transfers:
            chunk = chunks[t.chunk] if t.chunk < len(chunks) else None
            link = links[t.link] if t.link < len(links) else None
            if chunk is not None and link is not None:
                kept.append(Transfer(t.start, t.end, chunk, link, t.reduce))
        return Schedule.of(kept, schedule.makespan)


def _path(topology: Topology, link: Link) -> tuple[str, ...]:
    """Return the names of the vertices along ``link``."""
    names = [topology.vertices[link.src].name]
    names += [topology.vertices[topology.wires[w].dst].name for w in link.wires]
    return tuple(names)


def demand_same_cluster(document: ScheduleDocument, topology: Topology, name: str) -> None:
    """Raise HetesynthError HS651 where links or topology hash of the document are not those of ``topology``."""
    other, stated = foreign_link(document, topology.links), document.header.get("topology_sha256")
    reason = None if other is None else other[1]
    if document.ranks != topology.ranks:
        reason = f"it has {document.ranks} ranks, the cluster {topology.ranks}"
    elif reason is None and isinstance(stated, str) and stated != topology_hash(topology):
        reason = "GPUs, wires or rates differ (topology_sha256)"
    if reason is not None:
        message = f"{name} is a schedule of another cluster: {reason}"
        way_out = "give the topology file that the schedule was made for, without the changes"
        raise HetesynthError(message, code="HS651", help=way_out)
