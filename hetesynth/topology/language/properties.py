"""The properties between a pair of braces, measured: rates, times, kinds.

In: ``Property`` values as written. Out: exact numbers; missing, repeated and out-of-place ones are findings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.hardware_graph import ZERO, Rate
from hetesynth.topology.language.syntax import Amount, Property, Word
from hetesynth.topology.language.units import MAX_LANES, count, measure

SECONDS_PER_METRE = Fraction(5, 10**9)  # of light in glass

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

    def rate(self, kind: str) -> Rate:
        """The rate of a wire with these properties; ``kind`` where none is stated."""
        return self._rate(kind, self.send)

    def rate_back(self, kind: str) -> Rate:
        """The same of the wire in the other direction."""
        return self._rate(kind, self.receive)

    def _rate(self, kind: str, stated: LaneRate | None) -> Rate:
        bandwidth, lanes = stated or (self.bandwidth, self.lanes)
        latency = (self.latency or ZERO) + (self.length or ZERO) * SECONDS_PER_METRE
        return Rate(self.kind or kind, bandwidth, lanes, latency)


def measured(properties: Iterable[Property], findings: Findings) -> Measured:
    """The properties as numbers; a property given twice is a finding."""
    seen: dict[str, Property] = {}
    for prop in properties:
        if prop.name in seen:
            first = seen[prop.name].span.line
            findings.add(
                "HS209", prop.span, f"`{prop.name}` is given twice", f"keep one; the first is on line {first}"
            )
        else:
            seen[prop.name] = prop
    bandwidth, lanes = _rate(seen.get("bandwidth"), findings)
    latency, length = seen.get("latency"), seen.get("length")
    return Measured(
        bandwidth=bandwidth,
        lanes=lanes,
        latency=measure(latency.amount, "time", "a latency", findings) if latency and latency.amount else None,
        kind=_text(seen.get("kind")),
        model=_text(seen.get("model")),
        reduce=_throughput(seen.get("reduce"), "a reduce throughput", findings),
        copy=_throughput(seen.get("copy"), "a copy rate", findings),
        send=_direction(seen.get("send"), findings),
        receive=_direction(seen.get("receive"), findings),
        length=measure(length.amount, "length", "a length", findings) if length and length.amount else None,
    )


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


def require_rate(properties: Iterable[Property], what: str, span: Span, findings: Findings) -> None:
    """Findings where a rate is missing, or stated both for each direction and for both."""
    stated = {prop.name: prop for prop in properties if prop.name in ("bandwidth", "send", "receive")}
    if not stated or "bandwidth" in stated:
        extra = stated.get("send") or stated.get("receive")
        if extra is not None:
            message = f"{what} has `bandwidth`, which is of both directions, and `{extra.name}`"
            findings.add("HS209", extra.span, message, "keep `bandwidth`, or `send` and `receive`")
        require(stated.values(), "bandwidth", what, span, findings)
    elif len(stated) == 1:
        (prop,) = stated.values()
        other = "receive" if prop.name == "send" else "send"
        message = f"{what} has `{prop.name}` without `{other}`"
        findings.add("HS209", prop.span, message, f"add `{other}`, or write `bandwidth` for both directions")


def refuse_directions(properties: Iterable[Property], what: str, findings: Findings) -> None:
    """A finding where ``send`` or ``receive`` stands in something without two directions."""
    for prop in properties:
        if prop.name in ("send", "receive"):
            message = f"{what} has no `{prop.name}`: nothing tells its directions apart"
            findings.add("HS211", prop.span, message, "write `bandwidth`")
            return


def _direction(prop: Property | None, findings: Findings) -> LaneRate | None:
    bandwidth, lanes = _rate(prop, findings)
    return (bandwidth, lanes) if bandwidth is not None else None


def _rate(prop: Property | None, findings: Findings) -> tuple[Fraction | None, int]:
    if prop is None or prop.amount is None:
        return None, 1
    return measure(prop.amount, "bandwidth", "a bandwidth", findings), lanes_of(prop.lanes, findings)


def lanes_of(amount: Amount | None, findings: Findings) -> int:
    """The number of lanes; 1 when none is given (or, with a finding, a wrong one)."""
    if amount is None:
        return 1
    return count(amount, "the number of lanes", MAX_LANES, findings) or 1


def _throughput(prop: Property | None, what: str, findings: Findings) -> Fraction | None:
    return measure(prop.amount, "bandwidth", what, findings) if prop is not None and prop.amount else None


def _text(prop: Property | None) -> str | None:
    words: tuple[Word, ...] = prop.words if prop else ()
    return words[0].text[:64] if words else None
