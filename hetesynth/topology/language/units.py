"""Numbers with units, and the properties in braces, as exact fractions: bytes per second, seconds, bytes, metres.

Decimal prefixes are powers of 1000 (GB), binary ones powers of 1024 (GiB); ``b`` is a bit, ``B`` a byte. Sizes on
the command line are also read as other tools write them: ``64M`` is 64 MiB as in nccl-tests, ``64mb`` is 64 MB.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import ZERO, Part, Rate
from hetesynth.topology.language.syntax import Amount, Property

Dimension = Literal["bandwidth", "time", "size", "count", "length"]

MAX_DIGITS = 18
MAX_LANES = 1024

_PREFIXES = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_PREFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
UNITS: dict[str, tuple[Dimension, Fraction]] = {
    "s": ("time", Fraction(1)),
    "ms": ("time", Fraction(1, 10**3)),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs"), ("time", Fraction(1, 10**6))),
    "ns": ("time", Fraction(1, 10**9)),
    "km": ("length", Fraction(10**3)),
    "m": ("length", Fraction(1)),
}
for _prefix, _factor in _PREFIXES.items():
    UNITS[f"{_prefix}B"] = ("size", Fraction(_factor))
    UNITS |= {f"{_prefix}{byte}": ("bandwidth", Fraction(_factor)) for byte in ("B/s", "Bps")}
    UNITS |= {f"{_prefix}{bit}": ("bandwidth", Fraction(_factor, 8)) for bit in ("b/s", "bps", "bit/s")}
_EXAMPLES: dict[Dimension, str] = {
    "bandwidth": "25 GB/s or 400 Gbps",
    "time": "0.7 us",
    "size": "16 MB",
    "count": "8",
    "length": "50 km",
}
_OF_OPTIONS: dict[str, tuple[Dimension, Fraction]] = {
    **UNITS,
    "PB": ("size", Fraction(10**15)),
    "PiB": ("size", Fraction(2**50)),
    "EB": ("size", Fraction(10**18)),  # more than any command takes, read so that it names its limit
    "EiB": ("size", Fraction(2**60)),
}
SECONDS_PER_METRE = Fraction(5, 10**9)  # of light in glass

RATES = frozenset({"bandwidth", "send", "receive"})  # what a rate is stated by

_DIMENSIONS: dict[str, Dimension] = {
    **dict.fromkeys((*RATES, "reduce", "copy"), "bandwidth"),
    "latency": "time",
    "length": "length",
}

LaneRate = tuple[Fraction, int]  # bandwidth of a lane, lanes


def measure(amount: Amount, dimension: Dimension, what: str, findings: Findings) -> Fraction | None:
    """Return ``amount`` in B/s, seconds or bytes; None, with a finding, if number or unit is wrong."""
    number = _number(amount, findings)
    if number is None:
        return None
    example = f"write it like {_EXAMPLES[dimension]}"
    measures, factor = UNITS.get(amount.unit, (None, Fraction(1)))
    if not amount.unit:
        findings.add("HS204", amount.span, f"{what} needs a unit", example)
    elif measures is None:
        fitting = [unit for unit, (dim, _) in UNITS.items() if dim == dimension]
        same = [unit for unit in fitting if unit.lower() == amount.unit.lower()]
        help_ = f"did you mean `{'` or `'.join(same)}`? (b is a bit, B a byte)" if same else example
        findings.add("HS205", amount.span, f"unknown unit `{amount.unit[:40]}`", help_)
    elif measures != dimension:
        findings.add("HS206", amount.span, f"{what} cannot be given in {amount.unit}, a {measures}", example)
    elif number < 0 or (number == 0 and dimension not in ("time", "length")):
        help_ = "remove the link or `disable` the hardware if it is out of order" * (dimension == "bandwidth")
        findings.add("HS207", amount.span, f"{what} must not be {'negative' if number else 'zero'}", help_)
    else:
        return number * factor
    return None


def count(amount: Amount, what: str, most: int, findings: Findings, least: int = 1) -> int | None:
    """Return ``amount`` as a whole number from ``least`` to ``most``; None, with a finding, otherwise."""
    number = _number(amount, findings)
    if number is None:
        return None
    shown = f"; it is {amount.number} {amount.unit}".rstrip()[:40] if amount.expression else ""
    help_ = f"give a whole number from {least} to {most}"
    if amount.unit or number.denominator != 1:
        findings.add("HS206", amount.span, f"{what} must be a whole number without a unit{shown}", help_)
    elif not least <= number <= most:
        findings.add("HS208", amount.span, f"{what} is out of range{shown}", help_)
    else:
        return int(number)
    return None


def ratio(amount: Amount, what: str, findings: Findings, most: int | None = None) -> Fraction | None:
    """Return ``amount`` as a number above 0, at most ``most``; else None, with a finding. ``%`` is of 100."""
    number = _number(amount, findings)
    if number is None or (amount.unit in ("", "%") and number > 0 and (most is None or number <= most)):
        return number
    limit = f" and at most {most}" if most else ""
    findings.add("HS208", amount.span, f"{what} is a number more than zero{limit}")
    return None


def _number(amount: Amount, findings: Findings) -> Fraction | None:
    if len(amount.number) > MAX_DIGITS and not amount.expression:
        findings.add("HS208", amount.span, f"a number may have at most {MAX_DIGITS} digits", "use a larger unit")
        return None
    return Fraction(amount.number)


def parse_quantity(text: str, dimension: Dimension, option: str) -> Fraction:
    """Return ``text``, of an option, in bytes, seconds or B/s. Raise HetesynthError with an example."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([^\s0-9.]+)", text.strip()[: 4 * MAX_DIGITS])
    number, unit = match.groups() if match else ("", "")
    if dimension == "size" and re.fullmatch(r"[KMGTPE](?:i?B?|IB)|[kmgtpe](?:i?[bB]|i)?", unit):
        unit = unit[0].upper() + ("B" if unit[1:].lower() == "b" else "iB")  # `Mb`, of bits, stays
    measures, factor = _OF_OPTIONS.get(unit, ("", Fraction(0)))
    if measures != dimension or len(number) > MAX_DIGITS or Fraction(number) == 0:
        example = f"for example {_EXAMPLES[dimension].split(' or ')[-1].replace(' ', '')}"
        raise HetesynthError(f"{option}: {text!r} is not a {dimension} with a unit", code="HS307", help=example)
    return Fraction(number) * factor


@dataclass(frozen=True, slots=True)
class Measured:
    """The values that the properties of a block state; None for those that it does not."""

    bandwidth: Fraction | None = None
    lanes: int = 1
    latency: Fraction | None = None
    kind: str | None = None
    model: str | None = None
    reduce: Fraction | None = None
    copy: Fraction | None = None
    send: LaneRate | None = None  # in place of a bandwidth, where directions differ
    receive: LaneRate | None = None
    length: Fraction | None = None

    def rates(self, kind: str) -> tuple[Rate, Rate]:
        """Return the rates of the wires there and back, of ``kind`` if the block states none."""
        latency = (self.latency or ZERO) + (self.length or ZERO) * SECONDS_PER_METRE
        both = (self.bandwidth, self.lanes)
        there, back = (Rate(self.kind or kind, *(stated or both), latency) for stated in (self.send, self.receive))
        return there, back

    def put_on(self, gpu: Part) -> None:
        """Give a GPU the model and throughputs that are stated."""
        gpu.model = gpu.model if self.model is None else self.model
        gpu.reduce = gpu.reduce if self.reduce is None else self.reduce
        gpu.copy = gpu.copy if self.copy is None else self.copy


def by_name(properties: Iterable[Property], findings: Findings) -> dict[str, Property]:
    """Return the first property of each name; a property given twice is a finding."""
    seen: dict[str, Property] = {}
    for prop in properties:
        if seen.setdefault(prop.name, prop) is not prop:
            help_ = f"keep one; the first is on line {seen[prop.name].span.line}"
            findings.add("HS209", prop.span, f"`{prop.name}` is given twice", help_)
    return seen


def measured(properties: Iterable[Property], findings: Findings) -> Measured:
    """Return the properties as numbers; a property given twice is a finding."""
    seen = by_name(properties, findings)
    values: dict[str, Any] = {}
    for name, prop in seen.items():
        if name in ("kind", "model") and prop.words:
            values[name] = prop.words[0].text[:64]
        elif name in _DIMENSIONS and prop.amount is not None:
            values[name] = measure(prop.amount, _DIMENSIONS[name], f"`{name}`", findings)
        if name in RATES:
            lanes = lanes_of(prop.lanes, findings)
            rate = None if values[name] is None else (values[name], lanes)
            values |= {"lanes": lanes} if name == "bandwidth" else {name: rate}
    return Measured(**values)


def require(
    properties: Iterable[Property], name: str, what: str, span: Span, findings: Findings, like: str = ""
) -> Property | None:
    """Return the property ``name``; None, with a finding, if it is missing. ``like``: an example of it."""
    for prop in properties:
        if prop.name == name:
            return prop
    example = {"bandwidth": "bandwidth 25 GB/s", "ports": "ports gpu[0-7]", "join": "join *.nic*"}
    help_ = f"add for example `{like or example.get(name, 'members gpu[0-1] <-> nic0')}`"
    findings.add("HS209", span, f"{what} needs `{name}`", help_)
    return None


def require_rate(
    properties: Iterable[Property], what: str, span: Span, findings: Findings, *, directed: bool = True
) -> None:
    """Add a finding unless one rate is stated, or one for each of two directions (``directed``)."""
    stated = {prop.name: prop for prop in properties if prop.name in RATES}
    if not stated:
        require((), "bandwidth", what, span, findings)
    elif stated.keys() != {"bandwidth"} and (stated.keys() != {"send", "receive"} or not directed):
        help_ = f"write `bandwidth`{', or `send` and `receive`' if directed else ': it has no directions'}"
        wrong = next(prop for name, prop in stated.items() if name != "bandwidth")
        findings.add("HS209", wrong.span, f"the rate of {what} is not stated like this", help_)


def lanes_of(amount: Amount | None, findings: Findings) -> int:
    """Return the number of lanes; 1 if none is given (or, with a finding, a wrong one)."""
    return 1 if amount is None else count(amount, "the number of lanes", MAX_LANES, findings) or 1
