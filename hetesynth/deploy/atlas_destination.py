"""Where an atlas goes: a folder of its own, an atlas of other collectives, or a folder that a build wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetesynth import __version__
from hetesynth.deploy.cache import as_kept
from hetesynth.deploy.compute import Part, result_record, with_provenance
from hetesynth.deploy.folder.cells import DeployedCell
from hetesynth.deploy.folder.folder import MARK as BUILT
from hetesynth.deploy.folder.folder import ORIGIN, Deployment, deployed
from hetesynth.deploy.folder_index import ATLAS, COLLECTIVES, DEPLOYMENT, LOSSES, FolderIndex, read_index
from hetesynth.deploy.job import job, pickled
from hetesynth.deploy.manifest.values import Cell, CellOptions
from hetesynth.engine.atlas import MARK, Atlas
from hetesynth.engine.recipe import topology_hash
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import DIGESTS, INDEX, PLOT, check_replaceable, update_folder
from hetesynth.files.regular_files import read_regular
from hetesynth.model.size_range import SizeRange
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

MAX_BYTES = 1 << 32  # of a folder that is added to
_OTHER = "choose another folder with -o, or take the collective out of the manifest and build again"


@dataclass(frozen=True, slots=True)
class AtlasIdentity:
    """What an atlas is of. ``kind``: of its index."""

    cluster: str
    topology_sha256: str
    targets: tuple[str, ...]
    collective: str
    kind: str = ATLAS


@dataclass(frozen=True, slots=True)
class Destination:
    """``identity``: of the atlas; None: all that is there is replaced. ``beside``: collectives that are there.
    ``deployed``: True where a build wrote the folder."""

    folder: Path
    identity: AtlasIdentity | None
    beside: tuple[str, ...] = ()
    deployed: bool = False

    @property
    def others(self) -> list[str]:
        """The collectives beside which this one comes."""
        return [name for name in self.beside if self.identity is None or name != self.identity.collective]

    @property
    def replaces(self) -> bool:
        """True where an older atlas of the same collective is replaced."""
        return self.identity is not None and self.identity.collective in self.beside

    @property
    def words(self) -> str:
        """What else is in the folder, for a report."""
        parts = [f"beside {', '.join(self.others)}"] if self.others else []
        if self.identity is not None and self.replaces:
            parts.append(f"the older {self.identity.collective} is replaced")
        return "; ".join(parts)

    def told(self, contents: Mapping[str, bytes]) -> dict[str, Any]:
        """For JSON."""
        printed = {"directory": str(self.folder), "files": sorted(contents)}
        return {**printed, "beside": self.others, "replaced": self.replaces}

    def write(self, files: Mapping[str, bytes], result: Atlas | None = None) -> Mapping[str, bytes]:
        """The folder with ``files`` in it, those of ``result``. Returns all that it holds."""
        if self.identity is None:
            return update_folder(self.folder, lambda: files, MARK)
        identity = self.identity
        if self.deployed and result is not None:
            return update_folder(self.folder, lambda: _with_atlas(self.folder, result), BUILT)
        return update_folder(self.folder, lambda: combined(self.folder, identity, files), MARK)


def destination_of(folder: Path, replace: bool, request: Request, kind: str) -> Destination:
    """The destination of an atlas whose index is of ``kind``. HetesynthError where the atlas cannot go there."""
    index = None if replace else read_index(folder)
    built = index is not None and index.kind == DEPLOYMENT and kind == ATLAS
    check_replaceable(folder, BUILT if built else MARK)
    if replace:
        return Destination(folder, None)
    topology = load_topology(request.topology)
    targets = tuple(target.name for target in request.targets)
    identity = AtlasIdentity(topology.name, topology_hash(topology), targets, request.collective, kind)
    if index is not None and built:
        return Destination(folder, identity, _beside_cells(index, topology, request), True)
    return Destination(folder, identity, () if index is None else tuple(_addable(index, identity)))


# --- the atlas of one collective into a folder that has those of others


def combined(folder: Path, identity: AtlasIdentity, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What ``folder`` is to hold once ``files``, of the atlas of ``identity``, are in it.

    HetesynthError HS879 where they may not; HS876 where the folder's index cannot be used.
    """
    older = read_index(folder)
    parts = {} if older is None else _addable(older, identity)
    replaced = parts.pop(identity.collective, None)
    if older is None or not parts or identity.kind == LOSSES:
        return dict(files)
    dropped = {INDEX, PLOT, _plot(identity.collective)}
    if replaced is not None:
        dropped |= {name for row in replaced["ranges"] for name in row["files"]} | set(replaced.get(DIGESTS, {}))
    contents: dict[str, bytes] = {}
    size = 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            reason = f"has {path.name}, which is no file and no folder"
            raise _refusal(folder, reason, "remove it, or use another -o")
        if path.is_file():
            data = read_regular(path)
            size += len(data)
            if size > MAX_BYTES:
                raise _refusal(folder, f"holds more than the {MAX_BYTES} bytes that are copied")
            contents[path.relative_to(folder).as_posix()] = data
    if older.kind == ATLAS and PLOT in contents:
        contents |= {_plot(name): contents[PLOT] for name in parts}
    contents = {name: data for name, data in contents.items() if name not in dropped}
    contents |= {name: data for name, data in files.items() if name not in (INDEX, PLOT)}
    contents[_plot(identity.collective)] = files[PLOT]
    parts[identity.collective] = json.loads(files[INDEX])
    for name, part in parts.items():
        if DIGESTS in part:  # the plot is called after its collective here
            digests = {_plot(name) if file == PLOT else file: sha256 for file, sha256 in part[DIGESTS].items()}
            parts[name] = {**part, DIGESTS: digests}
    index = {
        "kind": COLLECTIVES,
        "generator": f"hetesynth {__version__}",
        "cluster": identity.cluster,
        "topology_sha256": identity.topology_sha256,
        "targets": list(identity.targets),
        "collectives": dict(sorted(parts.items())),  # the same whatever was added first
    }
    contents[INDEX] = (json.dumps(index, indent=2) + "\n").encode()
    return contents


def _addable(older: FolderIndex, identity: AtlasIdentity) -> dict[str, dict[str, Any]]:
    """The indices of the atlases in a folder, by collective; HetesynthError where one of ``identity`` cannot be
    among them."""
    document = older.document
    single = document.get("collective")
    parts = document["collectives"] if older.kind == COLLECTIVES else {single: document}
    for words, there, asked in (
        ("of a cluster called", document.get("cluster"), identity.cluster),
        ("for", ", ".join(sorted(older.targets)), ", ".join(sorted(identity.targets))),
    ):
        if there != asked:
            message = f"is {words} {str(there)[:80]}, and this atlas is {words} {asked}"
            raise _refusal(older.folder, message)
    if (older.kind == LOSSES) != (identity.kind == LOSSES):
        raise _refusal(older.folder, "has an atlas of the other kind: of single losses, or of sizes")
    if older.kind == LOSSES and single != identity.collective:
        raise _refusal(older.folder, f"has an atlas of single losses of {str(single)[:40]}")
    stated = document.get("topology_sha256")
    if stated != identity.topology_sha256 and not (stated is None and set(parts) == {identity.collective}):
        raise _refusal(older.folder, f"is of another topology called {identity.cluster}")
    return dict(parts)


def _refusal(folder: Path, reason: str, help_: str = "") -> HetesynthError:
    """Why an atlas is not added to ``folder``."""
    return HetesynthError(
        f"{folder} {reason}",
        code="HS879",
        help=help_ or "choose another folder with -o, or give --replace: then all that is in the folder is gone",
    )


def _plot(collective: str) -> str:
    return f"bandwidth-{collective}.svg"


# --- an atlas in a folder that a build wrote


def _beside_cells(index: FolderIndex, topology: Topology, request: Request) -> tuple[str, ...]:
    """The collectives in a folder that a build wrote, beside which the atlas that ``request`` asks for comes.

    HetesynthError HS879 where it may not.
    """
    folder, targets = index.folder, tuple(target.name for target in request.targets)
    if index.document.get("cluster") != topology.name or targets != index.targets:
        there = f"{index.document.get('cluster')} and {', '.join(index.targets)}"
        message = f"was built for {there[:80]}, and this atlas is for {topology.name} and {', '.join(targets)}"
        raise _refusal(folder, message, "choose another folder with -o, or state the same --target")
    if index.document.get("topology_sha256") != pickled(topology)[1]:
        message = f"was built for another topology called {topology.name}"
        raise _refusal(folder, message, "run `hetesynth build` first, or choose another folder with -o")
    cells = deployed(folder)
    if len(cells) < len(index.document.get("cells", [])):
        raise _refusal(folder, "has files that are missing or were changed", "run `hetesynth build` first")
    if any(_collective(cell) == request.collective and not cell.origin for cell in cells):
        raise _refusal(folder, f"has {request.collective} by its manifest, for sizes of this atlas", _OTHER)
    return tuple(dict.fromkeys(_collective(cell) for cell in cells))


def _with_atlas(folder: Path, result: Atlas) -> dict[str, bytes]:
    """What ``folder`` holds with the ranges of ``result`` among its cells, as a build would name them, in place of
    an older atlas of the collective. Raises as ``_beside_cells`` does."""
    index, request = read_index(folder), result.request
    if index is None:
        raise _refusal(folder, "is no longer what a build wrote", _OTHER)
    _beside_cells(index, result.topology, request)
    cells = [cell for cell in deployed(folder) if not (cell.origin and _collective(cell) == request.collective)]
    cluster = next((str(cell.record.get("cluster")) for cell in cells), result.topology.name)
    (target,) = request.targets
    options = CellOptions(
        strategy=request.strategy,
        effort=request.budget.effort or 1.0,
        seed=request.budget.seed,
        root=request.root,
        single_root=request.single_root,
        runtime_costs=request.runtime is not None,
        chunking=request.chunking,
        exclusion=request.exclusion,
    )
    for entry in result.ranges:
        extent = SizeRange(entry.low, entry.high, f"atlas {entry.low}B..{entry.high}B")
        if entry.high is None:
            extent = SizeRange(max(1, entry.low), None, f"atlas from {entry.low}B")
        cell = Cell(cluster, request.collective, extent, target.name, options)
        work, label = job(cell, *pickled(result.topology)), result.pool.candidates[entry.member].label
        part = Part(cell.extent, entry.synthesis, label)
        files = with_provenance(work, part.files(cell))
        record = result_record(work, result.topology, [part], files)
        record["calls"] = [entry.min_bytes, entry.max_bytes]
        cells.append(DeployedCell(cell.name, work.key, work.key, as_kept(record), files, ORIGIN))
    return Deployment(result.topology, pickled(result.topology)[1], target, tuple(cells)).contents()


def _collective(cell: DeployedCell) -> str:
    return str(cell.record.get("collective"))
