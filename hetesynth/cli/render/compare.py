"""A comparison as a table.

In: a result of commands.compare, by its attributes. Out: text. Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetesynth.model.words import clock_line, runtime_words, size_text

if TYPE_CHECKING:
    from hetesynth.engine.compare import Comparison, Entry

_COLUMNS = ("size", "strategy", "time us", "algbw GB/s", "busbw GB/s", "of bound", "by")


def comparison_report(comparison: Comparison) -> str:
    """The verdict on the quickest entries, a title and a table."""
    costs = runtime_words(comparison.request.runtime)
    lines = [
        comparison.verdict,
        f"{comparison.topology.name}: {comparison.request.collective}, {comparison.topology.ranks} ranks",
        f"  simulated, not measured, {costs}; of bound: the least possible time / this time",
    ]
    rows = [_COLUMNS, *(_row(entry) for entry in comparison.entries)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS) - 1)]
    for row in rows:
        cells = [
            cell.ljust(w) if i == 1 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row[:-1], widths, strict=True))
        ]
        lines.append("  " + "  ".join([*cells, row[-1]]).rstrip())
    if comparison.cut_short:
        lines.append("  cut short: more time may find quicker ones")
    if comparison.decided_by_clock:
        lines.append(f"  {clock_line(comparison.decided_by_clock)}")
    return "\n".join(lines)


def _row(entry: Entry) -> tuple[str, ...]:
    if entry.time_optimality is None or entry.time_optimality.seconds is None:
        return size_text(entry.size), entry.strategy, "-", "-", "-", "-", entry.refusal
    figures = entry.time_optimality.figures()
    return (
        size_text(entry.size),
        entry.strategy,
        f"{figures['predicted_us']:,.2f}",
        f"{figures['algbw_GBps']:.2f}",
        f"{figures['busbw_GBps']:.2f}",
        f"{figures['percent_of_bound']:.1f} %",
        entry.candidate if entry.simulated else f"{entry.candidate}; its program is not simulated",
    )
