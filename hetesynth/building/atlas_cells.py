"""An atlas in a folder that a build wrote: its ranges become cells that no manifest names, and later builds keep.

In: an ``Atlas``, the folder. Out: all that the folder is to hold. No size has two programs: what the manifest
has of a collective is not replaced.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from hetesynth.building.compute import measured
from hetesynth.building.job import job, pickled
from hetesynth.commands.atlas import Atlas, Range
from hetesynth.commands.atlas_folder import refusal
from hetesynth.commands.folder_index import FolderIndex, read_index
from hetesynth.compile.formats import SCHEDULE_SUFFIX
from hetesynth.compile.predictors import CostOptions
from hetesynth.compile.request import Request
from hetesynth.deployment.folder import ORIGIN, DeployedCell, Deployment, deployed
from hetesynth.manifest.values import Cell, CellOptions, SizeRange
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
    files = {}
    for suffix, data in entry.synthesis.files.items():
        program = entry.synthesis.programs.get(suffix)
        ending = SCHEDULE_SUFFIX
        if program is not None:
            ending = f"{'.inplace' if program.in_place else ''}.{suffix.rpartition('.')[2]}"
        files[f"{cell.stem}{ending}"] = data
    work = job(cell, *pickled(result.topology))
    record = {
        **_figures(result, entry, cell),
        "topology_sha256": work.topology_sha256,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "versions": dict(work.versions),
    }
    return DeployedCell(cell.name, work.key, work.key, record, files, ORIGIN)


def _extent(entry: Range) -> SizeRange:
    """Named as no manifest names one."""
    if entry.high is None:
        return SizeRange(max(1, entry.low), None, f"atlas from {entry.low}B")
    return SizeRange(entry.low, entry.high, f"atlas {entry.low}B..{entry.high}B")


def _figures(result: Atlas, entry: Range, cell: Cell) -> dict[str, Any]:
    """As the record of a cell that a build made has them."""
    synthesis, candidate = entry.synthesis, result.pool.candidates[entry.member]
    certificate, costs = synthesis.by_steps.solution.certificate, CostOptions.of(result.request)
    program = next(data for data in synthesis.programs.values() if not data.in_place).data
    sizes = cell.extent.sizes if isinstance(cell.extent, SizeRange) else ()
    (target,) = result.request.targets
    verdicts = measured(program, target, result.topology, cell, sizes, costs)
    return {
        "cell": cell.name,
        "cluster": cell.cluster,
        "collective": cell.collective,
        "target": cell.target,
        "extent": cell.extent_text,
        "calls": [entry.min_bytes, entry.max_bytes],
        "ranks": result.topology.ranks,
        "root": synthesis.problem.collective.root,
        "candidate": candidate.label,
        "strategy": synthesis.by_steps.strategy,
        "chunks": synthesis.by_steps.chunks,
        "steps": certificate.steps,
        "lower_bound": certificate.bound.steps,
        "proven_optimal": certificate.proven_optimal,
        "channels": max(p.figures.channels for p in synthesis.programs.values()),
        "sizes": [{"size": v.size, **v.figures()} for v in verdicts],
        "warnings": [warned.plain() for warned in synthesis.warnings],
    }


def _collective(cell: DeployedCell) -> str:
    """Which one the cell is of."""
    return str(cell.record.get("collective"))
