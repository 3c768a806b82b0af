"""Remakes figures of the pages in docs/ and names those that are not what the present code gives.

    python tests/benchmarks/stale_figures.py --minutes 40 --seed "$(date +%G-%V)"

Cells of docs/data: of ranges.csv, repairs.csv, hetecclpaper, benchmarks_time.csv and the steps of benchmarks.csv,
in an order that the seed shuffles, as many as the minutes allow: a weekly run with another seed comes to each in
turn. Seconds and memory are of a machine and are not compared. ``--mend`` writes what was remade into the CSV.
Exit code 1 where a figure differs. (tests/library compares reality.csv in every run of the tests.)
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
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import cases as steps
from benchmarks import ranges, repairs, time_tables
from benchmarks.heteccl import run as heteccl_run
from benchmarks.heteccl import time_tables as heteccl_tables
from benchmarks.heteccl.cases import ProgramCase, all_cases
from benchmarks.page import table
from benchmarks.run import measured
from hetesynth.model.collective import CollectiveName
from hetesynth.model.words import size_text

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
CELL = slice(4, -2)  # of a row of docs/data/ranges.csv: after the cluster and what is asked, before seconds
REPAIRED = slice(4, 6)  # of a row of docs/data/repairs.csv: steps and times; then come seconds
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
    yield from _of_ranges(docs / "data" / "ranges.csv")
    yield from _of_repairs(docs / "data" / "repairs.csv")
    yield from _of_heteccl(docs / "data" / "hetecclpaper")
    yield from _of_times(docs / "data" / "benchmarks_time.csv")
    yield from _of_steps(docs / "data" / "benchmarks.csv")


def _of_ranges(data: Path) -> Iterator[Figure]:
    """The files of docs/data/ranges.csv, all that is said of them but the seconds."""

    def remade(row: ranges.Row) -> list[str]:
        with tempfile.TemporaryDirectory(prefix="hetesynth-stale-") as folder:
            file = ranges.files(Path(folder))[row["cluster"]]
            made = ranges.row(row["cluster"], file, cast("CollectiveName", row["collective"]), row["size"])
        return [made.get(name, "") for name in ranges.COLUMNS[CELL]]

    for number, row in enumerate(ranges.rows_of(data), 1):
        shown = [row[name] for name in ranges.COLUMNS[CELL]]
        name = f"{row['cluster']} {row['collective']} {row['size']}"
        yield Figure(data, number, CELL, shown, name, partial(remade, row))


def _of_repairs(page: Path) -> Iterator[Figure]:
    """The steps and times of docs/data/repairs.csv."""

    def remade(number: int) -> list[str]:
        with tempfile.TemporaryDirectory(prefix="hetesynth-stale-") as folder:
            cell = next(islice(repairs.cells(Path(folder)), number - 1, None))
            return repairs.line(repairs.measured(*cell, Path(folder)))[REPAIRED]

    for number, row in enumerate(rows_of(page.read_text(encoding="utf-8"))):
        if number:
            name = " ".join(row[1:4])
            yield Figure(page, number, REPAIRED, row[REPAIRED], name, partial(remade, number))


def _of_heteccl(folder: Path) -> Iterator[Figure]:
    """The programs of docs/data/hetecclpaper beside the models of the others."""

    def remade(case: ProgramCase, at: int) -> list[str]:
        (entry,) = heteccl_run.measured([case], EXAMPLES)
        return list(heteccl_tables.rows(case, entry)[at])

    for kind, name in heteccl_tables.NAMES.items():
        page = folder / f"{name}.csv"
        shown = rows_of(page.read_text(encoding="utf-8"))
        cases = [case for case in all_cases() if isinstance(case, ProgramCase) and case.table == kind]
        places = [(case, at) for case in cases for at in range(len(case.sizes))]
        for number, (case, at) in enumerate(places, 1):
            remake = partial(remade, case, at)
            yield Figure(page, number, slice(None), shown[number], f"{case.name}, {at + 1}", remake)


def _of_times(page: Path) -> Iterator[Figure]:
    known = {(case.cluster, case.collective, size_text(case.size)): case for case in time_tables.CASES}

    def remade(case: time_tables.TimeCase) -> list[str]:
        return rows_of(time_tables.time_table(time_tables.time_rows(EXAMPLES, [f"{case.name}$"])))[1][TIMES]

    for number, row in enumerate(rows_of(page.read_text(encoding="utf-8"))):
        case = known.get((row[1], row[2], row[3]))
        if case is not None:
            yield Figure(page, number, TIMES, row[TIMES], case.name, partial(remade, case))


def _of_steps(page: Path) -> Iterator[Figure]:
    every = [case for case in steps.all_cases() if case.section != "growth"]
    known = {(f"{case.cluster} {case.collective}", str(case.chunks), str(case.goal)): case for case in every}

    def remade(case: steps.Case) -> list[str]:
        report = measured([case], EXAMPLES, whole=False, warm_up=())
        return rows_of(table(report.rows))[1][STEPS]

    for number, row in enumerate(rows_of(page.read_text(encoding="utf-8"))):
        case = known.get((row[1], row[3], row[11]))
        if case is not None:
            yield Figure(page, number, STEPS, row[STEPS], case.name, partial(remade, case))


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
        ranges.publish(ranges.rows_of(ranges.TABLE))
    print(f"{same + stale} of {len(waiting)} figures remade")
    print(f"{same} passed, {stale} failed")
    return int(stale > 0 or not same)


if __name__ == "__main__":
    sys.exit(main())
