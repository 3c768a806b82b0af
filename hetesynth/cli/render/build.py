"""What ``build`` prints at its end: counts, what needs attention with a way out, where the folders are.

In: a ``BuildReport``. Out: text. Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetesynth.building.reports.annotations import reason
from hetesynth.building.reports.words import ATTENTION, WAYS_OUT, counts_text, one_line
from hetesynth.report.words import counted

if TYPE_CHECKING:
    from hetesynth.building.outcome import BuildReport, CellReport

SHOWN_OF_A_STATUS = 10


def build_text(report: BuildReport) -> str:
    """Nothing of cells that are as they should be."""
    lines = [one_line(counts_text(report))]
    for status in ATTENTION:
        cells = [cell for cell in report.cells if cell.status == status]
        if not cells:
            continue
        lines.append(f"{status}: {WAYS_OUT[status]}")
        lines += [_line(cell) for cell in cells[:SHOWN_OF_A_STATUS]]
        if len(cells) > SHOWN_OF_A_STATUS:
            lines.append(f"  and {len(cells) - SHOWN_OF_A_STATUS} more (--json lists all)")
    return "\n".join([*lines, one_line(_written(report))])


def _line(cell: CellReport) -> str:
    """Indented, so that no name begins a line that a forge takes for a command."""
    why = reason(cell)
    return f"  {one_line(cell.cell.name)}{': ' if why else ''}{why}"


def _written(report: BuildReport) -> str:
    if report.checked:
        return f"checked {report.output}: nothing was written"
    if not report.written:
        return f"{report.output}: every folder is as it was"
    return f"wrote {counted(len(report.written), 'folder')}: {', '.join(map(str, report.written))}"
