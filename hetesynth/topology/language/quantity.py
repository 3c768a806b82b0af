"""A quantity on the command line, such as ``4MB`` or ``20us``, with the units of the topology language.

Of sizes also what other tools write: ``64M`` is 64 MiB as in nccl-tests, ``64mb`` is 64 MB.
"""

from __future__ import annotations

import re
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.topology.language.units import MAX_DIGITS, UNITS, Dimension

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([^\s0-9.]+)")
_LOOSE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(?:[eE]\+?([0-9]{1,2}))?\s*([A-Za-zµ]{0,9})")
_SIZE = re.compile(r"[KMGTPE](?:i?B?|IB)|[kmgtpe](?:i?[bB]|i)?")
_UNITS: dict[str, tuple[Dimension, Fraction]] = {
    **UNITS,
    "PB": ("size", Fraction(10**15)),
    "PiB": ("size", Fraction(2**50)),
    "EB": ("size", Fraction(10**18)),  # more than any command takes, read so that it names its limit
    "EiB": ("size", Fraction(2**60)),
}
_EXAMPLES: dict[str, str] = {"size": "16MB", "time": "20us", "bandwidth": "400Gbps"}


def parse_quantity(text: str, dimension: Dimension, option: str) -> Fraction:
    """``text`` in bytes, seconds or bytes per second. Raises HetesynthError with an example."""
    short = text.strip()[: 4 * MAX_DIGITS]
    match = _QUANTITY.fullmatch(short)
    example = f"for example {_EXAMPLES.get(dimension, '')}"
    word = match[2] if match else ""
    if dimension == "size" and _SIZE.fullmatch(word):  # `M`, `m`, `mib` are MiB, `mb` is MB; `Mb`, of bits, stays
        word = word[0].upper() + ("B" if word[1:].lower() == "b" else "iB")
    measures, factor = _UNITS.get(word, ("", Fraction(0)))
    if match is None or measures != dimension or len(match[1]) > MAX_DIGITS:
        loose = _LOOSE.fullmatch(short) if dimension != "bandwidth" else None  # whose b and B differ
        number, exponent, name = loose.groups() if loose else ("0", None, "")
        fitting = {unit.lower(): unit for unit, (measured, _) in _UNITS.items() if measured == dimension}
        unit = fitting.get(name.lower()) or fitting.get(f"{name.lower()}{'b' if dimension == 'size' else 's'}")
        amount = Fraction(number) * 10 ** int(exponent or 0)
        shown = amount if exponent and amount.denominator == 1 and amount < 10**MAX_DIGITS else number
        close = unit is not None and amount > 0 and (shown is amount or not exponent)
        help_ = f"did you mean {shown}{unit}?" if close else example
        raise HetesynthError(f"{option}: {text!r} is not a {dimension} with a unit", code="HS307", help=help_)
    value = Fraction(match[1]) * factor
    if value <= 0:
        raise HetesynthError(f"{option}: {text!r} must be positive", code="HS307", help=example)
    return value
