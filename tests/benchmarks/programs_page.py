"""What the default command writes on 100 clusters, beside the proved limit and what the library takes.

    PYTHONPATH=tests python tests/benchmarks/programs_page.py [--jobs 2] [--only CLUSTER ...]

Measures the cells that docs/data/programs.csv does not have and adds a row for each as soon as it is measured, so
that a run that was killed goes on. Then it writes docs/benchmarks_programs.md and the part of README.md between
the comments ``programs``. To measure a cell again delete its row.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import string
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.generated_clusters import generated_clusters
from benchmarks.machine import machine
from benchmarks.tables import markdown, wrapped
from hetesynth.cli import main as command_line
from hetesynth.files.atomic import write_atomically
from hetesynth.processes import side_by_side

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CELLS, MADE_ON = "data/programs.csv", "data/programs_made_on.csv"
PAGE = "benchmarks_programs.md"
"""In the folder of the pages."""
EXAMPLES = (
    "fig10", "dgx1", "ring8", "v100_fail_one8", "h20_4p8", "v100_4p8_sharednic", "two_dc_50km", "a100_x2",
    "mi250_x1", "h20_8x2p4",
)  # fmt: skip
SEEDS = range(100, 182)
EVERYWHERE = "1GB"
"""The size that is measured on all clusters."""
PLANNED = 12
"""Of the generated clusters so many are measured at all sizes and with plans, and all that were not generated."""
MEASURED = ("a100x4", "h200x7_of_8", "abci_v_2", "h100x8", "b200x8", "mi300x8", "a100x8_2", "h100x8_2")
COLLECTIVES = {
    "allgather": "AllGather", "reducescatter": "ReduceScatter", "allreduce": "AllReduce", "broadcast": "Broadcast",
    "alltoall": "AllToAll",
}  # fmt: skip
SIZES = {"64KB": "64 KB", "1MB": "1 MB", "16MB": "16 MB", "1GB": "1 GB"}
COLUMNS = [
    "cluster", "gpus", "collective", "size", "limit_us", "program_us", "percent", "target_percent", "no_program",
    "plan_us", "plan_percent", "no_plan", "library", "library_us", "checked", "no_library", "factor",
    "plan_factor", "program_seconds", "seconds",
]  # fmt: skip
ALIKE = 0.01
"""Share of the time: what differs by less is taken to be equal."""
GPUS = ((3, 8), (9, 16), (17, 32), (33, 64))
"""Ranges of the table of seconds."""
NAMED = 5
"""So many cells of a list are named on the page."""

Row = dict[str, str]
Cell = tuple[str, str, str]


@cache
def with_plans() -> frozenset[str]:
    """The clusters that are measured at all sizes, with plans."""
    return frozenset((*EXAMPLES, *(c.name for c in generated_clusters(SEEDS[:PLANNED])), *MEASURED))


def names() -> list[str]:
    """The clusters in the order of the tables."""
    return [*EXAMPLES, *(cluster.name for cluster in generated_clusters(SEEDS)), *MEASURED]


def files(folder: Path) -> dict[str, Path]:
    """The topology of each cluster by its name; generated ones are written into ``folder``."""
    named = {name: ROOT / "examples" / name / "topo.dsl" for name in EXAMPLES}
    named |= {name: ROOT / "examples" / "measured" / f"{name}.dsl" for name in MEASURED}
    for cluster in generated_clusters(SEEDS):
        named[cluster.name] = folder / f"{cluster.name}.dsl"
        named[cluster.name].write_text(cluster.text, encoding="utf-8")
    return {name: named[name] for name in names()}


def cells(clusters: Iterable[str]) -> list[Cell]:
    """Cluster, collective and size of each cell of the table, in its order."""
    return [
        (cluster, name, size)
        for cluster in clusters
        for name in COLLECTIVES
        for size in (SIZES if cluster in with_plans() else [EVERYWHERE])
    ]


def rows_of(path: Path) -> dict[Cell, Row]:
    """The rows of a table of cells; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        return {(row["cluster"], row["collective"], row["size"]): row for row in csv.DictReader(stream)}


def write(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Replace the file by ``rows``."""
    text = io.StringIO()
    lines = csv.DictWriter(text, columns, lineterminator="\n")
    lines.writeheader()
    lines.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def synth(file: Path, collective: str, size: str, *words: str) -> dict[str, Any]:
    """What ``hetesynth synth --json`` says; where it refuses, ``error`` alone: the message with its code."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said), redirect_stderr(io.StringIO()):
        asked = ["synth", str(file), "--coll", collective, "--size", size, *words]
        code = command_line.run([*asked, "--json", "-o", f"{folder}/x"])
    values: dict[str, Any] = json.loads(said.getvalue())
    if code == 0:
        return values
    error = values["error"]
    if error["code"] in ("HS001", "HS002", "HS003", "HS070"):  # usage, Ctrl-C, the system, a bug
        raise RuntimeError(f"{' '.join(asked)}: {error['message']}")
    return {"error": " ".join(f"{error['code']}: {error['message']}".split())}


def measured(cell: Cell, file: Path) -> Row:
    """The row of ``cell``, times in microseconds; ``seconds`` of the processor, for all its commands."""
    began = time.process_time()
    cluster, collective, size = cell
    ours = synth(file, collective, size)
    seconds = time.process_time() - began
    plan = synth(file, collective, size, "--target", "mscclpp") if cluster in with_plans() else {}
    known = ours if "error" not in ours else plan
    percent = ours.get("percent_of_limit")
    values: dict[str, Any] = {
        "gpus": known.get("ranks"), "limit_us": known.get("limit_us"),
        "program_us": ours.get("program_us"), "percent": percent,
        "target_percent": ours.get("percent_of_target_limit") or percent,
        "no_program": ours.get("error"), "factor": ours.get("factor_over_library"),
        "plan_us": plan.get("program_us"), "plan_percent": plan.get("percent_of_limit"),
        "no_plan": plan.get("error"), "plan_factor": plan.get("factor_over_library"),
        "library": known.get("library"), "library_us": known.get("library_us"),
        "checked": known.get("library_checked"), "no_library": known.get("no_library"),
        "program_seconds": round(seconds, 1),
    }  # fmt: skip
    values |= dict(zip(("cluster", "collective", "size"), cell, strict=True))
    values["seconds"] = round(time.process_time() - began, 1)
    shown = {name: round(v, 3) if isinstance(v, float) else v for name, v in values.items() if v is not None}
    return {name: str(shown.get(name, "")) for name in COLUMNS}


def _measured(question: tuple[Cell, Path]) -> Row:
    return measured(*question)


def figure(row: Row, column: str) -> float | None:
    """The number in ``column``; None where there is none."""
    return float(row[column]) if row[column] else None


def slower(rows: Iterable[Row], column: str) -> list[str]:
    """The cells whose program or plan, by the factor in ``column``, the library undercuts by more than 1 %."""
    found = [(factor, row) for row in rows if (factor := figure(row, column)) is not None and factor < 1 - ALIKE]
    return [f"{_name(row)} ({factor:.2f} x)" for factor, row in sorted(found, key=lambda pair: pair[0])]


def _name(row: Row) -> str:
    return f"{row['cluster']} {row['collective']} {SIZES[row['size']]}"


def median_and_least(rows: Iterable[Row], collective: str, size: str, column: str, digits: int) -> tuple[str, str]:
    """Of the figures in ``column``; dashes where there are none."""
    of = [row for row in rows if (row["collective"], row["size"]) == (collective, size)]
    values = [value for row in of if (value := figure(row, column)) is not None]
    return (f"{median(values):.{digits}f}", f"{min(values):.{digits}f}") if values else ("-", "-")


def summary(rows: Sequence[Row]) -> str:
    """Median and least percent of both limits, and factor over the library, of programs and plans."""
    columns = (("percent", 1), ("target_percent", 1), ("factor", 2), ("plan_percent", 1), ("plan_factor", 2))
    shown = []
    for size, size_text in SIZES.items():
        for name, title in COLLECTIVES.items():
            count = sum((row["size"], row["collective"]) == (size, name) for row in rows)
            figures = (median_and_least(rows, name, size, *column) for column in columns)
            shown.append([size_text, title, str(count), *(", ".join(pair) for pair in figures)])
    return markdown(
        ["size", "collective", "cells", "percent", "of the target's", "factor", "plan percent", "plan factor"],
        shown,
    )


def gpus_of(rows: Sequence[Row]) -> dict[str, str]:
    """The ``least`` and the most ``gpus`` of a cluster."""
    counts = [int(row["gpus"]) for row in rows if row["gpus"]]
    return {"least": str(min(counts, default=0)), "gpus": str(max(counts, default=0))}


def seconds_of(rows: Sequence[Row]) -> str:
    """Median and most seconds by sizes of clusters and of buffers."""
    head, shown = ["GPUs", *SIZES.values()], []
    for low, high in GPUS:
        line = [f"{low} to {high}"]
        for size in SIZES:
            of = [
                float(r["program_seconds"])
                for r in rows
                if r["size"] == size and low <= int(r["gpus"] or 0) <= high
            ]
            line.append(f"{median(of):.1f}, {max(of):.1f}" if of else "-")
        shown.append(line)
    return markdown(head, shown)


def incomplete(rows: Sequence[Row], asked: int) -> str:
    """What is said where cells are missing."""
    return f"**Incomplete**: {len(rows)} of {asked} cells." if len(rows) < asked else ""


def page(rows: dict[Cell, Row], clusters: Sequence[str], made_on: dict[str, str]) -> str:
    """docs/benchmarks_programs.md."""
    known = [rows[cell] for cell in cells(clusters) if cell in rows]
    lists = {"slower": slower(known, "factor"), "slower_plans": slower(known, "plan_factor")}
    counts = {f"{name}_count": len(each) for name, each in lists.items()}
    named = {name: "; ".join(each[:NAMED]) or "none" for name, each in lists.items()}
    return wrapped(PAGE_TEXT.substitute(
        named, **counts, incomplete=incomplete(known, len(cells(clusters))), clusters=len(clusters),
        summary=summary(known), compared=sum(bool(row["factor"]) for row in known),
        compared_plans=sum(bool(row["plan_factor"]) for row in known),
        planned=len(with_plans()), last=SEEDS[-1], last_planned=SEEDS[PLANNED - 1], **gpus_of(known),
        seconds=seconds_of(known),
        minutes=f"{sum(float(row['seconds']) for row in known) / 60:.0f}",
        made_on=", ".join(f"{name} {value}" for name, value in made_on.items()),
    ))  # fmt: skip


def publish(docs: Path) -> None:
    """Write the page that the tables in ``docs`` give."""
    rows, clusters = rows_of(docs / CELLS), names()
    with (docs / MADE_ON).open(encoding="utf-8", newline="") as stream:
        made_on = {row["what"]: row["value"] for row in csv.DictReader(stream)}
    write_atomically(docs / PAGE, page(rows, clusters, made_on).encode())


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--only", nargs="*", metavar="CLUSTER", help="measure these clusters only; none: write the page"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hetesynth-programs-") as folder:
        clusters = files(Path(folder))
        known = rows_of(DOCS / CELLS)
        missing = [cell for cell in cells(clusters) if cell not in known]
        missing = [cell for cell in missing if options.only is None or cell[0] in options.only]
        questions = [(cell, clusters[cell[0]]) for cell in missing]
        made = side_by_side(_measured, questions, options.jobs, share=len(SIZES))
        for number, row in enumerate(made, 1):
            known[row["cluster"], row["collective"], row["size"]] = row
            write(DOCS / CELLS, COLUMNS, (known[cell] for cell in cells(clusters) if cell in known))
            print(f"{number} of {len(missing)}: {_name(row)}, {row['seconds']} s", file=sys.stderr, flush=True)
    if missing:
        facts = [{"what": name, "value": value} for name, value in machine().items()]
        write(DOCS / MADE_ON, ("what", "value"), facts)
    publish(DOCS)


PAGE_TEXT = string.Template(
    """\
# Programs of the default command

How good are the files that `synth --size` writes with its defaults? Measured on $clusters clusters of $least to
$gpus GPUs: examples, generated clusters (seeds 100 to $last) and machines of published runs (examples/measured);
smaller sizes than 1 GB, and plans, on $planned of them (seeds up to $last_planned). $incomplete

**Made by an earlier version**: its limits were held at the rates that runs reach, and its library was the quicker
of the formula and of simulated rings. [data/ranges.csv](data/ranges.csv) has cells of the present one.

All times are **simulated** ([model.md](model.md)); nothing was timed on GPUs. Programs are XML for RCCL and the
MSCCL executor (target `portable`), plans are for MSCCL++ (target `mscclpp`). Percent are of a proved lower bound
of the time at the rates that runs reach, the start of a kernel included, of AllReduce without the additions of a
switch (NVLS may undercut it); *of the target's*: of what is proved for
programs of the target, where that is more. A factor of 2 means twice as fast as the library, which is what NCCL or
RCCL would choose by its formulas ([reality.md](reality.md)) or its rings, trees or sends with as many channels as
pay, whichever is quicker ([sizes.md](sizes.md)).

## Summary

Median and least:

$summary

## Slower than the library

By more than 1 % (`synth` says so in its report, and `build` leaves such sizes to the library):

- $slower_count of $compared XML programs, the worst: $slower
- $slower_plans_count of $compared_plans plans, the worst: $slower_plans

## Seconds of the processor

For an XML program, by GPUs, median and most, caches of machine code filled:

$seconds

## The data

Every cell is a row of [data/programs.csv](data/programs.csv): times in microseconds, percent, factors, the
library's choice (`checked`: the formula was compared with measurements on such machines), refusals and seconds. To
measure again, delete rows and run `PYTHONPATH=tests python tests/benchmarks/programs_page.py`; all
cells took $minutes minutes of one processor ($made_on)."""
)

if __name__ == "__main__":
    main()
