"""nvbandwidth, JSON: matrices of GB/s between devices.

In: text. Out: a ``Series`` of streams for each test case between devices, one point for each pair. The size of the
buffer is the tool's default, 512 MiB, where the file does not say.
"""

from __future__ import annotations

from typing import Any

from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.topology.calibrate.lines import number, refused
from hetesynth.topology.calibrate.measurements import MAX_POINTS, Operation, Point, Series

TOOL = "nvbandwidth"
DEFAULT_BUFFER = 512 << 20
MAX_CASES = 256
_LIMITS = JsonLimits(max_depth=12, max_digits=18)


def recognizes(text: str) -> bool:
    """Its one top-level key."""
    return text.lstrip().startswith("{") and '"nvbandwidth"' in text[:4096]


def read(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """The cases that passed and run from device to device; HetesynthError HS841 where there is none."""
    try:
        document = read_json(text.encode(), _LIMITS)
    except JsonRefused as error:
        raise refused(source, str(error), "give the output of nvbandwidth -j") from None
    cases = document.get("nvbandwidth", {}) if isinstance(document, dict) else {}
    cases = cases.get("testcases") if isinstance(cases, dict) else None
    if not isinstance(cases, list):
        raise refused(source, "there are no testcases", "give the output of nvbandwidth -j")
    series = [one for case in cases[:MAX_CASES] for one in _case(case, source)]
    if not series:
        help_ = "run nvbandwidth -j -t device_to_device_memcpy_write_ce (or ..._sm)"
        raise refused(source, "no case that passed copies between devices", help_)
    return series


def _case(case: Any, source: str) -> list[Series]:
    if not isinstance(case, dict) or case.get("status") not in ("Passed", None):
        return []
    name, matrix = case.get("name"), case.get("bandwidth_matrix")
    if not isinstance(name, str) or "device_to_device" not in name or "bidirectional" in name:
        return []
    if "latency" in name or not isinstance(matrix, list):
        return []
    cells = [cell for row in matrix if isinstance(row, list) for cell in row][:MAX_POINTS]
    rates = [rate for cell in cells if (rate := number(str(cell))) is not None and rate > 0]
    points = tuple(Point(DEFAULT_BUFFER, DEFAULT_BUFFER / (rate * 1e9)) for rate in rates)
    return [Series(source, TOOL, name[:60], "stream", points)] if points else []
