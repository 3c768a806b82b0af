"""A cell as it stands in a folder, its programs, and which of them runs in a call."""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.cost import bandwidths, runtime_bytes
from hetesynth.model.plan import OPEN_MAX_BYTES, Plan
from hetesynth.model.program import Program
from hetesynth.model.target import TARGETS, Target
from hetesynth.model.topology import Rank

WORD = 16  # bytes of which plans and tests move whole numbers only
_TEXTS, _FLAGS = ("name", "title", "collective", "protocol"), ("in_place", "out_of_place")
ELEMENT = 4  # bytes of a float, the type of elements in tests
INSTEAD_OF = "instead_of"
"""The field of the record of an older cell that stays: the record of the newer one, not deployed."""
MEASURED_ON = "measured_on"  # of the same record: the SHA-256 of the cluster that its times are of
ODD = "the index of the folder was changed: remove the folder and build again"
MAX_TEXT = 4000
MOST = 2**63
MAX_SIZES = 64  # each is simulated anew; a build writes three
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,255}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NUMBERS = (
    *("program_us", "limit_us", "percent_of_limit", "percent_of_tree_limit"),
    *("library_us", "factor_over_library"),
)
_NEEDED = {"collective", "ranks", "sizes", "files"}


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A program. ``name``: of its file; ``title``: its own. ``in_place``, ``out_of_place``: the forms of calls
    that it is for. ``min_bytes``, ``max_bytes``: of calls as the runtime counts, both included, 0: no limit.
    ``chunks``: into which the runtime cuts what it counts; ``input_chunks``, ``output_chunks``: into which it cuts
    the buffers of a rank (0: it does not). ``scratch``: most scratch chunks of a rank."""

    name: str
    title: str
    collective: CollectiveName
    ranks: int
    root: Rank | None
    in_place: bool
    out_of_place: bool
    min_bytes: int
    max_bytes: int
    chunks: int
    channels: int
    scratch: int
    protocol: str
    input_chunks: int = 0
    output_chunks: int = 0

    def __post_init__(self) -> None:
        if self.chunks < 1 or self.ranks < 1 or not (self.in_place or self.out_of_place):
            raise ValueError(f"{self.name}: a program has chunks, ranks and a form")

    @property
    def unit(self) -> int:
        """A number of bytes. The runtime takes the program for whole buffers of a multiple of these bytes, inside
        its range, whatever the type of their elements; every rank's block then is one of whole words."""
        blocks = self.ranks if self.collective in ("gather", "scatter") else 1
        sent = self.input_chunks * (self.ranks if self.collective in ("allgather", "gather") else 1)
        received = self.output_chunks * (self.ranks if self.collective in ("reducescatter", "scatter") else 1)
        return WORD * math.lcm(*(part for part in (self.ranks, self.chunks * blocks, sent, received) if part))

    def takes(self, counted: int) -> bool:
        """True where calls of ``counted`` bytes are in its range."""
        return self.min_bytes <= counted <= (self.max_bytes or counted)

    def fits(self, size: int, element: int = ELEMENT) -> bool:
        """True where its runtime gives it a call of ``size`` bytes of the whole buffer, of elements of ``element``
        bytes, whose buffers it then cuts as the program does."""
        counted, block = runtime_bytes(self.collective, self.ranks, size), size // self.ranks
        if not self.takes(counted):
            return False
        if not self.input_chunks:
            return counted % element == 0 and (counted // element) % self.chunks == 0
        sent = block if self.collective in ("allgather", "gather") else size
        received = block if self.collective in ("reducescatter", "scatter") else size
        return sent % (WORD * self.input_chunks) == 0 and received % (WORD * self.output_chunks) == 0


def of_record(values: dict[str, Any]) -> ProgramFile:
    """Return the program with the fields ``values``. Raises ValueError if they are not those of a program."""
    for name, value in values.items():
        kind = str if name in _TEXTS else bool if name in _FLAGS else int
        if type(value) is not kind and (name, value) != ("root", None):
            raise ValueError(f"{name}: {value!r} is no {kind.__name__}")
    try:
        return ProgramFile(**values)
    except TypeError:
        raise ValueError("a program in its record has other fields than a build writes") from None


def program_at(programs: Sequence[ProgramFile], counted: int, calls: tuple[int, int]) -> str | None:
    """Return the name of the program that runs out of place for ``counted`` bytes, or for the nearest of
    ``calls``, the first and the last (0: none); None: the library's own runs."""
    least, most = calls
    counted = max(least, min(counted, most) if most else counted)
    return next((p.name for p in programs if p.out_of_place and p.takes(counted)), None)


def program_file(name: str, data: bytes, target: Target, root: Rank | None) -> ProgramFile:
    """Return the program in ``data`` as it describes itself. Raises InternalError where there is none."""
    from hetesynth.judge.msccl.reader import read_program
    from hetesynth.judge.mscclpp.reader import read_plan_json
    from hetesynth.judge.tables.reader import read_table

    read: Program | Plan | None
    collective: CollectiveName | None
    if target.format.table:
        table = read_table(data, name)
        inputs, outputs = (math.lcm(*(s[side] for s in table.sizes if s[side])) for side in (0, 1))
        meant = name, table.name, table.collective, table.ranks, table.root
        forms = table.in_place, True
        scratch = max(row[2] for row in table.sizes)
        sizes = table.min_bytes, table.max_bytes
        return ProgramFile(*meant, *forms, *sizes, 1, 0, scratch, "Simple", inputs, outputs)
    if target.format.plan:
        read = read_plan_json(data, name)
        collective = next((c for c in COLLECTIVE_NAMES if c == read.collective), None)
        # the runtime compares `max_bytes` with the message of each rank, which of a scatter is all blocks at the
        # root and one elsewhere; ranges of cells count one block
        messages = [gpu.output_chunks if collective == "allgather" else gpu.input_chunks for gpu in read.gpus]
        most = 0 if read.max_bytes == OPEN_MAX_BYTES else -(-read.max_bytes * min(messages) // max(messages))
        out_of_place, chunks, channels = not read.in_place, 1, 0
        cuts = [math.lcm(*(getattr(gpu, side) for gpu in read.gpus)) for side in ("input_chunks", "output_chunks")]
    elif (read := read_program(data, name).program) is not None:
        collective, root = read.collective, read.root
        most = 0 if read.max_bytes == target.open_max_bytes else read.max_bytes - (not target.max_bytes_inclusive)
        out_of_place, chunks, channels, cuts = read.out_of_place, read.chunks_per_loop, read.channels, [0, 0]
    if read is None or collective is None:
        raise InternalError(f"{name}: there is no program of a collective in its file")
    meant = name, read.name, collective, read.ranks, root
    calls = read.in_place, out_of_place, read.min_bytes, most
    scratch = max((gpu.scratch_chunks for gpu in read.gpus), default=0)
    return ProgramFile(*meant, *calls, chunks, channels, scratch, read.protocol, *cuts)


def check_selection(cells: Sequence[tuple[str, Sequence[ProgramFile]]], target: Target) -> None:
    """Check that each call has one program at most, of the cell that is meant for it. Raises HetesynthError HS870
    where two cells, or two files of one, are meant for the same calls, or two plans have one name."""
    every = [(cell, program) for cell, programs in cells for program in programs]
    for place, (cell, program) in enumerate(every):
        for other_cell, other in every[:place]:
            ranges = program.takes(other.min_bytes) or other.takes(program.min_bytes)
            forms = (program.in_place and other.in_place) or (program.out_of_place and other.out_of_place)
            same = (program.collective, program.ranks) == (other.collective, other.ranks)
            roots = target.tells_roots and program.collective in ROOTED and program.root != other.root
            if not (ranges and forms and same) or roots:
                continue
            message = f"{other_cell} and {cell} are for the same calls, of which a runtime gives all to one"
            help_ = "give them sizes that do not overlap, or leave one out"
            if cell == other_cell:
                message, help_ = f"{cell}: {program.name} and {other.name} are for the same calls", ODD
            raise HetesynthError(message, code="HS870", help=help_)
    titles = [(program.collective, program.title) for _, program in every]
    if target.format.plan and len(set(titles)) < len(titles):
        message = "two plans of one folder have the same name, by which the runtime keeps them apart"
        raise HetesynthError(message, code="HS870", help=ODD)


def is_plain_name(name: object) -> bool:
    """True for the name of a file beside others: one component of letters, digits, dots, ``-`` and ``_``."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_sha256(text: object) -> bool:
    """True for 64 lower-case hexadecimal digits."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def check_record(record: object) -> None:
    """Raise ValueError unless ``record`` is one of a cell. Fields that nobody reads may be anything."""
    if not isinstance(record, dict):
        raise ValueError("it has no record")
    for name in _NEEDED - record.keys():
        raise ValueError(f"its record has no {name}")
    for name, holds in _FIELDS.items():
        if name in record and not holds(record[name]):
            raise ValueError(f"{name} in its record is not what a build writes")
    for row in record.get("programs", []):
        of_record(row)
    if INSTEAD_OF in record:
        if INSTEAD_OF in record[INSTEAD_OF]:
            raise ValueError(f"{INSTEAD_OF} in its record is not what a build writes")
        check_record(record[INSTEAD_OF])


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_figure(value: Any) -> bool:
    """Return True for a text, a flag, a finite number or None."""
    return value is None or _is_text(value) or (isinstance(value, int | float) and abs(value) < MOST)


def _is_size(row: Any) -> bool:
    if not _by_name(_is_text, _is_figure)(row) or not _is_count(row.get("size")) or row["size"] == 0:
        return False
    return not any(isinstance(row.get(name), str | bool) for name in _NUMBERS)


def _each(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


def _by_name(is_name: Callable[[object], bool], holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(is_name(k) and holds(v) for k, v in value.items())


_FIELDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("cell", "cluster", "extent", "strategy"), _is_text),
    **dict.fromkeys(("chunks", "steps", "channels"), _is_count),
    **dict.fromkeys(("root", "lower_bound"), lambda value: value is None or _is_count(value)),
    "collective": lambda value: value in COLLECTIVE_NAMES,
    "target": lambda value: isinstance(value, str) and value in TARGETS,
    "ranks": lambda value: _is_count(value) and value > 0,
    "candidate": lambda value: value is None or _is_text(value),
    "proven_optimal": lambda value: isinstance(value, bool),
    "calls": lambda value: _each(_is_count)(value) and len(value) == 2,
    "topology_sha256": is_sha256,
    MEASURED_ON: is_sha256,
    "sizes": lambda value: _each(_is_size)(value) and len(value) <= MAX_SIZES,
    "warnings": _each(_by_name(_is_text, lambda value: _is_figure(value) or _each(_is_text)(value))),
    "programs": _each(lambda row: isinstance(row, dict)),
    "options": lambda value: isinstance(value, dict),
    "versions": _by_name(_is_text, _is_text),
    "files": _by_name(is_plain_name, is_sha256),
    INSTEAD_OF: lambda value: isinstance(value, dict),
}


@dataclass(frozen=True, slots=True)
class Expectation:
    """The simulated time of a program for ``size`` bytes of the whole buffer. ``test``: the nearest size for which
    its runtime takes the program, for a test; None: there is none in the range. ``library_us``: the library's
    time. ``program``: the file of the program that runs out of place."""

    size: int
    test: int | None
    us: float
    algorithm: float
    bus: float
    library_us: float | None
    program: str = ""


@dataclass(frozen=True, slots=True)
class DeployedCell:
    """A cell as it stands in a folder. ``key``: of the job it was last decided for; ``made_for``: of the job whose
    result it is, another one where an older result stays because the newer is worse. ``files``: by the names that
    the cell gave them."""

    name: str
    key: str
    made_for: str
    record: dict[str, Any]
    files: dict[str, bytes]

    @property
    def collective(self) -> CollectiveName:
        """The collective's name."""
        return next(c for c in COLLECTIVE_NAMES if c == self.record.get("collective"))

    @property
    def ranks(self) -> int:
        """The number of GPUs that take part."""
        return int(self.record["ranks"])

    @property
    def programs(self) -> tuple[ProgramFile, ...]:
        """The programs of the cell, with the fields by which the runtime selects among them."""
        return tuple(of_record(row) for row in self.record.get("programs", ()))

    def check(self) -> None:
        """Raise ValueError if the record is not one of a cell or does not match the files."""
        check_record(self.record)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        changed = [n for n in {**digests, **self.record["files"]} if digests.get(n) != self.record["files"].get(n)]
        if changed:
            raise ValueError(f"{changed[0]} was changed")
        if {program.name for program in self.programs} - self.files.keys():
            raise ValueError("its record has a program without its file")

    def expectations(self) -> tuple[Expectation, ...]:
        """The times of the program at the sizes at which it was simulated."""
        rows = []
        for row in self.record.get("sizes", ()):
            size, us = int(row["size"]), row.get("program_us")
            if not us:
                continue
            speeds = bandwidths(self.collective, self.ranks, size, us / 1e6)
            counted, calls = runtime_bytes(self.collective, self.ranks, size), self.record.get("calls", (0, 0))
            name = program_at(self.programs, counted, (calls[0], calls[1])) or ""
            stem = name.partition(".")[0]
            forms = [program for program in self.programs if program.name.partition(".")[0] == stem]
            unit = math.lcm(*(program.unit for program in forms))
            down = size // unit * unit
            # where a range ends, `size` itself may belong to the next
            near = sorted({down - unit, down, down + unit}, key=lambda n: (abs(n - size), n))
            test = next((n for n in near if n > 0 and forms and all(program.fits(n) for program in forms)), None)
            rows.append(Expectation(size, test, us, speeds.algorithm, speeds.bus, row.get("library_us"), name))
        return tuple(rows)
