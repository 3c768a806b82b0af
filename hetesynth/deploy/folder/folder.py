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

from hetesynth.deploy.folder.cells import DeployedCell as DeployedCell
from hetesynth.deploy.folder.environment import ENVIRONMENT, Environment, environment, environment_text
from hetesynth.deploy.folder.readme import EXPECTED, README, Hosts, expected_text, readme_text
from hetesynth.deploy.folder.records import check_record, is_plain_name
from hetesynth.deploy.folder.selection import check_selection
from hetesynth.deploy.folder.smoke_test import SMOKE_TEST, smoke_test_text
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.files.folders import INDEX
from hetesynth.files.regular_files import read_regular
from hetesynth.model.rank_places import rank_places
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology

KIND = "hetesynth deployment"
FORMAT = 1
MARK = b'"kind": "hetesynth deployment"'
ALGORITHMS, SCHEDULES = "algorithms", "schedules"
LOADER = "load_plans.py"
ORIGIN = "atlas"
"""Of cells that an atlas brought, which no manifest names."""
MAX_INDEX_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Deployment:
    """What one folder holds."""

    topology: Topology
    topology_sha256: str
    target: Target
    cells: tuple[DeployedCell, ...]

    def contents(self) -> dict[str, bytes]:
        """Every file of the folder by its name in it. HetesynthError HS870 where cells are for the same calls."""
        files = {place(name): data for cell in self.cells for name, data in cell.files.items()}
        programs = [name for name in files if name.startswith(f"{ALGORITHMS}/")]
        if not all(is_plain_name(name) for cell in self.cells for name in cell.files):
            raise InternalError("a file's name has more than letters, digits, dots, `-` and `_`")
        check_selection([(cell.name, cell.programs) for cell in self.cells], self.target)
        files |= {name: text.encode() for name, text in self._texts().items()}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
        index = {
            "kind": KIND,
            "format": FORMAT,
            "cluster": self.topology.name,
            "target": self.target.name,
            "topology_sha256": self.topology_sha256,
            "environment": self._environment.values(ALGORITHMS),
            "left_out": {entry.name: entry.reason for entry in self._environment.left_out},
            "programs": len(programs),
            "cells": [cell.row for cell in self.cells],
            "files": digests,
        }
        files[INDEX] = (json.dumps(index, indent=1) + "\n").encode()
        return files

    @property
    def _environment(self) -> Environment:
        return environment(self.target, [program for cell in self.cells for program in cell.programs])

    def _texts(self) -> dict[str, str]:
        """What stands beside programs and schedules."""
        cluster, stated = self.topology.name, self._environment
        texts, hosts = rank_texts(self.topology)
        texts[README] = readme_text(self.target, self.cells, stated, cluster, hosts)
        texts[EXPECTED] = expected_text(self.cells, self.target)
        if self.target.name == "portable":
            return texts
        if self.target.format == "mscclpp-json":
            texts[LOADER] = loader_text()
        else:
            texts[ENVIRONMENT] = environment_text(self.target, stated, cluster)
        there = bool(texts.get("hostfile")) and not _alone(self.topology)
        texts[SMOKE_TEST] = smoke_test_text(self.target, self.cells, stated, cluster, hosts=there)
        return texts


def rank_texts(topology: Topology) -> tuple[dict[str, str], Hosts]:
    """The files that start each rank where it belongs; none where a name is no host's."""
    from hetesynth.deploy.rank_files import FORMATS, rank_order

    try:
        order = rank_order(topology)
    except HetesynthError as error:
        return {}, Hosts(error.message)
    return {name: text(order) for name, text in FORMATS.values()}, Hosts("", order.unnamed)


def loader_text() -> str:
    """``load_plans.py``, the same for all folders."""
    return (Path(__file__).parent / "load_plans.txt").read_text(encoding="utf-8")


def _alone(topology: Topology) -> bool:
    """Whether all ranks run on one machine, of which no name is stated: any machine of that kind will do."""
    places = rank_places(topology)
    return len({place.machine for place in places}) == 1 and not any(place.host for place in places)


def place(name: str) -> str:
    """Where the file ``name`` of a cell is in the folder."""
    return f"{SCHEDULES if name.endswith(SCHEDULE_SUFFIX) else ALGORITHMS}/{name}"


@dataclass(frozen=True, slots=True)
class Deployed:
    """What the index of a folder says. ``files``: SHA-256 of every file but the index, by its name in the folder.
    ``cells``: those whose files are there and whole."""

    cluster: str
    target: str
    files: dict[str, str]
    cells: tuple[DeployedCell, ...]


def read_folder(folder: Path) -> Deployed | None:
    """What stands in ``folder``; None where ``hetesynth build`` did not write it."""
    index = _index(folder)
    files = index.get("files")
    if not index or not isinstance(files, dict) or not all(_is_inside(name) for name in files):
        return None
    cluster, target = (str(index.get(name, "")) for name in ("cluster", "target"))
    return Deployed(cluster, target, {name: str(digest) for name, digest in files.items()}, deployed(folder))


def _is_inside(name: str) -> bool:
    """Whether ``name`` is of a file in the folder or in one of its two folders."""
    return all(map(is_plain_name, name.split("/", 1)))


def deployed(folder: Path) -> tuple[DeployedCell, ...]:
    """The cells in ``folder`` whose files are there and whole; none where it is no such folder."""
    return cells_of(folder, KIND)


def cells_of(folder: Path, kind: str) -> tuple[DeployedCell, ...]:
    """The same of a folder whose index says that it is of this ``kind``."""
    index = _index(folder, kind)
    cells, listed = [], set[str]()
    for row in index.get("cells", []) if isinstance(index.get("cells"), list) else []:
        try:
            check_record(row["record"])
            files = {name: read_regular(folder / place(name)) for name in row["record"]["files"]}
            origin = ORIGIN if row.get("origin") == ORIGIN else ""
            texts = row["name"], row["key"], row["made_for"]
            if all(isinstance(text, str) and text.isprintable() for text in texts):
                cell = DeployedCell(*texts, row["record"], files, origin)
                cell.check()
                if not listed & files.keys():
                    cells.append(cell)
                    listed |= files.keys()
        except (KeyError, TypeError, OSError, ValueError):
            continue
    return tuple(cells)


def _index(folder: Path, kind: str = KIND) -> dict[str, Any]:
    from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json

    try:
        values = read_json(read_regular(folder / INDEX, MAX_INDEX_BYTES), JsonLimits(32))
    except (OSError, JsonRefused):
        return {}
    is_ours = isinstance(values, dict) and (values.get("kind"), values.get("format")) == (kind, FORMAT)
    return values if is_ours else {}


def differs(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether ``folder`` holds other files than ``contents``."""
    try:
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        return names != contents.keys() or any(read_regular(folder / n) != data for n, data in contents.items())
    except OSError:  # another build exchanges it
        return True


def index_of(folder: Path) -> dict[str, Any]:
    """The index of ``folder`` as it stands there; empty where there is none that can be read."""
    return _index(folder)
