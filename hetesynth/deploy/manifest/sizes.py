"""Ranges of sizes, as a manifest says them: ``1MB..64MB``, ``..1MB``, ``64MB..``, ``64MB``.

In: texts. Out: ``SizeRange``s whose text is the one spelling of what they mean, or ``NoRange`` with the way out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hetesynth.errors import HetesynthError
from hetesynth.model.size_range import SizeRange, spelled_range, spelling

if TYPE_CHECKING:
    from hetesynth.deploy.manifest.document import Document
    from hetesynth.deploy.manifest.positions import Path

MAX_SIZE = 1 << 50

_OTHER_DOTS = re.compile(r"\.{3,}|…|\s-\s|(?<=[A-Za-z])-(?=[0-9])|\bto\b|:|–")


class NoRange(Exception):
    """The characters of a text that are no size, and why."""

    def __init__(self, start: int, length: int, message: str, help: str) -> None:
        super().__init__(message)
        self.start, self.length, self.message, self.help = start, length, message, help


def size_range(text: str) -> SizeRange:
    """The range that ``text`` says. Raises ``NoRange``."""
    other = _OTHER_DOTS.search(text)
    if other:
        ends = f"{text[: other.start()].strip()[:20]}..{text[other.end() :].strip()[:20]}"
        raise NoRange(0, len(text), f"`{text[:60]}` is no range", f'write "{ends}"')
    if text.count("..") > 1:
        raise NoRange(0, len(text), f"`{text[:60]}` is no range", 'a range has two ends: "1MB..64MB"')
    before, dots, after = text.partition("..")
    if not before.strip() and not after.strip():
        help_ = 'one end is needed: "..1MB" or "1MB.."; for all sizes leave `sizes` out'
        raise NoRange(0, len(text), f"`{text[:60]}` has no end", help_)
    if dots and after.strip() and re.fullmatch(r"0+(\.0+)?\s*[A-Za-z]*", before.strip()):
        help_ = f'write "..{after.strip()[:20]}"'
        raise NoRange(0, len(text), f"`{text[:60]}` begins at no size", help_)
    low = _size(before, 0) if before.strip() else 0
    high = _size(after, len(before) + 2) if after.strip() else None if dots else low
    if high is not None and high < low:
        help_ = f'write "{spelling(high)}..{spelling(low)}"'
        raise NoRange(0, len(text), f"`{text[:60]}` ends before it begins", help_)
    return SizeRange(low, high, spelled_range(low, high))


def _size(text: str, start: int) -> int:
    from hetesynth.topology.language.quantity import parse_quantity

    start += len(text) - len(text.lstrip())
    word = text.strip()
    try:
        bytes_ = parse_quantity(word, "size", "sizes")
    except HetesynthError as error:
        help_ = error.help.replace(
            "for example 16MB", "a number with B, KB, MB, GB, KiB, MiB or GiB (M alone is MiB)"
        )
        help_ = f"did you mean {word}MB?" if re.fullmatch("[0-9.]{1,18}", word) else help_
        raise NoRange(start, len(word), f"`{word[:60]}` is no size with a unit", help_) from None
    if bytes_.denominator != 1 or not 1 <= bytes_ <= MAX_SIZE:
        raise NoRange(start, len(word), f"`{word[:60]}` is no whole number of bytes up to 1 PiB", "such as 64MB")
    return int(bytes_)


def size_of(text: str) -> int:
    """The bytes that ``text`` says. Raises ``NoRange``."""
    return _size(text, 0)


def ranges(texts: Sequence[str | None], path: Path, document: Document) -> dict[int, SizeRange]:
    """The ranges in a list of the document by their places in it; findings for those that are none."""
    read = {}
    for number, text in enumerate(texts):
        if text is None:
            continue
        try:
            read[number] = size_range(text)
        except NoRange as wrong:
            place = document.positions.inside((*path, number), wrong.start, wrong.length)
            document.findings.add("HS865", place, wrong.message, wrong.help)
    return read


def apart(read: dict[int, SizeRange], path: Path, document: Document) -> tuple[SizeRange, ...]:
    """The same for one folder, where no two may overlap; an end at which another begins is that one's."""
    ordered = sorted(read.items(), key=lambda item: (item[1].low, item[1].high or math.inf))
    widest: SizeRange | None = None
    for number, one in ordered:
        if widest is not None and (widest.high is None or one.low < widest.high or one.low == widest.low):
            message = f"`{one.text}` and `{widest.text}` overlap"
            document.add("HS865", (*path, number), message, _way_out(one, widest))
        if widest is None or (widest.high is not None and (one.high is None or one.high > widest.high)):
            widest = one
    return tuple(_limited(one, number, read) for number, one in read.items())


def _limited(one: SizeRange, number: int, read: dict[int, SizeRange]) -> SizeRange:
    return replace(one, closed=all(one.high != other.low for i, other in read.items() if i != number))


def _way_out(one: SizeRange, other: SizeRange) -> str:
    if (one.low, one.high) == (other.low, other.high):
        return "name a range once"
    if one.low > other.low:
        return f"one may begin where the other ends: {spelled_range(other.low, one.low)}, {one.text}"
    return "a call must fit one range only"
