"""A manifest as values: clusters, and a cell for each schedule that is to be kept."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from hetesynth.engine.request import Exclusion
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.size_range import SizeRange
from hetesynth.model.topology import Rank
from hetesynth.search.chunking import ChunkingOptions
from hetesynth.topology.language.overridden import overridden


@dataclass(frozen=True, slots=True)
class Gates:
    """The figures that a program must reach at every size where it is judged; None: anything will do. ``proven``:
    the schedule has as few steps as is proved possible, or its program is at the proved limit at some size."""

    percent_of_limit: float | None = None
    factor_over_library: float | None = None
    steps: int | None = None
    proven: bool = False


@dataclass(frozen=True, slots=True)
class CellOptions:
    """The options by which a cell is made, named and explained as the fields of ``Request``."""

    strategy: str = "auto"
    effort: float = 1.0
    seed: int = 0
    root: Rank | None = None
    single_root: bool = False
    runtime_costs: bool = True
    chunking: ChunkingOptions = field(default_factory=ChunkingOptions)
    exclusion: Exclusion = "auto"


@dataclass(frozen=True, slots=True)
class Cell:
    """A schedule with its programs for one target. ``extent``: for which sizes, or chunks of each rank."""

    cluster: str
    collective: CollectiveName
    extent: SizeRange | int
    target: str
    options: CellOptions = CellOptions()
    gates: Gates = Gates()

    @property
    def root(self) -> Rank | None:
        """The rank that a rooted collective begins or ends at."""
        return (self.options.root or 0) if self.collective in ROOTED else None

    @property
    def extent_text(self) -> str:
        """``1MB..64MB``, or ``4 chunks``."""
        if isinstance(self.extent, SizeRange):
            return self.extent.text
        return "1 chunk" if self.extent == 1 else f"{self.extent} chunks"

    @property
    def name(self) -> str:
        """``prod/rccl-6/allreduce/1MB..64MB``: no other cell of the manifest has it."""
        return f"{self.cluster}/{self.target}/{self.collective}/{self.extent_text}"

    @property
    def stem(self) -> str:
        """The name without cluster and target, as the beginning of a file name: ``allreduce-1MB-64MB``."""
        words = self.extent_text.replace(" ", "-").split("..")
        named = [word for word in words if word]
        ends = {".." + words[-1]: "up-to-", words[0] + "..": "from-"}.get(self.extent_text, "")
        return f"{self.collective}-{ends}{'-'.join(named)}"


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """A cluster of the manifest. ``topology``: the path of its file; ``stated``: as the manifest names it.
    ``without``, ``degrade``: losses, as the options of the command line say them. ``line``: of the manifest, where
    it is stated."""

    name: str
    topology: Path
    stated: str
    without: tuple[str, ...] = ()
    degrade: tuple[str, ...] = ()
    line: int = field(default=1, compare=False)

    @property
    def source(self) -> os.PathLike[str]:
        """The file to be loaded, with its losses if there are any."""
        if self.without or self.degrade:
            return overridden(self.topology, self.without, self.degrade)
        return self.topology


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole manifest. ``output``: the folder that is deployed, ``layout``: the path in it of the folder of a
    cluster and a target (``{cluster}`` and ``{target}`` stand for them). ``cache``: the folder where results are
    kept; None: the user's own."""

    path: Path
    clusters: tuple[ClusterEntry, ...]
    cells: tuple[Cell, ...]
    output: Path
    layout: str = "{cluster}/{target}"
    cache: Path | None = None

    def folder(self, cluster: str, target: str) -> Path:
        """Return the folder of the programs of a cluster for a target."""
        return self.output / self.layout.format(cluster=cluster, target=target)
