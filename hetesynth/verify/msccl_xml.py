"""Reader of MSCCL XML: bytes to a Program, ours or anybody's.

In: the bytes of a file. Out: a ReadResult: the program (None when it cannot be understood), the findings that
make every runtime refuse or misread the file (``violations``), those that only some runtime minds
(``portability``), and the line of every thread block and step.

Steps are numbered by document order, as the runtimes do; the attribute ``s`` is only compared. Integers follow
the runtimes' C ``strtol`` with base 0, and anything but plain decimal is a finding. Elements that no runtime
knows are skipped with their content, and reported. The reader does not judge what the program does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import Buffer, BufferSlice, GpuProgram, Instruction, Op, Program, Protocol, ThreadBlock
from hetesynth.model.verdict import Violation, ViolationKind
from hetesynth.verify.msccl_scan import Scanner, Tag
from hetesynth.verify.program_findings import MAX_FINDINGS

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_ELEMENTS = 4_000_000
MAX_DEPTH = 64
MAX_RANKS = 4096
MAX_CHUNKS = 65536

_OPS: frozenset[str] = frozenset(get_args(Op))
_PROTOCOLS: dict[str, Protocol] = {"simple": "Simple", "ll": "LL", "ll128": "LL128"}
_PARENT = {"algo": "", "gpu": "algo", "tb": "gpu", "step": "tb"}
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_STRTOL = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,15}|0[0-7]{1,17}|[0-9]{1,18})\Z")
_OTHER_COLLECTIVES = frozenset({"custom", "send", "recv", "alltoallv"})


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a file says. ``lines``: see ``program_findings.Lines``. ``filename`` is only for messages.

    For a ``coll`` outside the eight collectives (``custom`` and the like) the program carries that word as its
    collective: it can be executed, but nothing says what its final data must be.
    """

    program: Program | None
    violations: tuple[Violation, ...]
    portability: tuple[Violation, ...] = ()
    lines: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    filename: str = ""


def read_program(source: bytes, filename: str) -> ReadResult:
    """Reads an MSCCL XML file. Never raises for bad content: everything wrong is in the result."""
    if len(source) > MAX_FILE_BYTES:
        size = f"the file has {len(source)} bytes; at most {MAX_FILE_BYTES} are read"
        return ReadResult(None, (Violation("limit", size),), filename=filename)
    scanner = Scanner(source)
    reader = _Reader()
    for tag in scanner.tags():
        if not reader.take(tag):
            break
    reader.finish()
    program = reader.program()
    syntax = [
        (Violation("syntax", _counted(d.message, d.count), line=d.line), d.fatal) for d in scanner.defects
    ]
    fatal = [v for v, is_fatal in syntax if is_fatal] + reader.fatal
    minor = [v for v, is_fatal in syntax if not is_fatal] + reader.minor
    return ReadResult(program, tuple(fatal), tuple(minor), reader.lines, filename)


def load_program(path: Path) -> ReadResult:
    """Reads an MSCCL XML file from disk.

    Raises HetesynthError when the path is no readable regular file or the file is too large.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        with path.open("rb") as stream:
            source = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        help_text = "give the path of an MSCCL XML file that you may read"
        raise HetesynthError(f"cannot read {path}: {reason}", code="HS601", help=help_text) from None
    if len(source) > MAX_FILE_BYTES:
        message = f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB"
        raise HetesynthError(message, code="HS602", help="no runtime loads such a file; is it the right one?")
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
        self.fatal: list[Violation] = []
        self.minor: list[Violation] = []
        self.lines: dict[tuple[int, int], list[int]] = {}
        self._stack: list[str] = []
        self._ignored = 0
        self._elements = 0
        self._seen_root = False
        self._unreadable = False
        self._algo: dict[str, str] = {}
        self._algo_line = 1
        self._gpus: list[GpuProgram] = []
        self._gpu: _OpenGpu | None = None
        self._block: _OpenBlock | None = None
        self._integers: dict[str, int] = {}
        self._slices: dict[tuple[str, int], BufferSlice] = {}
        self._strange: set[str] = set()

    def take(self, tag: Tag) -> bool:
        """Whether reading can go on."""
        if tag.attributes is None:
            return self._end(tag)
        self._elements += 1
        if self._elements > MAX_ELEMENTS or len(self._stack) >= MAX_DEPTH:
            what = f"{MAX_ELEMENTS} elements" if self._elements > MAX_ELEMENTS else f"{MAX_DEPTH} nested elements"
            self._report("limit", f"more than {what}; reading stops here", tag.line)
            self._unreadable = True
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
            self._algo, self._algo_line = attributes, tag.line
        if tag.empty:
            self._close(tag.name)
        else:
            self._stack.append(tag.name)

    def _ignore(self, tag: Tag, parent: str) -> None:
        if not self._ignored:
            if not parent:
                what = "a second root element" if self._seen_root else "the root element is not <algo> but"
                self._report("syntax", f"{what} <{tag.name[:40]}>: this is no MSCCL algorithm", tag.line)
            elif tag.name not in self._strange:
                self._strange.add(tag.name)
                text = f"element <{tag.name[:40]}> under <{parent}> is ignored by every runtime: it is not executed"
                self._report("attribute", text, tag.line, minor=True)
        if not tag.empty:
            self._ignored += 1
            self._stack.append(tag.name)

    def _end(self, tag: Tag) -> bool:
        if not self._stack or self._stack[-1] != tag.name:
            opened = f"<{self._stack[-1][:40]}> is open" if self._stack else "nothing is open"
            self._report("syntax", f"closing tag </{tag.name[:40]}> does not match: {opened}", tag.line)
            if tag.name not in self._stack:
                if self._stack and tag.name not in _PARENT:
                    self._pop()  # a misspelt closing tag: take it for the one that is open
                return True
        while self._stack and self._stack[-1] != tag.name:
            self._pop()
        if self._stack:
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
            self._block = None
        elif name == "gpu" and self._gpu is not None:
            self._gpus.append(GpuProgram(self._gpu.rank, *self._gpu.chunks, tuple(self._gpu.blocks)))
            self._gpu = None

    def finish(self) -> None:
        """Called once, after the last tag."""
        if self._stack:
            self._report("syntax", f"<{self._stack[-1][:40]}> is never closed", None)
            while self._stack:
                self._pop()
        if not self._seen_root and not self.fatal:
            self._report("syntax", "there is no <algo> element: this is no MSCCL algorithm", None)

    # -- elements

    def _open_gpu(self, attributes: dict[str, str], line: int) -> None:
        rank = self._integer(attributes, "gpu", "id", line)
        sizes = [self._integer(attributes, "gpu", name, line) for name in ("i_chunks", "o_chunks", "s_chunks")]
        for name, size in zip(("i_chunks", "o_chunks", "s_chunks"), sizes, strict=True):
            if not 0 <= size <= MAX_CHUNKS:
                self._report("attribute", f"{name}={size} is out of range, 0 to {MAX_CHUNKS}", line, rank=rank)
                self._unreadable = True
        self._gpu = _OpenGpu(rank, (sizes[0], sizes[1], sizes[2]))
        self.lines[len(self._gpus), -1] = [line]

    def _open_block(self, attributes: dict[str, str], line: int) -> None:
        gpu = self._gpu
        if gpu is None:
            return
        number, send, recv, channel = (
            self._integer(attributes, "tb", name, line) for name in ("id", "send", "recv", "chan")
        )
        for name, peer in (("send", send), ("recv", recv)):
            if peer < -1:
                text = f"{name}={peer} is no peer: a rank or -1"
                self._report("attribute", text, line, rank=gpu.rank, block=number)
        if channel < 0:
            text = f"chan={channel} is no channel; even a thread block that only copies needs chan >= 0"
            self._report("attribute", text, line, rank=gpu.rank, block=number)
        self._block = _OpenBlock(number, send, recv, channel)
        self.lines[len(self._gpus), len(gpu.blocks)] = [line]

    def _step(self, attributes: dict[str, str], line: int) -> None:
        block, gpu = self._block, self._gpu
        if block is None or gpu is None:
            return
        position = len(block.steps)
        self.lines[len(self._gpus), len(gpu.blocks)].append(line)
        s, src, dst, count, depid, deps, hasdep = (
            self._integer(attributes, "step", name, line)
            for name in ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")
        )
        op = attributes.get("type")
        if s != position and not block.renumbered:
            block.renumbered = True
            text = f"s={s} stands at position {position}; runtimes number steps by position"
            self._report("attribute", text, line, minor=True, rank=gpu.rank, block=block.id, step=position)
        self._check_step(attributes, op, hasdep, depid, line)
        nop = op == "nop"
        if op not in _OPS:
            op = "nop"
        source = None if nop else self._slice(attributes.get("srcbuf"), src)
        target = None if nop else self._slice(attributes.get("dstbuf"), dst)
        depends = (depid, deps) if depid >= 0 else None
        block.steps.append(Instruction(cast(Op, op), source, target, count, depends, hasdep == 1))

    def _check_step(self, attributes: dict[str, str], op: str | None, hasdep: int, depid: int, line: int) -> None:
        for name in ("srcbuf", "dstbuf"):
            if attributes.get(name) not in ("i", "o", "s"):
                self._bad_value("step", name, attributes.get(name), "i, o or s", line)
        if op not in _OPS:
            more = "; `ra` is read by the research runtime and executed by none" if op == "ra" else ""
            self._bad_value("step", "type", op, f"one of {' '.join(get_args(Op))}{more}", line)
        if hasdep not in (0, 1) and op != "nop":
            self._report("attribute", f"hasdep={hasdep} is neither 0 nor 1", line, **self._here())
        if depid < -1:
            self._report("dependence", f"depid={depid} is no thread block; -1 means none", line, **self._here())

    def _slice(self, buffer: str | None, offset: int) -> BufferSlice:
        key = (buffer or "i", offset)
        part = self._slices.get(key)
        if part is None:
            part = self._slices[key] = BufferSlice(cast(Buffer, key[0]), offset)
        return part

    # -- attributes

    def _integer(self, attributes: dict[str, str], element: str, name: str, line: int) -> int:
        text = attributes.get(name)
        if text is None:
            self._missing(element, name, line)
            return 0
        value = self._integers.get(text)
        if value is None:
            value = self._parse(text, element, name, line)
        return value

    def _parse(self, text: str, element: str, name: str, line: int) -> int:
        if _DECIMAL.match(text):
            value = int(text)
            if abs(value) < 2**31 or name in ("minBytes", "maxBytes"):
                self._integers[text] = value
                return value
            self._bad_value(element, name, text, "a number below 2^31", line)
            return 0
        if _STRTOL.match(text):
            digits = text.lstrip("+-")
            base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" and len(digits) > 1 else 10
            how = {16: "hexadecimal", 8: "octal", 10: "with a sign"}[base]
            if base != 8 or not set(digits) & set("89"):
                value = int(digits, base) * (-1 if text[0] == "-" else 1)
                if abs(value) < 2**31:
                    text = f"{name}=\"{text}\" is written {how}; readers take it for {value}, write plain decimal"
                    self._report("attribute", text, line, minor=True, **self._here())
                    return value
        self._bad_value(element, name, text, "a plain decimal integer", line)
        return 0

    def _missing(self, element: str, name: str, line: int) -> None:
        self._report("attribute", f"attribute `{name}` is missing on <{element}>", line, **self._here())
        self._unreadable = True

    def _bad_value(self, element: str, name: str, value: str | None, expected: str, line: int) -> None:
        if value is None:
            self._missing(element, name, line)
            return
        text = f"{name}=\"{value[:40]}\" on <{element}> is not {expected}"
        self._report("attribute", text, line, **self._here())
        self._unreadable = True

    def _here(self) -> dict[str, int | None]:
        block = self._block
        return {
            "rank": None if self._gpu is None else self._gpu.rank,
            "block": None if block is None else block.id,
            "step": None if block is None else len(block.steps),
        }

    def _report(
        self, kind: ViolationKind, message: str, line: int | None, minor: bool = False,
        rank: int | None = None, block: int | None = None, step: int | None = None,
    ) -> None:  # fmt: skip
        found = self.minor if minor else self.fatal
        if len(found) < MAX_FINDINGS:
            parts = (("gpu", rank), ("thread block", block), ("step", step))
            where = " ".join(f"{word} {number}" for word, number in parts if number is not None)
            message = f"{where}: {message}" if where else message
            found.append(Violation(kind, message, rank=rank, thread_block=block, step=step, line=line))

    # -- the whole

    def program(self) -> Program | None:
        """The program, or None when some value that it needs could not be read."""
        if not self._seen_root:
            return None
        line = self._algo_line
        a = self._algo
        protocol = self._protocol(a, line)
        collective = self._collective(a, line)
        channels, chunks, ranks, inplace = (
            self._integer(a, "algo", name, line) for name in ("nchannels", "nchunksperloop", "ngpus", "inplace")
        )
        outofplace = self._optional(a, "outofplace", 0 if inplace else 1, "RCCL and the executor", line)
        low = self._optional(a, "minBytes", 0, "RCCL and the executor", line)
        high = self._optional(a, "maxBytes", 0, "RCCL and the executor", line)
        root = self._integer(a, "algo", "root", line) if "root" in a else None
        if "name" not in a:
            text = "attribute `name` is missing on <algo>; the research runtime refuses the file"
            self._report("attribute", text, line, minor=True)
        self._check_algo(channels, chunks, ranks, inplace, outofplace, low, high, line)
        if self._unreadable or collective is None or protocol is None:
            return None
        return Program(
            name=a.get("name", ""), collective=collective, ranks=ranks, protocol=protocol, channels=channels,
            chunks_per_loop=chunks, in_place=inplace == 1, out_of_place=outofplace == 1, min_bytes=low,
            max_bytes=high, root=root, gpus=tuple(self._gpus),
        )  # fmt: skip

    def _check_algo(
        self, channels: int, chunks: int, ranks: int, inplace: int, outofplace: int, low: int, high: int, line: int
    ) -> None:
        for name, value, top in (("ngpus", ranks, MAX_RANKS), ("nchunksperloop", chunks, MAX_CHUNKS)):
            if not 1 <= value <= top:
                self._unreadable = True
                if name in self._algo:
                    self._report("attribute", f"{name}={value} is out of range, 1 to {top}", line)
        if channels < 1 and "nchannels" in self._algo:
            self._report("attribute", f"nchannels={channels}: at least one channel is needed", line)
        for name, value in (("inplace", inplace), ("outofplace", outofplace)):
            if value not in (0, 1):
                self._report("attribute", f"{name}={value} is neither 0 nor 1", line)
        if inplace == 0 and outofplace == 0:
            text = "neither inplace nor outofplace is 1: no runtime can ever select this file"
            self._report("attribute", text, line, minor=True)
        if high and low > high:
            text = f"minBytes={low} exceeds maxBytes={high}: the file is refused or never selected"
            self._report("attribute", text, line, minor=True)

    def _protocol(self, a: dict[str, str], line: int) -> Protocol | None:
        text = a.get("proto")
        protocol = _PROTOCOLS.get((text or "").lower())
        if text is None or text != protocol:
            unreadable = self._unreadable
            self._bad_value("algo", "proto", text, "exactly Simple, LL or LL128 (case counts)", line)
            self._unreadable = unreadable or protocol is None
        return protocol

    def _collective(self, a: dict[str, str], line: int) -> CollectiveName | None:
        text = a.get("coll")
        if text == "reduce_scatter":
            note = 'coll="reduce_scatter" is the research runtime\'s spelling; RCCL and the executor read reducescatter'
            self._report("attribute", note, line, minor=True)
            return "reducescatter"
        if text in _OTHER_COLLECTIVES:
            note = f'coll="{text}" does not say what the final data must be: it is executed, the data is not checked'
            self._report("attribute", note, line, minor=True)
        elif text not in COLLECTIVE_NAMES:
            self._bad_value("algo", "coll", text, f"one of {' '.join(COLLECTIVE_NAMES)}", line)
            return None
        return cast(CollectiveName, text)

    def _optional(self, a: dict[str, str], name: str, default: int, who: str, line: int) -> int:
        if name in a:
            return self._integer(a, "algo", name, line)
        text = f"attribute `{name}` is missing on <algo>; {who} refuse the file"
        self._report("attribute", text, line, minor=True)
        return default
