"""Statuses and names in words, the same in every report.

In: values of ``outcome``. Out: text on one line.
"""

from __future__ import annotations

from collections import Counter
from typing import get_args

from hetesynth.deploy.outcome import BAD, BuildReport, CellReport, Status
from hetesynth.model.diagnostics import visible

STATUSES: tuple[Status, ...] = get_args(Status)
ATTENTION: tuple[Status, ...] = (
    "invalid", "missing", "failed", "withheld", "stale", "unfinished", "kept"
)  # fmt: skip
"""What somebody should look at, the worst first."""
WAYS_OUT: dict[Status, str] = {
    "invalid": "build again, which replaces what is damaged or wrong",
    "missing": "build, and commit what is written",
    "failed": "the message says why; what stood there before still stands",
    "withheld": "raise the effort, choose another strategy, or lower the gate in the manifest",
    "stale": "build, and commit what is written",
    "unfinished": "start the build again: it goes on where it was",
    "kept": "nothing has to be done: the older one is better and verifies (--accept-worse deploys the newer)",
}
WHOLE_BUILD = "build"
"""Under which name a report says what stopped all of it."""


def one_line(text: str) -> str:
    """``text`` with every control character shown escaped and every stretch of white space as one space."""
    return " ".join(visible(text).split())


def counts(report: BuildReport) -> dict[Status, int]:
    """How many cells have each status that occurs, in the order in which statuses are always told."""
    number = Counter(cell.status for cell in report.cells)
    return {status: number[status] for status in STATUSES if number[status]}


def counts_text(report: BuildReport) -> str:
    """``24 cells: 20 current, 3 built, 1 failed``."""
    cells = "1 cell" if len(report.cells) == 1 else f"{len(report.cells)} cells"
    return f"{cells}: {', '.join(f'{n} {status}' for status, n in counts(report).items())}".removesuffix(": ")


def needing_attention(report: BuildReport) -> list[CellReport]:
    """The worst first, else in the order of the manifest."""
    order = {status: k for k, status in enumerate(ATTENTION)}
    return sorted((cell for cell in report.cells if cell.status in order), key=lambda cell: order[cell.status])


def verdict(report: BuildReport) -> str:
    """All of it in a few words."""
    if report.interrupted:
        return "interrupted"
    return "every schedule is as it should be" if report.ok else "something has to be done"


def messages_text(report: CellReport) -> str:
    """Why the status is what it is, on one line."""
    return "; ".join(one_line(message) for message in report.messages)


def said(report: CellReport) -> str:
    """The status with its reason: ``stale: made for another topology``."""
    messages = messages_text(report)
    return f"{report.status}: {messages}" if messages else report.status


def is_bad(report: CellReport) -> bool:
    """Whether the cell makes a build or a check end with 1."""
    return report.status in BAD


def cell_name(report: CellReport) -> str:
    """The name of the cell without its cluster and target: ``allreduce/1MB..64MB``."""
    return f"{report.cell.collective}/{report.cell.extent_text}"


def groups(report: BuildReport) -> dict[tuple[str, str], list[CellReport]]:
    """The cells of each cluster and target, in the order of the manifest."""
    grouped: dict[tuple[str, str], list[CellReport]] = {}
    for cell in report.cells:
        grouped.setdefault((cell.cell.cluster, cell.cell.target), []).append(cell)
    return grouped
