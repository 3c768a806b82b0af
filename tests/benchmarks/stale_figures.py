"""Remakes figures of the pages in docs/ and names those that are not what the present code gives.

    python tests/benchmarks/stale_figures.py --minutes 40 --seed "$(date +%G-%V)"

Cells of the tables of programs, published figures, and the steps of docs/benchmarks.md, in an order that the seed
shuffles, as many as the minutes allow: a weekly run with another seed comes to each in turn. Seconds and memory
are of a machine and are not compared. ``--mend`` writes what was remade into the page. Exit code 1 where a figure
differs.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hetesynth.bench import cases as steps
from hetesynth.bench import time_tables
from hetesynth.bench.cluster_cells import Conditions, Journal
from hetesynth.bench.cluster_page import SHARES, cluster_page, percentile
from hetesynth.bench.cluster_tables import ClusterCase, cases, measured_cells
from hetesynth.bench.page import table
from hetesynth.bench.run import Runner
from hetesynth.bench.time_page import time_page
from hetesynth.report.words import size_text

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
CLUSTER_PAGES = {
    "benchmarks_clusters.md": Conditions(1e5),
    "benchmarks_examples.md": Conditions(1e5),
    "benchmarks_runtime_costs.md": Conditions(1e5, runtime_costs=True),
    "benchmarks_thread_blocks.md": Conditions(1e5, thread_blocks=1024),
}
STEPS = slice(0, 6)  # of a row of docs/benchmarks.md; then come seconds, memory and the goal
TIMES = slice(0, 10)  # of a row of docs/benchmarks_time.md; then come seconds


@dataclass(frozen=True, slots=True)
class Figure:
    """What the line ``line`` of ``page`` shows in ``columns`` of a table, and how to remake it."""

    page: Path
    line: int
    columns: slice
    shown: list[str]
    name: str
    remake: Callable[[], list[str]]

    def mend(self, remade: list[str]) -> None:
        """Write ``remade`` into the page."""
        lines = self.page.read_text(encoding="utf-8").splitlines()
        row = columns_of(lines[self.line])
        row[self.columns] = remade
        lines[self.line] = f"| {' | '.join(row)} |"
        self.page.write_text("\n".join([*lines, ""]), encoding="utf-8")


def columns_of(line: str) -> list[str]:
    """The cells of a row of a table; none of another line."""
    return [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []


def figures(docs: Path = DOCS) -> Iterator[Figure]:
    """All that can be remade."""
    for name, conditions in CLUSTER_PAGES.items():
        yield from _of_clusters(docs / name, conditions)
    yield from _of_times(docs / "benchmarks_time.md")
    yield from _of_steps(docs / "benchmarks.md")


def _of_clusters(page: Path, conditions: Conditions) -> Iterator[Figure]:
    known = {(case.cluster, case.collective, size_text(case.size)): case for case in cases(EXAMPLES)}

    def remade(case: ClusterCase) -> list[str]:
        cells = list(measured_cells([case], Journal(None), conditions, lambda *_: None))
        lines = map(columns_of, cluster_page(cells, 1).splitlines())
        return next(row[2:3] for row in lines if row and row[0] == case.cluster)

    size, head = "", [""]
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()):
        row = columns_of(line)
        if line.startswith("## "):
            size = line.removeprefix("## ")
        elif row and row[0] == "cluster":
            head = row
        for column, collective in enumerate(head):
            case = known.get((row[0], collective, size)) if row else None
            if case is not None:
                at = slice(column, column + 1)
                yield Figure(page, number, at, row[at], case.name, lambda case=case: remade(case))  # type: ignore[misc]


def shares(page: Path) -> dict[tuple[str, str], list[tuple[float, str]]]:
    """Percent of the limit and cluster of each cell of a page of programs, by size and collective and over all."""
    return _summed(page, r"([0-9.]+) %")


def _summed(page: Path, figure: str) -> dict[tuple[str, str], list[tuple[float, str]]]:
    """A ``figure`` and the cluster of each cell, by size and collective and over all."""
    table: dict[tuple[str, str], list[tuple[float, str]]] = {}
    size, head = "", [""]
    for line in page.read_text(encoding="utf-8").splitlines():
        row = columns_of(line)
        if line.startswith("## "):
            size = line.removeprefix("## ")
        elif row and row[0] == "cluster":
            head = row
        for collective, cell in zip(head, row, strict=True) if len(row) == len(head) else ():
            if found := re.search(figure, cell):
                for name in (collective, "all"):
                    table.setdefault((size, name), []).append((float(found[1]), row[0]))
    return table


def sum_up(page: Path) -> None:
    """Remake the lines that sum up the rows of a page of programs."""
    of_rows, factors, lines = (
        shares(page),
        _summed(page, r"([0-9.]+) x"),
        page.read_text(encoding="utf-8").splitlines(),
    )
    for number, row in enumerate(map(columns_of, lines)):
        cells = sorted(of_rows.get((row[0], row[1]), [])) if len(row) == 10 else []
        if cells:
            values = [share for share, _ in cells]
            worst = ", ".join(f"{share:.1f} ({cluster})" for share, cluster in cells[:3])
            row[3:6] = f"{statistics.median(values):.1f}", f"{percentile(values, 0.1):.1f}", worst
            row[6:8] = (str(sum(value < least for value in values)) for least in SHARES)
            compared = [factor for factor, _ in factors.get((row[0], row[1]), [])]
            row[8] = f"{sum(factor < 1 for factor in compared)} of {len(compared)}"
            lines[number] = f"| {' | '.join(row)} |"
    page.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _of_times(page: Path) -> Iterator[Figure]:
    known = {(case.cluster, case.collective, size_text(case.size)): case for case in time_tables.CASES}

    def remade(case: time_tables.TimeCase) -> list[str]:
        lines = map(columns_of, time_page(time_tables.time_rows(EXAMPLES, [f"{case.name}$"])).splitlines())
        return next(row[TIMES] for row in lines if row and row[0] == case.cluster)

    for number, row in enumerate(map(columns_of, page.read_text(encoding="utf-8").splitlines())):
        case = known.get((row[0], row[1], row[2])) if len(row) == 12 else None
        if case is not None:
            yield Figure(page, number, TIMES, row[TIMES], case.name, lambda case=case: remade(case))  # type: ignore[misc]


def _of_steps(page: Path) -> Iterator[Figure]:
    every = [case for case in steps.all_cases() if case.section != "growth"]
    known = {(f"{case.cluster} {case.collective}", str(case.chunks), str(case.goal)): case for case in every}

    def remade(case: steps.Case) -> list[str]:
        report = Runner(EXAMPLES, warm_up=())([case], whole=False)
        return columns_of(table(report.rows).splitlines()[-1])[STEPS]

    for number, row in enumerate(map(columns_of, page.read_text(encoding="utf-8").splitlines())):
        case = known.get((row[0], row[2], row[10])) if len(row) == 12 else None
        if case is not None:
            yield Figure(page, number, STEPS, row[STEPS], case.name, lambda case=case: remade(case))  # type: ignore[misc]


def main() -> int:
    """Remake figures until the minutes are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--seed", default="")
    parser.add_argument("--only", default="", help="figures with this text in their page or name")
    parser.add_argument("--mend", action="store_true", help="write what was remade into the pages")
    options = parser.parse_args()
    waiting = [one for one in figures() if options.only in f"{one.page.name} {one.name}"]
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
    if options.mend:
        for page in CLUSTER_PAGES:
            sum_up(DOCS / page)
    print(f"{same + stale} of {len(waiting)} figures remade")
    print(f"{same} passed, {stale} failed")
    return int(stale > 0 or not same)


if __name__ == "__main__":
    sys.exit(main())
