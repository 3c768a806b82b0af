"""Edits of a text by place: replaced and inserted pieces, everything else as it was.

In: a text and edits. Out: the new text. Two edits must not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hetesynth.model.diagnostics import Span

CALIBRATED = "# calibrated:"

_TOKENS = re.compile(r'(?:#|//)[^\n]*|"[^"\n]*"|[{}]')


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from ``start`` to ``end`` (exclusive) become ``text``."""

    start: int
    end: int
    text: str

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"an edit from {self.start} to {self.end}")


def edited(text: str, edits: Iterable[Edit]) -> str:
    """``text`` after ``edits``."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at:
            raise ValueError("two edits overlap")
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*pieces, text[at:]])


def offset(text: str, span: Span) -> int:
    """Where ``span`` begins in ``text``."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: span.line - 1]) + span.column - 1


def opening(text: str, start: int) -> int | None:
    """Behind the first `{` at or after ``start``."""
    for token in _TOKENS.finditer(text, start):
        if token[0] == "{":
            return token.end()
    return None


def closing(text: str, start: int) -> int | None:
    """The `}` that closes the first `{` at or after ``start``."""
    depth = 0
    for token in _TOKENS.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if token[0] == "}" and depth == 0:
            return token.start()
    return None


def noted(text: str, start: int, note: str) -> Edit:
    """``note`` as a comment on the line above that of ``start``, in place of an older one."""
    line = text.rfind("\n", 0, start) + 1
    indent = text[line : line + len(text[line:]) - len(text[line:].lstrip(" \t"))]
    before = text.rfind("\n", 0, max(0, line - 1)) + 1
    begin = before if line and text[before:line].lstrip().startswith(CALIBRATED) else line
    return Edit(begin, line, f"{indent}{CALIBRATED} {note}\n")
