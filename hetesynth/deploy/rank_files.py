"""``topo ranks``: the files that start rank i on the GPU that the topology gives it."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.model import words
from hetesynth.model.pods import PodCluster
from hetesynth.model.rank_places import RankPlace, rank_places
from hetesynth.model.topology import Topology

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})")


@dataclass(frozen=True, slots=True)
class RankOrder:
    """The place of each rank. ``unnamed``: servers without a stated host, whose own names stand for it."""

    cluster: str
    places: tuple[RankPlace, ...]

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The servers without a stated host, in the order of the ranks, each once."""
        return tuple(dict.fromkeys(place.server for place in self.places if not place.host))

    def machines(self) -> list[tuple[str, list[RankPlace]]]:
        """Each machine with its ranks, in their order."""
        return [(machine, list(places)) for machine, places in groupby(self.places, key=lambda p: p.machine)]


def load_rank_order(path: str | os.PathLike[str]) -> RankOrder:
    """Return the places of the ranks of the file at ``path``. The file is read as pods if possible: links between
    all GPUs of a large cluster would take long, and are not needed."""
    from hetesynth.model.diagnostics import SourceError
    from hetesynth.topology.language import load_pods, load_topology

    try:
        return rank_order(load_pods(path))
    except SourceError:
        return rank_order(load_topology(path))


def rank_order(topology: Topology | PodCluster) -> RankOrder:
    """Return the places of the ranks of ``topology``. Raises HetesynthError HS641 for a name that no host can
    have, HS642 where two servers would run on one host."""
    order = RankOrder(topology.name, rank_places(topology))
    servers: dict[str, str] = {}
    for place in order.places:
        if not _HOST.fullmatch(place.machine):
            help_ = "a host has letters, digits, dots, `-` and `_`, at most 253"
            raise HetesynthError(f"{place.machine[:80]!r} is no name of a host", code="HS641", help=help_)
        if servers.setdefault(place.machine, place.server) != place.server:
            message = f"{servers[place.machine]} and {place.server} are both on host {place.machine}"
            help_ = "state another `host` for one of them, or make them one node type"
            raise HetesynthError(message, code="HS642", help=help_)
    return order


def rankfile(order: RankOrder) -> str:
    """Return Open MPI's rankfile: ``rank 0=node17 slot=0``, where the slot is the rank's place on its host."""
    return "".join(
        f"rank {place.rank}={machine} slot={slot}\n"
        for machine, places in order.machines()
        for slot, place in enumerate(places)
    )


def visible_devices(order: RankOrder) -> str:
    """Return each host's variables, NVIDIA's, then AMD's, by which GPU i of the job is that of its i-th rank."""
    lines = []
    for machine, places in order.machines():
        devices = ",".join(str(place.device) for place in places)
        lines += [f"{machine} {name}={devices}\n" for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    return "".join(lines)


def table(order: RankOrder) -> str:
    """A row for each rank: host, server, GPU, and its number among the visible devices."""
    rows = [("rank", "host", "server", "gpu", "visible")]
    for machine, places in order.machines():
        rows += [
            (str(place.rank), machine, place.server, place.gpu, str(slot)) for slot, place in enumerate(places)
        ]
    return "".join(f"{line}\n" for line in words.table(rows))


FORMATS: dict[str, tuple[str, Callable[[RankOrder], str]]] = {  # name: (file name, its text)
    "table": ("ranks.txt", table),
    "hostfile": ("hostfile", lambda order: "".join(f"{m} slots={len(p)}\n" for m, p in order.machines())),
    "machinefile": ("machinefile", lambda order: "".join(f"{m}:{len(p)}\n" for m, p in order.machines())),
    "rankfile": ("rankfile", rankfile),
    "slurm": ("slurm_hosts", lambda order: "".join(f"{place.machine}\n" for place in order.places)),
    "devices": ("devices", visible_devices),
}


def write_rank_files(order: RankOrder, directory: Path, formats: Sequence[str]) -> list[Path]:
    """Write a file for each of ``formats`` into ``directory``, all or none; the folder is made if absent."""
    from hetesynth.files.atomic import write_all

    directory.mkdir(exist_ok=True)
    chosen = [FORMATS[name] for name in dict.fromkeys(formats)]
    files = {directory / name: text(order).encode("ascii") for name, text in chosen}
    write_all(files)
    return list(files)
