"""docs/benchmarks_time.md: the time tables as markdown.

In: rows of ``time_tables``. Out: text. Decides nothing but the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.machine import machine
from benchmarks.time_tables import (
    SpeedRow,
    TimeRow,
)
from hetesynth.model.words import size_text

_TITLES = {
    "TE-CCL": "Against TE-CCL's published results (its alphas and betas)",
    "ForestColl": "Against the exact throughput optimum of ForestColl, AllGather of 1 GB: at least 98 % wanted",
    "TACOS": "Against TACOS on its meshes and tori, AllGather of 1 MiB a rank",
    "SCALE-CCL": "The ring values of SCALE-CCL, to be met exactly",
}
_NOTES = {
    "ForestColl": "`hops`: the most links that data crosses one after another. ForestColl's published trees are\n"
    "9 to 31 hops deep.",
    "SCALE-CCL": "The ring is given with --rings: in by one border GPU of a centre, around it, out by another.\n"
    "These are times of the schedule, as SCALE-CCL counts them.",
}
_HEAD = (
    "| cluster | collective | size | figure | program | bound allows | of the bound | chunks | hops | "
    "candidate | s | met |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def time_page(rows: Sequence[TimeRow], speeds: Sequence[SpeedRow] = ()) -> str:
    """The page."""
    facts = machine()
    met = sum(row.met for row in rows)
    lines = [
        "# Predicted time against published figures",
        "",
        "Made by `PYTHONPATH=tests python -m benchmarks time`. All times are of the **programs** that the default "
        "command writes "
        "(`synth --size`), **simulated** on the time model of [model.md](model.md), not measured on GPUs, without "
        "what runtimes cost (`--no-runtime-costs`), as the sources of the goals do, which publish schedules; "
        "bounds are exact and rechecked. `s` is the whole command on the wall, "
        f"{facts['cores']} cores of {facts['processor']}. Beside libraries: "
        "[benchmarks_programs.md](benchmarks_programs.md).",
        *([f"{met} of {len(rows)} figures are met."] if rows else []),
        "HeteCCL's own figures are not among these: [hetecclpaper.md](hetecclpaper.md) has them, and counts them.",
    ]
    for table, title in _TITLES.items():
        of_table = [row for row in rows if row.case.table == table]
        if of_table:
            lines += ["", f"## {title}", "", _HEAD, *(_line(row) for row in of_table)]
        if of_table and table in _NOTES:
            lines += ["", _NOTES[table]]
        misses = [row for row in of_table if not row.met]
        if misses:
            lines += ["", *(_miss(row) for row in misses)]
    if speeds:
        lines += ["", *_speeds(speeds)]
    return "\n".join([*lines, ""])


def _line(row: TimeRow) -> str:
    case = row.case
    choice = row.said.get("choice") or {}
    sign = "" if case.equal else ("<= " if case.unit == "us" else ">= ")
    cells = (
        case.cluster, case.collective, size_text(case.size), f"{sign}{case.goal:,g} {case.unit}",
        row.error or _figure(row.reached, case.unit), _figure(row.best_possible, case.unit),
        "-" if row.share is None else f"{row.share:.1f} %", str(row.said.get("chunks", "-")),
        str(row.said.get("hops", "-")), str(choice.get("candidate", "-")), f"{row.seconds:.0f}",
        "yes" if row.met else "**no**",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f} {unit}" if value >= 1000 else f"{value:.5g} {unit}"


def _miss(row: TimeRow) -> str:
    """A line on why a figure is missed."""
    case, possible = row.case, row.best_possible
    if possible is None:
        return f"- {case.cluster}, {case.collective}, {size_text(case.size)}: {row.error or 'nothing was found'}"
    beyond = possible > case.goal if case.unit == "us" else possible < case.goal
    bound, what = row.said["time_bound_proof"], f"- {case.cluster}, {case.collective}, {size_text(case.size)}"
    if beyond:
        return f"{what}: out of reach, the bound says so: {bound}"
    return f"{what}: missed; the bound would allow {_figure(possible, case.unit)} ({bound})"


def _speeds(rows: Sequence[SpeedRow]) -> Iterable[str]:
    yield "## The simulator: 100,000 transfers in less than 5 s wanted"
    yield ""
    yield "`hetesynth simulate` on a schedule; `whole` is the command, with reading and judging the files."
    yield ""
    yield "| cluster | collective | transfers | s | s for 100,000 | whole s |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        cells = [row.cluster, row.collective, row.error, "-", "-", "-"]
        if not row.error:
            each = 1e5 * row.seconds / row.transfers
            cells[2:] = f"{row.transfers:,}", f"{row.seconds:.2f}", f"{each:.2f}", f"{row.whole:.1f}"
        yield f"| {' | '.join(cells)} |"
