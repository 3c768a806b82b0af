"""The table of docs/benchmarks_clusters.md: what programs reach of the limit on examples and generated clusters.

In: the folder of examples, patterns of names, sizes. Out: a cell for each cluster, collective and size, each
measured in a process of its own that is killed when it takes too long. All times are simulated.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth.bench.cluster_cells import ClusterCell, Conditions, Journal
from hetesynth.bench.generated_clusters import generated_clusters
from hetesynth.bench.measure import Process, run
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import CollectiveName
from hetesynth.report.words import size_text

GENERATED = 32
COLLECTIVES: tuple[CollectiveName, ...] = ("allgather", "reducescatter", "allreduce", "broadcast", "alltoall")
SIZES = (10**9, 16 * 10**6)
DEFAULT_BUDGET = 60.0  # seconds after which a command is cut short; the default effort ends before
CELL_PATIENCE = 300.0  # seconds over four budgets after which a cell is taken to hang

Announce = Callable[[int, int, str], None]
Run = Callable[[Sequence[str], dict[str, str], float], Process]


@dataclass(frozen=True, slots=True)
class ClusterCase:
    """A cell to measure: ``cluster`` is described by ``text``, which for examples is in ``file``."""

    cluster: str
    text: str
    collective: CollectiveName
    size: int
    file: Path | None = None

    @property
    def name(self) -> str:
        """For patterns."""
        return f"clusters: {self.cluster} {self.collective} {size_text(self.size)}"

    @property
    def digest(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def cases(examples: Path, patterns: Sequence[str] = (), sizes: Sequence[int] = SIZES) -> tuple[ClusterCase, ...]:
    """All cells with a pattern in their name, cluster by cluster: the examples, then the generated ones.

    Raises HetesynthError HS901 without examples.
    """
    files = sorted(examples.glob("*/topo.dsl"))
    if not files:
        raise HetesynthError(
            f"there are no examples in {examples}",
            code="HS901",
            help="run it in a checkout of hetesynth, or name its examples with --examples",
        )
    clusters: list[tuple[str, str, Path | None]] = [
        (file.parent.name, file.read_text(encoding="utf-8"), file) for file in files
    ]
    clusters += [(each.name, each.text, None) for each in generated_clusters(range(GENERATED))]
    every = (
        ClusterCase(name, text, collective, size, file)
        for size in sizes
        for name, text, file in clusters
        for collective in COLLECTIVES
    )
    return tuple(case for case in every if not patterns or any(p in f"{case.name}$" for p in patterns))


def measured_cells(
    selected: Sequence[ClusterCase],
    journal: Journal,
    conditions: Conditions,
    announce: Announce,
    process: Run = run,
) -> Iterator[ClusterCell]:
    """The cell of each case, from the journal where it is there; new ones go into the journal at once."""
    with tempfile.TemporaryDirectory(prefix="hetesynth-clusters-") as folder:
        for number, case in enumerate(selected):
            announce(number, len(selected), case.name)
            asked = ClusterCell(case.cluster, case.digest, case.collective, case.size, **asdict(conditions))
            cell = journal.get(asked.key)
            if cell is None:
                cell = _measured(asked, _file(case, Path(folder)), process)
                journal.add(cell)
            yield cell


def _measured(asked: ClusterCell, topology: Path, process: Run) -> ClusterCell:
    command = [sys.executable, "-m", "hetesynth.bench.cluster_cell_process", str(topology), asked.collective]
    command += [str(asked.size), f"{asked.budget:g}", str(int(asked.runtime_costs)), str(asked.thread_blocks or 0)]
    ended = process(command, dict(os.environ), 4 * asked.budget + CELL_PATIENCE)
    entries = [*_entries(ended.output)]
    why = _failure(ended)
    ours: dict[str, Any] = entries[0] if entries else {"error": why}
    ring: dict[str, Any] = entries[1] if len(entries) > 1 else {"error": why}
    return replace(
        asked,
        gpus=ours.get("gpus"),
        program=ours.get("program"),
        limit=ours.get("limit"),
        wall=ours.get("wall"),
        candidate=ours.get("candidate", ""),
        error=ours.get("error", ""),
        ring=ring.get("program"),
        ring_error=ring.get("error", ""),
    )


def _entries(output: str) -> Iterator[dict[str, Any]]:
    """The lines of JSON that a process printed before it ended."""
    for line in output.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def _failure(ended: Process) -> str:
    """Why a process told less than it should."""
    if ended.hung:
        return f"killed after {ended.seconds:.0f} s"
    return (ended.errors.strip().splitlines() or [f"exit code {ended.code}"])[-1]


def _file(case: ClusterCase, folder: Path) -> Path:
    """The example, or the generated text in ``folder``."""
    if case.file is not None:
        return case.file
    path = folder / f"{case.cluster}.dsl"
    path.write_text(case.text, encoding="utf-8")
    return path
