"""What a build or a check came to, cell by cell: what all reports are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hetesynth.deploy.manifest.values import Cell
from hetesynth.model.diagnostics import Diagnostic

Status = Literal[
    "current", "cached", "built", "kept", "withheld", "failed", "unfinished", "stale", "missing", "invalid"
]
"""Up to date; from the cache; made now; the older one stays, for the newer is worse; the newer fails its gates;
nothing could be made; Ctrl-C came first; of a check: made for something else, absent, wrong."""
BAD: frozenset[Status] = frozenset({"withheld", "failed", "unfinished", "stale", "missing", "invalid"})
"""The statuses that make a build or a check end with 1."""


@dataclass(frozen=True, slots=True)
class CellReport:
    """The outcome for a cell. ``record``: of the cell in the folder after the build, None: there is none.
    ``previous``: of the cell there before. ``candidate``: of a result that was made and not deployed.
    ``messages``: why the status is what it is, and gates that are not met."""

    cell: Cell
    status: Status
    key: str
    record: dict[str, Any] | None = None
    previous: dict[str, Any] | None = None
    candidate: dict[str, Any] | None = None
    messages: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """True where the cell makes a build or a check end with 1."""
        return self.status in BAD


@dataclass(frozen=True, slots=True)
class FolderFinding:
    """A finding of a check about a folder rather than a cell. ``stale``: a build would change that."""

    folder: Path
    message: str
    stale: bool = True


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The outcome of a build or a check. ``checked``: nothing was written. ``written``: folders that changed.
    ``warnings``: for the operator, though nothing failed. ``interrupted``: by Ctrl-C. ``seconds``: of wall time.
    ``folders``: findings of a check about folders. ``findings``: of topology files."""

    manifest: Path
    output: Path
    cells: tuple[CellReport, ...]
    findings: tuple[Diagnostic, ...] = ()
    written: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    checked: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    folders: tuple[FolderFinding, ...] = ()

    @property
    def ok(self) -> bool:
        """True where nothing has to be done."""
        stale = any(finding.stale for finding in self.folders)
        stopped = any(finding.severity == "error" for finding in self.findings)
        return not stale and not stopped and not any(report.bad for report in self.cells)


class Watcher:
    """A receiver of news about the progress of a build; this one ignores them."""

    def expected(self, cells: int, stale: Mapping[str, str]) -> None:
        """Note that of ``cells`` cells those in ``stale``, by the keys of their jobs, have to be made."""

    def working(self, key: str, what: str) -> None:
        """Note that a worker does ``what`` for the job ``key``."""

    def decided(self, report: CellReport) -> None:
        """Note the decision on a cell."""

    def warned(self, message: str) -> None:
        """Note what an operator should know, though the build goes on."""
