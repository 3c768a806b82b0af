"""The page: tables, goals, what others report, growth, and what it was measured on.

In: a ``Report``. Out: Markdown, and the same as plain values. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.cases import SECTIONS
from benchmarks.growth import PowerLaw, power_law
from benchmarks.measure import Row
from benchmarks.run import Report

_HEAD = "case | ranks | chunks | steps | bound | proof | first s | total s | cpu s | MB | goal | met"
_OTHERS = (
    (16, "h20_16", "30", "2.2", "0.9"),
    (32, "h20_32", "time-out", "24.7", "6.9"),
    (48, "h20_48", "time-out", "497", "5.5"),
    (64, "h20_64", "time-out", "33990", "105.3"),
)
_BUSY = "The machine had other work during this run (its load is at the end): seconds are longer than alone."
_HOW_TO_READ = """\
Every row is one command, `hetesynth synth`, in a process of its own, one after the other, after two runs that
fill the caches. It reads the cluster, bounds the steps, searches until the bound is met or 0.7 of the goal's
seconds are spent, replays the schedule, and up to 64 GPUs also lowers it to programs and executes them; above, it
writes the schedule alone.

- **steps**: of the schedule; **bound**: no schedule has fewer. Where they are equal, it is proven optimal.
- **proof**: distance (some chunk has so far to go), doubling (so many ranks cannot know a chunk sooner), cut (so
  much must cross so little), flow (a maximum flow over time to one rank or from one chunk), volume (every chunk
  crosses between parts so often), price (chunks pay more on their cheapest paths than a step earns), unsat (an SMT
  query).
- **first s**: from the first look at the file to the first schedule that the judge passed, bounds included.
- **total s**: the whole command by the clock, starting Python included; **cpu s**: of computing, on all cores.
  Where the machine had other work, the first is the larger. **MB**: peak resident memory.
- **goal**: most steps and seconds (and memory) asked for; `bound +2 % or +1` is the larger of the two.
- **met**: yes, or what was missed; in parentheses how many steps above the bound the schedule is.
"""


def page(report: Report) -> str:
    """The whole page as Markdown."""
    parts = ["# Benchmarks", _intro(report), _summary(report), _HOW_TO_READ.rstrip()]
    for section, title in SECTIONS.items():
        rows = [row for row in report.rows if row.case.section == section]
        if rows:
            parts.append(f"## {title}\n\n{table(rows)}")
            if section == "growth":
                parts.append(_growth_text(rows))
    parts += [f"## Beside other tools\n\n{_others(report.rows)}", _missed(report.rows), _facts(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(rows: Iterable[Row]) -> str:
    """Markdown: a line for every row, failed and unmeasured ones too."""
    lines = [f"| {_HEAD} |", f"|{'---|' * (_HEAD.count('|') + 1)}"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return "\n".join(lines)


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
        return f"{row.status}: {row.error}".replace("|", "\\|").replace("\n", " ")
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


def _intro(report: Report) -> str:
    text = (
        "Written by `PYTHONPATH=tests python -m benchmarks`; `--quick` takes two minutes, `--only` selects,\n"
        "`--json` gives the figures. Predicted times, beside other systems and bounds:\n"
        "[benchmarks_time.md](benchmarks_time.md). "
        "The packing of trees\nalone, up to 256 GPUs: [benchmarks_engine.md](benchmarks_engine.md). "
        "Builds of a manifest:\n[benchmarks_building.md](benchmarks_building.md)."
    )
    if not report.whole:
        text += "\n\n**A selection of the cases.**"
    if _busy(report):
        text += f"\n\n**{_BUSY}**"
    if not report.complete:
        text += "\n\n**Incomplete: this run was cut short; the rows marked `not run` are missing.**"
    return text


def _busy(report: Report) -> bool:
    """Whether more processes than one wanted a core for each core, before or after the run."""
    try:
        return max(float(load) for load in report.loads) > float(report.facts.get("cores", "1")) + 0.5
    except ValueError:
        return False


def _summary(report: Report) -> str:
    """One line for each table: goals met, and schedules proven optimal."""
    lines = ["| table | cases | proven optimal | goals met |", "|---|---|---|---|"]
    for section, title in SECTIONS.items():
        rows = [row for row in report.rows if row.case.section == section]
        judged = [row for row in rows if row.case.goal is not None]
        if not rows:
            continue
        optimal = sum(row.gap == 0 for row in rows)
        met = f"{sum(not row.misses for row in judged)} of {len(judged)}" if judged else "-"
        lines.append(f"| {title} | {len(rows)} | {optimal} | {met} |")
    return "\n".join(lines)


def _growth_text(rows: Sequence[Row]) -> str:
    laws = growth(rows)
    names = {"total": "the whole command", "work": "its work, without starting Python"}
    said = [
        f"- {names[name]}: seconds grow as GPUs to the power **{law.exponent:.2f}** "
        f"({law.points} points, R2 = {law.r2:.3f})"
        for name, law in laws.items()
        if law is not None
    ]
    if not said:
        return ""
    what = (
        "Schedules alone, one chunk, log-log least squares; the number of chunks to deliver grows as the square:"
    )
    return "\n".join([what, "", *said])


def _others(rows: Sequence[Row]) -> str:
    """Context: Table 1 of HeteCCL beside our rows of the same number of GPUs."""
    ours = {row.case.cluster: row for row in rows if row.case.section == "scale" and row.case.chunks == 1}
    lines = [
        "Seconds to synthesize AllGather as Table 1 of the HeteCCL paper reports them, on other machines and for",
        "clusters of which the paper states only the number of GPUs: context, not a race. Ours are whole commands",
        "with both judges, from the table above.",
        "",
        "| GPUs | TACCL | TE-CCL | HeteCCL | hetesynth | its steps / bound |",
        "|---|---|---|---|---|---|",
    ]
    for gpus, cluster, taccl, teccl, heteccl in _OTHERS:
        row = ours.get(cluster)
        own = "-" if row is None else _seconds(row.total)
        steps = "-" if row is None else f"{_or_dash(row.steps)} / {_or_dash(row.bound)}"
        lines.append(f"| {gpus} | {taccl} | {teccl} | {heteccl} | {own} | {steps} |")
    return "\n".join(lines)


def _missed(rows: Sequence[Row]) -> str:
    """Where the seconds went in the rows that miss their goal."""
    missed = [row for row in rows if row.misses and row.case.goal is not None]
    if not missed:
        return ""
    lines = [
        "## Goals missed",
        "",
        "Cells of all examples up to 64 GPUs whose steps are above what is proved, with the reasons:",
        "[decision 17](decisions.md).",
        "",
        "| case | chunks | missed | gap | seconds by phase | proof of the bound |",
        "|---|---|---|---|---|---|",
    ]
    for row in missed:
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row.phases.items() if seconds >= 0.05)
        cells = [
            f"{row.case.cluster} {row.case.collective}",
            str(row.case.chunks),
            ", ".join(row.misses),
            _or_dash(row.gap),
            phases or "-",
            (row.proof or row.error or "-").replace("|", "\\|"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _facts(report: Report) -> str:
    lines = ["## Measured on", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in report.facts.items()]
    lines.append(f"| date | {report.date} |")
    lines.append(f"| the run took | {report.seconds:.0f} s |")
    lines.append(f"| load before and after | {report.loads[0]}, {report.loads[1]} |")
    return "\n".join(lines)
