"""Reader of MSCCL XML: bytes to a Program, ours or anybody's.

Steps are numbered by document order, as the runtimes do; the attribute ``s`` is only compared. Integers follow
the runtimes' C ``strtol`` with base 0, and anything but plain decimal is a finding. Elements that no runtime
knows are skipped with their content, and reported. The reader does not judge what the program does.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import read_regular
from hetesynth.judge.msccl.scan import Scanner, Tag
from hetesynth.judge.rules import RULES, Findings, Lines, violation
from hetesynth.model import column
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import BUFFERS, OPS, GpuProgram, Program, Protocol, ThreadBlock
from hetesynth.model.step_table import Steps, Table
from hetesynth.model.verdict import Violation

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_ELEMENTS = 4_000_000
MAX_DEPTH = 64
MAX_RANKS = 4096
MAX_CHUNKS = 65536
MAX_KNOWN = 100_000

_NUMBERS = ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")
_OPS: dict[str, int] = {op: number for number, op in enumerate(OPS)}
_BUFFERS: dict[str, int] = {buffer: number for number, buffer in enumerate(BUFFERS)}
_CHILD = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
_PROTOCOLS: dict[str, Protocol] = {"simple": "Simple", "ll": "LL", "ll128": "LL128"}
_OTHER_COLLECTIVES = frozenset({"custom", "send", "recv", "alltoallv"})
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_STRTOL = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,15}|0[0-7]{1,17}|[1-9][0-9]{0,17}|0)\Z")
_OCTAL = re.compile(r"\b0(?=[0-7])")
_LARGE = frozenset({"minBytes", "maxBytes"})
_WARNINGS = frozenset({"second-root"})
_PORTABILITY = {"metadata-missing", "min-above-max", "never-selected", "collective-refused"}
_PORTABILITY |= {rule.name for rule in RULES.values() if rule.stage == "advice"} - _WARNINGS


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The content of a file: the program, or None when it cannot be understood, and findings.

    ``violations`` make every runtime refuse or misread the file, ``portability`` only some runtime minds,
    ``warnings`` no runtime minds but an operator should know. ``lines``: see ``rules.Lines``. ``algo``: the
    attributes of the root element as they stand there, and its line. ``numbers``: what ``s`` says, by (position of
    the GPU, of the thread block, of the step), where it differs from the position of the step. ``later``: elements
    of further <algo> elements, by the rank that stores them, None for those that all ranks do.

    For a ``coll`` outside the eight collectives (``custom`` and the like) the program carries that word as its
    collective: it can be executed, but nothing says what its final data must be.
    """

    program: Program | None
    violations: tuple[Violation, ...]
    portability: tuple[Violation, ...] = ()
    warnings: tuple[Violation, ...] = ()
    lines: Lines = field(default_factory=dict)
    algo: dict[str, str] = field(default_factory=dict)
    algo_line: int | None = None
    numbers: dict[tuple[int, int, int], int] = field(default_factory=dict)
    later: Mapping[int | None, int] = field(default_factory=dict)


def read_program(source: bytes, filename: str = "") -> ReadResult:
    """Reads an MSCCL XML file. Never raises for bad content: everything wrong is in the result."""
    if len(source) > MAX_FILE_BYTES:
        size = f"the file has {len(source)} bytes; at most {MAX_FILE_BYTES} are read"
        return ReadResult(None, (violation("too-large", size),))
    scanner = Scanner(source)
    reader = _Reader(scanner)
    for tag in scanner.tags():
        if not reader.take(tag):
            break
    defects = scanner.defects
    program = reader.program(empty=bool(defects))
    violations = [violation(*defect) for defect in defects] + reader.findings.violations
    minor, warned = ({RULES[name].id for name in names} for names in (_PORTABILITY, _WARNINGS))
    return ReadResult(
        program,
        tuple(v for v in violations if v.rule not in minor | warned),
        tuple(v for v in violations if v.rule in minor),
        tuple(v for v in violations if v.rule in warned),
        reader.lines,
        reader.algo,
        reader.algo_line,
        reader.numbers,
        reader.later,
    )


def load_program(path: Path) -> ReadResult:
    """Reads an MSCCL XML file from disk; HetesynthError HS540: it is no readable regular file, or too large."""
    try:
        return read_program(read_regular(path, MAX_FILE_BYTES))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        help_text = "give the path of an MSCCL XML file that you may read"
        raise HetesynthError(f"cannot read {path}: {reason}", code="HS540", help=help_text) from None


@dataclass
class _Block:
    """A thread block as it stands: its id, peers and channel, and its steps: a table of the first ones, in which
    nothing is unusual, and a row for each of the others."""

    values: list[int]
    plain: Table = field(default_factory=lambda: np.empty((0, column.AWAITED + 1), dtype=np.int64))
    others: list[tuple[int, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.plain) + len(self.others)

    def thread_block(self) -> ThreadBlock:
        """Return the block as runtimes take it: a nop has no buffers, a step without depid no deps."""
        rows = self.plain
        if self.others:
            rows = np.concatenate([rows, np.array(self.others, dtype=np.int64)])
        rows[rows[:, column.OP] == _OPS["nop"], column.SRC_BUFFER : column.DST + 1] = -1
        rows[rows[:, column.BLOCK] < 0, column.BLOCK : column.STEP + 1] = -1
        number, send, recv, channel = self.values
        return ThreadBlock(number, None if send < 0 else send, None if recv < 0 else recv, channel, Steps(rows))


class _Reader:
    """Takes tags in document order and builds the program; reads values as the runtimes do.

    ``_at``: the rank, thread block and step of the last tag. ``_readable``: nothing that the program needs is
    missing or without a meaning. ``_gpus``: for each its rank and sizes, and its thread blocks.
    """

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self.findings = Findings(limit=MAX_ELEMENTS)
        self.lines: dict[tuple[int, int], list[int]] = {}
        self.numbers: dict[tuple[int, int, int], int] = {}
        self.later: Counter[int | None] = Counter()
        self._later_rank = -1
        self.algo: dict[str, str] = {}
        self.algo_line: int | None = None
        self._gpus: list[tuple[list[int], list[_Block]]] = []
        self._at: list[int] = []
        self._stack: list[str] = []
        self._skipped = 0  # of the stack
        self._elements = 0
        self._readable = True
        self._integers: dict[str, int] = {}
        self._strange: set[str] = set()
        self._renumbered: set[tuple[int, int]] = set()

    def take(self, tag: Tag) -> bool:
        """Takes the next tag; False where reading cannot go on."""
        attributes, stack = tag.attributes, self._stack
        if attributes is None:
            if not stack or stack[-1] != tag.name:
                opened = f"<{stack[-1][:40]}> is open" if stack else "nothing is open"
                self._stop("wrong-close", f"closing tag </{tag.name[:40]}> does not match: {opened}", tag.line)
                return False
            stack.pop()
            self._skipped = max(0, self._skipped - 1)
            return True
        self._elements += 1
        if self._elements > MAX_ELEMENTS or len(stack) >= MAX_DEPTH:
            text = f"more than {MAX_ELEMENTS} elements, or {MAX_DEPTH} in each other; reading stops here"
            self._stop("too-deep", text, tag.line)
            return False
        parent = stack[-1] if stack else ""
        if self._skipped or _CHILD.get(parent) != tag.name or not (stack or self.algo_line is None):
            self._skip(tag, attributes, parent)
            return True
        if tag.name == "step":
            self._step(attributes, tag.line)
        elif tag.name == "tb":
            self._open_block(attributes, tag.line)
        elif tag.name == "gpu":
            self._open_gpu(attributes, tag.line)
        else:
            self.algo, self.algo_line = attributes, tag.line
        if not tag.empty:
            stack.append(tag.name)
            if tag.name == "tb":
                self._plain_steps()
        return True

    def _stop(self, rule: str, message: str, line: int | None) -> None:
        self._at, self._readable = [], False
        self._stack.clear()
        self._report(rule, message, line)

    def _skip(self, tag: Tag, attributes: dict[str, str], parent: str) -> None:
        """Skips an element and what it holds. What readers know of a further <algo> is counted: they store it."""
        second = self.algo_line is not None and self._skipped == len(self._stack)
        if second and _CHILD.get(parent) == tag.name:
            if tag.name == "gpu":
                number = attributes.get("id", "")
                self._later_rank = int(number) if number.isdecimal() and len(number) < 10 else -1
            self.later[self._later_rank if tag.name in ("tb", "step") else None] += 1
        if second and parent == "":
            self._at = []
            text = f"a second root element <{tag.name[:40]}> is ignored: readers take the first <algo>"
            self._report("second-root", text, tag.line)
        elif second and (parent, tag.name) == ("algo", "gpu") and "id" not in attributes:
            text = "attribute `id` is missing on a <gpu> of the second <algo>; readers look for it there too"
            self._report("missing-attribute", text, tag.line)
        elif parent == "":
            text = f"the root element is not <algo> but <{tag.name[:40]}>: this is no MSCCL algorithm"
            self._report("wrong-root", text, tag.line)
        elif not self._skipped and tag.name not in self._strange:
            self._strange.add(tag.name)
            text = f"element <{tag.name[:40]}> under <{parent}> is ignored by every runtime: it is not executed"
            self._report("unknown-element", text, tag.line)
        if not tag.empty:
            self._skipped += 1
            self._stack.append(tag.name)

    def _report(self, rule: str, message: str, line: int | None) -> None:
        self.findings.keep(rule, message, line, *self._at)

    def _bad(self, rule: str, element: str, name: str, value: str | None, expected: str, line: int) -> None:
        """Reports a value that means nothing, or an attribute that is not there."""
        if value is None:
            self._report("missing-attribute", f"attribute `{name}` is missing on <{element}>", line)
        else:
            self._report(rule, f'{name}="{value[:40]}" on <{element}> is not {expected}', line)
        self._readable = False

    def _integer(self, attributes: dict[str, str], element: str, name: str, line: int) -> int:
        """The value as C's ``strtol`` with base 0 reads it; 0 when there is none, which is reported."""
        text = attributes.get(name)
        if text is None or not _STRTOL.match(text):
            self._bad("bad-integer", element, name, text, "a plain decimal integer", line)
            return 0
        value, plain = int(_OCTAL.sub("0o", text), 0), _DECIMAL.match(text)
        if not plain:
            note = f'{name}="{text}": readers take it for {value}, write plain decimal'
            self._report("odd-integer", note, line)
        if name not in _LARGE and abs(value) >= 2**31:
            self._bad("bad-integer", element, name, text, "a number below 2^31", line)
            return 0
        if plain and name not in _LARGE and len(self._integers) < MAX_KNOWN:
            self._integers[text] = value
        return value

    def _numbers(self, attributes: dict[str, str], element: str, names: Sequence[str], line: int) -> list[int]:
        read = self._integers
        try:
            return [read[attributes[name]] for name in names]
        except KeyError:  # one that is not there, or is read for the first time
            return [self._integer(attributes, element, name, line) for name in names]

    def _open_gpu(self, attributes: dict[str, str], line: int) -> None:
        self._at = []
        self._at = [self._integer(attributes, "gpu", "id", line)]
        names = ("i_chunks", "o_chunks", "s_chunks")
        sizes = self._numbers(attributes, "gpu", names, line)
        for name, size in zip(names, sizes, strict=True):
            if not 0 <= size <= MAX_CHUNKS:
                rule = "negative-size" if size < 0 else "huge-size"
                self._report(rule, f"{name}={size} is out of range, 0 to {MAX_CHUNKS}", line)
                self._readable = False
        self.lines[len(self._gpus), -1] = [line]
        self._gpus.append(([*self._at, *sizes], []))

    def _open_block(self, attributes: dict[str, str], line: int) -> None:
        del self._at[1:]
        values = self._numbers(attributes, "tb", ("id", "send", "recv", "chan"), line)
        number, send, recv, channel = values
        self._at.append(number)
        for name, peer in (("send", send), ("recv", recv)):
            if peer < -1:
                self._report("bad-peer", f"{name}={peer} is no peer: a rank or -1", line)
        if channel < 0:
            text = f"chan={channel} is no channel; even a thread block that only copies needs chan >= 0"
            self._report("negative-channel", text, line)
        blocks = self._gpus[-1][1]
        self.lines[len(self._gpus) - 1, len(blocks)] = [line]
        blocks.append(_Block(values))

    def _plain_steps(self) -> None:
        """Take the first steps of a thread block, as far as nothing is unusual in them."""
        rows, line = self._scanner.plain_steps(MAX_ELEMENTS - self._elements)
        self._elements += len(rows)
        if not len(rows):
            return
        blocks = self._gpus[-1][1]
        place = len(self._gpus) - 1, len(blocks) - 1
        for position in np.flatnonzero(rows[:, 0] != np.arange(len(rows))).tolist():
            self._at[2:] = [position]
            self._renumber(place, position, int(rows[position, 0]), line + position)
        blocks[-1].plain = rows[:, 1:]
        self.lines[place].extend(range(line, line + len(rows)))
        self._at[2:] = [len(rows) - 1]

    def _renumber(self, place: tuple[int, int], position: int, s: int, line: int) -> None:
        if place not in self._renumbered:
            self._renumbered.add(place)
            text = f"s={s} stands at position {position}; runtimes number steps by position"
            self._report("step-order", text, line)
        self.numbers[(*place, position)] = s

    def _step(self, attributes: dict[str, str], line: int) -> None:
        blocks = self._gpus[-1][1]
        place, position = (len(self._gpus) - 1, len(blocks) - 1), len(blocks[-1])
        self._at[2:] = [position]
        self.lines[place].append(line)
        s, src, dst, count, depid, deps, hasdep = self._numbers(attributes, "step", _NUMBERS, line)
        op, nop = attributes.get("type"), attributes.get("type") == "nop"
        if s != position:
            self._renumber(place, position, s, line)
        for name in ("srcbuf", "dstbuf"):
            if attributes.get(name) not in ("i", "o", "s"):
                self._bad("unknown-buffer", "step", name, attributes.get(name), "i, o or s", line)
        if op not in _OPS:
            more = "; `ra` is read by the research runtime and executed by none" if op == "ra" else ""
            rule = "residual-add" if op == "ra" else "unknown-op"
            self._bad(rule, "step", "type", op, f"one of {' '.join(OPS)}{more}", line)
        if hasdep not in (0, 1) and not nop:
            self._report("bad-hasdep", f"hasdep={hasdep} is neither 0 nor 1", line)
        if depid < -1:
            self._report("negative-depid", f"depid={depid} is no thread block; -1 means none", line)
        source, target = (_BUFFERS.get(attributes.get(name, ""), 0) for name in ("srcbuf", "dstbuf"))
        row = _OPS.get(op or "", 0), source, src, target, dst, count, depid, deps, int(hasdep == 1)
        blocks[-1].others.append(row)

    def program(self, empty: bool) -> Program | None:
        """Return, after the last tag, the program, or None when some value that it needs could not be read.
        ``empty``: why there may be no element is already reported."""
        if self._stack:
            self._stop("never-closed", f"<{self._stack[-1][:40]}> is never closed", None)
        self._at = []
        line, attributes = self.algo_line, self.algo
        if line is None:
            if not self.findings.violations and not empty:
                self._report("no-algo", "there is no <algo> element: this is no MSCCL algorithm", None)
            return None
        text = attributes.get("proto")
        protocol = _PROTOCOLS.get((text or "").lower())
        expected = "exactly Simple, LL or LL128 (case counts)"
        if protocol is None:
            self._bad("bad-protocol", "algo", "proto", text, expected, line)
        elif text != protocol:
            self._report("bad-protocol", f'proto="{text}" is not {expected}', line)
        collective = self._collective(line)
        needed = ("nchannels", "nchunksperloop", "ngpus", "inplace")
        channels, chunks, ranks, inplace = self._numbers(attributes, "algo", needed, line)
        optional = {"outofplace": 0 if inplace else 1, "minBytes": 0, "maxBytes": 0}
        for name in ("outofplace", "minBytes", "maxBytes", "name"):
            if name not in attributes:
                who = "the research runtime refuses" if name == "name" else "RCCL and the executor refuse"
                self._report("metadata-missing", f"attribute `{name}` is missing on <algo>; {who} the file", line)
            elif name in optional:
                optional[name] = self._integer(attributes, "algo", name, line)
        outofplace, low, high = optional.values()
        root = self._integer(attributes, "algo", "root", line) if "root" in attributes else None
        for name, value, most in (("ngpus", ranks, MAX_RANKS), ("nchunksperloop", chunks, MAX_CHUNKS)):
            if not 1 <= value <= most and name in attributes:
                self._report("out-of-range", f"{name}={value} is out of range, 1 to {most}", line)
                self._readable = False
        if channels < 1 and "nchannels" in attributes:
            self._report("no-channels", f"nchannels={channels}: at least one channel is needed", line)
        for name, value in (("inplace", inplace), ("outofplace", outofplace)):
            if value not in (0, 1):
                self._report("bad-mode", f"{name}={value} is neither 0 nor 1", line)
        if inplace == outofplace == 0:
            text = "neither inplace nor outofplace is 1: no runtime can ever select this file"
            self._report("never-selected", text, line)
        if high and low > high:
            text = f"minBytes={low} exceeds maxBytes={high}: the file is refused or never selected"
            self._report("min-above-max", text, line)
        if not self._readable or collective is None or protocol is None:
            return None
        gpus = [
            GpuProgram(gpu[0], gpu[1], gpu[2], gpu[3], tuple(block.thread_block() for block in blocks))
            for gpu, blocks in self._gpus
        ]
        modes = inplace == 1, outofplace == 1
        name = attributes.get("name", "")
        return Program(name, collective, ranks, protocol, channels, chunks, *modes, low, high, root, tuple(gpus))

    def _collective(self, line: int) -> CollectiveName | None:
        word = self.algo.get("coll")
        if word == "reduce_scatter":
            text = 'coll="reduce_scatter" is for the research runtime; RCCL and the executor read reducescatter'
            self._report("collective-refused", text, line)
            return "reducescatter"
        if word in _OTHER_COLLECTIVES:
            text = (
                f'coll="{word}" does not say what the final data must be: it is executed, the data is not checked'
            )
            self._report("collective-unchecked", text, line)
        elif word not in COLLECTIVE_NAMES:
            self._bad("unknown-collective", "algo", "coll", word, f"one of {' '.join(COLLECTIVE_NAMES)}", line)
            return None
        return cast(CollectiveName, word)
