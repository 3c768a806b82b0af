"""A folder that is deployed, checked file by file: what is damaged, what is no part of it.

In: the plan of a folder, what stands there. Out: cells that are damaged, and findings. Never writes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hetesynth.deploy.build import FolderPlan, carried_cells
from hetesynth.deploy.cluster_standing import named
from hetesynth.deploy.folder.folder import MARK, DeployedCell, index_of, place
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import CellReport, FolderFinding
from hetesynth.files.folders import INDEX
from hetesynth.files.regular_files import read_regular

SOUND = frozenset({"current", "kept"})


def rows_of(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The rows of the index in ``folder`` by the name of their cell, whether their files are whole or not."""
    rows = index_of(folder).get("cells")
    named_rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {row["name"]: row for row in named_rows if isinstance(row.get("name"), str)}


def damage(folder: Path, row: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What is wrong with the files of a cell whose row in the index is ``row``; without one nothing is."""
    if row is None:
        index = folder / INDEX
        return ("the index of its folder is damaged",) if index.exists() and not index_of(folder) else ()
    record = row.get("record")
    digests = record.get("files") if isinstance(record, dict) else None
    if not isinstance(digests, dict):
        return ("its row of the index is damaged",)
    return tuple(_damaged_files(folder, digests)) or ("its row of the index is damaged",)


def _damaged_files(folder: Path, digests: Mapping[str, Any]) -> Iterator[str]:
    for name, digest in digests.items():
        if Path(name).name != name:
            yield "its row of the index is damaged"
            return
        path = folder / place(name)
        try:
            changed = hashlib.sha256(read_regular(path)).hexdigest() != digest
        except OSError as error:
            yield f"{place(name)} cannot be read: {error.strerror}"
            continue
        if changed:
            yield f"{place(name)} was changed"


def folder_findings(
    plan: FolderPlan, present: Mapping[str, DeployedCell], reports: Sequence[CellReport]
) -> Iterator[FolderFinding]:
    """What differs from the folder that a build would leave. ``present``: cells whose files are whole. Where a
    cell is not as it should be, a build writes the folder anew: then only what is no part of it counts."""
    rows, names = rows_of(plan.path), [job.cell.name for job in plan.jobs]
    others = carried_cells(plan)
    staying = {*names, *(cell.name for cell in others.cells)}
    extra = [name for name in rows if name not in staying]
    for note in others.notes:
        yield FolderFinding(plan.path, note.removeprefix(f"{plan.path}: "), stale=False)
    if extra:
        yield FolderFinding(plan.path, f"cells that the manifest does not name: {named(extra)}")
    if not plan.path.is_dir():
        return
    cells = tuple(present[name] for name in names if name in present)
    contents = plan.contents((*cells, *others.cells))
    there = {path.relative_to(plan.path).as_posix(): path for path in plan.path.rglob("*") if path.is_file()}
    of_rows = {place(name) for row in rows.values() for name in _file_names(row)}
    foreign = sorted(there.keys() - contents.keys() - of_rows)
    if foreign:
        yield FolderFinding(plan.path, f"no part of it: {named(foreign)}")
    if any(report.status not in SOUND for report in reports) or extra:
        return
    for name, data in contents.items():
        if name not in there:
            yield FolderFinding(plan.path, f"{name} is missing")
        elif _bytes(there[name]) != data:
            yield FolderFinding(plan.path, f"{name} is not what a build would write")


def _file_names(row: Mapping[str, Any]) -> list[str]:
    record = row.get("record")
    digests = record.get("files") if isinstance(record, dict) else None
    return list(digests) if isinstance(digests, dict) else []


def _bytes(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def unnamed_folders(manifest: Manifest, plans: Sequence[FolderPlan]) -> Iterator[FolderFinding]:
    """Deployed folders of the output that the manifest does not name; a build leaves them alone."""
    planned = {os.path.realpath(plan.path) for plan in plans}
    indices = (
        path for depth in ("*", "*/*", "*/*/*") for path in sorted(manifest.output.glob(f"{depth}/{INDEX}"))
    )
    for path in indices:
        if os.path.realpath(path.parent) not in planned and MARK in (_bytes(path) or b"")[:4096]:
            yield FolderFinding(path.parent, "the manifest does not name it; a build leaves it alone", stale=False)
