"""What the default command reaches for one collective, cluster and size, as a value and in a journal.

In: a cell, or a file that an earlier run wrote. Out: the cells of both. A run that was stopped goes on from its
journal; a cell counts for the same text of the cluster and the same conditions only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hetesynth.bench.journal import RowJournal
from hetesynth.model.collective import CollectiveName
from hetesynth.model.runtime_costs import NCCL_TABLES, RuntimeCosts

_DERIVED = ("percent_of_limit", "times_as_fast_as_ring")  # of a cell in JSON


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


class Journal(RowJournal[Key, ClusterCell]):
    """Cells by what was asked for."""

    field = "cells"

    def key(self, row: ClusterCell) -> Key:
        """What was asked for."""
        return row.key

    def plain(self, row: ClusterCell) -> dict[str, Any]:
        """The cell for JSON, with what follows from it."""
        return plain(row)

    def row(self, values: dict[str, Any]) -> ClusterCell:
        """The cell, without what follows from it."""
        return ClusterCell(**{name: values[name] for name in values if name not in _DERIVED})


def plain(cell: ClusterCell) -> dict[str, Any]:
    """The cell for JSON, with what follows from it."""
    return asdict(cell) | dict(zip(_DERIVED, (cell.percent, cell.factor), strict=True))
