"""Cells of a folder that an atlas brought and no manifest names: which of them a build keeps.

In: a folder as it is, what it is to become. Out: the cells that stay, and in words what becomes of the others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from hetesynth.deploy.folder.folder import DeployedCell, deployed, place
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.verify import Question, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Carried:
    """``cells`` are kept. ``notes``: of those that are not, and of those that are stale."""

    cells: tuple[DeployedCell, ...] = ()
    notes: tuple[str, ...] = ()


def carried(
    folder: Path, topology: Topology, topology_sha256: str, target: Target, collectives: Collection[str]
) -> Carried:
    """``collectives``: those of the manifest, which are not kept twice. An atlas of an older topology stays where
    every program of it is right on ``topology``."""
    cells: list[DeployedCell] = []
    notes: dict[str, None] = {}
    for cell in deployed(folder):
        if not cell.origin:
            continue
        name = str(cell.record.get("collective"))
        if name in collectives:
            notes[f"{folder}: the manifest has {name} now; the atlas of it is left out"] = None
        elif cell.record.get("topology_sha256") == topology_sha256:
            cells.append(cell)
        elif _is_right(folder, cell, topology, target):
            cells.append(cell)
            notes[f"{folder}: the atlas of {name} is stale, and right on the topology as it is now"] = None
        else:
            notes[
                f"{folder}: the atlas of {name} is wrong on the topology as it is now: {cell.name} is left out"
            ] = None
    return Carried(tuple(cells), tuple(notes))


def _is_right(folder: Path, cell: DeployedCell, topology: Topology, target: Target) -> bool:
    """Whether all programs of ``cell`` are; its schedule is for the reader."""
    question = Question(targets=(target,), given=topology)
    programs = [folder / place(name) for name in cell.files if not name.endswith(SCHEDULE_SUFFIX)]
    try:
        return all(judge_file(path, question).count("error") == 0 for path in programs)
    except HetesynthError:
        return False
