"""docs/benchmarks_time.md and its table, from rows of ``time_tables``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.tables import csv_text, markdown
from benchmarks.time_tables import (
    SpeedRow,
    TimeRow,
)
from hetesynth.model.words import size_text

_TITLES = {
    "TE-CCL": "TE-CCL's published results, with its alphas and betas",
    "ForestColl": "98 % of the exact throughput optimum of ForestColl, AllGather of 1 GB",
    "TACOS": "TACOS on its meshes and tori, AllGather of 1 MiB a rank",
    "SCALE-CCL": "the ring values of SCALE-CCL, to be met exactly (`--rings`; times of the schedule)",
}
HEAD = [
    "table", "cluster", "collective", "size", "figure", "program", "bound_allows", "of_the_bound", "chunks",
    "hops", "candidate", "s", "met",
]  # fmt: skip
_TEXT = """\
# Predicted time against published figures

Made by `PYTHONPATH=tests python -m benchmarks time`. Times are of the programs that `synth --size` writes by
default, **simulated** on the model of [model.md](model.md), not measured on GPUs, without what runtimes cost
(`--no-runtime-costs`), as the sources publish schedules. Bounds are exact and rechecked. Every figure is a row of
[data/benchmarks_time.csv](data/benchmarks_time.csv) (`s`: the whole command; `hops`: the most links that data
crosses one after another). Beside NCCL: [benchmarks_programs.md](benchmarks_programs.md); HeteCCL's own figures:
[hetecclpaper.md](hetecclpaper.md)."""


def time_page(rows: Sequence[TimeRow], speeds: Sequence[SpeedRow] = ()) -> str:
    """The page."""
    lines = [_TEXT, ""]
    of = {name: [row for row in rows if row.case.table == name] for name in _TITLES}
    counts = [
        (_TITLES[name], str(sum(row.met for row in some)), str(len(some))) for name, some in of.items() if some
    ]
    lines += [markdown(("against", "met", "figures"), counts)]
    missed = [_miss(row) for row in rows if not row.met]
    lines += ["", "Missed:", "", *missed] if missed else []
    lines += ["", *_speeds(speeds)] if speeds else []
    return "\n".join([*lines, ""])


def time_table(rows: Sequence[TimeRow]) -> str:
    """CSV: a line for every figure."""
    return csv_text(HEAD, map(_line, rows))


def _line(row: TimeRow) -> Sequence[str]:
    case = row.case
    choice = row.said.get("choice") or {}
    sign = "" if case.equal else ("<= " if case.unit == "us" else ">= ")
    return (
        case.table, case.cluster, case.collective, size_text(case.size), f"{sign}{case.goal:,g} {case.unit}",
        row.error or _figure(row.reached, case.unit), _figure(row.best_possible, case.unit),
        "-" if row.share is None else f"{row.share:.1f} %", str(row.said.get("chunks", "-")),
        str(row.said.get("hops", "-")), str(choice.get("candidate", "-")), f"{row.seconds:.0f}",
        "yes" if row.met else "no",
    )  # fmt: skip


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f} {unit}" if value >= 1000 else f"{value:.5g} {unit}"


def _miss(row: TimeRow) -> str:
    """A line on a figure that is missed."""
    case, possible = row.case, row.best_possible
    what = f"- {case.table}: {case.cluster} {case.collective} {size_text(case.size)}"
    if possible is None:
        return f"{what}: {row.error or 'nothing was found'}"
    if possible > case.goal if case.unit == "us" else possible < case.goal:
        return f"{what}: out of reach, the bound allows {_figure(possible, case.unit)}"
    goal = _figure(case.goal, case.unit)
    return (
        f"{what}: {_figure(row.reached, case.unit)}; asked {goal}, the bound allows {_figure(possible, case.unit)}"
    )


def _speeds(rows: Sequence[SpeedRow]) -> Iterable[str]:
    yield "## The simulator: 100,000 transfers in less than 5 s wanted"
    yield ""
    for row in rows:
        each = 1e5 * row.seconds / row.transfers if row.transfers else 0.0
        said = row.error or f"{row.transfers:,} transfers in {row.seconds:.2f} s, {each:.2f} s for 100,000"
        yield f"- {row.cluster} {row.collective}: {said}, {row.whole:.1f} s with reading and judging the files"
