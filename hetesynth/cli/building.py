"""How a build shows on a terminal: cells done of all, and what each process does; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hetesynth.building.watching import Nobody, Watcher
from hetesynth.cli.progress import warned

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from hetesynth.building.outcome import CellReport


@contextmanager
def watching_build(*, quiet: bool) -> Iterator[Watcher]:
    """A watcher for standard error: with a bar where that is a terminal, else of warnings alone."""
    if quiet or not sys.stderr.isatty():
        yield _Warnings()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    texts = (TextColumn("{task.description}"), TextColumn("{task.fields[count]}"))
    columns = (texts[0], BarColumn(24), texts[1], TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bars(progress)


class _Warnings(Nobody):
    """Says each warning once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warned(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            warned(message)


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

        from hetesynth.diagnostics import visible

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
