"""The output of tools that measure to ``Series``: each file by the first reader that recognizes it."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.strict_json import JsonRefused, read_json
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
MAX_LINES = 100_000
_NVBANDWIDTH_BUFFER = 512 << 20  # the tool's default, as the file does not say
_NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,3})?")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Point:
    """``size`` bytes (as in ``model/cost.py``) took ``seconds``; ``line`` of the file, 0 where it has none."""

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
    """The points of one operation under the same conditions, in the order of the file."""

    source: str
    tool: str
    name: str  # tells series of one file apart (out of place, a column)
    operation: Operation
    points: tuple[Point, ...]
    ranks: int | None = None  # where the tool says

    @property
    def title(self) -> str:
        """``file: name``."""
        return f"{self.source}: {self.name}" if self.name else self.source


Row = tuple[int, float, float]  # line, size, seconds
Read = tuple[str, "Operation | None", "int | None", "Iterable[Row]"]  # name, operation, ranks, rows of a series
Reader = Callable[[str, str, "Operation | None", "int | None"], "Iterable[Read]"]


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
    """Return the series in ``content``; ``operation`` and ``ranks`` go before what the text says.

    A reader says what is wrong, and the way out, by ValueError. Rows without a size or a time are passed over.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if len(content) > MAX_FILE_BYTES or text.count("\n") > MAX_LINES or "\0" in text:
        what = f"{source} is no text, or larger than {MAX_FILE_BYTES >> 20} MiB or {MAX_LINES} lines"
        raise HetesynthError(what, code="HS840", help="give the table alone")
    read = next(((tool, read) for tool, recognizes, read in FORMATS.values() if recognizes(text)), None)
    if read is None:
        help_ = f"formats: {', '.join(FORMATS)}; a CSV is `size,us`"
        raise HetesynthError(f"{source} is no measurement that is read here", code="HS842", help=help_)
    series = []
    try:
        for name, goal, number, rows in read[1](text, source, operation, ranks):
            goal = goal or operation or "transfer"
            points = tuple(Point(size, time, at) for at, size, time in rows if size > 0 and time > 0)
            series.append(Series(source, read[0], name, goal, points, None if goal in PAIRWISE else number))
        if not any(one.points for one in series):
            raise ValueError("there is no row of a table", "give the whole output, with its header")
    except (ValueError, JsonRefused) as error:
        what, help_ = [*map(str, error.args), "check the table, or give the tool's whole output"][:2]
        raise HetesynthError(f"{source}: {visible(what)}", code="HS841", help=help_) from None
    return [one for one in series if one.points]


def _columns(text: str, width: int, column: int) -> Iterator[Row]:
    """Size and value of the lines with ``width`` words or more, those without a value above 0 aside."""
    for at, line in enumerate(text.splitlines(), 1):
        words = line[:4096].split()
        if len(words) >= width and words[0][0] != "#" and (value := _number(words[column])) > 0:
            yield at, _number(words[0]), value


def _number(word: str) -> float:
    """A number in the usual notations; 0 where it is none."""
    value = float(word) if _NUMBER.fullmatch(word) else 0.0
    return value if math.isfinite(value) else 0.0


def _size(word: str) -> float:
    """Bytes: ``4096``, ``64K``, ``1M``, ``16MiB`` (powers of 1024, as these tools print them); 0 for none."""
    match = _SIZE.fullmatch(word)
    return float(match[1]) * 1024.0 ** " kmgt".index((match[2] or " ").lower()) if match else _number(word)


_NAMES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "gather", "scatter", "reduce")
_PROGRAMS = {name: cast(Operation, name.replace("_", "")) for name in _NAMES} | {"sendrecv": "transfer"}
_NCCL_RANK = re.compile(r"#\s+Rank\s+(\d{1,6})\b")
_NCCL_HEADER = re.compile(r"(?m)^(?P<prefix>.{0,200}?)#\s*size\s+count\s+type.*$")
_NCCL_ROW = re.compile(r"\d{1,18}\s+\d{1,18}\s+[a-z][a-z0-9_]{1,15}\s.*")
_NCCL_ERROR = re.compile(
    r"NCCL WARN .*|Test (NCCL|CUDA) failure.*|CUDA error.*|.*(Segmentation fault|MPI_ABORT|srun: error).*"
)
_WRONG = ("#wrong", "error")
"""Titles of the columns of values that were wrong: a count, or the largest error, of which N/A is not checked."""
_LARGEST_ERROR = 0.1


def _read_nccl_tests(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """A series for each ``time`` of the header, which begins a group: time, algbw, busbw, wrong if checked.

    What stands before a row is the prefix of a launcher. The operation is the caller's, else that of the program's
    name in the text, else of the file's name, else what the ratio of both bandwidths tells; the ranks are the
    caller's, else those listed, else those of that ratio. Rows with wrong values are no measurement.
    """
    match = _NCCL_HEADER.search(text)
    header = match[0][len(match["prefix"]) :].lstrip("# ").split() if match else []
    starts = [place for place, word in enumerate(header) if word == "time"]
    rows = [
        (at, row[0].split())
        for at, line in enumerate(text.splitlines(), 1)
        if (row := _NCCL_ROW.search(line[:4096])) is not None
    ]
    rows = [(at, words) for at, words in rows if len(words) >= starts[0] + 3]
    if not rows:
        said = _NCCL_ERROR.search(text)
        why = f"the run ended with: {said[0].strip()[:200]}" if said else "there is no row of a table"
        raise ValueError(why, "give the whole output of a run that ended well")
    for said_in in (text, Path(source).name):
        named = (named for program, named in _PROGRAMS.items() if re.search(rf"\b{program}(_perf)?\b", said_in))
        operation = operation or next(named, None)
    largest = max((_number(words[starts[0] + 1]), _number(words[starts[0] + 2])) for _, words in rows)
    ratio = largest[1] / largest[0] if largest[0] >= 1 else 0.0
    if operation is None and 1.005 < ratio < 2:
        operation = "allreduce"
    if operation is None:
        raise ValueError("the table does not say which collective it is", "add --operation allreduce (or ...)")
    devices = len(set(_NCCL_RANK.findall(text)))
    told = devices if devices > 1 else _ranks_of(operation, ratio)
    for place, start in enumerate(starts):
        named_column = header[start + 3] if len(header) > start + 3 else ""
        wrong = start + 3 if named_column in _WRONG else None
        right = ((at, words) for at, words in rows if wrong is None or _is_right(words, wrong, named_column))
        points = (
            (at, _number(words[0]), _number(words[start]) * 1e-6) for at, words in right if len(words) > start
        )
        yield ("out of place", "in place")[place % 2], operation, ranks or told, points


def _is_right(words: Sequence[str], wrong: int, title: str) -> bool:
    """True where the values of a row were right, or not checked."""
    value = _number(words[wrong]) if len(words) > wrong else 0.0
    return value == 0.0 if title == "#wrong" else value <= _LARGEST_ERROR


def _ranks_of(operation: Operation, ratio: float) -> int | None:
    """Return of how many ranks bus over algorithm bandwidth is ``ratio``; None where that does not tell."""
    share = ratio / 2 if operation == "allreduce" else ratio
    if operation in ("transfer", "stream", "broadcast", "reduce") or not 0.45 < share < 0.998:
        return None
    return round(1 / (1 - share))


_OSU_TITLE = re.compile(r"#\s*OSU\s+(?P<what>[^\n]*?)(?:\s+(?:Latency|Bandwidth))?\s+Test(?:\s+v\S{1,20})?")
_OSU_COLLECTIVES: dict[str, Operation] = {
    **{operation: operation for operation in OPERATIONS if operation not in (*PAIRWISE, "reducescatter")},
    **dict.fromkeys(("reduce_scatter", "reduce-scatter"), "reducescatter"),
    **dict.fromkeys(("all-to-all", "all-to-all personalized exchange"), "alltoall"),
    "bcast": "broadcast",
    **dict.fromkeys(("", "latency", "d2d", "multi latency"), "transfer"),
}


def _read_osu(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """The table: a latency test is one transfer at a time, a bandwidth test a stream.

    Of collectives the size is that of one rank's block, which here becomes that of the largest buffer.
    """
    title = _OSU_TITLE.search(text)
    what = re.sub(r"^(MPI|NCCL|RCCL|OSHM|UPC)\S*\s*", "", title["what"] if title else "").strip().lower()
    bandwidth = re.search(r"#\s*Size\s+Bandwidth \(MB/s\)", text) is not None
    goal = operation or ("stream" if bandwidth else _OSU_COLLECTIVES.get(what))
    if goal is None:
        raise ValueError(f"no test of OSU that is read here: {what[:60]!r}", "name it with --operation")
    factor = ranks if goal in ("allgather", "alltoall", "gather", "scatter") else 1
    if factor is None:
        raise ValueError("OSU gives the size of one block, not how many there are", "add --ranks N")
    directions = 2 if "bi-directional" in what else 1  # the sum of both is shown
    rows = (
        (at, size * factor, (size / (value * 1e6) if bandwidth else value * 1e-6) * directions)
        for at, size, value in _columns(text, 2, 1)
    )
    yield what[:40], goal, ranks, rows


_PERFTEST = re.compile(r"#bytes\s+#iterations\s+(?:BW peak\[(?P<unit>MB|MiB|Gb)/sec\]|t_min\[usec\])")
_PERFTEST_UNITS = {"MB": 2.0**20, "MiB": 2.0**20, "Gb": 1e9 / 8}  # MB/sec of these tools is 2^20 bytes a second


def _read_perftest(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """The table, of streams (by the average rate) or of transfers (by the typical time)."""
    header = _PERFTEST.search(text)
    if header and header["unit"]:
        unit = _PERFTEST_UNITS[header["unit"]]
        rates = ((at, size, size / (rate * unit)) for at, size, rate in _columns(text, 4, 3))
        yield "bandwidth", operation or "stream", ranks, rates
    else:
        times = ((at, size, time * 1e-6) for at, size, time in _columns(text, 5, 4))
        yield "latency", operation or "transfer", ranks, times


def _read_nvbandwidth(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Read]:
    """A series of streams for each matrix of GB/s that passed between devices, a point for each pair."""
    document, series = read_json(text.encode(), max_depth=12, max_digits=18), list[Read]()
    try:
        for case in document["nvbandwidth"]["testcases"]:
            name, passed = case["name"], case.get("status", "Passed") == "Passed"
            if not passed or "device_to_device" not in name or "bidirectional" in name or "latency" in name:
                continue
            cells = [_number(str(cell)) for row in case["bandwidth_matrix"] for cell in row]
            rows = [(0, _NVBANDWIDTH_BUFFER, _NVBANDWIDTH_BUFFER / (r * 1e9)) for r in cells if r > 0]
            series.append((name[:60], "stream", None, rows))
    except (KeyError, TypeError, AttributeError):
        series = []
    if not series:
        help_ = "run nvbandwidth -j -t device_to_device_memcpy_write_ce (or ..._sm)"
        raise ValueError("no case that passed copies between devices", help_)
    return series


_SIZES = ("size", "bytes", "size_bytes", "message_size", "n")
_MICROSECONDS = ("us", "microseconds", "time_us", "time", "usec", "latency_us")
_SECONDS = ("s", "seconds", "time_s")


def _cells(text: str) -> list[tuple[int, list[str]]]:
    """The rows of a CSV, whose marks are those of its first line, with the numbers of their lines, from 1."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1)]
    lines = [(n, line) for n, line in lines if line.strip() and line.lstrip()[0] != "#"]
    mark = max(",;\t", key=lines[0][1].count) if lines else ","
    return [(n, [cell.strip().strip('"') for cell in line.split(mark)]) for n, line in lines]


def _is_csv(text: str) -> bool:
    """A first line of several cells of which one names a size, or two numbers."""
    cells = next((cells for _, cells in _cells(text[:4096])), [])
    two = len(cells) == 2 and _size(cells[0]) > 0 and _number(cells[1]) > 0
    return two or (1 < len(cells) <= 64 and any(cell.lower() in _SIZES for cell in cells))


def _read_csv(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """A series for each column of times beside that of sizes; without a header size and microseconds."""
    rows = _cells(text)
    titles = ["size", "us"]
    if any(cell.lower() in _SIZES for cell in rows[0][1]):
        titles, rows = rows[0][1], rows[1:]
    at = next(i for i, title in enumerate(titles) if title.lower() in _SIZES)
    for column, title in enumerate(titles):
        factor = 1.0 if title.lower() in _SECONDS else 1e-6
        points = []
        for line, row in rows if column != at else ():
            size, time = (_size(row[at]), _number(row[column])) if len(row) > max(at, column) else (0.0, 0.0)
            if size <= 0 or time <= 0:
                help_ = "write a header such as `size,us`, then rows such as `64K,12.5`"
                raise ValueError(f"line {line} has no size and time in column {column + 1}", help_)
            points.append((line, size, time * factor))
        yield "" if title.lower() in (*_MICROSECONDS, *_SECONDS) else title[:40], None, ranks, points


FORMATS: dict[str, tuple[str, Callable[[str], object], Reader]] = {
    "nccl-tests": ("nccl-tests", _NCCL_HEADER.search, _read_nccl_tests),
    "osu": ("OSU", _OSU_TITLE.search, _read_osu),
    "perftest": ("perftest", _PERFTEST.search, _read_perftest),
    "nvbandwidth": (
        "nvbandwidth",
        lambda text: text.lstrip().startswith("{") and '"nvbandwidth"' in text[:4096],
        _read_nvbandwidth,
    ),
    "csv": ("CSV", _is_csv, _read_csv),
}  # the tool, how its output is recognized and read
