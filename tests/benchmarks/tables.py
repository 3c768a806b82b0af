"""Tables as Markdown and as CSV, prose in lines of the usual length, and journals of what was measured."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for a page."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def csv_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for docs/data."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def wrapped(text: str) -> str:
    """``text`` with its paragraphs in lines of at most 115 characters; tables, lists and headings as they are."""
    parts = text.split("\n\n")
    for number, part in enumerate(parts):
        if not part.lstrip().startswith(("|", "- ", "#")):
            together = part.strip().replace(" %", "\0%")
            lines = textwrap.fill(together, 115, break_long_words=False, break_on_hyphens=False)
            parts[number] = lines.replace("\0", " ")
    return "\n\n".join(parts) + "\n"


class Journal:
    """Rows of JSON by key in a file that is written after each, from which a stopped run goes on; or in memory."""

    def __init__(self, file: Path | None) -> None:
        """Raises HetesynthError HS904 where the file is no journal."""
        self._file = file
        self.rows: dict[str, dict[str, Any]] = {}
        if file is not None and file.exists():
            try:
                self.rows = dict(json.loads(file.read_text(encoding="utf-8"))["rows"])
            except (ValueError, KeyError, TypeError) as error:
                raise HetesynthError(
                    f"{file} is no journal of this benchmark",
                    code="HS904",
                    help="choose another file with --journal",
                ) from error

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Keep ``row``, on disk too."""
        self.rows[key] = row
        if self._file is not None:
            text = json.dumps({"machine": machine(), "rows": self.rows}, indent=1)
            write_atomically(self._file, f"{text}\n".encode())
