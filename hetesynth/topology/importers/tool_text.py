"""What a tool printed, as lines: decoded, without colours, within limits. Knows nothing of what the lines mean.

The text is untrusted: it may come from a mail, a web page or a terminal's scroll-back.
"""

from __future__ import annotations

import re

from hetesynth.errors import HetesynthError

MAX_TEXT = 16_000_000
MAX_LINES = 200_000
MAX_LINE = 20_000

_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")


def lines_of(data: bytes, name: str) -> list[str]:
    """The lines of ``data``, without escape sequences; HS741 past a limit, HS732 for no text."""
    if len(data) > MAX_TEXT:
        raise HetesynthError(
            f"{name} is larger than {MAX_TEXT} bytes", code="HS741", help="give the tool's output only"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HetesynthError(
            f"{name} is not text: {error.reason} at byte {error.start}",
            code="HS732",
            help="save the tool's output as UTF-8 text",
        ) from error
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    if len(lines) > MAX_LINES or any(len(line) > MAX_LINE for line in lines):
        raise HetesynthError(
            f"{name} has more than {MAX_LINES} lines, or a line of more than {MAX_LINE} characters",
            code="HS741",
            help="give the tool's output only",
        )
    if "\0" in text:
        raise refused(name, f"there is a NUL byte on line {text.count(chr(10), 0, text.index(chr(0))) + 1}",
            "save the tool's output as UTF-8 text")  # fmt: skip
    return lines


def refused(name: str, reason: str, help_: str) -> HetesynthError:
    """HS732: ``name`` is not what its format says, because of ``reason``."""
    return HetesynthError(f"{name}: {reason}", code="HS732", help=help_)
