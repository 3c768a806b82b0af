"""perftest: ``ib_write_bw``, ``ib_write_lat`` and their siblings.

In: text. Out: a ``Series`` of streams or of transfers. MB/sec of these tools is 2^20 bytes a second; with
``--report_gbits`` they print Gb/sec, 10^9 bits.
"""

from __future__ import annotations

import re

from hetesynth.topology.calibrate.lines import lines_of, number, refused
from hetesynth.topology.calibrate.measurements import MAX_POINTS, Operation, Point, Series

TOOL = "perftest"
_BANDWIDTH = re.compile(r"#bytes\s+#iterations\s+BW peak\[(?P<unit>\w+)/sec\]\s+BW average\[\w+/sec\]")
_LATENCY = re.compile(r"#bytes\s+#iterations\s+t_min\[usec\]\s+t_max\[usec\]\s+t_typical\[usec\]")
_UNITS = {"MB": 2.0**20, "MiB": 2.0**20, "Gb": 1e9 / 8}
_AVERAGE, _TYPICAL = 3, 4


def recognizes(text: str) -> bool:
    """The header of either table."""
    return _BANDWIDTH.search(text) is not None or _LATENCY.search(text) is not None


def read(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """The table; HetesynthError HS841 for an unknown unit or no row."""
    header = _BANDWIDTH.search(text)
    column = _TYPICAL if header is None else _AVERAGE
    if header is not None and header["unit"] not in _UNITS:
        raise refused(source, f"unknown unit {header['unit'][:20]}/sec", "run it with --report_gbits")
    points: list[Point] = []
    for line in lines_of(text):
        words = line.words
        if len(words) <= column or len(points) >= MAX_POINTS:
            continue
        size, count, value = number(words[0]), number(words[1]), number(words[column])
        if size is None or count is None or value is None or size <= 0 or value <= 0:
            continue
        seconds = value * 1e-6 if header is None else size / (value * _UNITS[header["unit"]])
        points.append(Point(size, seconds, line.number))
    if not points:
        raise refused(source, "there is no row of a table", "give the whole output")
    goal: Operation = "transfer" if header is None else "stream"
    return [
        Series(source, TOOL, "latency" if header is None else "bandwidth", operation or goal, tuple(points), ranks)
    ]
