"""The text of a measurement file as lines of words, within limits.

In: bytes. Out: lines, each cut into words; numbers. Refuses what is no text or too large.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import visible

MAX_FILE_BYTES = 16 << 20
MAX_LINE = 4096

_NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,3})?")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
_STEPS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True)
class Line:
    """A line by its number, from 1."""

    number: int
    text: str

    @property
    def words(self) -> list[str]:
        """Between white space."""
        return self.text.split()


def text_of(content: bytes, source: str) -> str:
    """``content`` as text; HetesynthError HS840 where it is none or too large."""
    if len(content) > MAX_FILE_BYTES:
        raise HetesynthError(
            f"{source} is larger than {MAX_FILE_BYTES >> 20} MiB", code="HS840", help="give the table alone"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HetesynthError(
            f"{source} is not text: byte {error.start} is not UTF-8", code="HS840", help="give the tool's output"
        ) from None
    if "\0" in text:
        raise HetesynthError(f"{source} is not text: it has a NUL byte", code="HS840")
    return text


def lines_of(text: str) -> Iterator[Line]:
    """The lines that are not blank; one that is too long is cut."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield Line(number, line[:MAX_LINE].strip())


def number(word: str) -> float | None:
    """A finite number in the usual notations, or None."""
    if _NUMBER.fullmatch(word) is None:
        return None
    value = float(word)
    return value if math.isfinite(value) else None


def size(word: str) -> float | None:
    """Bytes: ``4096``, ``64K``, ``1M``, ``16MiB`` (powers of 1024, as these tools print them); or None."""
    match = _SIZE.fullmatch(word.strip())
    if match is None:
        value = number(word)
        return value if value is not None and value > 0 else None
    return float(match[1]) * 1024.0 ** _STEPS[(match[2] or "").lower()]


def refused(source: str, message: str, help_: str) -> HetesynthError:
    """HS841: the file is text, but not what its reader reads."""
    return HetesynthError(f"{source}: {visible(message)}", code="HS841", help=help_)
