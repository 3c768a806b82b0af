"""A topology file with losses that are stated beside it, as ``--without`` and ``--degrade`` do.

In: the values of these options. Out: an ``OverriddenFile``, a path wherever only a path is asked for. Findings
about a loss point into the option's values, one a line.
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
    sources = {"--without": "\n".join(map(_line, without)), "--degrade": "\n".join(map(_line, degrade))}
    _check_sizes((*without, *degrade), sources)
    losses: list[Loss] = [_without(text, line, sources) for line, text in enumerate(map(_line, without), 1)]
    losses += [_degrade(text, line, sources) for line, text in enumerate(map(_line, degrade), 1)]
    return OverriddenFile(os.fspath(path), tuple(losses), tuple(sources.items()))


def _line(value: str) -> str:
    return HIDDEN.sub("?", value).replace("\n", " ").replace("\t", " ")


def _check_sizes(values: Sequence[str], sources: dict[str, str]) -> None:
    option = "--without" if sources["--without"] else "--degrade"
    if len(values) > MAX_LOSSES or any(len(value) > MAX_VALUE for value in values):
        message = f"more than {MAX_LOSSES} losses, or one of more than {MAX_VALUE} characters"
        raise SourceError([Diagnostic("HS208", Span(option, 1, 1), message, "use ranges and *")], {})


def _without(text: str, line: int, sources: dict[str, str]) -> Loss:
    arrow = _ARROW.search(text)
    if arrow is None:
        words = _words(text, 0, "--without", line, sources)
        return Without(words, words[0].span)
    left, right = _sides(text, arrow, "--without", line, sources)
    return Down(left, right, arrow[0] == "<->", left[0].span)


def _degrade(text: str, line: int, sources: dict[str, str]) -> Loss:
    target, equals, amount = text.partition("=")
    if not equals:
        help_ = 'write TARGET=RATE, such as --degrade "a.nic*=18Gbps" or --degrade "a.gpu0<->a.gpu1=50%"'
        raise _wrong("HS111", "--degrade", line, 0, text, "no rate is stated", help_, sources)
    match = _RATE.fullmatch(amount)
    if match is None:
        help_ = "write a bandwidth with its unit, or a share: 18Gbps, 12.5GB/s, 50%"
        start = len(target) + 1
        raise _wrong("HS111", "--degrade", line, start, amount, f"`{amount[:40]}` is no rate", help_, sources)
    start = len(target) + 1 + match.start(1)
    rate = Amount(match[1], match[2], Span("--degrade", line, start + 1, match.end(2) - match.start(1)))
    lanes = Amount(match[3], "", rate.span) if match[3] else None
    arrow = _ARROW.search(target)
    if arrow is None:
        words = _words(target, 0, "--degrade", line, sources)
        return Degrade(words, (), False, rate, lanes, words[0].span)
    left, right = _sides(target, arrow, "--degrade", line, sources)
    return Degrade(left, right, arrow[0] == "<->", rate, lanes, left[0].span)


def _sides(
    text: str, arrow: re.Match[str], option: str, line: int, sources: dict[str, str]
) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    left = _words(text[: arrow.start()], 0, option, line, sources)
    return left, _words(text[arrow.end() :], arrow.end(), option, line, sources)


def _words(text: str, start: int, option: str, line: int, sources: dict[str, str]) -> tuple[Word, ...]:
    """The names and patterns in ``text``, which begins ``start`` characters into the line."""
    words: list[Word] = []
    for piece in _SIDE.finditer(text):
        name = piece[0].strip()
        column = start + piece.start() + len(piece[0]) - len(piece[0].lstrip())
        if not _WORD.fullmatch(name):
            help_ = 'name parts as in the file: "b.gpu3", "a.nic[0-1], b", "a.gpu0<->a.gpu1"'
            raise _wrong("HS210", option, line, column, name, f"`{name[:40]}` is no name", help_, sources)
        words.append(Word(name, Span(option, line, column + 1, len(name))))
    if not words:
        raise _wrong("HS210", option, line, start, "", "a name is missing", "such as b.gpu3", sources)
    return tuple(words)


def _wrong(
    code: str, option: str, line: int, start: int, text: str, message: str, help_: str, sources: dict[str, str]
) -> SourceError:
    span = Span(option, line, start + 1, max(1, len(text)))
    return SourceError([Diagnostic(code, span, message, help_)], sources)
