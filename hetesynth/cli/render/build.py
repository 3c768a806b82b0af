"""What ``build`` prints at its end: counts, what needs attention with a way out, where the folders are.

In: a ``BuildReport``. Out: text. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hetesynth.deploy.reports.annotations import reason
from hetesynth.deploy.reports.words import ATTENTION, WAYS_OUT, counts_text, one_line, said
from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.deploy.outcome import BuildReport

SHOWN_OF_A_STATUS = 10


def build_text(report: BuildReport) -> str:
    """Nothing of cells that are as they should be."""
    if report.written:
        ended = f"wrote {counted(len(report.written), 'folder')}: {', '.join(map(str, report.written))}"
    else:
        ended = f"{report.output}: every folder is as it was"
    return "\n".join([one_line(counts_text(report)), *_attention(report), one_line(ended)])


def check_text(report: BuildReport, *, quick: bool) -> str:
    """What a build would change, and what was looked at to say so."""
    looked = "every schedule replayed, every program executed"
    looked = "keys and digests compared, no judge asked" if quick else looked
    verdict = "all current" if report.ok else "a build would change this"
    return "\n".join([one_line(counts_text(report)), *_attention(report), f"{verdict} ({looked})"])


def _attention(report: BuildReport) -> Iterator[str]:
    for status in ATTENTION:
        cells = [cell for cell in report.cells if cell.status == status]
        if cells:
            yield f"{status}: {WAYS_OUT[status]}"
            yield from _listed([_line(cell.cell.name, reason(cell)) for cell in cells])
    for title, stale in (("folders", True), ("folders that a build leaves alone", False)):
        findings = [finding for finding in report.folders if finding.stale == stale]
        if findings:
            yield f"{title}:"
            yield from _listed([_line(str(finding.folder), one_line(finding.message)) for finding in findings])
    notes = [cell for cell in report.cells if cell.messages and cell.status not in ATTENTION]
    if notes:
        yield "notes:"
        yield from _listed([_line(cell.cell.name, said(cell)) for cell in notes])


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:SHOWN_OF_A_STATUS]
    if len(lines) > SHOWN_OF_A_STATUS:
        yield f"  and {len(lines) - SHOWN_OF_A_STATUS} more (--json lists all)"


def _line(name: str, why: str) -> str:
    """Indented, so that no name begins a line that a forge takes for a command."""
    return f"  {one_line(name)}{': ' if why else ''}{why}"
