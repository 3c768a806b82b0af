"""A CSV of sizes and times.

In: text whose first line names its columns: ``size`` and ``us`` (or ``seconds``), or a column of microseconds
for each series. Cells are separated by commas, semicolons or tabs; sizes may be written 64K. Without a header
two columns are size and microseconds. Out: a ``Series`` for each column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from hetesynth.topology.calibrate.lines import number, refused, size
from hetesynth.topology.calibrate.measurements import MAX_POINTS, Operation, Point, Series

TOOL = "CSV"
MAX_COLUMNS = 64
_SIZES = ("size", "bytes", "size_bytes", "message_size", "n")
_MICROSECONDS = ("us", "microseconds", "time_us", "time", "usec", "latency_us")
_SECONDS = ("s", "seconds", "time_s")
_HELP = "write a header such as `size,us`, then rows such as `64K,12.5`"


def recognizes(text: str) -> bool:
    """A first line of several cells of which one names a size, or two numbers."""
    rows = _rows(text[:4096])
    if not rows or len(rows[0]) < 2:
        return False
    named = any(cell.lower() in _SIZES for cell in rows[0])
    return named or (len(rows[0]) == 2 and size(rows[0][0]) is not None and number(rows[0][1]) is not None)


def read(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """The columns of times; HetesynthError HS841 where a cell is no number."""
    rows = _rows(text)
    if not rows or len(rows[0]) < 2 or len(rows[0]) > MAX_COLUMNS:
        raise refused(source, "no table of two columns or more", _HELP)
    if len(rows) > MAX_POINTS:
        raise refused(source, f"the table has {len(rows)} rows, more than {MAX_POINTS}", "leave some out")
    header = [cell.lower() for cell in rows[0]]
    if not any(cell in _SIZES for cell in header):
        header, rows = ["size", "us"], [["size", "us"], *rows]
    numbers = _numbers(text)[-len(rows[1:]) :]
    at = next(i for i, cell in enumerate(header) if cell in _SIZES)
    series = []
    for column, title in enumerate(header):
        if column == at:
            continue
        factor = 1.0 if title in _SECONDS else 1e-6
        points = [
            _point(row, at, column, factor, line, source) for line, row in zip(numbers, rows[1:], strict=True)
        ]
        name = "" if title in (*_MICROSECONDS, *_SECONDS) else rows[0][column][:40]
        if not points:
            raise refused(source, "the table has no rows", _HELP)
        series.append(Series(source, TOOL, name, operation or "transfer", tuple(points), ranks))
    return series


def _numbers(text: str) -> list[int]:
    """Of the lines with a row, from 1."""
    lines = enumerate(text.splitlines(), 1)
    return [number for number, line in lines if line.strip() and not line.lstrip().startswith("#")]


def _rows(text: str) -> list[list[str]]:
    every = text.splitlines()
    lines = [every[number - 1] for number in _numbers(text)]
    if not lines:
        return []
    mark = max(",;\t", key=lines[0].count)
    try:
        return [[c.strip() for c in row] for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=mark)]
    except csv.Error:
        return []


def _point(row: Sequence[str], at: int, column: int, factor: float, line: int, source: str) -> Point:
    if len(row) <= max(at, column):
        raise refused(source, f"line {line} is short: {len(row)} cells", _HELP)
    bytes_, time = size(row[at]), number(row[column])
    if bytes_ is None or time is None:
        wrong = row[at] if bytes_ is None else row[column]
        raise refused(source, f"line {line}: {wrong[:40]!r} is no {'size' if bytes_ is None else 'time'}", _HELP)
    try:
        return Point(bytes_, time * factor, line)
    except ValueError as error:
        raise refused(source, f"line {line}: {error}", _HELP) from None
