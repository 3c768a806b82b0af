"""Remakes figures of the pages in docs/ and names those that are not what the present code gives.

    python tests/benchmarks/stale_figures.py --minutes 40 --seed "$(date +%G-%V)"

Cells of docs/data/programs.csv, of benchmarks_time.csv and the steps of benchmarks.csv, in an order that the seed
shuffles, as many as the minutes allow: a weekly run with another seed comes to each in turn. Seconds and memory
are of a machine and are not compared. ``--mend`` writes what was remade into the CSV. Exit code 1 where a figure
differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import cases as steps
from benchmarks import programs_page, time_tables
from benchmarks.page import table
from benchmarks.run import measured
from hetesynth.model.words import size_text

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
CELL = slice(4, -1)  # of a row of docs/data/programs.csv: after the cluster and what is asked, before seconds
STEPS = slice(1, 7)  # of a row of docs/data/benchmarks.csv; then come seconds, memory and the goal
TIMES = slice(1, 11)  # of a row of docs/data/benchmarks_time.csv; then come seconds


@dataclass(frozen=True, slots=True)
class Figure:
    """What the line ``line`` of the CSV ``page`` shows in ``columns``, and how to remake it."""

    page: Path
    line: int
    columns: slice
    shown: list[str]
    name: str
    remake: Callable[[], list[str]]

    def mend(self, remade: list[str]) -> None:
        """Write ``remade`` into the page."""
        lines = self.page.read_text(encoding="utf-8").splitlines()
        row, text = next(csv.reader([lines[self.line]])), io.StringIO()
        row[self.columns] = remade
        csv.writer(text, lineterminator="").writerow(row)
        lines[self.line] = text.getvalue()
        self.page.write_text("\n".join([*lines, ""]), encoding="utf-8")


def rows_of(text: str) -> list[list[str]]:
    """The rows of a CSV, its head too."""
    return list(csv.reader(io.StringIO(text)))


def figures(docs: Path = DOCS) -> Iterator[Figure]:
    """All that can be remade."""
    yield from _of_programs(docs / programs_page.CELLS)
    yield from _of_times(docs / "data" / "benchmarks_time.csv")
    yield from _of_steps(docs / "data" / "benchmarks.csv")


def _of_programs(data: Path) -> Iterator[Figure]:
    """The cells of docs/data/programs.csv, all of it but the seconds."""

    def remade(cell: programs_page.Cell) -> list[str]:
        with tempfile.TemporaryDirectory(prefix="hetesynth-stale-") as folder:
            row = programs_page.measured(cell, programs_page.files(Path(folder))[cell[0]])
        return [row[name] for name in programs_page.COLUMNS[CELL]]

    for number, (cell, row) in enumerate(programs_page.rows_of(data).items(), 1):
        shown = [row[name] for name in programs_page.COLUMNS[CELL]]
        yield Figure(data, number, CELL, shown, f"programs: {' '.join(cell)}", lambda cell=cell: remade(cell))  # type: ignore[misc]


def _of_times(page: Path) -> Iterator[Figure]:
    known = {(case.cluster, case.collective, size_text(case.size)): case for case in time_tables.CASES}

    def remade(case: time_tables.TimeCase) -> list[str]:
        return rows_of(time_tables.time_table(time_tables.time_rows(EXAMPLES, [f"{case.name}$"])))[1][TIMES]

    for number, row in enumerate(rows_of(page.read_text(encoding="utf-8"))):
        case = known.get((row[1], row[2], row[3]))
        if case is not None:
            yield Figure(page, number, TIMES, row[TIMES], case.name, lambda case=case: remade(case))  # type: ignore[misc]


def _of_steps(page: Path) -> Iterator[Figure]:
    every = [case for case in steps.all_cases() if case.section != "growth"]
    known = {(f"{case.cluster} {case.collective}", str(case.chunks), str(case.goal)): case for case in every}

    def remade(case: steps.Case) -> list[str]:
        report = measured([case], EXAMPLES, whole=False, warm_up=())
        return rows_of(table(report.rows))[1][STEPS]

    for number, row in enumerate(rows_of(page.read_text(encoding="utf-8"))):
        case = known.get((row[1], row[3], row[11]))
        if case is not None:
            yield Figure(page, number, STEPS, row[STEPS], case.name, lambda case=case: remade(case))  # type: ignore[misc]


def main() -> int:
    """Remake figures until the minutes are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--seed", default="")
    parser.add_argument("--only", default="", help="figures with this text in their page or name")
    parser.add_argument("--mend", action="store_true", help="write what was remade into the pages")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of the pages")
    options = parser.parse_args()
    waiting = [one for one in figures(options.docs) if options.only in f"{one.page.name} {one.name}"]
    random.Random(options.seed).shuffle(waiting)
    end, stale, same = time.monotonic() + 60 * options.minutes, 0, 0
    for figure in waiting:
        if time.monotonic() > end:
            break
        remade = figure.remake()
        if remade == figure.shown:
            same += 1
            continue
        stale += 1
        print(f"{figure.page.name}:{figure.line + 1}: {figure.name}: {figure.shown} is now {remade}", flush=True)
        if options.mend:
            figure.mend(remade)
    if options.mend and stale:
        programs_page.publish(options.docs)
    print(f"{same + stale} of {len(waiting)} figures remade")
    print(f"{same} passed, {stale} failed")
    return int(stale > 0 or not same)


if __name__ == "__main__":
    sys.exit(main())
