"""Reads a source file and refuses what cannot be a topology before any parsing.

Figure 10 of HeteCCL gets the brackets that its print lacks.
"""

import errno
import os
import re
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import read_regular
from hetesynth.model.diagnostics import HIDDEN, Diagnostic, SourceError, Span
from hetesynth.topology.language.syntax import Loss

MAX_SOURCE_BYTES = 1 << 18
MAX_DEPTH = 32
SUFFIX = ".dsl"  # of files that others name
STANDARD_INPUT = "-"  # in place of a path

_TOKENS = re.compile(r'(?:#|//).*|"[^"]*"|[()\[\]{}]')
_ODD_SPACES = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # other tools would count lines at them
_CLOSERS = {"(": ")", "[": "]", "{": "}"}

_PRINTED = {  # lines of HeteCCL's Figure 10: what stands before the bracket that its print lacks, it, what follows
    5: ("( ( ( 0 , 1 ) , ( 2 , 3 ) >-> ( 16 , 1 ) ) )", "]", ", direct"),
    7: ("( ( ( 0 , 1 ) , ( 0 , 1 , 2 , 3 ) >-> ( 8 , 1 ) )", ")", "] }"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name its findings carry (a path, or ``<text>``)."""

    name: str
    text: str
    written: str = ""  # before it was mended
    warnings: tuple[Diagnostic, ...] = ()  # what was mended
    losses: tuple[Loss, ...] = ()  # stated beside it
    aside: tuple[tuple[str, str], ...] = ()  # the texts that say so


@dataclass(frozen=True, slots=True)
class OverriddenFile(os.PathLike[str]):
    """The file at ``path`` with ``losses``; ``sources`` holds the texts that their spans point into, by name."""

    path: str
    losses: tuple[Loss, ...]
    sources: tuple[tuple[str, str], ...] = ()

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


def read_source(path: str | os.PathLike[str]) -> Source:
    """Return the checked text of the file at ``path``, or of standard input for ``-``, however often called."""
    name = os.fspath(path)
    if not isinstance(name, str):
        name = os.fsdecode(name)
    content = _content(name)
    name = "standard input" if name == STANDARD_INPUT else name
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _binary(name, f"line {line} is not UTF-8") from None
    source = checked_source(text, name)
    if isinstance(path, OverriddenFile):
        return replace(source, losses=path.losses, aside=path.sources)
    return source


def line_end_of(path: str | os.PathLike[str]) -> str:
    """Return the line end of a file, CRLF or LF, which ``Source`` does not keep."""
    return "\r\n" if b"\r\n" in _content(os.fspath(path)) else "\n"


def checked_source(text: str, name: str) -> Source:
    """Return ``text`` with uniform line ends; ``SourceError`` if size, characters or brackets are wrong."""
    if len(text) > MAX_SOURCE_BYTES:
        raise _too_large(name, f" ({len(text)} characters)")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = _ODD_SPACES.sub(" ", text)
    if "\0" in text:
        zero = text.count("\n", 0, text.index("\0")) + 1
        raise _binary(name, f"there is a NUL byte on line {zero}")
    source = _figure_completed(text, name) or Source(name, text)
    diagnostics: list[Diagnostic] = _bracket_findings(source)
    for number, line in enumerate(source.text.split("\n"), 1):  # what would steer a terminal, outside of comments
        hidden = HIDDEN.search(re.sub(r'("[^"]*")|(?:#|//).*', lambda match: match[1] or "", line))
        if hidden is not None and not diagnostics:
            span = Span(name, number, hidden.start() + 1)
            message = f"the character U+{ord(hidden[0]):04X} cannot be part of a name"
            help_ = "remove it: names are shown on terminals and in reports"
            diagnostics.append(Diagnostic("HS106", span, message, help_))
    if diagnostics:
        raise SourceError(diagnostics, {name: text})
    return source


def is_topology_file(path: Path) -> bool:
    """Return True if ``path``, or the file that it links to, is named like a topology."""
    try:
        return path.resolve().suffix == SUFFIX or path.is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def no_standard_input(path: Path) -> Path:
    """Return ``path`` as the path of a file, also for ``-``: an import never reads standard input."""
    return path.absolute() if os.fspath(path) == STANDARD_INPUT else path


def _content(name: str) -> bytes:
    path = Path(name)
    try:
        if name == STANDARD_INPUT:
            name = "standard input"
            content = _all_of(sys.stdin)
        elif path.suffix == SUFFIX and not is_topology_file(path):
            raise OSError(errno.EINVAL, f"it is a link to a file that is not called *{SUFFIX}")
        else:
            content = read_regular(path, MAX_SOURCE_BYTES)
    except (OSError, ValueError, AttributeError) as error:  # without standard input there is no attribute of it
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise _too_large(name) from None
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        message = f"{name} {'does not exist' if isinstance(error, FileNotFoundError) else what}"
        help_ = "check the path; the examples are in examples/*/topo.dsl"
        raise HetesynthError(message, code="HS101", help=help_) from None
    if len(content) > MAX_SOURCE_BYTES:
        raise _too_large(name)
    return content


@lru_cache(maxsize=1)  # it can be read once, and commands ask for their topology several times
def _all_of(stream: TextIO) -> bytes:
    return stream.buffer.read(MAX_SOURCE_BYTES + 1)


def _too_large(name: str, shown: str = "") -> HetesynthError:
    message = f"{name} is larger than {MAX_SOURCE_BYTES >> 10} KiB{shown}, the limit for a topology"
    help_ = "describe repeated hardware once, with node types, ranges and `instance b[0-7] = ...`"
    return HetesynthError(message, code="HS102", help=help_)


def _binary(name: str, evidence: str) -> HetesynthError:
    help_ = "give a topology written in the DSL, as UTF-8 text"
    return HetesynthError(f"{name} is not a text file: {evidence}", code="HS103", help=help_)


def _bracket_findings(source: Source) -> list[Diagnostic]:
    """Return a finding for the first bracket without a partner, or nested too deep; at most one."""
    opened: list[tuple[str, Span]] = []
    for number, line in enumerate(source.text.split("\n"), 1):
        for match in _TOKENS.finditer(line):
            token, span = match[0], Span(source.name, number, match.start() + 1)
            if token in _CLOSERS:
                opened.append((token, span))
                if len(opened) > MAX_DEPTH:
                    message = f"brackets are nested deeper than {MAX_DEPTH} levels"
                    return [Diagnostic("HS104", span, message, "no topology needs this; check the brackets")]
            elif token in ")]}":
                bracket, where = opened.pop() if opened else ("", span)
                if _CLOSERS.get(bracket) != token:
                    message = f"`{token}` closes nothing"
                    if bracket:
                        message = f"`{token}` closes `{bracket}` of line {where.line}, column {where.column}"
                    return [Diagnostic("HS105", span, message, "remove it, or put what is missing before it")]
    if opened:
        bracket, where = opened[-1]
        help_ = f"add the missing `{_CLOSERS[bracket]}`"
        return [Diagnostic("HS105", where, f"`{bracket}` is never closed", help_)]
    return []


def _figure_completed(text: str, name: str) -> Source | None:
    """Return ``text`` with both brackets that Figure 10 lacks as printed, and a warning for each; else None."""
    if "interbandwidth" not in text:
        return None
    completed = re.sub(r"(?m)^\d+(?=\s+define)", lambda match: " " * len(match[0]), text)  # numbers of lines
    warnings: list[Diagnostic] = []
    for line, (before, bracket, behind) in reversed(_PRINTED.items()):
        gaps = (r"\s*".join(map(re.escape, tokens.split())) for tokens in (before, behind))
        match = re.search(r"{}(?=\s*{})".format(*gaps), completed)
        if match is None:
            return None
        last = match.end() - 1
        message = f"`{bracket}` is missing behind this, as in line {line} of HeteCCL's Figure 10 as printed"
        span = Span(name, completed.count("\n", 0, last) + 1, last - completed.rfind("\n", 0, last))
        help_ = f"it is read as if `{bracket}` stood there"
        warnings.insert(0, Diagnostic("HS105", span, message, help_, "warning"))
        completed = completed[: match.end()] + bracket + completed[match.end() :]
    return Source(name, completed, text, tuple(warnings))
