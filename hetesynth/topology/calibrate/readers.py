"""The output of tools that measure to ``Series``: each file by the reader that recognizes it, in this order.

HetesynthError HS840 (no text), HS841 (text, but not what its reader reads), HS842 (no reader).
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.model.diagnostics import visible

Operation = Literal[
    "transfer",
    "stream",
    "allgather",
    "reducescatter",
    "allreduce",
    "broadcast",
    "reduce",
    "alltoall",
    "gather",
    "scatter",
]
"""Of two ends, ``transfer`` is one at a time, ``stream`` many at once, so that alpha does not show."""
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
PAIRWISE: frozenset[Operation] = frozenset({"transfer", "stream"})
"""Between two ends, whatever the number of ranks."""

MAX_FILE_BYTES = 16 << 20
MAX_POINTS = 100_000
_NVBANDWIDTH_BUFFER = 512 << 20  # the tool's default, as the file does not say
_NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,3})?")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Point:
    """``size`` bytes, as the tool counts them (``model/cost.py``, ``chunk_bytes``), took ``seconds``.

    ``line``: of the file, from 1; 0 where it has none.
    """

    size: float
    seconds: float
    line: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.size <= 1 << 50:
            raise ValueError(f"{self.size:g} bytes is no size of a buffer")
        if not 0 < self.seconds <= 1e6:
            raise ValueError(f"{self.seconds:g} s is no time of an operation")


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one operation under the same conditions, in the order of the file.

    ``name`` tells series of one file apart (out of place, a column); ``ranks`` is None where the tool does not
    say.
    """

    source: str
    tool: str
    name: str
    operation: Operation
    points: tuple[Point, ...]
    ranks: int | None = None

    @property
    def title(self) -> str:
        """``file: name``."""
        return f"{self.source}: {self.name}" if self.name else self.source


Reader = Callable[[str, str, "Operation | None", "int | None"], "list[Series]"]


def read_file(path: Path, operation: Operation | None = None, ranks: int | None = None) -> list[Series]:
    """Return the series in the file at ``path``."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise HetesynthError(f"{path} cannot be read: {reason}", code="HS840", help="check the path") from None
    return read_measurements(content, str(path), operation, ranks)


def read_measurements(
    content: bytes, source: str, operation: Operation | None = None, ranks: int | None = None
) -> list[Series]:
    """Return the series in ``content``; ``operation`` and ``ranks`` go before what the text says."""
    if len(content) > MAX_FILE_BYTES:
        what = f"{source} is larger than {MAX_FILE_BYTES >> 20} MiB"
        raise HetesynthError(what, code="HS840", help="give the table alone")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"{source} is not text: byte {error.start} is not UTF-8"
        raise HetesynthError(what, code="HS840", help="give the tool's output") from None
    if "\0" in text:
        raise HetesynthError(f"{source} is not text: it has a NUL byte", code="HS840")
    for recognizes, read in FORMATS.values():
        if recognizes(text):
            try:
                return read(text, source, operation, ranks)
            except ValueError as error:
                raise _refused(source, str(error), "check the table") from None
    help_ = f"formats: {', '.join(FORMATS)}; a CSV is `size,us`"
    raise HetesynthError(f"{source} is no measurement that is read here", code="HS842", help=help_)


def _refused(source: str, message: str, help_: str = "give the whole output") -> HetesynthError:
    return HetesynthError(f"{source}: {visible(message)}", code="HS841", help=help_)


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """The words of lines that are neither blank nor comments, by line number from 1; long lines are cut."""
    lines = enumerate(text.splitlines(), 1)
    return [(at, words) for at, line in lines if (words := line[:4096].split()) and words[0][0] != "#"]


def _number(word: str) -> float | None:
    """A finite number in the usual notations, or None."""
    value = float(word) if _NUMBER.fullmatch(word) else math.inf
    return value if math.isfinite(value) else None


def _size(word: str) -> float | None:
    """Bytes: ``4096``, ``64K``, ``1M``, ``16MiB`` (powers of 1024, as these tools print them); or None."""
    match = _SIZE.fullmatch(word.strip())
    if match is None:
        value = _number(word)
        return value if value is not None and value > 0 else None
    return float(match[1]) * 1024.0 ** " kmgt".index((match[2] or " ").lower())


# --- nccl-tests and rccl-tests: a table of sizes, with times out of place and in place

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
_NCCL_RANK = re.compile(r"#\s+Rank\s+(\d{1,6})\b")
_NCCL_HEADER = re.compile(r"#\s*size\s+count\s+type")


def _read_nccl_tests(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """A series for each ``time`` of the header, which begins a group: time, algbw, busbw, wrong if checked.

    The operation is the caller's, else that of the program's name in the text, else of the file's name, else what
    the ratio of bus to algorithm bandwidth leaves.
    """
    header = next(
        (line.strip().lstrip("# ").split() for line in text.splitlines() if _NCCL_HEADER.search(line)), []
    )
    starts = [len(header) - place for place, word in enumerate(header) if word == "time"]
    rows: list[tuple[int, float, list[float | None]]] = []  # line, bytes, microseconds of each group
    ratios = []  # of bus to algorithm bandwidth
    for at, words in _rows(text):
        if not starts or len(words) < 3 + max(starts) or at > MAX_POINTS:
            continue
        size, times = _number(words[0]), [_number(words[-start]) for start in starts]
        if size is None or size <= 0 or all(time is None for time in times):
            continue
        rows.append((at, size, times))
        algorithm, bus = _number(words[1 - starts[0]]), _number(words[2 - starts[0]])
        if algorithm and bus and algorithm >= 1:
            ratios.append(bus / algorithm)
    if not rows:
        raise _refused(source, "there is no row of a table", "give the whole output, with its header")
    devices = len(set(_NCCL_RANK.findall(text)))
    count = ranks or (devices if devices > 1 else None)
    goal = operation
    for said in (text, Path(source).name):
        named = (named for program, named in _PROGRAMS if re.search(rf"\b{program}(_perf)?\b", said))
        goal = goal or next(named, None)
    if goal is None and ratios and count and count > 2 and sorted(ratios)[len(ratios) // 2] > 1.1:
        goal = "allreduce"  # only an allreduce moves more on the bus than its size
    if goal is None:
        what = "the table does not say which collective it is"
        raise _refused(source, what, "add --operation allreduce (or ...)")
    series = []
    for place in range(len(starts)):
        points = [Point(size, time * 1e-6, at) for at, size, times in rows if (time := times[place] or 0.0) > 0]
        if points:
            name = "in place" if place % 2 else "out of place"
            of = None if goal in PAIRWISE else count
            series.append(Series(source, "nccl-tests", name, goal, tuple(points), of))
    return series


# --- OSU micro-benchmarks: osu_latency, osu_bw, osu_bibw and collectives' latencies

_OSU_TITLE = re.compile(r"#\s*OSU\s+(?P<what>[^\n]*?)(?:\s+(?:Latency|Bandwidth))?\s+Test(?:\s+v\S{1,20})?")
_OSU_COLLECTIVES: dict[str, Operation] = {
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
    **dict.fromkeys(("", "latency", "d2d", "multi latency"), "transfer"),
}


def _read_osu(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """The table: a latency test is one transfer at a time, a bandwidth test a stream.

    Of collectives the size is that of one rank's block, which here becomes that of the largest buffer.
    """
    title = _OSU_TITLE.search(text)
    what = re.sub(r"^(MPI|NCCL|RCCL|OSHM|UPC)\S*\s*", "", title["what"] if title else "").strip().lower()
    bandwidth = re.search(r"#\s*Size\s+Bandwidth \(MB/s\)", text) is not None
    goal = operation or ("stream" if bandwidth else _OSU_COLLECTIVES.get(what))
    if goal is None:
        raise _refused(source, f"no test of OSU that is read here: {what[:60]!r}", "name it with --operation")
    factor = ranks if goal in ("allgather", "alltoall", "gather", "scatter") else 1
    if factor is None:
        raise _refused(source, "OSU gives the size of one block, not how many there are", "add --ranks N")
    directions = 2 if "bi-directional" in what else 1  # the sum of both is shown
    numbers = [(at, _number(words[0]), _number(words[1])) for at, words in _rows(text) if len(words) > 1]
    points = [
        Point(size * factor, (size / (value * 1e6) if bandwidth else value * 1e-6) * directions, at)
        for at, size, value in [row for row in numbers if None not in row][:MAX_POINTS]
        if size and value and size > 0 and value > 0
    ]
    if not points:
        raise _refused(source, "there is no row of a table")
    return [Series(source, "OSU", what[:40], goal, tuple(points), None if goal in PAIRWISE else ranks)]


# --- perftest: ib_write_bw, ib_write_lat and their siblings

_PERFTEST_RATE = re.compile(r"#bytes\s+#iterations\s+BW peak\[(?P<unit>\w+)/sec\]\s+BW average\[\w+/sec\]")
_PERFTEST_TIME = re.compile(r"#bytes\s+#iterations\s+t_min\[usec\]\s+t_max\[usec\]\s+t_typical\[usec\]")
_PERFTEST_UNITS = {"MB": 2.0**20, "MiB": 2.0**20, "Gb": 1e9 / 8}  # MB/sec of these tools is 2^20 bytes a second


def _read_perftest(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """The table, of streams (by the average rate) or of transfers (by the typical time)."""
    header = _PERFTEST_RATE.search(text)
    column = 4 if header is None else 3
    if header is not None and header["unit"] not in _PERFTEST_UNITS:
        raise _refused(source, f"unknown unit {header['unit'][:20]}/sec", "run it with --report_gbits")
    unit = _PERFTEST_UNITS[header["unit"]] if header is not None else 0.0
    words_of = [(at, words) for at, words in _rows(text) if len(words) > column]
    rows = [(at, _number(words[0]), _number(words[1]), _number(words[column])) for at, words in words_of]
    points = [
        Point(size, size / (value * unit) if unit else value * 1e-6, at)
        for at, size, count, value in rows[:MAX_POINTS]
        if size and value and count is not None and size > 0 and value > 0
    ]
    if not points:
        raise _refused(source, "there is no row of a table")
    name, goal = ("latency", "transfer") if header is None else ("bandwidth", "stream")
    return [Series(source, "perftest", name, operation or goal, tuple(points), ranks)]  # type: ignore[arg-type]


# --- nvbandwidth, JSON: matrices of GB/s between devices


def _read_nvbandwidth(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """A series of streams for each case that passed between devices, a point for each pair."""
    try:
        document = read_json(text.encode(), JsonLimits(max_depth=12, max_digits=18))
    except JsonRefused as error:
        raise _refused(source, str(error), "give the output of nvbandwidth -j") from None
    cases = document.get("nvbandwidth", {}) if isinstance(document, dict) else {}
    cases = cases.get("testcases") if isinstance(cases, dict) else None
    if not isinstance(cases, list):
        raise _refused(source, "there are no testcases", "give the output of nvbandwidth -j")
    series = []
    for case in cases[:256]:
        if not isinstance(case, dict) or case.get("status") not in ("Passed", None):
            continue
        name, matrix = case.get("name"), case.get("bandwidth_matrix")
        if not isinstance(name, str) or not isinstance(matrix, list) or "device_to_device" not in name:
            continue
        if "bidirectional" in name or "latency" in name:
            continue
        cells = [cell for row in matrix if isinstance(row, list) for cell in row][:MAX_POINTS]
        rates = [rate for cell in cells if (rate := _number(str(cell))) is not None and rate > 0]
        points = tuple(Point(_NVBANDWIDTH_BUFFER, _NVBANDWIDTH_BUFFER / (rate * 1e9)) for rate in rates)
        if points:
            series.append(Series(source, "nvbandwidth", name[:60], "stream", points))
    if not series:
        help_ = "run nvbandwidth -j -t device_to_device_memcpy_write_ce (or ..._sm)"
        raise _refused(source, "no case that passed copies between devices", help_)
    return series


# --- a CSV of sizes and times

_SIZES = ("size", "bytes", "size_bytes", "message_size", "n")
_MICROSECONDS = ("us", "microseconds", "time_us", "time", "usec", "latency_us")
_SECONDS = ("s", "seconds", "time_s")
_CSV_HELP = "write a header such as `size,us`, then rows such as `64K,12.5`"


def _cells(text: str) -> list[tuple[int, list[str]]]:
    """The rows of a CSV with the numbers of their lines, from 1; none where it is no CSV."""
    lines = {n: line for n, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"}
    if not lines:
        return []
    mark = max(",;\t", key=next(iter(lines.values())).count)
    try:
        rows = [
            [c.strip() for c in row] for row in csv.reader(io.StringIO("\n".join(lines.values())), delimiter=mark)
        ]
    except csv.Error:
        return []
    return list(zip([*lines][-len(rows) :], rows, strict=True))


def _is_csv(text: str) -> bool:
    """A first line of several cells of which one names a size, or two numbers."""
    rows = _cells(text[:4096])
    cells = rows[0][1] if rows else []
    if len(cells) == 2 and _size(cells[0]) is not None and _number(cells[1]) is not None:
        return True
    return len(cells) > 1 and any(cell.lower() in _SIZES for cell in cells)


def _read_csv(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Series]:
    """A series for each column of times beside that of sizes; without a header size and microseconds.

    Cells are separated by commas, semicolons or tabs.
    """
    rows = _cells(text)
    if not rows or not 2 <= len(rows[0][1]) <= 64:
        raise _refused(source, "no table of two columns or more", _CSV_HELP)
    if len(rows) > MAX_POINTS:
        raise _refused(source, f"the table has {len(rows)} rows, more than {MAX_POINTS}", "leave some out")
    titles = ["size", "us"]
    if any(cell.lower() in _SIZES for cell in rows[0][1]):
        titles, rows = rows[0][1], rows[1:]
    if not rows:
        raise _refused(source, "the table has no rows", _CSV_HELP)
    at = next(i for i, title in enumerate(titles) if title.lower() in _SIZES)
    series = []
    for column, title in enumerate(titles):
        if column == at:
            continue
        factor = 1.0 if title.lower() in _SECONDS else 1e-6
        points = []
        for line, row in rows:
            if len(row) <= max(at, column):
                raise _refused(source, f"line {line} is short: {len(row)} cells", _CSV_HELP)
            size, time = _size(row[at]), _number(row[column])
            if size is None or time is None:
                wrong, what = (row[at], "size") if size is None else (row[column], "time")
                raise _refused(source, f"line {line}: {wrong[:40]!r} is no {what}", _CSV_HELP)
            try:
                points.append(Point(size, time * factor, line))
            except ValueError as error:
                raise _refused(source, f"line {line}: {error}", _CSV_HELP) from None
        name = "" if title.lower() in (*_MICROSECONDS, *_SECONDS) else title[:40]
        series.append(Series(source, "CSV", name, operation or "transfer", tuple(points), ranks))
    return series


FORMATS: dict[str, tuple[Callable[[str], object], Reader]] = {
    "nccl-tests": (_NCCL_HEADER.search, _read_nccl_tests),
    "osu": (_OSU_TITLE.search, _read_osu),
    "perftest": (lambda text: _PERFTEST_RATE.search(text) or _PERFTEST_TIME.search(text), _read_perftest),
    "nvbandwidth": (
        lambda text: text.lstrip().startswith("{") and '"nvbandwidth"' in text[:4096],
        _read_nvbandwidth,
    ),
    "csv": (_is_csv, _read_csv),
}  # how each is recognized and read
