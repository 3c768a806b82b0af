"""nccl-tests and rccl-tests: a table of sizes, with times out of place and in place.

In: text. Out: one ``Series`` for each. The operation is the caller's, else that of the program's name in the
text, else of the file's name, else what the ratio of bus to algorithm bandwidth leaves. The columns are those of
the header: each ``time`` begins a group (time, algbw, busbw, and wrong where it was checked).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.topology.calibrate.lines import Line, lines_of, number, refused
from hetesynth.topology.calibrate.measurements import MAX_POINTS, PAIRWISE, Operation, Point, Series

TOOL = "nccl-tests"
_PLACES = ("out of place", "in place")
_PROGRAMS: tuple[tuple[str, Operation], ...] = (
    ("all_reduce", "allreduce"),
    ("all_gather", "allgather"),
    ("reduce_scatter", "reducescatter"),
    ("broadcast", "broadcast"),
    ("alltoall", "alltoall"),
    ("sendrecv", "transfer"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("reduce", "reduce"),
)
_RANK = re.compile(r"#\s+Rank\s+(\d{1,6})\b")
_HEADER = re.compile(r"#\s*size\s+count\s+type")


def recognizes(text: str) -> bool:
    """The header of its table."""
    return _HEADER.search(text) is not None


def read(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """The series of the table; HetesynthError HS841 where the operation or the rows are not to be told."""
    lines = list(lines_of(text))
    header = next((line.text.lstrip("# ").split() for line in lines if _HEADER.search(line.text)), [])
    starts = [len(header) - place for place, word in enumerate(header) if word == "time"]
    groups = len(starts)
    rows = [row for line in lines for row in _row(line, starts)]
    if not rows:
        raise refused(source, "there is no row of a table", "give the whole output, with its header")
    devices = len({match[1] for line in lines for match in _RANK.finditer(line.text)})
    count = ranks or (devices if devices > 1 else None)
    goal = operation or _named(text) or _named(Path(source).name) or _from_ratio(rows, count)
    if goal is None:
        raise refused(
            source, "the table does not say which collective it is", "add --operation allreduce (or ...)"
        )
    return [
        Series(source, TOOL, _PLACES[place % 2], goal, tuple(points), None if goal in PAIRWISE else count)
        for place in range(groups)
        if (points := [Point(row.size, row.times[place] * 1e-6, row.line) for row in rows if row.times[place] > 0])
    ]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: bytes, microseconds of each group, bus over algorithm bandwidth, its line."""

    size: float
    times: tuple[float, ...]
    ratio: float | None
    line: int


def _row(line: Line, starts: Sequence[int]) -> list[_Row]:
    words = line.words
    if line.text.startswith("#") or not starts or len(words) < 3 + max(starts) or line.number > MAX_POINTS:
        return []
    size = number(words[0])
    times = [number(words[-start]) for start in starts]
    if size is None or size <= 0 or all(time is None for time in times):
        return []
    algorithm, bus = number(words[1 - starts[0]]), number(words[2 - starts[0]])
    ratio = bus / algorithm if algorithm and bus and algorithm >= 1 else None
    return [_Row(size, tuple(time or 0.0 for time in times), ratio, line.number)]


def _named(text: str) -> Operation | None:
    for program, operation in _PROGRAMS:
        if re.search(rf"\b{program}(_perf)?\b", text):
            return operation
    return None


def _from_ratio(rows: Sequence[_Row], ranks: int | None) -> Operation | None:
    """Only an allreduce moves more on the bus than its size."""
    ratios = sorted(row.ratio for row in rows if row.ratio is not None)
    if not ratios or ranks is None or ranks < 3:
        return None
    return "allreduce" if ratios[len(ratios) // 2] > 1.1 else None
