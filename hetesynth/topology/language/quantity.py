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
    match = _QUANTITY.fullmatch(text.strip()[: 4 * MAX_DIGITS])
    example = f"for example {_EXAMPLES.get(dimension, '')}"
    word = match[2] if match else ""
    if dimension == "size" and _SIZE.fullmatch(
        word
    ):  # `M`, `m` and `mib` are MiB, `mb` is MB; `Mb`, of bits, stays
        word = word[0].upper() + ("B" if word[1:].lower() == "b" else "iB")
    measures, factor = _UNITS.get(word, ("", Fraction(0)))
    if match is None or measures != dimension or len(match[1]) > MAX_DIGITS:
        help_ = _meant(text, dimension) or example
        raise HetesynthError(f"{option}: {text!r} is not a {dimension} with a unit", code="HS307", help=help_)
    value = Fraction(match[1]) * factor
    if value <= 0:
        raise HetesynthError(f"{option}: {text!r} must be positive", code="HS307", help=example)
    return value


def _meant(text: str, dimension: Dimension) -> str:
    """A question that names what ``text`` comes close to (``64Mb``, ``1e3``), empty where that is nothing."""
    match = _LOOSE.fullmatch(text.strip()[: 4 * MAX_DIGITS])
    if match is None or dimension == "bandwidth":  # whose b and B differ
        return ""
    number, exponent, word = match.groups()
    fitting = {unit.lower(): unit for unit, (measures, _) in _UNITS.items() if measures == dimension}
    unit = fitting.get(word.lower()) or fitting.get(f"{word.lower()}{'b' if dimension == 'size' else 's'}")
    amount = Fraction(number) * 10 ** int(exponent or 0)
    if unit is None or amount <= 0 or (exponent and (amount.denominator > 1 or amount >= 10**MAX_DIGITS)):
        return ""
    return f"did you mean {amount if exponent else number}{unit}?"
