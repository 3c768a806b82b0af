"""How a build shows on a terminal: cells done of all, and what each process does; plain lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hetesynth.cli.progress import warned
from hetesynth.cli.terminal import show
from hetesynth.deploy.outcome import Watcher
from hetesynth.model.deadline import now

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from hetesynth.deploy.outcome import CellReport

SILENT = 30.0  # seconds after which a log says what is being done; CI systems end jobs that say nothing for long


@contextmanager
def watching_build(*, quiet: bool) -> Iterator[Watcher]:
    """A watcher for standard error: with a bar where that is a terminal, else with a line a cell."""
    if quiet:
        yield _Warnings()
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    texts = (TextColumn("{task.description}"), TextColumn("{task.fields[count]}"))
    columns = (texts[0], BarColumn(24), texts[1], TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bars(progress)


class _Warnings(Watcher):
    """Says each warning once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warned(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            warned(message)


class _Lines(_Warnings):
    """What a log needs to show that a build lives: a line for each cell that was to be made, and one of what is
    being done where nothing was said for ``SILENT`` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}
        self._to_make, self._made = 0, 0
        self._started = self._said_at = now()

    def expected(self, cells: int, stale: Mapping[str, str]) -> None:
        self._names, self._to_make = dict(stale), len(stale)
        if stale:
            self._say(f"{cells} cells, {len(stale)} to make")

    def working(self, key: str, what: str) -> None:
        if now() - self._said_at >= SILENT:
            self._say(f"{self._made} of {self._to_make} made; {self._names.get(key, key[:8])}: {what}")

    def decided(self, report: CellReport) -> None:
        if report.key in self._names:
            self._made += 1
            self._say(f"{self._made} of {self._to_make} {report.cell.name}: {report.status}")

    def _say(self, text: str) -> None:
        self._said_at = now()
        show(f"{self._said_at - self._started:.0f} s: {text}", err=True)


class _Bars(_Warnings):
    """A bar for all cells and a line for each that is being made."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self._all = progress.add_task("reading", total=None, count="")
        self._done, self._cells = 0, 0
        self._lines: dict[str, TaskID] = {}
        self._names: dict[str, str] = {}

    def expected(self, cells: int, stale: Mapping[str, str]) -> None:
        self._names = dict(stale)
        self._cells = cells
        words = f"cells, {len(stale)} to make"
        self._progress.update(self._all, total=cells, description=words, count=self._count())

    def working(self, key: str, what: str) -> None:
        from rich.markup import escape

        from hetesynth.model.diagnostics import visible

        text = f"  {escape(visible(f'{self._names.get(key, key[:8])}: {what}'))[:100]}"
        if key not in self._lines:
            self._lines[key] = self._progress.add_task(text, total=None, count="")
        self._progress.update(self._lines[key], description=text)

    def decided(self, report: CellReport) -> None:
        self._done += 1
        self._progress.update(self._all, completed=self._done, count=self._count())
        line = self._lines.pop(report.key, None)
        if line is not None:
            self._progress.remove_task(line)

    def _count(self) -> str:
        return f"{self._done} of {self._cells}" if self._cells else ""
