"""Where the keys and values of a TOML text stand.

In: a text that ``tomllib`` has read, so nothing is checked here. Out: ``Positions``: for the path of a key
(``("cluster", 0, "name")``) the spans of the key and of its value. A stretch of several lines is its first line.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from dataclasses import dataclass, field

from hetesynth.model.diagnostics import Span

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Path = tuple[str | int, ...]
"""Of a key, from the top of the document; a number counts in an array."""

_BLANK = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]*")


@dataclass
class Positions:
    """The spans of one text. ``file``: the name that they carry."""

    file: str
    text: str
    _keys: dict[Path, Span] = field(default_factory=dict)
    _values: dict[Path, Span] = field(default_factory=dict)
    _lengths: dict[Path, int] = field(default_factory=dict)
    _lines: list[int] = field(default_factory=list)
    _at: int = 0

    def __post_init__(self) -> None:
        self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self._document()

    def has(self, path: Path) -> bool:
        """Whether the key is in the text."""
        return path in self._keys

    def key(self, path: Path) -> Span:
        """Where the key is, or that of the innermost table around it; of a table its header."""
        return self._nearest(path, self._keys)

    def value(self, path: Path) -> Span:
        """Where the value is; where there is none, as ``key``."""
        return self._values.get(path) or self.key(path)

    def inside(self, path: Path, start: int, length: int) -> Span:
        """Characters of the text that the value is, counted from 0; all of it where escapes or lines are in it."""
        span = self.value(path)
        begin = self._lines[span.line - 1] + span.column - 1
        token = self.text[begin : begin + span.length]
        if len(token) < 2 or token[0] not in "\"'" or token[:3] in ('"""', "'''") or "\\" in token:
            return span
        first = min(span.column + 1 + start, span.column + span.length - 1)
        return Span(self.file, span.line, first, max(1, min(length, span.column + span.length - 1 - first)))

    def span(self, start: int, end: int) -> Span:
        """From one place of the text to another."""
        line = bisect_right(self._lines, start)
        begin = self._lines[line - 1]
        stop = min(end, self._lines[line] - 1 if line < len(self._lines) else len(self.text))
        return Span(self.file, line, start - begin + 1, max(1, stop - start))

    def _nearest(self, path: Path, spans: dict[Path, Span]) -> Span:
        while path and path not in spans:
            if isinstance(path[-1], int) and path in self._values:
                return self._values[path]
            path = path[:-1]
        return spans.get(path) or Span(self.file, 1, 1)

    # --- the text

    def _skip(self) -> str:
        """To the next character that counts, which it is; "" at the end."""
        blank = _BLANK.match(self.text, self._at)
        self._at = blank.end() if blank else self._at
        return self.text[self._at : self._at + 1]

    def _document(self) -> None:
        table: Path = ()
        while character := self._skip():
            if character == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        several = self.text.startswith("[[", self._at)
        start = self._at
        self._at += 1 + several
        table = self._key(())
        self._skip()
        self._at += 1 + several
        if several:
            number = self._lengths.get(table, 0)
            self._lengths[table] = number + 1
            table = (*table, number)
        self._keys[table] = self.span(start, self._at)
        return table

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        self._skip()
        self._at += 1  # the equals sign
        self._value(path)

    def _key(self, path: Path) -> Path:
        """``path`` and the parts of the dotted key here; a part that is an array of tables means its last one."""
        while True:
            self._skip()
            start = self._at
            path = (*path, self._part())
            span = self.span(start, self._at)
            self._keys.setdefault(path, span)
            if self._skip() != ".":
                return path
            self._at += 1
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)

    def _part(self) -> str:
        token = _STRING.match(self.text, self._at) or _WORD.match(self.text, self._at)
        text = token[0] if token else ""
        self._at += max(1, len(text))  # never stands still
        return str(tomllib.loads(f"key = {text}")["key"]) if text[:1] in ("'", '"') and text else text

    def _value(self, path: Path) -> None:
        character, start = self._skip(), self._at
        if character == "[":
            self._elements(path)
        elif character == "{":
            self._members(path)
        elif token := _STRING.match(self.text, self._at):
            self._at = token.end()
        elif scalar := _SCALAR.match(self.text, self._at):
            self._at += max(1, len(scalar[0].rstrip()))
        self._values[path] = self.span(start, self._at)

    def _elements(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._skip() not in ("]", ""):
            self._value((*path, number))
            number += 1
            if self._skip() == ",":
                self._at += 1
        self._at += 1

    def _members(self, path: Path) -> None:
        self._at += 1
        while self._skip() not in ("}", ""):
            self._pair(path)
            if self._skip() == ",":
                self._at += 1
        self._at += 1
