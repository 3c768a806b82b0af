"""A cell as work that can be done anywhere: all that its result depends on, and the key that names it."""

import hashlib
import json
import pickle
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import hetesynth
from hetesynth import __version__
from hetesynth.deploy.manifest.values import Cell
from hetesynth.model.size_range import SizeRange
from hetesynth.model.topology import Topology

FORMAT = 2  # of results in the cache: raised where an older one cannot be read
SOLVERS = ("z3-solver", "highspy", "numpy", "scipy", "networkx", "numba")
"""Packages whose version may change what is found."""
_UNSEEN = ("cli",)  # what no result depends on


@dataclass(frozen=True, slots=True)
class Job:
    """A cell to be made. ``topology``: the pickled cluster; ``topology_sha256``: of what it says. ``versions``: of
    the compiler and the solvers. ``ranges``: of sizes that are searched together, that of the cell among them;
    none where it has chunks."""

    cell: Cell
    topology: bytes = field(repr=False)
    topology_sha256: str
    versions: tuple[tuple[str, str], ...]
    ranges: tuple[SizeRange, ...] = ()

    @property
    def cluster(self) -> Topology:
        """The cluster as it is now."""
        return unpickled(self.topology)

    @property
    def search(self) -> tuple[object, ...]:
        """The key of the cell's search, the same for all cells that are searched for together."""
        cell = self.cell
        alone = "" if self.ranges else cell.name
        return self.topology_sha256, cell.collective, cell.target, cell.options, self.ranges, alone

    @property
    def key(self) -> str:
        """SHA-256 of all that the result depends on: not the gates, which only judge it."""
        cell = self.cell
        extent = asdict(cell.extent) if isinstance(cell.extent, SizeRange) else cell.extent
        content = {
            "format": FORMAT,
            "cluster": cell.cluster,
            "topology": self.topology_sha256,
            "target": cell.target,
            "collective": cell.collective,
            "extent": extent,
            "options": asdict(cell.options),
            "ranges": [asdict(one) for one in self.ranges],
            "versions": dict(self.versions),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def job(cell: Cell, pickled: bytes, topology_sha256: str, cells: Iterable[Cell] = ()) -> Job:
    """Return the job for ``cell`` on the cluster in ``pickled``, searched for together with those of ``cells``
    that differ from it in their sizes and gates alone."""
    same = cell.cluster, cell.collective, cell.target, cell.options
    alike = {
        one.extent for one in (cell, *cells) if (one.cluster, one.collective, one.target, one.options) == same
    }
    ranges = sorted((one for one in alike if isinstance(one, SizeRange)), key=lambda one: (one.low, one.text))
    return Job(cell, pickled, topology_sha256, versions(), tuple(ranges))


def pickled(topology: Topology) -> tuple[bytes, str]:
    """Return ``topology`` pickled, to be handed on, and the SHA-256 of all it says."""
    return pickle.dumps(topology, protocol=5), hashlib.sha256(repr(topology).encode()).hexdigest()


@lru_cache(maxsize=64)
def unpickled(data: bytes) -> Topology:
    """The cluster in ``data``, which ``pickled`` made."""
    topology = pickle.loads(data)
    if not isinstance(topology, Topology):
        raise TypeError("no topology")
    return topology


@lru_cache(maxsize=1)
def versions() -> tuple[tuple[str, str], ...]:
    """The compiler's version with the digest of its code, and those of the solvers, by name."""
    root, digest = Path(hetesynth.__file__).parent, hashlib.sha256()  # the version stays when a checkout changes
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _UNSEEN:
            digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    solvers = [(name, metadata.version(name)) for name in SOLVERS]
    return (("hetesynth", f"{__version__}+{digest.hexdigest()[:12]}"), *solvers)
