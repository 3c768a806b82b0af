"""A topology file with losses that are stated beside it, as ``--without`` and ``--degrade`` do.

Findings about a loss point into the option's values, one a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hetesynth.model.diagnostics import HIDDEN, Diagnostic, SourceError, Span
from hetesynth.topology.language.syntax import Amount, Degrade, Down, Loss, Without, Word

MAX_LOSSES = 256
MAX_VALUE = 1000

_WORD = re.compile(
    r"[A-Za-z_*][A-Za-z0-9_*]*(?:\[[0-9*, \t-]*\])?[A-Za-z0-9_*]*"
    r"(?:\.[A-Za-z_*][A-Za-z0-9_*]*(?:\[[0-9*, \t-]*\])?[A-Za-z0-9_*]*)*"
)
_ARROW = re.compile("<->|->")
_SIDE = re.compile(r"(?:[^,\[]|\[[^\]]*\]|\[)+")
_UNIT = r"([A-Za-z\u00b5\u03bc]+(?:/[A-Za-z]+)?|%)"
_RATE = re.compile(rf"[ \t]*([0-9]+(?:\.[0-9]+)?)[ \t]*{_UNIT}[ \t]*(?:x[ \t]*([0-9]+))?[ \t]*")


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


def overridden(
    path: str | os.PathLike[str], without: Sequence[str] = (), degrade: Sequence[str] = ()
) -> OverriddenFile:
    """The file at ``path`` with what ``--without`` and ``--degrade`` say; ``SourceError`` for a wrong value."""
    lines = {
        option: [HIDDEN.sub("?", value).replace("\n", " ").replace("\t", " ") for value in values]
        for option, values in (("--without", without), ("--degrade", degrade))
    }
    sources = {option: "\n".join(texts) for option, texts in lines.items()}
    if len(without) + len(degrade) > MAX_LOSSES or any(len(value) > MAX_VALUE for value in (*without, *degrade)):
        message = f"more than {MAX_LOSSES} losses, or one of more than {MAX_VALUE} characters"
        span = Span("--without" if sources["--without"] else "--degrade", 1, 1)
        raise SourceError([Diagnostic("HS208", span, message, "use ranges and *")], {})
    losses = [
        _Value(option, number, text, sources).loss()
        for option, texts in lines.items()
        for number, text in enumerate(texts, 1)
    ]
    return OverriddenFile(os.fspath(path), tuple(losses), tuple(sources.items()))


@dataclass(frozen=True, slots=True)
class _Value:
    """One value of an option, the text of line ``line`` of what its findings point into."""

    option: str
    line: int
    text: str
    sources: dict[str, str]

    def loss(self) -> Loss:
        if self.option == "--without":
            left, right, both_ways = self._ends(self.text)
            return Down(left, right, both_ways, left[0].span) if right else Without(left, left[0].span)
        target, equals, amount = self.text.partition("=")
        start = len(target) + 1
        match = _RATE.fullmatch(amount)
        if not equals:
            help_ = 'write TARGET=RATE, such as --degrade "a.nic*=18Gbps" or --degrade "a.gpu0<->a.gpu1=50%"'
            raise self._wrong("HS111", 0, self.text, "no rate is stated", help_)
        if match is None:
            help_ = "write a bandwidth with its unit, or a share: 18Gbps, 12.5GB/s, 50%"
            raise self._wrong("HS111", start, amount, f"`{amount[:40]}` is no rate", help_)
        span = Span(self.option, self.line, start + match.start(1) + 1, match.end(2) - match.start(1))
        lanes = Amount(match[3], "", span) if match[3] else None
        left, right, both_ways = self._ends(target)
        return Degrade(left, right, both_ways, Amount(match[1], match[2], span), lanes, left[0].span)

    def _ends(self, target: str) -> tuple[tuple[Word, ...], tuple[Word, ...], bool]:
        """What is named left and right of the arrow, nothing right where there is none; whether both ways."""
        arrow = _ARROW.search(target)
        if arrow is None:
            return self._words(target, 0), (), False
        left = self._words(target[: arrow.start()], 0)
        return left, self._words(target[arrow.end() :], arrow.end()), arrow[0] == "<->"

    def _words(self, text: str, start: int) -> tuple[Word, ...]:
        """The names and patterns in ``text``, which begins ``start`` characters into the line."""
        words: list[Word] = []
        for piece in _SIDE.finditer(text):
            name = piece[0].strip()
            column = start + piece.start() + len(piece[0]) - len(piece[0].lstrip())
            if not _WORD.fullmatch(name):
                help_ = 'name parts as in the file: "b.gpu3", "a.nic[0-1], b", "a.gpu0<->a.gpu1"'
                raise self._wrong("HS210", column, name, f"`{name[:40]}` is no name", help_)
            words.append(Word(name, Span(self.option, self.line, column + 1, len(name))))
        if not words:
            raise self._wrong("HS210", start, "", "a name is missing", "such as b.gpu3")
        return tuple(words)

    def _wrong(self, code: str, start: int, text: str, message: str, help_: str) -> SourceError:
        span = Span(self.option, self.line, start + 1, max(1, len(text)))
        return SourceError([Diagnostic(code, span, message, help_)], self.sources)
