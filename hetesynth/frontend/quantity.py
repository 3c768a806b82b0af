"""A quantity on the command line, such as ``4MB`` or ``20us``, with the units of the topology language."""

from __future__ import annotations

import re
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.frontend.units import MAX_DIGITS, UNITS, Dimension

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([^\s0-9.]+)")
_EXAMPLES: dict[str, str] = {"size": "16MB", "time": "20us", "bandwidth": "400Gbps"}


def parse_quantity(text: str, dimension: Dimension, option: str) -> Fraction:
    """``text`` in bytes, seconds or bytes per second. Raises HetesynthError with an example."""
    match = _QUANTITY.fullmatch(text.strip()[: 4 * MAX_DIGITS])
    unit = UNITS.get(match[2]) if match else None
    if match is None or unit is None or unit[0] != dimension or len(match[1]) > MAX_DIGITS:
        raise HetesynthError(
            f"{option}: {text!r} is not a {dimension} with a unit",
            code="HS307",
            help=f"for example {_EXAMPLES.get(dimension, '')}",
        )
    value = Fraction(match[1]) * unit[1]
    if value <= 0:
        raise HetesynthError(f"{option}: {text!r} must be positive", code="HS307")
    return value
