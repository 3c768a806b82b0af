"""Reader of MSCCL XML: bytes to a Program, ours or anybody's.

Steps are numbered by document order, as the runtimes do; the attribute ``s`` is only compared. Integers follow
the runtimes' C ``strtol`` with base 0, and anything but plain decimal is a finding. Elements that no runtime
knows are skipped with their content, and reported. The reader does not judge what the program does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.judge.msccl.rules import MAX_FINDINGS, RULES, violation
from hetesynth.judge.msccl.scan import Scanner, Tag
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import (
    Buffer,
    BufferSlice,
    GpuProgram,
    Instruction,
    Op,
    Program,
    Protocol,
    ThreadBlock,
)
from hetesynth.model.verdict import Violation

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_ELEMENTS = 4_000_000
MAX_DEPTH = 64
MAX_RANKS = 4096
MAX_CHUNKS = 65536
MAX_KNOWN = 100_000

_NUMBERS = ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")
_OPS: frozenset[str] = frozenset(get_args(Op))
_WARNINGS = frozenset({RULES["second-root"].id})
_PARENT = {"algo": "", "gpu": "algo", "tb": "gpu", "step": "tb"}
_ABOVE = {"algo": [], "gpu": ["algo"], "tb": ["algo", "gpu"], "step": ["algo", "gpu", "tb"]}
_PROTOCOLS: dict[str, Protocol] = {"simple": "Simple", "ll": "LL", "ll128": "LL128"}
_OTHER_COLLECTIVES = frozenset({"custom", "send", "recv", "alltoallv"})
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_STRTOL = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,15}|0[0-7]{1,17}|[1-9][0-9]{0,17}|0)\Z")
_LARGE = frozenset({"minBytes", "maxBytes"})


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a file says: the program, or None when it cannot be understood, and findings.

    ``violations`` make every runtime refuse or misread the file, ``portability`` only some runtime minds,
    ``warnings`` no runtime minds but an operator should know. ``lines``: see ``rules.Lines``. ``filename`` is only
    for messages. ``algo``: the attributes of the root element as they stand there, and its line. ``numbers``: what
    ``s`` says, by (position of the GPU, of the thread block, of the step), where it differs from the position of
    the step. ``later``: elements of further <algo> elements, which readers store too: by the rank that stores
    them, None for those that all ranks do.

    For a ``coll`` outside the eight collectives (``custom`` and the like) the program carries that word as its
    collective: it can be executed, but nothing says what its final data must be.
    """

    program: Program | None
    violations: tuple[Violation, ...]
    portability: tuple[Violation, ...] = ()
    lines: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    filename: str = ""
    algo: dict[str, str] = field(default_factory=dict)
    algo_line: int | None = None
    numbers: dict[tuple[int, int, int], int] = field(default_factory=dict)
    warnings: tuple[Violation, ...] = ()
    later: dict[int | None, int] = field(default_factory=dict)


def read_program(source: bytes, filename: str) -> ReadResult:
    """Reads an MSCCL XML file. Never raises for bad content: everything wrong is in the result."""
    if len(source) > MAX_FILE_BYTES:
        size = f"the file has {len(source)} bytes; at most {MAX_FILE_BYTES} are read"
        return ReadResult(None, (violation("too-large", size),), filename=filename)
    scanner = Scanner(source)
    reader = _Reader()
    for tag in scanner.tags():
        if not reader.take(tag):
            break
    reader.finish(empty=bool(scanner.defects))
    program = _algorithm(reader.algo, reader.algo_line, tuple(reader.gpus), reader.values)
    fatal: list[Violation] = []
    minor: list[Violation] = []
    for d in scanner.defects:
        text = d.message if d.count == 1 else f"{d.message} ({d.count} times)"
        (fatal if d.fatal else minor).append(violation(d.rule, text, d.line))
    minor += reader.values.minor
    return ReadResult(
        program,
        (*fatal, *reader.values.fatal),
        tuple(v for v in minor if v.rule not in _WARNINGS),
        reader.lines,
        filename,
        reader.algo,
        reader.algo_line,
        reader.numbers,
        tuple(v for v in minor if v.rule in _WARNINGS),
        reader.later,
    )


def load_program(path: Path) -> ReadResult:
    """Reads an MSCCL XML file from disk.

    Raises HetesynthError when the path is no readable regular file or the file is too large.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a regular file")
        with open_regular(path) as stream:
            source = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        help_text = "give the path of an MSCCL XML file that you may read"
        raise HetesynthError(f"cannot read {path}: {reason}", code="HS540", help=help_text) from None
    if len(source) > MAX_FILE_BYTES:
        message = f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB"
        raise HetesynthError(message, code="HS541", help="no runtime loads such a file; is it the right one?")
    return read_program(source, str(path))


class Values:
    """Reads values of attributes as the runtimes do and collects findings: ``fatal`` when every runtime refuses or
    misreads the file, ``minor`` when only some runtime minds.

    ``rank``, ``block``, ``step``: where the reader stands. ``unreadable``: some value that the program needs is
    missing or has no meaning.
    """

    def __init__(self) -> None:
        self.fatal: list[Violation] = []
        self.minor: list[Violation] = []
        self.unreadable = False
        self.rank: int | None = None
        self.block: int | None = None
        self.step: int | None = None
        self._integers: dict[str, int] = {}
        self._reported: set[str] = set()

    def report(self, rule: str, message: str, line: int | None, minor: bool = False) -> None:
        """Keeps a finding about the place where the reader stands: MAX_FINDINGS, and the first of each rule."""
        violations = self.minor if minor else self.fatal
        if rule in self._reported and len(violations) >= MAX_FINDINGS:
            return
        self._reported.add(rule)
        parts = (("gpu", self.rank), ("thread block", self.block), ("step", self.step))
        where = " ".join(f"{word} {number}" for word, number in parts if number is not None)
        text = f"{where}: {message}" if where else message
        violations.append(violation(rule, text, line, self.rank, self.block, self.step))

    def bad(self, rule: str, element: str, name: str, value: str | None, expected: str, line: int) -> None:
        """Reports a value that means nothing, or an attribute that is not there."""
        if value is None:
            self.report("missing-attribute", f"attribute `{name}` is missing on <{element}>", line)
        else:
            self.report(rule, f'{name}="{value[:40]}" on <{element}> is not {expected}', line)
        self.unreadable = True

    def integer(self, attributes: dict[str, str], element: str, name: str, line: int) -> int:
        """The value as C's ``strtol`` with base 0 reads it; 0 when there is none, which is reported."""
        text = attributes.get(name)
        value = None if text is None else self._integers.get(text)
        if value is not None:
            return value
        if text is None or not _STRTOL.match(text):
            self.bad("bad-integer", element, name, text, "a plain decimal integer", line)
            return 0
        plain = _DECIMAL.match(text)
        digits = text.lstrip("+-").lower()
        base = (
            10 if plain else 16 if digits.startswith("0x") else 8 if digits[0] == "0" and len(digits) > 1 else 10
        )
        value = -int(digits, base) if text.startswith("-") else int(digits, base)
        if not plain:
            how = {16: "hexadecimal", 8: "octal", 10: "with a sign"}[base]
            note = f'{name}="{text}" is written {how}; readers take it for {value}, write plain decimal'
            self.report("odd-integer", note, line, minor=True)
        if name not in _LARGE and abs(value) >= 2**31:
            self.bad("bad-integer", element, name, text, "a number below 2^31", line)
            return 0
        if plain and name not in _LARGE and len(self._integers) < MAX_KNOWN:
            self._integers[text] = value
        return value

    def integers(self, attributes: dict[str, str], element: str, names: Sequence[str], line: int) -> list[int]:
        """The values of several attributes."""
        read = self._integers
        try:
            return [read[attributes[name]] for name in names]
        except KeyError:  # one that is not there, or is read for the first time
            return [self.integer(attributes, element, name, line) for name in names]


def _algorithm(
    attributes: dict[str, str], line: int | None, gpus: tuple[GpuProgram, ...], values: Values
) -> Program | None:
    """The program that <algo> on ``line`` describes, or None when some value that it needs could not be read;
    findings go to ``values``."""
    if line is None:
        return None
    text = attributes.get("proto")
    protocol = _PROTOCOLS.get((text or "").lower())
    expected = "exactly Simple, LL or LL128 (case counts)"
    if protocol is None:
        values.bad("bad-protocol", "algo", "proto", text, expected, line)
    elif text != protocol:
        values.report("bad-protocol", f'proto="{text}" is not {expected}', line)
    collective = _collective(attributes, line, values)
    needed = ("nchannels", "nchunksperloop", "ngpus", "inplace")
    channels, chunks, ranks, inplace = values.integers(attributes, "algo", needed, line)
    optional = {"outofplace": 0 if inplace else 1, "minBytes": 0, "maxBytes": 0}
    for name in optional:  # the research runtime does without
        if name in attributes:
            optional[name] = values.integer(attributes, "algo", name, line)
        else:
            text = f"attribute `{name}` is missing on <algo>; RCCL and the executor refuse the file"
            values.report("metadata-missing", text, line, minor=True)
    outofplace, low, high = optional.values()
    stated = values.integer(attributes, "algo", "root", line) if "root" in attributes else None
    if "name" not in attributes:
        text = "attribute `name` is missing on <algo>; the research runtime refuses the file"
        values.report("metadata-missing", text, line, minor=True)
    for name, value, top in (("ngpus", ranks, MAX_RANKS), ("nchunksperloop", chunks, MAX_CHUNKS)):
        if not 1 <= value <= top:
            values.unreadable = True
            if name in attributes:
                values.report("out-of-range", f"{name}={value} is out of range, 1 to {top}", line)
    if channels < 1 and "nchannels" in attributes:
        values.report("no-channels", f"nchannels={channels}: at least one channel is needed", line)
    for name, value in (("inplace", inplace), ("outofplace", outofplace)):
        if value not in (0, 1):
            values.report("bad-mode", f"{name}={value} is neither 0 nor 1", line)
    if inplace == outofplace == 0:
        text = "neither inplace nor outofplace is 1: no runtime can ever select this file"
        values.report("never-selected", text, line, minor=True)
    if high and low > high:
        text = f"minBytes={low} exceeds maxBytes={high}: the file is refused or never selected"
        values.report("min-above-max", text, line, minor=True)
    if values.unreadable or collective is None or protocol is None:
        return None
    name, in_place, out_of_place = attributes.get("name", ""), inplace == 1, outofplace == 1
    return Program(
        name, collective, ranks, protocol, channels, chunks, in_place, out_of_place, low, high, stated, gpus
    )


def _collective(attributes: dict[str, str], line: int, values: Values) -> CollectiveName | None:
    word = attributes.get("coll")
    if word == "reduce_scatter":
        text = 'coll="reduce_scatter" is for the research runtime; RCCL and the executor read reducescatter'
        values.report("collective-refused", text, line, minor=True)
        return "reducescatter"
    if word in _OTHER_COLLECTIVES:
        text = f'coll="{word}" does not say what the final data must be: it is executed, the data is not checked'
        values.report("collective-unchecked", text, line, minor=True)
    elif word not in COLLECTIVE_NAMES:
        expected = f"one of {' '.join(COLLECTIVE_NAMES)}"
        values.bad("unknown-collective", "algo", "coll", word, expected, line)
        return None
    return cast(CollectiveName, word)


@dataclass(slots=True)
class _OpenBlock:
    id: int
    send: int | None
    recv: int | None
    channel: int
    steps: list[Instruction] = field(default_factory=list)
    renumbered: bool = False


class _Reader:
    """Takes tags in document order and builds the program."""

    def __init__(self) -> None:
        self.values = Values()
        self.lines: dict[tuple[int, int], list[int]] = {}
        self.numbers: dict[tuple[int, int, int], int] = {}
        self.later: dict[int | None, int] = {}
        self.algo: dict[str, str] = {}
        self.algo_line: int | None = None
        self.gpus: list[GpuProgram] = []
        self._stack: list[str] = []
        self._ignored = 0
        self._elements = 0
        self._later_rank: int | None = None
        self._gpu: tuple[int, int, int, int] = (0, 0, 0, 0)  # the open one: its rank and chunks, and its blocks
        self._blocks: list[ThreadBlock] = []
        self._block = _OpenBlock(0, None, None, 0)
        self._slices: dict[tuple[str, int], BufferSlice] = {}
        self._strange: set[str] = set()

    def take(self, tag: Tag) -> bool:
        """Takes the next tag; False where reading cannot go on."""
        attributes = tag.attributes
        if attributes is None:
            if not self._stack or self._stack[-1] != tag.name:
                opened = f"<{self._stack[-1][:40]}> is open" if self._stack else "nothing is open"
                text = f"closing tag </{tag.name[:40]}> does not match: {opened}"
                self.values.report("wrong-close", text, tag.line)
                if self._stack and tag.name not in (*self._stack, *_PARENT):
                    self._pop()  # a misspelt closing tag: take it for the one that is open
            while tag.name in self._stack:
                last = self._stack[-1]
                self._pop()
                if last == tag.name:
                    break
            return True
        self._elements += 1
        if self._elements > MAX_ELEMENTS or len(self._stack) >= MAX_DEPTH:
            what = f"{MAX_ELEMENTS} elements" if self._elements > MAX_ELEMENTS else f"{MAX_DEPTH} nested elements"
            self.values.report("too-deep", f"more than {what}; reading stops here", tag.line)
            self.values.unreadable = True
            return False
        parent = self._stack[-1] if self._stack else ""
        if self._ignored or _PARENT.get(tag.name) != parent or (not parent and self.algo_line is not None):
            self._ignore(tag, attributes, parent)
            return True
        if tag.name == "step":
            self._step(attributes, tag.line)
        elif tag.name == "tb":
            self._open_block(attributes, tag.line)
        elif tag.name == "gpu":
            self._open_gpu(attributes, tag.line)
        else:
            self.algo, self.algo_line = attributes, tag.line
        if tag.empty:
            self._close(tag.name)
        else:
            self._stack.append(tag.name)
        return True

    def _ignore(self, tag: Tag, attributes: dict[str, str], parent: str) -> None:
        """Skips an element and what it holds. Of a further <algo> the elements are counted: they are stored, not
        executed, and what is under <gpu> only its rank stores."""
        if not self._ignored:
            if not parent and self.algo_line is not None:
                text = f"a second root element <{tag.name[:40]}> is ignored: readers take the first <algo>"
                self.values.report("second-root", text, tag.line, minor=True)
            elif not parent:
                text = f"the root element is not <algo> but <{tag.name[:40]}>: this is no MSCCL algorithm"
                self.values.report("wrong-root", text, tag.line)
            elif tag.name not in self._strange:
                self._strange.add(tag.name)
                text = f"element <{tag.name[:40]}> under <{parent}> is ignored by every runtime"
                self.values.report("unknown-element", f"{text}: it is not executed", tag.line, minor=True)
        elif self._stack == ["algo"] and tag.name == "gpu" and "id" not in attributes:
            text = "attribute `id` is missing on a <gpu> of the second <algo>; readers look for it there too"
            self.values.report("missing-attribute", text, tag.line)
        if self._stack == _ABOVE.get(tag.name):
            if tag.name == "gpu":
                number = attributes.get("id", "")
                self._later_rank = int(number) if number.isdecimal() and len(number) < 10 else None
            rank = self._later_rank if tag.name in ("tb", "step") else None
            if rank is not None or tag.name in ("algo", "gpu"):
                self.later[rank] = self.later.get(rank, 0) + 1
        if not tag.empty:
            self._ignored += 1
            self._stack.append(tag.name)

    def _pop(self) -> None:
        name = self._stack.pop()
        if self._ignored:
            self._ignored -= 1
        else:
            self._close(name)

    def _close(self, name: str) -> None:
        if name == "tb":
            b = self._block
            self._blocks.append(ThreadBlock(b.id, b.send, b.recv, b.channel, tuple(b.steps)))
            self.values.block = None
        elif name == "gpu":
            self.gpus.append(GpuProgram(*self._gpu, tuple(self._blocks)))
            self.values.rank = None

    def finish(self, empty: bool) -> None:
        """Called once, after the last tag. ``empty``: why there may be no element is already reported."""
        if self._stack:
            self.values.report("never-closed", f"<{self._stack[-1][:40]}> is never closed", None)
            while self._stack:
                self._pop()
        if not (self.algo_line is not None or self.values.fatal or empty):
            self.values.report("no-algo", "there is no <algo> element: this is no MSCCL algorithm", None)

    def _open_gpu(self, attributes: dict[str, str], line: int) -> None:
        rank = self.values.rank = self.values.integer(attributes, "gpu", "id", line)
        names = ("i_chunks", "o_chunks", "s_chunks")
        inputs, outputs, scratch = self.values.integers(attributes, "gpu", names, line)
        for name, size in zip(names, (inputs, outputs, scratch), strict=True):
            if not 0 <= size <= MAX_CHUNKS:
                rule = "negative-size" if size < 0 else "huge-size"
                self.values.report(rule, f"{name}={size} is out of range, 0 to {MAX_CHUNKS}", line)
                self.values.unreadable = True
        self._gpu, self._blocks = (rank, inputs, outputs, scratch), []
        self.lines[len(self.gpus), -1] = [line]

    def _open_block(self, attributes: dict[str, str], line: int) -> None:
        names = ("id", "send", "recv", "chan")
        number, send, recv, channel = self.values.integers(attributes, "tb", names, line)
        self.values.block = number
        for name, peer in (("send", send), ("recv", recv)):
            if peer < -1:
                self.values.report("bad-peer", f"{name}={peer} is no peer: a rank or -1", line)
        if channel < 0:
            text = f"chan={channel} is no channel; even a thread block that only copies needs chan >= 0"
            self.values.report("negative-channel", text, line)
        self._block = _OpenBlock(number, None if send < 0 else send, None if recv < 0 else recv, channel)
        self.lines[len(self.gpus), len(self._blocks)] = [line]

    def _step(self, attributes: dict[str, str], line: int) -> None:
        block, place = self._block, (len(self.gpus), len(self._blocks))
        position = self.values.step = len(block.steps)
        self.lines[place].append(line)
        s, src, dst, count, depid, deps, hasdep = self.values.integers(attributes, "step", _NUMBERS, line)
        op, nop = attributes.get("type"), attributes.get("type") == "nop"
        if s != position:
            self.numbers[(*place, position)] = s
            if not block.renumbered:
                block.renumbered = True
                text = f"s={s} stands at position {position}; runtimes number steps by position"
                self.values.report("step-order", text, line, minor=True)
        for name in ("srcbuf", "dstbuf"):
            if attributes.get(name) not in ("i", "o", "s"):
                self.values.bad("unknown-buffer", "step", name, attributes.get(name), "i, o or s", line)
        if op not in _OPS:
            more = "; `ra` is read by the research runtime and executed by none" if op == "ra" else ""
            rule = "residual-add" if op == "ra" else "unknown-op"
            self.values.bad(rule, "step", "type", op, f"one of {' '.join(get_args(Op))}{more}", line)
        if hasdep not in (0, 1) and not nop:
            self.values.report("bad-hasdep", f"hasdep={hasdep} is neither 0 nor 1", line)
        if depid < -1:
            self.values.report("negative-depid", f"depid={depid} is no thread block; -1 means none", line)
        source, target = (  # equal ones are one object
            None if nop else self._slices.setdefault((name, offset), BufferSlice(name, offset))
            for name, offset in (
                (cast(Buffer, attributes.get("srcbuf", "i")), src),
                (cast(Buffer, attributes.get("dstbuf", "i")), dst),
            )
        )
        depends = (depid, deps) if depid >= 0 else None
        block.steps.append(Instruction(cast(Op, op), source, target, count, depends, hasdep == 1))
        self.values.step = None
