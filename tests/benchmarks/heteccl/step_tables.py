"""The tables of docs/data/hetecclpaper about steps: Table 1, floods, chunks, eq. 8, section 7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.heteccl.cases import Case, CompositionCase
from benchmarks.heteccl.published import SECONDS
from benchmarks.heteccl.run import Entries, Entry
from benchmarks.heteccl.scores import of_table, scale_case

Table = tuple[str, str, list[Sequence[str]]]  # name, columns joined by |, rows
_SEARCH = "steps / bound|s|iterations|counterexamples|Z3 calls"
_REPAIRS = f"cluster|GPUs|chunks|{_SEARCH}"
_TABLE_1 = "GPUs|TACCL|TE-CCL|HeteCCL|cegis|auto|steps / bound|iterations|counterexamples|Z3 calls"
_EQ_8 = "cluster|collective|steps|bound|composed|verdict|s|proof"
_PODS = "collective|GPUs|time|bound|gap|s|peak memory|deliveries judged"


def tables(entries: Entries) -> Iterator[Table]:
    """Each table that something was measured for. Seconds are of the search, in parentheses of the process."""
    if any(case.name in entries for case in of_table("Table 1")):
        yield "table_1", _TABLE_1, list(_table_1(entries))
    for table, name in (("flood", "flood"), ("chunks", "greedy")):
        if rows := _present(of_table(table), entries):
            yield name, _REPAIRS, [repair_line(case, entry) for case, entry in rows]
    if rows := _present(of_table("eq. 8"), entries):
        yield "equation_8", _EQ_8, [_equation_8(case, entry) for case, entry in rows]
    if rows := _present(of_table("section 7"), entries):
        yield "section_7", _PODS, [_pods(case, entry) for case, entry in rows]


def _present(cases: list[Case], entries: Entries) -> list[tuple[Case, Entry]]:
    return [(case, entries[case.name]) for case in cases if case.name in entries]


def _table_1(entries: Entries) -> Iterator[Sequence[str]]:
    for gpus, (taccl, teccl, paper) in SECONDS.items():
        cegis, auto = (entries.get(scale_case(gpus, strategy).name) for strategy in ("cegis", "auto"))
        said = {} if cegis is None else cegis.said
        yield (
            str(gpus), taccl, teccl, f"{paper:g}", _seconds(cegis), _seconds(auto), _steps(said),
            _said(said, "iterations"), _said(said, "counterexamples"), _said(said, "calls"),
        )  # fmt: skip


def repair_line(case: Case, entry: Entry) -> Sequence[str]:
    """A search of CEGIS."""
    said = entry.said
    chunks = "-" if isinstance(case, CompositionCase) else str(getattr(case, "chunks", "-"))
    return (
        case.cluster, _said(said, "gpus"), chunks, _steps(said), _seconds(entry),
        _said(said, "iterations"), _said(said, "counterexamples"), _said(said, "calls"),
    )  # fmt: skip


def _equation_8(case: Case, entry: Entry) -> Sequence[str]:
    said = entry.said
    steps, bound, within = (said.get(name) for name in ("steps", "bound", "within"))
    verdict = "no schedule" if steps is None else "open"
    if steps is not None and steps == bound:
        verdict = "optimal"
    elif steps is not None and steps == within:
        verdict = "optimal for reduce-scatter, then allgather"
    proof = str(said.get("proof", entry.error))
    return (
        case.cluster, case.collective, _said(said, "steps"), _said(said, "bound"), _said(said, "within"), verdict,
        _seconds(entry), proof,
    )  # fmt: skip


def _pods(case: Case, entry: Entry) -> Sequence[str]:
    figures: dict[str, Any] | None = entry.said.get("composition")
    if figures is None:
        return (case.collective, entry.error or "nothing was said", *"------")
    memory = "-" if entry.megabytes is None else f"{entry.megabytes / 1000:.2f} GB"
    return (
        case.collective, _said(entry.said, "ranks"), f"{figures['predicted_us']:,.0f} us",
        f"{figures['bound_us']:,.0f} us",
        f"{100 * figures['gap']:.2f} %", f"{entry.wall:.1f}", memory, f"{figures['deliveries_checked']:,}",
    )  # fmt: skip


def _steps(said: dict[str, Any]) -> str:
    return f"{said['steps']} / {said['bound']}" if "steps" in said else str(said.get("error", "-"))


def _said(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return "-" if value is None else f"{value:,}"


def _seconds(entry: Entry | None) -> str:
    if entry is None or "seconds" not in entry.said:
        return "-"
    return f"{entry.said['seconds']:.2f} ({entry.wall:.1f})"
