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


def check_text(report: BuildReport, *, quick: bool) -> str:
    """What a build would change, and what was looked at to say so."""
    bad = [cell for cell in report.cells if cell.status in BAD]
    lines = [f"{cell.status}: {cell.cell.name}: {'; '.join(cell.messages)}" for cell in bad]
    lines += [
        f"{'stale' if finding.stale else 'note'}: {finding.folder}: {finding.message}"
        for finding in report.folders
    ]
    lines += [
        f"{cell.status}: {cell.cell.name}: {'; '.join(cell.messages)}"
        for cell in report.cells
        if cell.messages and cell.status not in BAD
    ]
    looked = (
        "keys and digests compared, no judge asked" if quick else "every schedule replayed, every program executed"
    )
    verdict = "all current" if report.ok else "a build would change this" if bad or report.folders else ""
    counts = Counter(cell.status for cell in report.cells)
    by_status = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    return "\n".join([*lines, f"{len(report.cells)} cells: {by_status}: {verdict} ({looked})"])
