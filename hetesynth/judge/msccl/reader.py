"""Reader of MSCCL XML: bytes to a Program, ours or anybody's.

In: the bytes of a file. Out: a ReadResult: the program (None when it cannot be understood), the findings that
make every runtime refuse or misread the file (``violations``), those that only some runtime minds
(``portability``), those that no runtime minds but an operator should know (``warnings``), and the line of every
thread block and step.

Steps are numbered by document order, as the runtimes do; the attribute ``s`` is only compared. Integers follow
the runtimes' C ``strtol`` with base 0, and anything but plain decimal is a finding. Elements that no runtime
knows are skipped with their content, and reported. The reader does not judge what the program does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.judge.msccl.algo_element import MAX_CHUNKS, algorithm
from hetesynth.judge.msccl.rules import RULES
from hetesynth.judge.msccl.scan import Scanner, Tag
from hetesynth.judge.msccl.values import Values
from hetesynth.model.program import (
    Buffer,
    BufferSlice,
    GpuProgram,
    Instruction,
    Op,
    Program,
    ThreadBlock,
)
from hetesynth.model.verdict import Violation

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_ELEMENTS = 4_000_000
MAX_DEPTH = 64

_NUMBERS = ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")
_OPS: frozenset[str] = frozenset(get_args(Op))
_WARNINGS = frozenset({RULES["second-root"].id})
_PARENT = {"algo": "", "gpu": "algo", "tb": "gpu", "step": "tb"}
_ABOVE = {"algo": [], "gpu": ["algo"], "tb": ["algo", "gpu"], "step": ["algo", "gpu", "tb"]}


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a file says. ``lines``: see ``findings.Lines``. ``filename`` is only for messages.

    ``algo``: the attributes of the root element as they stand there, and its line. ``numbers``: what ``s`` says,
    by (position of the GPU, of the thread block, of the step), where it differs from the position of the step.

    ``later``: elements of further <algo> elements, which readers store too: by the rank that stores them, None for
    those that all ranks do.

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
        return ReadResult(None, (Violation("limit", size, rule=RULES["too-large"].id),), filename=filename)
    scanner = Scanner(source)
    reader = _Reader()
    for tag in scanner.tags():
        if not reader.take(tag):
            break
    reader.finish(empty=bool(scanner.defects))
    program = reader.program()
    syntax = [
        (Violation("syntax", _counted(d.message, d.count), line=d.line, rule=RULES[d.rule].id), d.fatal)
        for d in scanner.defects
    ]
    fatal = [v for v, is_fatal in syntax if is_fatal] + reader.values.fatal
    minor = [v for v, is_fatal in syntax if not is_fatal] + reader.values.minor
    portability = tuple(v for v in minor if v.rule not in _WARNINGS)
    warnings = tuple(v for v in minor if v.rule in _WARNINGS)
    return ReadResult(
        program, tuple(fatal), portability, reader.lines, filename, reader.algo, reader.algo_line, reader.numbers,
        warnings, reader.later,
    )  # fmt: skip


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


def _counted(message: str, count: int) -> str:
    return message if count == 1 else f"{message} ({count} times)"


@dataclass(slots=True)
class _OpenGpu:
    rank: int
    chunks: tuple[int, int, int]
    blocks: list[ThreadBlock] = field(default_factory=list)


@dataclass(slots=True)
class _OpenBlock:
    id: int
    send: int
    recv: int
    channel: int
    steps: list[Instruction] = field(default_factory=list)
    renumbered: bool = False


class _Reader:
    """Takes tags in document order and builds the program."""

    def __init__(self) -> None:
        self.values = Values()
        self.lines: dict[tuple[int, int], list[int]] = {}
        self.numbers: dict[tuple[int, int, int], int] = {}
        self._stack: list[str] = []
        self._ignored = 0
        self._elements = 0
        self._seen_root = False
        self.later: dict[int | None, int] = {}
        self._later_rank: int | None = None
        self.algo: dict[str, str] = {}
        self.algo_line: int | None = None
        self._gpus: list[GpuProgram] = []
        self._gpu: _OpenGpu | None = None
        self._block: _OpenBlock | None = None
        self._slices: dict[tuple[str, int], BufferSlice] = {}
        self._strange: set[str] = set()

    def take(self, tag: Tag) -> bool:
        """Whether reading can go on."""
        if tag.attributes is None:
            return self._end(tag)
        self._elements += 1
        if self._elements > MAX_ELEMENTS or len(self._stack) >= MAX_DEPTH:
            what = f"{MAX_ELEMENTS} elements" if self._elements > MAX_ELEMENTS else f"{MAX_DEPTH} nested elements"
            self.values.report("too-deep", f"more than {what}; reading stops here", tag.line)
            self.values.unreadable = True
            return False
        self._start(tag, tag.attributes)
        return True

    def _start(self, tag: Tag, attributes: dict[str, str]) -> None:
        parent = self._stack[-1] if self._stack else ""
        if self._ignored or _PARENT.get(tag.name) != parent or (not parent and self._seen_root):
            self._ignore(tag, parent)
            return
        if tag.name == "step":
            self._step(attributes, tag.line)
        elif tag.name == "tb":
            self._open_block(attributes, tag.line)
        elif tag.name == "gpu":
            self._open_gpu(attributes, tag.line)
        else:
            self._seen_root = True
            self.algo, self.algo_line = attributes, tag.line
        if tag.empty:
            self._close(tag.name)
        else:
            self._stack.append(tag.name)

    def _ignore(self, tag: Tag, parent: str) -> None:
        if not self._ignored:
            if not parent and self._seen_root:
                text = f"a second root element <{tag.name[:40]}> is ignored: readers take the first <algo>"
                self.values.report("second-root", text, tag.line, minor=True)
            elif not parent:
                text = f"the root element is not <algo> but <{tag.name[:40]}>: this is no MSCCL algorithm"
                self.values.report("wrong-root", text, tag.line)
            elif tag.name not in self._strange:
                self._strange.add(tag.name)
                text = (
                    f"element <{tag.name[:40]}> under <{parent}> is ignored by every runtime: it is not executed"
                )
                self.values.report("unknown-element", text, tag.line, minor=True)
        elif self._stack == ["algo"] and tag.name == "gpu" and "id" not in (tag.attributes or ()):
            text = "attribute `id` is missing on a <gpu> of the second <algo>; readers look for it there too"
            self.values.report("missing-attribute", text, tag.line)
        self._count_later(tag)
        if not tag.empty:
            self._ignored += 1
            self._stack.append(tag.name)

    def _count_later(self, tag: Tag) -> None:
        """An element of a further <algo>: stored, not executed. What is under <gpu> only its rank stores."""
        if self._stack != _ABOVE.get(tag.name):
            return
        if tag.name == "gpu":
            number = (tag.attributes or {}).get("id", "")
            self._later_rank = int(number) if number.isdecimal() and len(number) < 10 else None
        rank = self._later_rank if tag.name in ("tb", "step") else None
        if rank is not None or tag.name in ("algo", "gpu"):
            self.later[rank] = self.later.get(rank, 0) + 1

    def _end(self, tag: Tag) -> bool:
        if not self._stack or self._stack[-1] != tag.name:
            opened = f"<{self._stack[-1][:40]}> is open" if self._stack else "nothing is open"
            self.values.report("wrong-close", f"closing tag </{tag.name[:40]}> does not match: {opened}", tag.line)
            if tag.name not in self._stack:
                if self._stack and tag.name not in _PARENT:
                    self._pop()  # a misspelt closing tag: take it for the one that is open
                return True
        while self._stack[-1] != tag.name:
            self._pop()
        self._pop()
        return True

    def _pop(self) -> None:
        name = self._stack.pop()
        if self._ignored:
            self._ignored -= 1
        else:
            self._close(name)

    def _close(self, name: str) -> None:
        if name == "tb" and self._block is not None and self._gpu is not None:
            b = self._block
            block = ThreadBlock(
                b.id, None if b.send < 0 else b.send, None if b.recv < 0 else b.recv, b.channel, tuple(b.steps)
            )
            self._gpu.blocks.append(block)
            self._block = self.values.block = None
        elif name == "gpu" and self._gpu is not None:
            self._gpus.append(GpuProgram(self._gpu.rank, *self._gpu.chunks, tuple(self._gpu.blocks)))
            self._gpu = self.values.rank = None

    def program(self) -> Program | None:
        """The program, or None when some value that it needs could not be read."""
        if self.algo_line is None:
            return None
        return algorithm(self.algo, self.algo_line, tuple(self._gpus), self.values)

    def finish(self, empty: bool) -> None:
        """Called once, after the last tag. ``empty``: why there may be no element is already reported."""
        if self._stack:
            self.values.report("never-closed", f"<{self._stack[-1][:40]}> is never closed", None)
            while self._stack:
                self._pop()
        if not (self._seen_root or self.values.fatal or empty):
            self.values.report("no-algo", "there is no <algo> element: this is no MSCCL algorithm", None)

    # -- elements

    def _open_gpu(self, attributes: dict[str, str], line: int) -> None:
        rank = self.values.rank = self.values.integer(attributes, "gpu", "id", line)
        sizes = [
            self.values.integer(attributes, "gpu", name, line) for name in ("i_chunks", "o_chunks", "s_chunks")
        ]
        for name, size in zip(("i_chunks", "o_chunks", "s_chunks"), sizes, strict=True):
            rule = "negative-size" if size < 0 else "huge-size" if size > MAX_CHUNKS else None
            if rule is not None:
                self.values.report(rule, f"{name}={size} is out of range, 0 to {MAX_CHUNKS}", line)
                self.values.unreadable = True
        self._gpu = _OpenGpu(rank, (sizes[0], sizes[1], sizes[2]))
        self.lines[len(self._gpus), -1] = [line]

    def _open_block(self, attributes: dict[str, str], line: int) -> None:
        gpu = self._gpu
        if gpu is None:
            return
        number, send, recv, channel = (
            self.values.integer(attributes, "tb", name, line) for name in ("id", "send", "recv", "chan")
        )
        self.values.block = number
        for name, peer in (("send", send), ("recv", recv)):
            if peer < -1:
                text = f"{name}={peer} is no peer: a rank or -1"
                self.values.report("bad-peer", text, line)
        if channel < 0:
            text = f"chan={channel} is no channel; even a thread block that only copies needs chan >= 0"
            self.values.report("negative-channel", text, line)
        self._block = _OpenBlock(number, send, recv, channel)
        self.lines[len(self._gpus), len(gpu.blocks)] = [line]

    def _step(self, attributes: dict[str, str], line: int) -> None:
        block, gpu = self._block, self._gpu
        if block is None or gpu is None:
            return
        position = self.values.step = len(block.steps)
        self.lines[len(self._gpus), len(gpu.blocks)].append(line)
        s, src, dst, count, depid, deps, hasdep = self.values.integers(attributes, "step", _NUMBERS, line)
        op = attributes.get("type")
        if s != position:
            self.numbers[len(self._gpus), len(gpu.blocks), position] = s
            if not block.renumbered:
                block.renumbered = True
                text = f"s={s} stands at position {position}; runtimes number steps by position"
                self.values.report("step-order", text, line, minor=True)
        self._check_step(attributes, op, hasdep, depid, line)
        nop = op == "nop"
        source = None if nop else self._slice(attributes.get("srcbuf"), src)
        target = None if nop else self._slice(attributes.get("dstbuf"), dst)
        depends = (depid, deps) if depid >= 0 else None
        block.steps.append(Instruction(cast(Op, op), source, target, count, depends, hasdep == 1))
        self.values.step = None

    def _check_step(self, attributes: dict[str, str], op: str | None, hasdep: int, depid: int, line: int) -> None:
        for name in ("srcbuf", "dstbuf"):
            if attributes.get(name) not in ("i", "o", "s"):
                self.values.bad("unknown-buffer", "step", name, attributes.get(name), "i, o or s", line)
        if op not in _OPS:
            more = "; `ra` is read by the research runtime and executed by none" if op == "ra" else ""
            rule = "residual-add" if op == "ra" else "unknown-op"
            self.values.bad(rule, "step", "type", op, f"one of {' '.join(get_args(Op))}{more}", line)
        if hasdep not in (0, 1) and op != "nop":
            self.values.report("bad-hasdep", f"hasdep={hasdep} is neither 0 nor 1", line)
        if depid < -1:
            self.values.report("negative-depid", f"depid={depid} is no thread block; -1 means none", line)

    def _slice(self, buffer: str | None, offset: int) -> BufferSlice:
        key = (buffer or "i", offset)
        part = self._slices.get(key)
        if part is None:
            part = self._slices[key] = BufferSlice(cast(Buffer, key[0]), offset)
        return part
