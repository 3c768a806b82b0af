"""Numbers with units -> exact fractions in bytes per second, seconds, bytes and metres.

Decimal prefixes are powers of 1000 (GB), binary ones powers of 1024 (GiB); ``b`` is a bit, ``B`` a byte.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from hetesynth.errors import did_you_mean
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.syntax import Amount

Dimension = Literal["bandwidth", "time", "size", "count", "length"]

MAX_DIGITS = 18
MAX_LANES = 1024

_DECIMAL = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


UNITS: dict[str, tuple[Dimension, Fraction]] = {
    "s": ("time", Fraction(1)),
    "ms": ("time", Fraction(1, 10**3)),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs"), ("time", Fraction(1, 10**6))),
    "ns": ("time", Fraction(1, 10**9)),
    "km": ("length", Fraction(10**3)),
    "m": ("length", Fraction(1)),
}
for _prefix, _factor in (_DECIMAL | _BINARY).items():
    UNITS[f"{_prefix}B"] = ("size", Fraction(_factor))
    UNITS |= {f"{_prefix}{byte}": ("bandwidth", Fraction(_factor)) for byte in ("B/s", "Bps")}
    UNITS |= {f"{_prefix}{bit}": ("bandwidth", Fraction(_factor, 8)) for bit in ("b/s", "bps", "bit/s")}
_DIMENSIONS: dict[Dimension, tuple[str, str]] = {  # with an example
    "bandwidth": ("a bandwidth", "25 GB/s or 400 Gbps"),
    "time": ("a time", "0.7 us"),
    "size": ("a size", "16 MB"),
    "count": ("a plain number", "8"),
    "length": ("a length", "50 km"),
}


def measure(amount: Amount, dimension: Dimension, what: str, findings: Findings) -> Fraction | None:
    """``amount`` in B/s, seconds or bytes; None, with a finding, when number or unit is wrong.

    Bandwidths and sizes must be positive, times must not be negative.
    """
    number = _number(amount, findings)
    if number is None:
        return None
    example = _DIMENSIONS[dimension][1]
    if not amount.unit:
        findings.add("HS204", amount.span, f"{what} needs a unit", f"write it like {example}")
        return None
    if amount.unit not in UNITS:
        wrong = amount.unit
        fitting = [unit for unit, (dim, _) in UNITS.items() if dim == dimension]
        same = [unit for unit in fitting if unit.lower() == wrong.lower()]
        bits, octets = ([unit for unit in same if letter in unit] for letter in "bB")
        if wrong.upper().endswith("T/S"):
            help_ = "transfers are no bytes: PCIe x16 at 8, 16, 32 GT/s carries about 12, 24, 48 GB/s"
        elif bits and octets and dimension == "bandwidth" and "B" not in wrong:
            help_ = f"did you mean `{octets[0]}`, bytes, or `{bits[0]}`, bits?"
        elif same:
            best = max(same, key=lambda unit: sum(a == b for a, b in zip(unit, wrong, strict=True)))
            help_ = f"did you mean `{best}`? (b is a bit, B a byte)"
        else:
            help_ = did_you_mean(wrong, fitting, f"write it like {example}")
        findings.add("HS205", amount.span, f"unknown unit `{amount.unit[:40]}`", help_)
        return None
    measures, factor = UNITS[amount.unit]
    if measures != dimension:
        unit = amount.unit if not amount.expression else f"{amount.unit} (as this expression is)"
        message = f"{what} cannot be given in {unit}, {_DIMENSIONS[measures][0]}"
        findings.add("HS206", amount.span, message, f"write it like {example}")
        return None
    if number < 0 or (number == 0 and dimension not in ("time", "length")):
        wrong = "zero" if number == 0 else "negative"
        remedy = "remove the link or `disable` the hardware if it is out of order"
        help_ = remedy if dimension == "bandwidth" else ""
        findings.add("HS207", amount.span, f"{what} must not be {wrong}", help_)
        return None
    return number * factor


def count(amount: Amount, what: str, most: int, findings: Findings, least: int = 1) -> int | None:
    """``amount`` as a whole number from ``least`` to ``most``; None, with a finding, otherwise."""
    number = _number(amount, findings)
    if number is None:
        return None
    if amount.unit or number.denominator != 1:
        shown = f"; it is {amount.number} {amount.unit}".rstrip()[:40] if amount.expression else ""
        help_ = f"write a whole number from {least} to {most}, as 8" if most > least else ""
        findings.add("HS206", amount.span, f"{what} must be a whole number without a unit{shown}", help_)
        return None
    if not least <= number <= most:
        help_ = f"give a number from {least} to {most}"
        shown = f" with {amount.number}"[:40] if amount.expression else ""
        findings.add("HS208", amount.span, f"{what} is out of range{shown}", help_)
        return None
    return int(number)


def ratio(amount: Amount, what: str, findings: Findings) -> Fraction | None:
    """``amount`` as a plain number above zero; None, with a finding, otherwise."""
    number = _number(amount, findings)
    if number is not None and (amount.unit or number <= 0):
        code, wrong = (
            ("HS206", "is a number without a unit") if amount.unit else ("HS207", "must be more than zero")
        )
        findings.add(code, amount.span, f"{what} {wrong}", "write it like 2 or 1.5")
        return None
    return number


def share(amount: Amount, findings: Findings) -> Fraction | None:
    """``amount``, in percent, as a share of the whole; None, with a finding, where it is not in (0, 1]."""
    number = _number(amount, findings)
    if number is None or 0 < number <= 100:
        return None if number is None else number / 100
    help_ = "what is lost altogether is `down` or `without`"
    findings.add("HS208", amount.span, "a share is more than 0 % and at most 100 %", help_)
    return None


def _number(amount: Amount, findings: Findings) -> Fraction | None:
    if len(amount.number) > MAX_DIGITS and not amount.expression:
        findings.add("HS208", amount.span, f"a number may have at most {MAX_DIGITS} digits", "use a larger unit")
        return None
    return Fraction(amount.number)
