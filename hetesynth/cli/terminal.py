"""What commands print: the one place where text of any origin goes to standard output and standard error.

Names come from files and command lines of others. They are data: what would steer a terminal is shown escaped.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import click

from hetesynth.model.diagnostics import visible


def show(text: str, *, err: bool = False) -> None:
    """Print ``text`` and a line end, whatever characters are in it and whatever the stream can encode."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    click.echo(visible(text).encode(encoding, "backslashreplace").decode(encoding), err=err)


def show_lines(lines: Iterable[str]) -> None:
    """Print ``lines``, of which there may be millions, without holding all of them."""
    rest = iter(lines)
    while batch := list(islice(rest, 10_000)):
        show("\n".join(batch))


def table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return a line for each row, columns of equal width, those of ``right`` to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def on_one_line(file: object) -> str:
    """The name of a file; a line of its own would pass for a verdict."""
    return str(file).replace("\n", "\\u000a")
