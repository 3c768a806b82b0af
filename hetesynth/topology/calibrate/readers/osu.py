"""OSU micro-benchmarks: ``osu_latency``, ``osu_bw``, ``osu_bibw`` and collectives' latencies.

In: text. Out: a ``Series``. A latency test is one transfer at a time, a bandwidth test a stream; of collectives
the size is that of one rank's block, which here becomes that of the largest buffer (allgather, alltoall: x
ranks).
"""

from __future__ import annotations

import re

from hetesynth.topology.calibrate.lines import lines_of, number, refused
from hetesynth.topology.calibrate.measurements import MAX_POINTS, PAIRWISE, Operation, Point, Series

TOOL = "OSU"
_TITLE = re.compile(
    r"#\s*OSU\s+(?P<what>[^\n]*?)(?:\s+(?:Latency|Bandwidth))?\s+Test(?:\s+v(?P<version>\S{1,20}))?"
)
_COLLECTIVES: dict[str, Operation] = {
    "allreduce": "allreduce",
    "allgather": "allgather",
    "reduce_scatter": "reducescatter",
    "reduce-scatter": "reducescatter",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "all-to-all": "alltoall",
    "alltoall": "alltoall",
    "all-to-all personalized exchange": "alltoall",
    "gather": "gather",
    "scatter": "scatter",
    "reduce": "reduce",
}
_BLOCKS = ("allgather", "alltoall", "gather", "scatter")


def recognizes(text: str) -> bool:
    """The title of a test."""
    return _TITLE.search(text) is not None


def read(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """The table; HetesynthError HS841 where ``ranks`` is needed, or a row says nothing."""
    title = _TITLE.search(text)
    what = re.sub(r"^(MPI|NCCL|RCCL|OSHM|UPC)\S*\s*", "", title["what"] if title else "").strip().lower()
    bandwidth = re.search(r"#\s*Size\s+Bandwidth \(MB/s\)", text) is not None
    goal = operation or _operation(what, bandwidth)
    if goal is None:
        raise refused(source, f"no test of OSU that is read here: {what[:60]!r}", "name it with --operation")
    factor = 1
    if goal in _BLOCKS:
        if ranks is None:
            raise refused(source, "OSU gives the size of one block, not how many there are", "add --ranks N")
        factor = ranks
    points = [
        Point(row[0] * factor, row[0] / (row[1] * 1e6) if bandwidth else row[1] * 1e-6, row[2])
        for row in _rows(text)
        if row[0] > 0 and row[1] > 0
    ]
    if not points:
        raise refused(source, "there is no row of a table", "give the whole output")
    both = "bi-directional" in what
    if both:
        # the sum of both directions is shown
        points = [Point(point.size, point.seconds * 2, point.line) for point in points]
    return [Series(source, TOOL, what[:40], goal, tuple(points), None if goal in PAIRWISE else ranks)]


def _operation(what: str, bandwidth: bool) -> Operation | None:
    if bandwidth:
        return "stream"
    return "transfer" if what in ("", "latency", "d2d", "multi latency") else _COLLECTIVES.get(what)


def _rows(text: str) -> list[tuple[float, float, int]]:
    rows: list[tuple[float, float, int]] = []
    for line in lines_of(text):
        words = line.words
        if len(words) < 2 or line.text.startswith("#") or len(rows) >= MAX_POINTS:
            continue
        size, value = number(words[0]), number(words[1])
        if size is not None and value is not None:
            rows.append((size, value, line.number))
    return rows
