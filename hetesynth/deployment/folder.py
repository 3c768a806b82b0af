"""The contents of the folder that one cluster's runtime loads: programs, schedules and the index of both.

In: cells with their files. Out: every file of the folder by its name there, the same bytes for the same cells.
Programs of the runtime are alone in their folder, since some runtimes read all that is in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetesynth.compile.formats import SCHEDULE_SUFFIX
from hetesynth.files.folders import INDEX
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology

KIND = "hetesynth deployment"
FORMAT = 1
MARK = b'"kind": "hetesynth deployment"'
ALGORITHMS, SCHEDULES = "algorithms", "schedules"
ORIGIN = "atlas"
"""Of cells that an atlas brought, which no manifest names."""
MAX_INDEX_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class DeployedCell:
    """A cell as it stands in a folder. ``key``: of the job it was last decided for; ``made_for``: of the job whose
    result it is, another one where an older result stays because the newer is worse. ``files``: by the names that
    the cell gave them. ``origin``: where the cell comes from; empty: from a manifest."""

    name: str
    key: str
    made_for: str
    record: dict[str, Any]
    files: dict[str, bytes]
    origin: str = ""

    @property
    def row(self) -> dict[str, Any]:
        """The cell in the index."""
        stated = {"origin": self.origin} if self.origin else {}
        return {"name": self.name, "key": self.key, "made_for": self.made_for, **stated, "record": self.record}


@dataclass(frozen=True, slots=True)
class Deployment:
    """What one folder holds."""

    topology: Topology
    topology_sha256: str
    target: Target
    cells: tuple[DeployedCell, ...]

    def contents(self) -> dict[str, bytes]:
        """Every file of the folder by its name in it."""
        files = {place(name): data for cell in self.cells for name, data in cell.files.items()}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
        index = {
            "kind": KIND,
            "format": FORMAT,
            "cluster": self.topology.name,
            "target": self.target.name,
            "topology_sha256": self.topology_sha256,
            "cells": [cell.row for cell in self.cells],
            "files": digests,
        }
        files[INDEX] = (json.dumps(index, indent=1) + "\n").encode()
        return files


def place(name: str) -> str:
    """Where the file ``name`` of a cell is in the folder."""
    return f"{SCHEDULES if name.endswith(SCHEDULE_SUFFIX) else ALGORITHMS}/{name}"


def deployed(folder: Path) -> tuple[DeployedCell, ...]:
    """The cells in ``folder`` whose files are there and whole; none where it is no such folder."""
    index = _index(folder)
    cells = []
    for row in index.get("cells", []) if isinstance(index.get("cells"), list) else []:
        try:
            files = _files(folder, row["record"]["files"])
            origin = ORIGIN if row.get("origin") == ORIGIN else ""
            texts = row["name"], row["key"], row["made_for"]
            if all(isinstance(text, str) for text in texts):
                cells.append(DeployedCell(*texts, row["record"], files, origin))
        except (AttributeError, KeyError, TypeError, OSError, ValueError):
            continue
    return tuple(cells)


def _index(folder: Path) -> dict[str, Any]:
    from hetesynth.strict_json import JsonLimits, JsonRefused, read_json

    try:
        path = folder / INDEX
        if path.stat().st_size > MAX_INDEX_BYTES:
            return {}
        values = read_json(path.read_bytes(), JsonLimits(32))
    except (OSError, JsonRefused):
        return {}
    is_ours = isinstance(values, dict) and values.get("kind") == KIND and values.get("format") == FORMAT
    return values if is_ours else {}


def _files(folder: Path, digests: dict[str, str]) -> dict[str, bytes]:
    """The files of a cell; ValueError where one was changed."""
    files = {}
    for name, digest in digests.items():
        if Path(name).name != name:
            raise ValueError("not a name in the folder")
        data = (folder / place(name)).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("changed")
        files[name] = data
    return files


def differs(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether ``folder`` holds other files than ``contents``."""
    try:
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        return names != contents.keys() or any((folder / n).read_bytes() != data for n, data in contents.items())
    except OSError:  # another build exchanges it
        return True
