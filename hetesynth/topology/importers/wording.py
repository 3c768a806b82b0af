"""Names, ranges and quantities as the topology language writes them."""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from textwrap import wrap

MAX_NAME = 48
_SHOWN = 8
_PLACES = 9  # digits behind the point where a figure has no end


def decimal(value: Fraction) -> str:
    """Return ``value`` as a decimal number, exact if it ends within 14 digits behind the point."""
    for places in range(15):
        scaled = value * 10**places
        if scaled.denominator == 1:
            return f"{Decimal(int(scaled)).scaleb(-places):f}"
    return f"{Decimal(round(value * 10**_PLACES)).scaleb(-_PLACES):f}"


def bandwidth(rate: Fraction, lanes: int = 1) -> str:
    """Return a rate of one lane, in bytes per second, with its lanes as text: ``25 GB/s x 2``."""
    text = f"{decimal(rate / 10**9)} GB/s" if rate * 10**6 >= 10**9 else f"{decimal(rate)} B/s"
    return text if lanes == 1 else f"{text} x {lanes}"


def network_rate(rate: Fraction) -> str:
    """Return a rate as ``400 Gbps`` if that is a whole number, else like ``bandwidth``."""
    gigabits = rate * 8 / 10**9
    return f"{gigabits} Gbps" if gigabits.denominator == 1 else bandwidth(rate)


def time(seconds: Fraction) -> str:
    """Return seconds as text in microseconds: ``1.3 us``."""
    return f"{decimal(seconds * 10**6)} us"


def numbers(values: Iterable[int]) -> str:
    """Return numbers in the order given, with ranges: ``0-3,5``."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(values), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def parts(name: str, values: Sequence[int]) -> str:
    """Return the names of numbered parts: ``gpu[0-3]``, or ``gpu0`` for one."""
    return f"{name}{values[0]}" if len(values) == 1 else f"{name}[{numbers(values)}]"


def listed(names: Sequence[str]) -> str:
    """Return names in order, neighbors in number as ranges: ``gpu[0-3], nic0``."""
    runs: list[tuple[str, list[int]]] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(0|[1-9][0-9]{0,8})", name)
        stem, number = (match[1], [int(match[2])]) if match else (name, [])
        if runs and number and runs[-1][1] and runs[-1][0] == stem:
            runs[-1][1].extend(number)
        else:
            runs.append((stem, number))
    return ", ".join(parts(stem, numbers_) if numbers_ else stem for stem, numbers_ in runs)


def some(names: Sequence[str]) -> str:
    """Return the first names as text, and how many more there are."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key by which node2 comes before node10."""
    words = re.findall(r"[0-9]{1,18}|[^0-9]+", text)
    return [(0, int(word), "") if word.isascii() and word.isdigit() else (1, 0, word) for word in words]


def identifier(text: str, instead: str = "n") -> str:
    """Return a name of the language that comes close to ``text``; it never ends in what would read as a range."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text.encode("ascii", "replace").decode())[:MAX_NAME].strip("_")
    return name if name and (name[0].isalpha() or name[0] == "_") else f"{instead}{name}"


def comment(text: str, indent: str = "", width: int = 115) -> list[str]:
    """Return ``text`` as comment lines, without characters that would end a comment or steer a terminal."""
    clean = "".join(c if c.isprintable() and ord(c) < 0x2000 else "?" for c in text)
    lines = wrap(clean, width - len(indent) - 2, break_long_words=True, subsequent_indent="  ")
    return [f"{indent}# {line}" for line in lines]
