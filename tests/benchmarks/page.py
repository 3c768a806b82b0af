"""The page on steps, its table, and the same as plain values, from a ``Report``. Measures nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks.cases import SECTIONS
from benchmarks.run import Report, Row
from benchmarks.tables import csv_text, markdown, wrapped

HEAD = [
    "table", "case", "ranks", "chunks", "steps", "bound", "proof", "first_s", "total_s", "cpu_s", "MB", "goal",
    "met",
]  # fmt: skip
_BUSY = "The machine had other work during this run (its load is at the end): seconds are longer than alone."
_TEXT = """\
# Benchmarks of steps

How many steps `hetesynth synth` needs, against a proved lower bound, and in how many seconds. Written by
`PYTHONPATH=tests python -m benchmarks` (`--only` selects). Other benchmarks: [predicted
times](benchmarks_time.md), [the default command beside NCCL](data/ranges.csv), [programs of
large clusters](benchmarks_large.md), [the packing engine](benchmarks_engine.md), [builds](benchmarks_building.md),
[repairs](repair.md).

"""
_HOW_TO_READ = """\
## The data

Every row of [data/benchmarks.csv](data/benchmarks.csv) is one command in a process of its own, with both judges
and, up to 64 GPUs, programs. A schedule with `steps` equal to `bound` is proven optimal. `first_s`: until the
first judged schedule; `total_s`: the whole command by the clock; `cpu_s`: on all cores; `MB`: peak memory;
`goal`: most steps, seconds and memory asked for; `met`: yes, or what was missed."""


def page(report: Report) -> str:
    """The whole page as Markdown."""
    rows = report.rows
    remarks = [] if report.whole else ["A selection of the cases."]
    if max(map(float, report.loads)) > float(report.facts["cores"]) + 0.5:
        remarks.append(_BUSY)
    summary = []
    for section, title in SECTIONS.items():
        if some := [row for row in rows if row.case.section == section]:
            judged = [row for row in some if row.case.goal is not None]
            met = f"{sum(not row.misses for row in judged)} of {len(judged)}" if judged else "-"
            longest = _seconds(max((row.total for row in some if row.total), default=None))
            summary.append((title, str(len(some)), str(sum(row.gap == 0 for row in some)), met, longest))
    names = {"total": "the whole command", "work": "its work, without starting Python"}
    laws = [
        f"- {names[name]}: seconds grow as GPUs to the power **{law['exponent']:.2f}** "
        f"({law['points']} points, R2 = {law['r2']:.3f})"
        for name, law in growth(rows).items()
        if law is not None
    ]
    missed = [
        f"- {row.case.cluster} {row.case.collective}, {row.case.chunks} chunks: {_met(row)}"
        for row in rows
        if row.misses and row.case.goal is not None
    ]
    facts = ", ".join(f"{name} {value}" for name, value in report.facts.items())
    parts = [
        _TEXT + "\n\n".join(f"**{remark}**" for remark in remarks),
        markdown(("table", "cases", "proven optimal", "goals met", "longest, s"), summary),
        "\n".join(["Growth (schedules alone, one chunk, log-log least squares):", "", *laws]) if laws else "",
        "\n".join(["## Goals missed", "", *missed]) if missed else "",
        _HOW_TO_READ,
        wrapped(
            f"Measured on {report.date} in {report.seconds:.0f} s, load {' and '.join(report.loads)}: {facts}."
        ),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def table(rows: Iterable[Row]) -> str:
    """CSV: a line for every row, failed ones too."""
    return csv_text(HEAD, [
        [
            row.case.section, f"{row.case.cluster} {row.case.collective}", str(row.case.ranks),
            str(row.case.chunks), _or_dash(row.steps), _or_dash(row.bound),
            row.method or "-", _seconds(row.first), _seconds(row.total),
            _seconds(row.cpu), "-" if row.megabytes is None else f"{row.megabytes:.0f}",
            "-" if row.case.goal is None else str(row.case.goal), _met(row),
        ]
        for row in rows
    ])  # fmt: skip


def growth(rows: Sequence[Row]) -> dict[str, dict[str, float] | None]:
    """The power laws through the growth points: of the whole command, and of its work without starting Python.

    Least squares of log seconds against log GPUs; None without two different numbers of GPUs.
    """
    import numpy as np

    points = [row for row in rows if row.case.section == "growth" and row.status == "ok"]
    laws: dict[str, dict[str, float] | None] = {}
    for name in ("total", "work"):
        logs = [(math.log(row.case.ranks), math.log(getattr(row, name))) for row in points if getattr(row, name)]
        laws[name] = None
        if len({x for x, _ in logs}) > 1:
            x, y = np.array(logs).T
            exponent, shift = np.polyfit(x, y, 1)
            spread = ((y - y.mean()) ** 2).sum()
            r2 = 1 - ((y - shift - exponent * x) ** 2).sum() / spread if spread else 1.0
            laws[name] = {
                "exponent": float(exponent), "factor": math.exp(shift), "r2": float(r2), "points": len(logs),
            }  # fmt: skip
    return laws


def _met(row: Row) -> str:
    if row.status != "ok":
        return f"{row.status}: {row.error}".replace("\n", " ")
    remark = f"gap {row.gap}" if row.gap else ""
    if row.gap and row.within == row.steps:
        remark += ", optimal for ReduceScatter then AllGather"
    if row.misses:
        return "no: " + ", ".join(row.misses) + (f" ({remark})" if remark else "")
    if row.case.goal is None:
        return remark or "-"
    return "yes" + (f" ({remark})" if remark else "")


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"
