"""What a benchmark has measured so far, in a file from which a run that was stopped goes on.

In: rows, or a file that an earlier run wrote. Out: the rows of both, by what was asked for.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from benchmarks.machine import machine
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically

Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row")


class RowJournal(ABC, Generic[Key, Row]):
    """Rows in a file that is written after each of them; without a file, in memory. ``field``: what the rows are
    called in the file."""

    field: ClassVar[str]

    def __init__(self, file: Path | None) -> None:
        """Raises HetesynthError HS904 where the file is no journal."""
        self._file = file
        self._rows: dict[Key, Row] = {}
        if file is not None and file.exists():
            self._rows = {self.key(row): row for row in self._read(file)}

    @abstractmethod
    def key(self, row: Row) -> Key:
        """What was asked for."""

    @abstractmethod
    def plain(self, row: Row) -> dict[str, Any]:
        """The row for JSON."""

    @abstractmethod
    def row(self, values: dict[str, Any]) -> Row:
        """The row that ``plain`` gave. KeyError, TypeError, AttributeError where it gave none of these."""

    def get(self, key: Key) -> Row | None:
        """What was measured for ``key``."""
        return self._rows.get(key)

    def add(self, row: Row) -> None:
        """Keep ``row``, on disk too."""
        self._rows[self.key(row)] = row
        if self._file is not None:
            contents = {"machine": machine(), self.field: [self.plain(each) for each in self._rows.values()]}
            write_atomically(self._file, (json.dumps(contents, indent=1) + "\n").encode())

    def _read(self, file: Path) -> list[Row]:
        try:
            return [self.row(values) for values in json.loads(file.read_text(encoding="utf-8"))[self.field]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise HetesynthError(
                f"{file} is no journal of this benchmark: {type(error).__name__}: {error}",
                code="HS904",
                help="choose another file with --journal",
            ) from error
