"""The sections of docs/hetecclpaper.md about steps: Table 1, floods, chunks, eq. 8, section 7.

In: the entries of a run. Out: lines of markdown for each section that has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.heteccl.cases import Case, CompositionCase
from benchmarks.heteccl.published import SECONDS
from benchmarks.heteccl.run import Entries, Entry
from benchmarks.heteccl.scores import of_table, scale_case

_TABLE_1 = (
    "## Table 1: seconds of synthesis",
    "",
    "AllGather with one chunk. `cegis`: `--strategy cegis` from the paper's greedy heuristic, one pass that",
    "fills each link and knows nothing of shared NICs (appendix H). `auto` is the default. Seconds are of the",
    "search with its bounds and judge; in parentheses those of the whole process. Counterexamples: violations",
    "that VERIFY found on the way; where there is no call of Z3, refilling each checkpoint was enough for the",
    "laws on what may be left to hold.",
    "",
    "| GPUs | TACCL | TE-CCL | HeteCCL | `cegis` | `auto` | steps / bound | iterations | counterexamples "
    "| Z3 calls |",
    "|---|---|---|---|---|---|---|---|---|---|",
)
_REPAIRS = (
    "| cluster | GPUs | chunks | steps / bound | s | iterations | counterexamples | Z3 calls |\n"
    "|---|---|---|---|---|---|---|---|"
)
_FLOOD = (
    "## Algorithm 1 from a flood that ignores capacities",
    "",
    "Every GPU sends all it has to all who lack it; lines 1 to 3 of the algorithm find this invalid and",
    "repair it.",
    "",
    _REPAIRS,
)
_CHUNKS = (
    "## Algorithm 1 on the six clusters, from the paper's greedy heuristic",
    "",
    _REPAIRS,
)
_EQ_8 = (
    "## Equation 8: one addition at a GPU and step",
    "",
    "By `auto`, one chunk. An allreduce is a reduce-scatter, then an allgather (appendix I); `composed` is",
    "the bound on all of that form, so steps equal to it cannot be fewer.",
    "",
    "| cluster | collective | steps | bound | composed | verdict | s | proof |",
    "|---|---|---|---|---|---|---|---|",
)
_PODS = (
    "## Section 7: pods",
    "",
    "512 servers of 8 GPUs (examples/h20_pods/512x8.dsl), 16 MB chunks, by the default command: solved once",
    "for a server and composed, each delivery judged ([composition.md](composition.md)). The paper gives no",
    "figures of its own here.",
    "",
    "| collective | GPUs | time | bound | gap | s | peak memory | deliveries judged |",
    "|---|---|---|---|---|---|---|---|",
)


def sections(entries: Entries) -> Iterator[Iterator[str]]:
    """Each section that something was measured for."""
    if any(case.name in entries for case in of_table("Table 1")):
        yield _table_1(entries)
    for table, head in (("flood", _FLOOD), ("chunks", _CHUNKS)):
        if rows := _present(of_table(table), entries):
            yield _section(head, (repair_line(case, entry) for case, entry in rows))
    if rows := _present(of_table("eq. 8"), entries):
        yield _section(_EQ_8, (_equation_8(case, entry) for case, entry in rows))
    if rows := _present(of_table("section 7"), entries):
        yield _section(_PODS, (_pods(case, entry) for case, entry in rows))


def _present(cases: list[Case], entries: Entries) -> list[tuple[Case, Entry]]:
    return [(case, entries[case.name]) for case in cases if case.name in entries]


def _section(head: tuple[str, ...], lines: Iterator[str]) -> Iterator[str]:
    yield from head
    yield from lines


def _table_1(entries: Entries) -> Iterator[str]:
    yield from _TABLE_1
    for gpus, (taccl, teccl, paper) in SECONDS.items():
        cegis, auto = (entries.get(scale_case(gpus, strategy).name) for strategy in ("cegis", "auto"))
        said = {} if cegis is None else cegis.said
        cells = (
            str(gpus), taccl, teccl, f"{paper:g}", _seconds(cegis), _seconds(auto), _steps(said),
            _said(said, "iterations"), _said(said, "counterexamples"), _said(said, "calls"),
        )  # fmt: skip
        yield _line(cells)


def repair_line(case: Case, entry: Entry) -> str:
    """A search of CEGIS."""
    said = entry.said
    chunks = "-" if isinstance(case, CompositionCase) else str(getattr(case, "chunks", "-"))
    cells = (
        case.cluster, _said(said, "gpus"), chunks, _steps(said), _seconds(entry),
        _said(said, "iterations"), _said(said, "counterexamples"), _said(said, "calls"),
    )  # fmt: skip
    return _line(cells)


def _equation_8(case: Case, entry: Entry) -> str:
    said = entry.said
    steps, bound, within = (said.get(name) for name in ("steps", "bound", "within"))
    verdict = "no schedule" if steps is None else "open"
    if steps is not None and steps == bound:
        verdict = "optimal"
    elif steps is not None and steps == within:
        verdict = "optimal for reduce-scatter, then allgather"
    proof = str(said.get("proof", entry.error)).replace("|", "\\|")
    cells = (
        case.cluster, case.collective, _said(said, "steps"), _said(said, "bound"), _said(said, "within"), verdict,
        _seconds(entry), proof,
    )  # fmt: skip
    return _line(cells)


def _pods(case: Case, entry: Entry) -> str:
    figures: dict[str, Any] | None = entry.said.get("composition")
    if figures is None:
        return _line((case.collective, entry.error or "nothing was said", *"------"))
    memory = "-" if entry.megabytes is None else f"{entry.megabytes / 1000:.2f} GB"
    cells = (
        case.collective, _said(entry.said, "ranks"), f"{figures['predicted_us']:,.0f} us",
        f"{figures['bound_us']:,.0f} us",
        f"{100 * figures['gap']:.2f} %", f"{entry.wall:.1f}", memory, f"{figures['deliveries_checked']:,}",
    )  # fmt: skip
    return _line(cells)


def _steps(said: dict[str, Any]) -> str:
    return f"{said['steps']} / {said['bound']}" if "steps" in said else str(said.get("error", "-"))


def _said(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return "-" if value is None else f"{value:,}"


def _seconds(entry: Entry | None) -> str:
    if entry is None or "seconds" not in entry.said:
        return "-"
    return f"{entry.said['seconds']:.2f} ({entry.wall:.1f})"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
