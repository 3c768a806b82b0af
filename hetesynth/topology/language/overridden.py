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
    losses = []
    for option, texts in lines.items():
        losses += [_loss(option, number, text, sources) for number, text in enumerate(texts, 1)]
    return OverriddenFile(os.fspath(path), tuple(losses), tuple(sources.items()))


def _loss(option: str, line: int, text: str, sources: dict[str, str]) -> Loss:
    """What one value of an option says, the text of line ``line`` of what its findings point into."""

    def wrong(code: str, start: int, shown: str, message: str, help_: str) -> SourceError:
        span = Span(option, line, start + 1, max(1, len(shown)))
        return SourceError([Diagnostic(code, span, message, help_)], sources)

    def words(side: str, start: int) -> tuple[Word, ...]:
        """The names and patterns in ``side``, which begins ``start`` characters into the line."""
        names: list[Word] = []
        for piece in _SIDE.finditer(side):
            name = piece[0].strip()
            column = start + piece.start() + len(piece[0]) - len(piece[0].lstrip())
            if not _WORD.fullmatch(name):
                help_ = 'name parts as in the file: "b.gpu3", "a.nic[0-1], b", "a.gpu0<->a.gpu1"'
                raise wrong("HS210", column, name, f"`{name[:40]}` is no name", help_)
            names.append(Word(name, Span(option, line, column + 1, len(name))))
        if not names:
            raise wrong("HS210", start, "", "a name is missing", "such as b.gpu3")
        return tuple(names)

    target, equals, amount = text.partition("=") if option == "--degrade" else (text, "", "")
    start = len(target) + 1
    rate = _RATE.fullmatch(amount)
    if option == "--degrade" and not equals:
        help_ = 'write TARGET=RATE, such as --degrade "a.nic*=18Gbps" or --degrade "a.gpu0<->a.gpu1=50%"'
        raise wrong("HS111", 0, text, "no rate is stated", help_)
    if equals and rate is None:
        help_ = "write a bandwidth with its unit, or a share: 18Gbps, 12.5GB/s, 50%"
        raise wrong("HS111", start, amount, f"`{amount[:40]}` is no rate", help_)
    arrow = _ARROW.search(target)
    left = words(target[: arrow.start()] if arrow else target, 0)
    right = words(target[arrow.end() :], arrow.end()) if arrow else ()
    both_ways = arrow is not None and arrow[0] == "<->"
    if rate is None:
        return Down(left, right, both_ways, left[0].span) if right else Without(left, left[0].span)
    span = Span(option, line, start + rate.start(1) + 1, rate.end(2) - rate.start(1))
    lanes = Amount(rate[3], "", span) if rate[3] else None
    return Degrade(left, right, both_ways, Amount(rate[1], rate[2], span), lanes, left[0].span)
