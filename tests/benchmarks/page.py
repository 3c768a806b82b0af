"""The page on steps, its table, and the same as plain values, from a ``Report``. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.cases import SECTIONS
from benchmarks.growth import PowerLaw, power_law
from benchmarks.measure import Row
from benchmarks.run import Report
from benchmarks.tables import csv_text, markdown, wrapped

HEAD = [
    "table", "case", "ranks", "chunks", "steps", "bound", "proof", "first_s", "total_s", "cpu_s", "MB", "goal",
    "met",
]  # fmt: skip
_OTHERS = (
    (16, "h20_16", "30", "2.2", "0.9"),
    (32, "h20_32", "time-out", "24.7", "6.9"),
    (48, "h20_48", "time-out", "497", "5.5"),
    (64, "h20_64", "time-out", "33990", "105.3"),
)
_BUSY = "The machine had other work during this run (its load is at the end): seconds are longer than alone."
_TEXT = """\
# Benchmarks of steps

How many steps `hetesynth synth` needs, against a proved lower bound, and in how many seconds. Written by
`PYTHONPATH=tests python -m benchmarks` (`--quick` takes two minutes, `--only` selects, `--json` gives the
figures). Other benchmarks: [predicted times](benchmarks_time.md), [the default command beside
NCCL](benchmarks_programs.md), [the packing engine](benchmarks_engine.md), [builds](benchmarks_building.md),
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
    parts = [_TEXT + _remarks(report), _summary(report), _growth_text(report.rows), _others(report.rows)]
    parts += [_missed(report.rows), _HOW_TO_READ, _facts(report)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def table(rows: Iterable[Row]) -> str:
    """CSV: a line for every row, failed and unmeasured ones too."""
    return csv_text(HEAD, map(_cells, rows))


def plain(report: Report) -> dict[str, Any]:
    """The object ``bench --json`` prints."""
    judged = [row for row in report.rows if row.case.goal is not None]
    return {
        "date": report.date,
        "complete": report.complete,
        "whole": report.whole,
        "seconds": round(report.seconds, 1),
        "machine": report.facts,
        "load": list(report.loads),
        "goals": len(judged),
        "goals_met": sum(not row.misses for row in judged),
        "growth": {name: None if law is None else asdict(law) for name, law in growth(report.rows).items()},
        "rows": [_plain_row(row) for row in report.rows],
    }


def growth(rows: Sequence[Row]) -> dict[str, PowerLaw | None]:
    """The power laws through the growth points: of the whole command, and of its work without starting Python."""
    points = [row for row in rows if row.case.section == "growth" and row.status == "ok"]
    return {
        "total": power_law([(row.case.ranks, row.total) for row in points if row.total]),
        "work": power_law([(row.case.ranks, row.work) for row in points if row.work]),
    }


def _plain_row(row: Row) -> dict[str, Any]:
    values = asdict(row)
    case = values.pop("case")
    case["goal"] = None if row.case.goal is None else str(row.case.goal)
    return {**case, **values, "budget": row.case.budget, "gap": row.gap, "misses": list(row.misses)}


def _cells(row: Row) -> list[str]:
    case = row.case
    return [
        case.section,
        f"{case.cluster} {case.collective}",
        str(case.ranks),
        str(case.chunks),
        _or_dash(row.steps),
        _or_dash(row.bound),
        row.method or "-",
        _seconds(row.first),
        _seconds(row.total),
        _seconds(row.cpu),
        "-" if row.megabytes is None else f"{row.megabytes:.0f}",
        "-" if case.goal is None else str(case.goal),
        _met(row),
    ]


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


def _remarks(report: Report) -> str:
    said = ["A selection of the cases."] if not report.whole else []
    said += [_BUSY] if _busy(report) else []
    said += (
        [] if report.complete else ["Incomplete: the run was cut short; the rows marked `not run` are missing."]
    )
    return "\n\n".join(f"**{text}**" for text in said)


def _busy(report: Report) -> bool:
    """Whether more processes than one wanted a core for each core, before or after the run."""
    try:
        return max(float(load) for load in report.loads) > float(report.facts.get("cores", "1")) + 0.5
    except ValueError:
        return False


def _summary(report: Report) -> str:
    """One line for each table: goals met, schedules proven optimal, and the longest command."""
    lines = []
    for section, title in SECTIONS.items():
        rows = [row for row in report.rows if row.case.section == section]
        judged = [row for row in rows if row.case.goal is not None]
        met = f"{sum(not row.misses for row in judged)} of {len(judged)}" if judged else "-"
        longest = _seconds(max((row.total for row in rows if row.total), default=None))
        if rows:
            lines.append((title, str(len(rows)), str(sum(row.gap == 0 for row in rows)), met, longest))
    return markdown(("table", "cases", "proven optimal", "goals met", "longest, s"), lines)


def _growth_text(rows: Sequence[Row]) -> str:
    names = {"total": "the whole command", "work": "its work, without starting Python"}
    said = [
        f"- {names[name]}: seconds grow as GPUs to the power **{law.exponent:.2f}** "
        f"({law.points} points, R2 = {law.r2:.3f})"
        for name, law in growth(rows).items()
        if law is not None
    ]
    what = "Growth (schedules alone, one chunk, log-log least squares):"
    return "\n".join([what, "", *said]) if said else ""


def _others(rows: Sequence[Row]) -> str:
    """Context: Table 1 of HeteCCL beside our rows of the same number of GPUs."""
    ours = {row.case.cluster: row for row in rows if row.case.section == "scale" and row.case.chunks == 1}
    lines = []
    for gpus, cluster, *theirs in _OTHERS:
        row = ours.get(cluster)
        steps = "-" if row is None else f"{_or_dash(row.steps)} / {_or_dash(row.bound)}"
        lines.append((str(gpus), *theirs, "-" if row is None else _seconds(row.total), steps))
    head = ("GPUs", "TACCL", "TE-CCL", "HeteCCL", "hetesynth", "its steps / bound")
    return f"{_BESIDE}\n\n{markdown(head, lines)}"


_BESIDE = """\
## Beside other tools

Seconds to synthesize AllGather, by Table 1 of the HeteCCL paper, on other machines and clusters of which the paper
states only the number of GPUs. Ours are whole commands with both judges."""


def _missed(rows: Sequence[Row]) -> str:
    missed = [row for row in rows if row.misses and row.case.goal is not None]
    lines = [
        f"- {row.case.cluster} {row.case.collective}, {row.case.chunks} chunks: {_met(row)}" for row in missed
    ]
    return "\n".join(["## Goals missed", "", *lines]) if lines else ""


def _facts(report: Report) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in report.facts.items())
    loads = " and ".join(report.loads)
    return wrapped(f"Measured on {report.date} in {report.seconds:.0f} s, load {loads}: {facts}.")
