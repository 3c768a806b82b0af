"""What a report shows of CEGIS: its iterations, and snapshots of the schedule as far as it was.

Steps count from 1, as everywhere in a report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mark = Literal["", "some", "full", "over"]  # nothing; less than the capacity; all of it; more, or against a law


@dataclass(frozen=True, slots=True)
class Cell:
    """What a resource carries, or a rank receives, in a step. ``text``: in short; ``all``: in full."""

    text: str
    mark: Mark
    all: str


@dataclass(frozen=True, slots=True)
class GridRow:
    """A resource or a rank, with a cell for each step."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The schedule as far as it was. ``title``: which iteration; ``said``: what it was told.
    ``checkpoint``: the step that is marked."""

    title: str
    said: str
    steps: int
    checkpoint: int | None
    resources: tuple[GridRow, ...]
    ranks: tuple[GridRow, ...]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Those of one phase. ``said``: what the reader must know of it."""

    phase: str
    said: str
    shown: tuple[Snapshot, ...]


@dataclass(frozen=True, slots=True)
class CegisRun:
    """How CEGIS got to a schedule. ``said``: sentences. ``rows``: a row of the table for each iteration."""

    said: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    phases: tuple[Snapshots, ...]
