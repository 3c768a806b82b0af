"""Folders to deploy, of records written by hand: no search, and figures that stay the same."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hetesynth.deploy.folder.cells import DeployedCell, ProgramFile
from hetesynth.deploy.folder.folder import folder_contents
from hetesynth.files.folders import write_folder
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.target import target
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


def ring8() -> Topology:
    """Eight GPUs of one server, without a stated host."""
    return load_topology(EXAMPLES / "ring8" / "topo.dsl")


def program(
    name: str,
    collective: CollectiveName,
    low: int,
    high: int,
    *,
    plan: bool,
    in_place: bool = False,
    **stated: Any,
) -> ProgramFile:
    """A program of eight ranks in sixteen chunks, of two channels."""
    values: dict[str, Any] = {
        "title": f"ring8-{name.split('.')[0]}{'-inplace' if in_place else ''}", "ranks": 8, "root": None,
        "chunks": 1 if plan else 16, "channels": 0 if plan else 2, "scratch": 0, "protocol": "Simple",
        "input_chunks": 2 if plan else 0, "output_chunks": 16 if plan else 0,
    }  # fmt: skip
    return ProgramFile(
        name=name, collective=collective, in_place=in_place, out_of_place=not in_place, min_bytes=low,
        max_bytes=high, **{**values, **stated},
    )  # fmt: skip


def cell(
    runtime: str, collective: CollectiveName, low: int, high: int, *, both: bool = True, **stated: Any
) -> DeployedCell:
    """A cell of ``ring8`` with times at its first and its last size. ``high`` 0: there is no last."""
    shape = target(runtime).format
    plan, both = shape.plan, both and not shape.table
    stem, suffix = f"{collective}-{low}-{high}", shape.extension
    if collective in ROOTED:
        stated = {"root": 0, **stated}
    forms = (("", False), (".inplace", True)) if both else (("", False),)
    programs = [
        program(f"{stem}{form}.{suffix}", collective, low, high, plan=plan, in_place=in_place, **stated)
        for form, in_place in forms
    ]
    files = {p.name: f"the program {p.name}\n".encode() for p in programs}
    files[f"{stem}.schedule.json"] = b"{}\n"
    record: dict[str, Any] = {
        "cell": f"ring8/{runtime}/{collective}/{low}..{high}", "collective": collective, "target": runtime,
        "extent": f"{low}..{high}", "ranks": 8, "root": stated.get("root"),
        "sizes": [
            {"size": low, "program_us": 12.5, "library_us": 20.0},
            {"size": high or 8 * low, "program_us": 800.25, "library_us": None},
        ],
        "programs": [asdict(p) for p in programs],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }  # fmt: skip
    return DeployedCell(str(record["cell"]), "a" * 64, "a" * 64, record, files)


def two_cells(runtime: str) -> tuple[DeployedCell, ...]:
    """An allgather in two ranges of sizes."""
    middle = 1_000_000
    return cell(runtime, "allgather", 64_000, middle - 1), cell(runtime, "allgather", middle, 0)


def deployment(runtime: str, *cells: DeployedCell) -> dict[str, bytes]:
    """The files of a folder for ``runtime`` with ``cells``; by default ``two_cells``."""
    return folder_contents(ring8(), "b" * 64, target(runtime), cells or two_cells(runtime))


def written(folder: Path, runtime: str, *cells: DeployedCell) -> Path:
    """Such a folder at ``folder``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_folder(folder, deployment(runtime, *cells), b'"kind": "hetesynth deployment"')
    return folder
