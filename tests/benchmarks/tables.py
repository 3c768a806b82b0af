"""Tables as Markdown and as CSV, and prose in lines of the usual length."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence


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
