"""The run: every case after the other, each in its own process, and what to keep when it is cut short.

In: cases, the folder of examples. Out: a ``Report`` with a row for every case, measured or not.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import clusters
from benchmarks.cases import Case, Goal
from benchmarks.machine import load, machine
from benchmarks.measure import Row, measure
from hetesynth.errors import HetesynthError

Measure = Callable[[Case, Path, Path], Row]
Progress = Callable[[int, int, str], None]  # cases done, cases in all, what is run

QUICK_SECONDS = 100.0  # of computing, after which a quick run starts no other case: a loaded machine takes longer
WARM_UP = (
    Case("warm-up", "h20_8x16", 128, "allgather", 1, Goal(40), 40, schedule_only=True),  # compiles the kernel
    Case("warm-up", "h20_4p8", 12, "alltoall", 1, Goal(2), 2),
)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run found. ``whole``: every case of the benchmark was asked for, not a selection."""

    rows: tuple[Row, ...]
    facts: dict[str, str]
    date: str
    seconds: float
    loads: tuple[str, str]
    whole: bool
    complete: bool


@dataclass(frozen=True, slots=True)
class Runner:
    """How cases are run. ``examples``: the folder with one folder per cluster."""

    examples: Path
    measure: Measure = measure
    progress: Progress = field(default=lambda done, count, name: None)
    warm_up: tuple[Case, ...] = WARM_UP
    deadline: float | None = None  # seconds of computing after which no case is started

    def __call__(self, cases: Sequence[Case], *, whole: bool) -> Report:
        """Measure ``cases`` in turn. Ctrl-C ends the run; the rows so far are kept.

        Raises HetesynthError HS901 when the cluster of a case is not there.
        """
        started = time.monotonic()
        before = load()
        rows: list[Row] = []
        with tempfile.TemporaryDirectory(prefix="hetesynth-bench-") as name:
            folder = Path(name)
            files = {c.cluster: self._topology(c.cluster, folder) for c in (*cases, *self.warm_up)}
            try:
                self._all(cases, files, folder, rows)
            except KeyboardInterrupt:
                rest = "interrupted"
            else:
                rest = "no time left"
        rows += [Row(case, "not run", rest) for case in cases[len(rows) :]]
        return Report(
            rows=tuple(rows),
            facts=machine(),
            date=time.strftime("%Y-%m-%d"),
            seconds=time.monotonic() - started,
            loads=(before, load()),
            whole=whole,
            complete=all(row.status != "not run" for row in rows),
        )

    def _all(self, cases: Sequence[Case], files: dict[str, Path], folder: Path, rows: list[Row]) -> None:
        measured: dict[object, Row] = {}
        for case in self.warm_up:
            self.progress(0, len(cases), f"warming up: {case.name}")
            self._one(case, files, folder)
        for number, case in enumerate(cases):
            spent = sum(row.total or 0.0 if row.cpu is None else row.cpu for row in measured.values())
            if self.deadline is not None and spent > self.deadline:
                return
            self.progress(number, len(cases), case.name)
            if case.command not in measured:
                measured[case.command] = self._one(case, files, folder)
            rows.append(replace(measured[case.command], case=case))

    def _one(self, case: Case, files: dict[str, Path], folder: Path) -> Row:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            return self.measure(case, files[case.cluster], Path(out))

    def _topology(self, cluster: str, folder: Path) -> Path:
        """The cluster's example, or its text in ``folder`` where it is generated."""
        example = self.examples / cluster / "topo.dsl"
        if example.is_file():
            return example
        text = clusters.source(cluster)
        if text is None:
            raise HetesynthError(
                f"there is no example {cluster} in {self.examples}"
                if self.examples.is_dir()
                else f"there is no folder of examples {self.examples}: an installed hetesynth brings none",
                code="HS901",
                help="give the folder `examples` of a checkout: --examples DIR",
            )
        path = folder / f"{cluster}.dsl"
        path.write_text(text, encoding="utf-8")
        return path
