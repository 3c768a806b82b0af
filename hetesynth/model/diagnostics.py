"""Where in a source text something stands, how a finding about it is shown, which characters are shown escaped."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hetesynth.errors import HetesynthError

Severity = Literal["error", "warning", "note"]

MAX_SHOWN_COLUMNS = 160

HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal, turns the direction of writing around or is no character: C0 without tab and line feed,
DEL, C1, line separators, bidirectional marks, embeddings, overrides and isolates, halves of surrogate pairs."""


def visible(text: str) -> str:
    r"""Return ``text`` with each of ``HIDDEN`` as ``\u001b``: safe to show, in a JSON string the same value."""
    return HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one line of a source: 1-based line and column, ``length`` columns (at least 1)."""

    file: str
    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding about a source text: a stable code, its place, a message, and what to do."""

    code: str
    span: Span
    message: str
    help: str = ""
    severity: Severity = "error"

    def plain(self) -> dict[str, Any]:
        """The finding for JSON."""
        told = {"message": self.message, "help": self.help}
        return {"code": self.code, "severity": self.severity, **asdict(self.span), **told}


def render(diagnostic: Diagnostic, source: str | None) -> str:
    """The finding as text: ``file:line:col: CODE: message``, the source line, a caret, the help line."""
    span = diagnostic.span
    label = "" if diagnostic.severity == "error" else f"{diagnostic.severity} "
    head = f"{span.file}:{span.line}:{span.column}: {label}{diagnostic.code}: {diagnostic.message}"
    shown = [head.replace("\n", "\\u000a")]
    lines = source.splitlines() if source is not None else []
    if span.line <= len(lines):  # the source line and the caret line; long lines are windowed around the span
        line = lines[span.line - 1].replace("\t", " ")
        start = max(0, span.column - 1 - MAX_SHOWN_COLUMNS // 2)
        window = "".join(c if c.isprintable() else "?" for c in line[start : start + MAX_SHOWN_COLUMNS])
        caret_at = span.column - 1 - start
        length = max(1, min(span.length, len(window) - caret_at))
        shown += [f"  {window}", f"  {' ' * caret_at}{'^' * length}"]
    if diagnostic.help:
        shown.append(f"  help: {diagnostic.help}")
    return "\n".join(shown)


class SourceWarning(UserWarning):
    """A warning of something in an input file that was read in the only way it can be meant."""


class SourceError(HetesynthError):
    """An error with at least one finding about input files, all shown together; its code is that of the first."""

    def __init__(self, diagnostics: Sequence[Diagnostic], sources: dict[str, str]) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: (d.span.file, d.span.line, d.span.column)))
        self.sources = sources
        first = self.diagnostics[0]
        super().__init__(first.message, code=first.code, help=first.help)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle calls to make the error again: by default it would keep the message alone."""
        return SourceError, (self.diagnostics, self.sources)

    def render(self) -> str:
        """Return the text of all findings, in the order of the source."""
        return "\n".join(render(d, self.sources.get(d.span.file)) for d in self.diagnostics)
