"""What the default command reaches for one collective, cluster and size, as a value and in a journal.

In: a cell, or a file that an earlier run wrote. Out: the cells of both. A run that was stopped goes on from its
journal; a cell counts for the same text of the cluster and the same conditions only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hetesynth.bench.machine import machine
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.model.collective import CollectiveName
from hetesynth.model.runtime_costs import NCCL_TABLES, RuntimeCosts


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a cell is measured: the seconds of a command; whether what runtimes cost counts; thread blocks of a GPU,
    None: those of the portable target."""

    budget: float
    runtime_costs: bool = False
    thread_blocks: int | None = None

    @property
    def runtime(self) -> RuntimeCosts | None:
        """What a runtime costs, where it counts."""
        return NCCL_TABLES if self.runtime_costs else None


Key = tuple[str, str, CollectiveName, int, Conditions]


@dataclass(frozen=True, slots=True)
class ClusterCell:
    """One collective on one cluster at one size. Seconds: ``program`` of the program written, ``limit`` of the
    bound, ``ring`` of the ring's program, ``wall`` of the command; each None where there is none. ``digest``: of
    the cluster's text. ``error`` and ``ring_error``: why there is no program and no ring. ``budget`` and the last
    two: see ``Conditions``."""

    cluster: str
    digest: str
    collective: CollectiveName
    size: int
    budget: float
    gpus: int | None = None
    program: float | None = None
    limit: float | None = None
    ring: float | None = None
    wall: float | None = None
    candidate: str = ""
    error: str = ""
    ring_error: str = ""
    runtime_costs: bool = False
    thread_blocks: int | None = None

    @property
    def conditions(self) -> Conditions:
        """How it was measured."""
        return Conditions(self.budget, self.runtime_costs, self.thread_blocks)

    @property
    def key(self) -> Key:
        """What was asked for."""
        return self.cluster, self.digest, self.collective, self.size, self.conditions

    @property
    def percent(self) -> float | None:
        """Of the limit: 100 is optimal."""
        return None if not self.program or self.limit is None else 100 * self.limit / self.program

    @property
    def factor(self) -> float | None:
        """How many times as fast as the ring."""
        return None if not self.program or self.ring is None else self.ring / self.program


class Journal:
    """Cells by what was asked for, in a file that is written after each of them; without a file, in memory."""

    def __init__(self, file: Path | None) -> None:
        """Raises HetesynthError HS904 where the file is no journal."""
        self._file = file
        self._cells: dict[Key, ClusterCell] = {}
        if file is not None and file.exists():
            self._cells = {cell.key: cell for cell in _read(file)}

    def get(self, key: Key) -> ClusterCell | None:
        """The cell that was measured for ``key``."""
        return self._cells.get(key)

    def add(self, cell: ClusterCell) -> None:
        """Keep ``cell``, on disk too."""
        self._cells[cell.key] = cell
        if self._file is not None:
            contents = {"machine": machine(), "cells": [plain(each) for each in self._cells.values()]}
            write_atomically(self._file, (json.dumps(contents, indent=1) + "\n").encode())


def plain(cell: ClusterCell) -> dict[str, Any]:
    """The cell for JSON, with what follows from it."""
    return asdict(cell) | {"percent_of_limit": cell.percent, "times_as_fast_as_ring": cell.factor}


def _read(file: Path) -> list[ClusterCell]:
    derived = ("percent_of_limit", "times_as_fast_as_ring")
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["cells"]
        return [ClusterCell(**{name: entry[name] for name in entry if name not in derived}) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HetesynthError(
            f"{file} is no journal of this benchmark: {type(error).__name__}: {error}",
            code="HS904",
            help="choose another file with --journal",
        ) from error
