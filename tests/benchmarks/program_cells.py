"""What was measured of the programs of one collective on one cluster, as a value and as a file.

In: a cell. Out: JSON, and the cell again. Knows nothing of how they are measured or shown.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hetesynth.files.atomic import write_atomically
from hetesynth.model.collective import CollectiveName
from hetesynth.programs.msccl.lower import Lowered
from hetesynth.programs.summary import program_summary


@dataclass(frozen=True, slots=True)
class Size:
    """Totals over all GPUs of one program, out of place; ``path``: its critical path in chunk times."""

    steps: int
    thread_blocks: int
    dependences: int
    path: int

    @classmethod
    def of(cls, lowered: Lowered) -> Size:
        """Count the program."""
        figures = program_summary(lowered.program)
        return cls(figures.steps, figures.thread_blocks, figures.dependences, lowered.critical_path)

    def larger(self, plain: Size) -> bool:
        """Whether there is more of anything than in ``plain``."""
        return any(
            getattr(self, name) > getattr(plain, name) for name in ("steps", "thread_blocks", "dependences")
        )

    def worse(self, plain: Size) -> bool:
        """Whether there is more of anything or the critical path is longer."""
        return self.larger(plain) or self.path > plain.path


Sizes = tuple[tuple[str, Size | None], ...]
"""By target; None: it cannot hold such a program."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One collective on one cluster. ``verdicts``: (target, "" or what is wrong). ``plain``: the straightforward
    lowering without limits; ``sizes``: what is written for each target compared; ``within``: the straightforward
    lowering within the limits of each, which is ``plain`` where they allow that."""

    cluster: str
    ranks: int
    collective: CollectiveName
    verdicts: tuple[tuple[str, str], ...]
    plain: Size | None
    sizes: Sizes
    within: Sizes = ()


def write_cell(file: Path, cell: Cell) -> None:
    """The file, whole or not at all."""
    write_atomically(file, (json.dumps(asdict(cell), indent=1) + "\n").encode())


def read_cell(file: Path) -> Cell:
    """What ``write_cell`` wrote."""
    cell: dict[str, Any] = json.loads(file.read_text())
    return Cell(
        cell["cluster"],
        cell["ranks"],
        cell["collective"],
        tuple((name, why) for name, why in cell["verdicts"]),
        _size(cell["plain"]),
        tuple((name, _size(size)) for name, size in cell["sizes"]),
        tuple((name, _size(size)) for name, size in cell["within"]),
    )


def _size(counts: dict[str, int] | None) -> Size | None:
    return None if counts is None else Size(**counts)
