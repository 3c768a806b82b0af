"""The properties between a pair of braces as exact numbers; missing, repeated and misplaced ones are findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import ZERO, Part, Rate
from hetesynth.topology.language.syntax import Amount, Property
from hetesynth.topology.language.units import MAX_LANES, Dimension, count, measure

SECONDS_PER_METRE = Fraction(5, 10**9)  # of light in glass

RATES = frozenset({"bandwidth", "send", "receive"})  # what a rate is stated by

_DIMENSIONS: dict[str, Dimension] = {
    **dict.fromkeys((*RATES, "reduce", "copy"), "bandwidth"),
    "latency": "time",
    "length": "length",
}

LaneRate = tuple[Fraction, int]  # bandwidth of a lane, lanes


@dataclass(frozen=True, slots=True)
class Measured:
    """What a block states; None where it says nothing.

    ``send`` and ``receive`` are stated in place of ``bandwidth`` where directions differ.
    """

    bandwidth: Fraction | None = None
    lanes: int = 1
    latency: Fraction | None = None
    kind: str | None = None
    model: str | None = None
    reduce: Fraction | None = None
    copy: Fraction | None = None
    send: LaneRate | None = None
    receive: LaneRate | None = None
    length: Fraction | None = None

    def rates(self, kind: str) -> tuple[Rate, Rate]:
        """The rates of the wires there and back; ``kind`` where none is stated."""
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
    """The first property of each name; a property given twice is a finding."""
    seen: dict[str, Property] = {}
    for prop in properties:
        if seen.setdefault(prop.name, prop) is not prop:
            help_ = f"keep one; the first is on line {seen[prop.name].span.line}"
            findings.add("HS209", prop.span, f"`{prop.name}` is given twice", help_)
    return seen


def measured(properties: Iterable[Property], findings: Findings) -> Measured:
    """The properties as numbers; a property given twice is a finding."""
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
    """The property ``name``; None, with a finding, when it is missing. ``like``: an example of it."""
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
    """A finding unless one rate is stated, or one for each direction where there are two (``directed``)."""
    stated = {prop.name: prop for prop in properties if prop.name in RATES}
    if not stated:
        require((), "bandwidth", what, span, findings)
    elif stated.keys() != {"bandwidth"} and (stated.keys() != {"send", "receive"} or not directed):
        help_ = f"write `bandwidth`{', or `send` and `receive`' if directed else ': it has no directions'}"
        wrong = next(prop for name, prop in stated.items() if name != "bandwidth")
        findings.add("HS209", wrong.span, f"the rate of {what} is not stated like this", help_)


def lanes_of(amount: Amount | None, findings: Findings) -> int:
    """The number of lanes; 1 when none is given (or, with a finding, a wrong one)."""
    return 1 if amount is None else count(amount, "the number of lanes", MAX_LANES, findings) or 1
