"""An atlas in a folder that a build wrote: its ranges become cells that no manifest names, and later builds keep.

In: an ``Atlas``, the folder. Out: all that the folder is to hold. No size has two programs: what the manifest
has of a collective is not replaced.
"""

from __future__ import annotations

from pathlib import Path

from hetesynth.deploy.atlas_folder import refusal
from hetesynth.deploy.compute import Part, result_record
from hetesynth.deploy.folder.folder import ORIGIN, DeployedCell, Deployment, deployed
from hetesynth.deploy.folder_index import FolderIndex, read_index
from hetesynth.deploy.job import job, pickled
from hetesynth.deploy.manifest.values import Cell, CellOptions
from hetesynth.deploy.provenance import with_provenance
from hetesynth.deploy.result import as_kept
from hetesynth.engine.atlas import Atlas, Range
from hetesynth.engine.request import Request
from hetesynth.model.size_range import SizeRange
from hetesynth.model.topology import Topology

_OTHER = "choose another folder with -o, or take the collective out of the manifest and build again"


def beside_cells(index: FolderIndex, topology: Topology, request: Request) -> tuple[str, ...]:
    """The collectives in a folder that a build wrote, beside which the atlas that ``request`` asks for comes.

    HetesynthError HS879 where it may not.
    """
    folder, targets = index.folder, tuple(target.name for target in request.targets)
    if index.document.get("cluster") != topology.name or targets != index.targets:
        there = f"{index.document.get('cluster')} and {', '.join(index.targets)}"
        message = f"was built for {there[:80]}, and this atlas is for {topology.name} and {', '.join(targets)}"
        raise refusal(folder, message, "choose another folder with -o, or state the same --target")
    if index.document.get("topology_sha256") != pickled(topology)[1]:
        message = f"was built for another topology called {topology.name}"
        raise refusal(folder, message, "run `hetesynth build` first, or choose another folder with -o")
    cells = deployed(folder)
    if len(cells) < len(index.document.get("cells", [])):
        raise refusal(folder, "has files that are missing or were changed", "run `hetesynth build` first")
    if any(_collective(cell) == request.collective and not cell.origin for cell in cells):
        raise refusal(folder, f"has {request.collective} by its manifest, for sizes of this atlas", _OTHER)
    return tuple(dict.fromkeys(_collective(cell) for cell in cells))


def with_atlas(folder: Path, result: Atlas) -> dict[str, bytes]:
    """What ``folder`` holds with the ranges of ``result`` among its cells, in place of an older atlas of the
    collective. Raises as ``beside_cells`` does."""
    index = read_index(folder)
    if index is None:
        raise refusal(folder, "is no longer what a build wrote", _OTHER)
    beside_cells(index, result.topology, result.request)
    collective = result.request.collective
    kept = [cell for cell in deployed(folder) if not (cell.origin and _collective(cell) == collective)]
    cluster = next((str(cell.record.get("cluster")) for cell in kept), result.topology.name)
    cells = (*kept, *atlas_cells(result, cluster))
    (target,) = result.request.targets
    return Deployment(result.topology, pickled(result.topology)[1], target, cells).contents()


def atlas_cells(result: Atlas, cluster: str) -> tuple[DeployedCell, ...]:
    """A cell for each range, as a build of the cluster called ``cluster`` would name it."""
    return tuple(_cell(result, entry, cluster) for entry in result.ranges)


def _cell(result: Atlas, entry: Range, cluster: str) -> DeployedCell:
    request, (target,) = result.request, result.request.targets
    options = CellOptions(
        request.strategy, request.budget.effort or 1.0, request.budget.seed, request.root, request.single_root,
        request.runtime is not None, request.chunking, request.exclusion,
    )  # fmt: skip
    cell = Cell(cluster, request.collective, _extent(entry), target.name, options)
    work, label = job(cell, *pickled(result.topology)), result.pool.candidates[entry.member].label
    part = Part(cell.extent, entry.synthesis, label)
    files = with_provenance(work, part.files(cell))
    record = result_record(work, result.topology, [part], files)
    record["calls"] = [entry.min_bytes, entry.max_bytes]
    return DeployedCell(cell.name, work.key, work.key, as_kept(record), files, ORIGIN)


def _extent(entry: Range) -> SizeRange:
    """Named as no manifest names one."""
    if entry.high is None:
        return SizeRange(max(1, entry.low), None, f"atlas from {entry.low}B")
    return SizeRange(entry.low, entry.high, f"atlas {entry.low}B..{entry.high}B")


def _collective(cell: DeployedCell) -> str:
    """Which one the cell is of."""
    return str(cell.record.get("collective"))
