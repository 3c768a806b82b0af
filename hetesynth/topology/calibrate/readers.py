"""The output of tools that measure to ``Series``: each file by the first reader that recognizes it."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

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
    remarks: tuple[str, ...] = ()  # where the file contradicts itself or what was asked for

    @property
    def title(self) -> str:
        """The text ``file: name``."""
        return f"{self.source}: {self.name}" if self.name else self.source


Row = tuple[int, float, float]  # line, size, seconds


class Read(NamedTuple):
    """A series as a reader finds it in one file."""

    name: str
    operation: Operation | None
    ranks: int | None
    rows: Iterable[Row]
    remarks: tuple[str, ...] = ()


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
        for name, goal, number, rows, remarks in read[1](text, source, operation, ranks):
            goal = goal or operation or "transfer"
            points = tuple(Point(size, time, at) for at, size, time in rows if size > 0 and time > 0)
            series.append(
                Series(source, read[0], name, goal, points, None if goal in PAIRWISE else number, remarks)
            )
        if not any(one.points for one in series):
            raise ValueError("there is no row of a table", "give the whole output, with its header")
    except (ValueError, JsonRefused) as error:
        what, help_ = [*map(str, error.args), "check the table, or give the tool's whole output"][:2]
        raise HetesynthError(f"{source}: {visible(what)}", code="HS841", help=help_) from None
    return [one for one in series if one.points]


def _columns(text: str, width: int, column: int) -> Iterator[Row]:
    """Yield size and value of each line with ``width`` words or more and a value above 0."""
    for at, line in enumerate(text.splitlines(), 1):
        words = line[:4096].split()
        if len(words) >= width and words[0][0] != "#" and (value := _number(words[column])) > 0:
            yield at, _number(words[0]), value


def _number(word: str) -> float:
    """Return a number from the usual notations; 0 if the text is none."""
    value = float(word) if _NUMBER.fullmatch(word) else 0.0
    return value if math.isfinite(value) else 0.0


def _size(word: str) -> float:
    """Return the bytes of ``4096``, ``64K`` or ``16MiB`` (powers of 1024, as in these tools); 0 for no size."""
    match = _SIZE.fullmatch(word)
    return float(match[1]) * 1024.0 ** " kmgt".index((match[2] or " ").lower()) if match else _number(word)


_PROGRAM = re.compile(
    r"(?<![a-z])(all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|broadcast|all[_-]?to[_-]?all|send[_-]?recv|gather"
    r"|scatter|reduce)(_perf)?(?![a-z])",
    re.IGNORECASE,
)
_NCCL_RANK = re.compile(r"#\s+Rank\s+(\d{1,6})\b")
_NCCL_PROCESS = re.compile(r"nThread (\d{1,6}) nGpus (\d{1,6})\b")
_NCCL_HEADER = re.compile(r"(?m)^.{0,200}?#[ \t]*((?:size[ \t]+count|bytes[ \t]+N)[ \t]+type[ \t].*)$")
_NCCL_ROW = re.compile(r"(\d{1,18})\s+\d{1,18}\s+[a-z][a-z0-9_]{1,15}\s+(?:[a-z][a-z_]{1,15}\s+)?([-\d].*)")
"""Size, count, type, the reduction where it is printed, and what follows."""
_NCCL_ERROR = re.compile(
    r"NCCL WARN .*|Test (NCCL|CUDA) failure.*|(CUDA|HIP) error.*|Invalid number of GPUs.*|.*(?i:segmentation fault"
    r"|bus error|MPI_ABORT|mpirun noticed|exited on signal|srun: error|out of memory|error while loading).*"
)
_NCCL_RUN = re.compile(r"nThread \d+ nGpus \d+|Test (NCCL|CUDA) failure")
_NCCL_JSON = re.compile(r'\s*\{"version":\d+,"start_time":')
_ALLOWED = {"#wrong": 0.0, "error": 0.1, "res": 0.1}
"""Of the column that tells wrong values: their number, before 2022 the largest difference; N/A: not checked."""
_NAMED_RANKS = re.compile(r"(?<![a-z0-9])(\d{1,6})[-_]?(?:ranks?|r|gpus?)(?![a-z0-9])", re.IGNORECASE)
_RATIOS = {"allreduce": (1.0, 2.0), **dict.fromkeys(("broadcast", "reduce", "transfer"), (1.0, 1.0))}
"""Least and most bus over algorithm bandwidth, else (n - 1) / n."""


@dataclass(frozen=True, slots=True)
class _NcclRow:
    """``algorithm`` and ``bus`` in GB/s as printed; ``right``: no value was wrong."""

    line: int
    size: float
    seconds: float
    algorithm: float
    bus: float
    right: bool


_Table = tuple[str, dict[str, list[_NcclRow]]]
"""What is printed around a table of nccl-tests, and its rows out of place and in place."""


def _read_nccl_tests(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """Yield two series for each table, out of place and in place, without rows of wrong values."""
    tables = [_nccl_json(text)] if _NCCL_JSON.match(text) else [*_nccl_tables(text)]
    tables = [table for table in tables if any(table[1].values())]
    if not tables:
        said = _NCCL_ERROR.search(text)
        why = f"the run ended with: {said[0].strip()[:200]}" if said else "there is no row of a table"
        raise ValueError(why, "give the whole output of a run that ended well")
    for around, places in tables:
        rows = [row for place in places.values() for row in place]
        if not any(row.right for row in rows):
            raise ValueError("all rows have wrong values", "find out what computes wrongly, and measure again")
        fastest = max(rows, key=lambda row: row.algorithm)
        goal, number, remarks = _nccl_told(around, Path(source).name, fastest, operation, ranks)
        for place, printed in places.items():
            name = place if len(tables) == 1 else f"{place}, line {rows[0].line}"
            points = ((row.line, row.size, row.seconds) for row in printed if row.right)
            yield Read(name, goal, number, points, remarks)


def _nccl_tables(text: str) -> Iterator[_Table]:
    """Yield the tables of a log. Text before a row is the prefix of a launcher."""
    headers, lines = [*_NCCL_HEADER.finditer(text)], text.split("\n")
    begins = [text.count("\n", 0, header.start()) for header in headers]
    for header, before, begin, end in zip(headers, [0, *begins], begins, [*begins[1:], len(lines)], strict=False):
        words = header[1].split()
        if "time" not in words:
            help_ = "run without -C" if "cputime" in words else "give the whole header"
            raise ValueError("the table has no times of the collective", help_)
        first = words.index("time")
        starts = [at - first for at, word in enumerate(words) if word == "time"]
        allowed = _ALLOWED.get(" ".join(words[first + 3 : first + 4]), math.inf)
        unit = 1e-3 if words[0] == "bytes" else 1e-6  # of 2017: milliseconds
        places: dict[str, list[_NcclRow]] = {}
        titles = "\n".join(lines[max(0, begin - 1) : begin + 1])
        only = "in place" if "in-place" in titles and "out-of-place" not in titles else "out of place"
        for start, place in zip(starts, (only, "in place"), strict=False):
            rows = places[place] = []
            for at in range(begin, end):
                row = _NCCL_ROW.search(lines[at][:4096])
                cells = row[2].split()["root" in words :][start:] if row else []
                if row and len(cells) >= 3 and (time := _number(cells[0])) > 0:
                    right = len(cells) < 4 or _number(cells[3]) <= allowed
                    rates = _number(cells[1]), _number(cells[2])
                    rows.append(_NcclRow(at + 1, _number(row[1]), time * unit, *rates, right))
        around = lines[before:begin] if len(headers) > 1 else lines
        yield "\n".join(around), places


def _nccl_json(text: str) -> _Table:
    """Return the table in the JSON file that nccl-tests write with ``--output_file``."""
    document = read_json(text.encode(), max_depth=12, max_digits=20)
    places: dict[str, list[_NcclRow]] = {"out of place": [], "in place": []}
    try:
        config = document["config"]
        around = f"{' '.join(document['args'])}\nnThread {config['nthreads']} nGpus {config['ngpus']}\n"
        around += "".join(f"#  Rank {device['rank']}\n" for device in config["devices"])
        for result in document["results"]:
            for place, rows in places.items():
                cells = result[place.replace(" ", "_")]
                if cells is not None and "time" in cells:
                    time, *rates = (_number(str(cells[word])) for word in ("time", "alg_bw", "bus_bw"))
                    right = not cells["nwrong"]
                    rows.append(_NcclRow(0, _number(str(result["size"])), time * 1e-6, rates[0], rates[1], right))
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the JSON is not what nccl-tests writes", "give the table that it prints") from None
    return around, places


def _nccl_told(
    around: str, file: str, fastest: _NcclRow, operation: Operation | None, ranks: int | None
) -> tuple[Operation, int | None, tuple[str, ...]]:
    """Return the collective, its ranks and where sources disagree.

    The caller goes first, then what agrees with bus over algorithm bandwidth, which the program counts itself.
    """
    least, most = _nccl_ratio(fastest)
    if most < 0.4:
        raise ValueError("the bus bandwidth is that of one rank", "build nccl-tests with MPI=1 to use several")
    programs = [*_PROGRAM.finditer(around)]
    named = [match for match in programs if match[2]] or [*_PROGRAM.finditer(file)] or programs
    name = re.sub("[_-]", "", named[-1][1]).lower() if named else None
    goal = operation or cast("Operation | None", "transfer" if name == "sendrecv" else name)
    remarks = []
    lowest, highest = _RATIOS.get(goal or "", (0.5, 1.0))
    if goal is None or lowest > most or least > highest:
        if goal is not None:
            ratio = fastest.bus / max(fastest.algorithm, 1e-9)
            remarks.append(f"bus is {ratio:.3f} of algorithm bandwidth, as no {goal} has it")
        goal = operation or ("allreduce" if least > 1 else None)
    if goal is None:
        why = [*remarks, "the table does not say which collective it is"][0]
        raise ValueError(why, "add --operation allreduce (or ...)")
    few, many = 1.0, math.inf
    if goal not in ("broadcast", "reduce", *PAIRWISE):
        shares = [ratio / _RATIOS.get(goal, (0.5, 1.0))[1] for ratio in (least, most)]
        few, many = (1 / (1 - share) if share < 1 else math.inf for share in shares)
    only = [n for step in (1, 8) if many < 1e6 for n in [int(many // step) * step] if n >= few > n - step]
    of_file, process = _NAMED_RANKS.search(file), _NCCL_PROCESS.search(around)
    listed = len(set(_NCCL_RANK.findall(around)))
    said = {"the list of devices": listed, "the file's name": int(of_file[1]) if of_file else 0}
    said = {who: n for who, n in said.items() if n > 1}
    one = int(process[1]) * int(process[2]) if process else 1  # of one process, of which there may be several
    agreeing = [n for n in said.values() if few <= n <= many]
    told = next((n for n in (ranks, *agreeing, *only, *said.values(), one) if n and n > 1), None)
    if told is not None:
        remarks += [f"{who} says {n} ranks, taken are {told}" for who, n in said.items() if n != told]
        if one > 0 and told % one:
            remarks.append(f"a process has {one} GPUs, taken are {told} ranks")
        if not few <= told <= many:
            remarks.append(f"both bandwidths are those of about {few:.3g} ranks, taken are {told}")
    return goal, told, tuple(remarks)


def _nccl_ratio(row: _NcclRow) -> tuple[float, float]:
    """Return the least and the most that bus over algorithm bandwidth can be before both were rounded."""
    off = [0.0051 if rate < 1000 else 0.051 for rate in (row.algorithm, row.bus)]
    most = (row.bus + off[1]) / (row.algorithm - off[0]) if row.algorithm > off[0] else math.inf
    return max(0.0, row.bus - off[1]) / (row.algorithm + off[0]), most


_OSU_TITLE = re.compile(r"#\s*OSU\s+(?P<what>[^\n]*?)(?:\s+(?:Latency|Bandwidth))?\s+Test(?:\s+v\S{1,20})?")
_OSU_COLLECTIVES: dict[str, Operation] = {
    **{operation: operation for operation in OPERATIONS if operation not in (*PAIRWISE, "reducescatter")},
    **dict.fromkeys(("reduce_scatter", "reduce-scatter"), "reducescatter"),
    **dict.fromkeys(("all-to-all", "all-to-all personalized exchange"), "alltoall"),
    "bcast": "broadcast",
    **dict.fromkeys(("", "latency", "d2d", "multi latency"), "transfer"),
}


def _read_osu(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """Yield the table of OSU as a series: a latency test is one transfer at a time, a bandwidth test a stream.

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
    yield Read(what[:40], goal, ranks, rows)


_PERFTEST = re.compile(r"#bytes\s+#iterations\s+(?:BW peak\[(?P<unit>MB|MiB|Gb)/sec\]|t_min\[usec\])")
_PERFTEST_UNITS = {"MB": 2.0**20, "MiB": 2.0**20, "Gb": 1e9 / 8}  # MB/sec of these tools is 2^20 bytes a second


def _read_perftest(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """Yield the table of perftest: streams (by the average rate) or transfers (by the typical time)."""
    header = _PERFTEST.search(text)
    if header and header["unit"]:
        unit = _PERFTEST_UNITS[header["unit"]]
        rates = ((at, size, size / (rate * unit)) for at, size, rate in _columns(text, 4, 3))
        yield Read("bandwidth", operation or "stream", ranks, rates)
    else:
        times = ((at, size, time * 1e-6) for at, size, time in _columns(text, 5, 4))
        yield Read("latency", operation or "transfer", ranks, times)


def _read_nvbandwidth(text: str, source: str, operation: Operation | None, ranks: int | None) -> list[Read]:
    """Return a series of streams for each matrix of GB/s between devices, with a point for each pair."""
    document, series = read_json(text.encode(), max_depth=12, max_digits=18), list[Read]()
    try:
        for case in document["nvbandwidth"]["testcases"]:
            name, passed = case["name"], case.get("status", "Passed") == "Passed"
            if not passed or "device_to_device" not in name or "bidirectional" in name or "latency" in name:
                continue
            cells = [_number(str(cell)) for row in case["bandwidth_matrix"] for cell in row]
            rows = [(0, _NVBANDWIDTH_BUFFER, _NVBANDWIDTH_BUFFER / (r * 1e9)) for r in cells if r > 0]
            series.append(Read(name[:60], "stream", None, rows))
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
    """Return the rows of a CSV and their line numbers from 1; separators are those of the first line."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1)]
    lines = [(n, line) for n, line in lines if line.strip() and line.lstrip()[0] != "#"]
    mark = max(",;\t", key=lines[0][1].count) if lines else ","
    return [(n, [cell.strip().strip('"') for cell in line.split(mark)]) for n, line in lines]


def _is_csv(text: str) -> bool:
    """Return True if the first line has several cells, one of which names a size, or two numbers."""
    cells = next((cells for _, cells in _cells(text[:4096])), [])
    two = len(cells) == 2 and _size(cells[0]) > 0 and _number(cells[1]) > 0
    return two or (1 < len(cells) <= 64 and any(cell.lower() in _SIZES for cell in cells))


def _read_csv(text: str, source: str, operation: Operation | None, ranks: int | None) -> Iterator[Read]:
    """Yield a series for each column of times beside the sizes; without a header, size and microseconds."""
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
        name = "" if title.lower() in (*_MICROSECONDS, *_SECONDS) else title[:40]
        yield Read(name, None, ranks, points)


FORMATS: dict[str, tuple[str, Callable[[str], object], Reader]] = {
    "nccl-tests": (
        "nccl-tests",
        lambda text: _NCCL_HEADER.search(text) or _NCCL_RUN.search(text) or _NCCL_JSON.match(text),
        _read_nccl_tests,
    ),
    "osu": ("OSU", _OSU_TITLE.search, _read_osu),
    "perftest": ("perftest", _PERFTEST.search, _read_perftest),
    "nvbandwidth": (
        "nvbandwidth",
        lambda text: text.lstrip().startswith("{") and '"nvbandwidth"' in text[:4096],
        _read_nvbandwidth,
    ),
    "csv": ("CSV", _is_csv, _read_csv),
}  # the tool, how its output is recognized and read
