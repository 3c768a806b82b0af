"""What ``build`` prints at its end.

In: a ``BuildReport``. Out: text. Decides nothing.
"""

from __future__ import annotations

from collections import Counter

from hetesynth.building.outcome import BAD, BuildReport


def build_text(report: BuildReport) -> str:
    """Counts, cells that need attention, folders."""
    counts = Counter(cell.status for cell in report.cells)
    lines = [f"{len(report.cells)} cells: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))]
    lines += [
        f"{cell.status}: {cell.cell.name}: {'; '.join(cell.messages)}"
        for cell in report.cells
        if cell.status in BAD or cell.messages
    ]
    lines += [f"wrote {folder}" for folder in report.written]
    return "\n".join(lines)
