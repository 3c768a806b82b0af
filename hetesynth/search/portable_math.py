"""Exponentials, powers and inner products that come out the same on every processor.

In: numbers, or arrays of them. Out: the same. Libraries choose their own code for each processor (wider vectors,
fused products, another order of a sum), and the last bit differs; where prices are compared, a bit becomes another
schedule. Here are only additions, products and exponents of two, which IEEE 754 defines to the bit. Errors are
within two units of the last place.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import Floats


def dearer(price: Any, share: Any, growth: float, exponent: int) -> Any:
    """Return ``price`` raised by a power of ``share``, the load over that of the busiest resource."""
    return price * (1.0 + growth * share**exponent)


PARTS = 64
"""The parts of an octave: an argument is brought to the nearest one, by which the series has few terms."""
PER_UNIT = float.fromhex("0x1.71547652b82fep+0") * PARTS
HIGH = float.fromhex("0x1.62e42fee00000p-1") / PARTS
"""The logarithm of 2, over ``PARTS``, with few digits, so that multiples are exact; ``LOW``: the rest of it."""
LOW = float.fromhex("0x1.a39ef35793c76p-33") / PARTS
LARGEST = 1100.0
"""The magnitude of an argument beyond which every exponential is infinite, or zero."""
LOG_TERMS = 12
ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")


def exp(x: Floats) -> Floats:
    """e to the power of each entry; infinite where that is too large."""
    exponent, scale, series = _parts(x)
    return np.ldexp(scale + scale * series, exponent)


def exponential(x: float) -> float:
    """Return e to the power of ``x``, to the bit the same interpreted, compiled and on every processor."""
    if x > 709.0:
        return math.inf
    if x < -745.0:
        return 0.0
    # 1 / log 2, and log 2 as a sum whose first part has few digits
    nearest = math.floor(x * 1.4426950408889634 + 0.5)
    rest = (x - nearest * 0.6931471803691238) - nearest * 1.9082149292705877e-10
    series = 1.0
    for k in range(14, 0, -1):
        series = 1.0 + series * rest / k
    return math.ldexp(series, nearest)


def _parts(x: Floats) -> tuple[NDArray[np.int32], Floats, Floats]:
    """Return exponent, scale and series of e to the power of ``x``: scale x (1 + series) x 2 ** exponent."""
    inside = np.minimum(np.maximum(x, -LARGEST), LARGEST)
    nearest = np.rint(inside * PER_UNIT)
    rest = inside - nearest * HIGH
    rest -= nearest * LOW
    number = nearest.astype(np.int32)
    series = rest * (1 / 720)
    for coefficient in (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0):
        series += coefficient
        series *= rest
    return number >> 6, _octave()[number & (PARTS - 1)], series


@lru_cache(maxsize=1)
def _octave() -> Floats:
    """Return 2 ** (k / 64) for each k below 64, from roots of whole numbers."""
    values = []
    for k in range(PARTS):
        power = 1 << (k + 60 * PARTS)
        for _ in range(6):
            power = isqrt(power)
        values.append(power / (1 << 60))
    return np.array(values)


def log(x: Floats) -> Floats:
    """The natural logarithm of positive entries."""
    part, exponent = np.frexp(x)
    low = part < ROOT_HALF
    part, exponent = np.where(low, 2.0 * part, part), np.where(low, exponent - 1, exponent)
    ratio = (part - 1.0) / (part + 1.0)
    square = ratio * ratio
    series = np.zeros_like(square)
    for k in range(LOG_TERMS, 0, -1):
        series = (series + 1.0 / (2 * k + 1)) * square
    return 2.0 * (ratio + ratio * series) + exponent * (HIGH * PARTS) + exponent * (LOW * PARTS)


def power(x: Floats, exponent: float) -> Floats:
    """Each entry, none of them negative, to the power of ``exponent``: by products where that is whole."""
    if exponent != int(exponent) or exponent < 0:
        return exp(exponent * log(x))
    result, factor, left = np.ones_like(x), x, int(exponent)
    while left:
        result = result * factor if left & 1 else result
        left >>= 1
        factor = factor * factor if left else factor
    return result


def dot(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """The inner products of the rows of ``a``, or of ``a`` alone, with ``b``."""
    return (a * b).sum(axis=-1)


def added(terms: Iterable[float]) -> float:
    """Return the sum of ``terms`` from first to last: ``sum`` of Python 3.12 and later rounds otherwise."""
    total = 0.0
    for term in terms:
        total += term
    return total
