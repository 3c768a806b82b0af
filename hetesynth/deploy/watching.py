"""Who is told how a build goes on.

In: cells that are decided, what a worker does. Out: nothing; a terminal shows all of it, a pipe what a log needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hetesynth.deploy.outcome import CellReport


class Watcher(Protocol):
    """What a build calls."""

    def expected(self, cells: int, stale: Mapping[str, str]) -> None:
        """Of so many cells those in ``stale`` have to be made, by the keys of their jobs."""

    def working(self, key: str, what: str) -> None:
        """A worker does ``what`` for the job ``key``."""

    def decided(self, report: CellReport) -> None:
        """What becomes of a cell."""

    def warned(self, message: str) -> None:
        """What an operator should know, though the build goes on."""


class Nobody:
    """A watcher that looks away."""

    def expected(self, cells: int, stale: Mapping[str, str]) -> None:
        """Not shown."""

    def working(self, key: str, what: str) -> None:
        """Not shown."""

    def decided(self, report: CellReport) -> None:
        """Not shown."""

    def warned(self, message: str) -> None:
        """Not shown."""
