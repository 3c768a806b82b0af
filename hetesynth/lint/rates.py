"""Bandwidths and latencies that no such hardware has: bits for bytes, a prefix too much (HS241, HS242, HS249).

In: what the file itself states, with units as written. Out: findings that name the value that was probably meant.
The ranges are wide: from the oldest hardware of a sort, derated, to several times the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.diagnostics import Diagnostic
from hetesynth.frontend.inspection import Inspection
from hetesynth.frontend.syntax import (
    Amount,
    Change,
    Element,
    Instance,
    Join,
    NodeType,
    Property,
    Word,
)
from hetesynth.frontend.units import MAX_DIGITS, UNITS

GB = 10**9
US = Fraction(1, 10**6)
LEAST_PCIE = Fraction(GB)  # below it: one lane of the first generation, as virtual bridges say
_SHORTER = {"s": "ms", "ms": "us", "us": "ns"}
_LONGER = {"ns": "us", "us": "ms", "µs": "ms", "μs": "ms"}
_PREFIXES = ("", "K", "M", "G", "T")


@dataclass(frozen=True, slots=True)
class Role:
    """What a piece of hardware is, and the rates and latencies that such hardware has, in B/s and s."""

    what: str
    least: Fraction
    most: Fraction
    least_latency: Fraction = US / 100
    most_latency: Fraction = 50 * US


NVSWITCH = Role("a GPU's port of an NVSwitch", Fraction(100 * GB), Fraction(4000 * GB))
NVLINK = Role("an NVLink connection of two GPUs", Fraction(10 * GB), Fraction(2000 * GB))
NIC = Role("a NIC", Fraction(GB, 8), Fraction(200 * GB), US / 100, 200 * US)
PCIE = Role("PCIe", LEAST_PCIE, Fraction(300 * GB))
NETWORK = Role("a network between servers", Fraction(GB, 8), Fraction(500_000 * GB), US / 20, 200 * US)
INSIDE = Role("a connection inside a server", Fraction(GB, 8), Fraction(4000 * GB))
FAR = Role("a connection between sites", Fraction(0), Fraction(10**6 * GB), Fraction(0), Fraction(1))

_Statement = Element | Join | Change


def doubtful_rates(inspection: Inspection) -> Iterator[Diagnostic]:
    """The doubtful ones among all rates that the file states."""
    for statement, inside in _statements(inspection):
        role = _role(statement, inside=inside)
        for prop in statement.properties:
            if role is not None and prop.amount is not None and prop.amount.number:
                finding = _finding(prop, prop.amount, role)
                if finding is not None:
                    yield finding


def _statements(inspection: Inspection) -> Iterator[tuple[_Statement, bool]]:
    """Everything with a rate, and whether it stands inside a server."""
    for item in inspection.stated:
        for statement in item.items:
            if isinstance(statement, (Element, Join, Change)):
                yield statement, isinstance(item, NodeType)
            elif isinstance(statement, Instance):
                for override in statement.overrides:
                    if isinstance(override, (Element, Join, Change)):
                        yield override, True


def _role(statement: _Statement, *, inside: bool) -> Role | None:
    kind = next((p.words[0].text for p in statement.properties if p.name == "kind" and p.words), "").lower()
    if isinstance(statement, Change):
        names = [_last(word) for word in statement.targets]
        return NIC if names and all(name.startswith("nic") for name in names) else None
    if isinstance(statement, Element):
        name = statement.name.text.lower()
        if statement.kind == "nic":
            return NIC
        if statement.kind == "switch" and ("nvswitch" in name or kind in ("nvlink", "nvswitch")):
            return NVSWITCH
        if statement.kind == "router":
            return FAR
        if "pcie" in kind or statement.kind == "pcie" or name.startswith("pcie"):
            return PCIE
    if kind in ("wan", "lan", "router", "uplink") or statement.kind == "wan":
        return FAR
    if kind == "nvlink" and isinstance(statement, Join):
        return NVLINK
    if isinstance(statement, Join) and statement.kind == "attach":
        return PCIE
    if kind == "pcie":
        return PCIE
    return INSIDE if inside else NETWORK


def _last(word: Word) -> str:
    return word.text.rsplit(".", 1)[-1]


def _finding(prop: Property, amount: Amount, role: Role) -> Diagnostic | None:
    unit = UNITS.get(amount.unit)
    if unit is None or (len(amount.number) > MAX_DIGITS and not amount.expression):
        return None
    value = Fraction(amount.number) * unit[1]
    if prop.name in ("bandwidth", "send", "receive", "port") and unit[0] == "bandwidth":
        lanes = int(Fraction(prop.lanes.number)) if prop.lanes is not None and prop.lanes.number else 1
        return _bandwidth(amount, value * lanes, lanes, role)
    if prop.name == "latency" and unit[0] == "time":
        return _latency(amount, value, role)
    return None


def _bandwidth(amount: Amount, value: Fraction, lanes: int, role: Role) -> Diagnostic | None:
    if role.least <= value <= role.most:
        return None
    shown = _written(amount) + (f" x {lanes}" if lanes > 1 else "")
    if role is PCIE and value < LEAST_PCIE:
        message = f"{shown} is less than any PCIe slot of a GPU or a NIC carries ({_rate(value)})"
        help_ = "bridges of virtual machines say 2.5 GT/s x1; state the slot's rate: 24 GB/s for gen4 x16"
        return Diagnostic("HS249", amount.span, message, help_, "warning")
    message = f"{shown} is {_rate(value)}, which {role.what} does not have"
    meant = _meant_bandwidth(amount, value, role)
    help_ = (
        f"did you mean {meant}? (b is a bit, B a byte)"
        if meant
        else f"{_rate(role.least)} to {_rate(role.most)} is usual"
    )
    return Diagnostic("HS241", amount.span, message, help_, "warning")


def _meant_bandwidth(amount: Amount, value: Fraction, role: Role) -> str:
    """The same number with another unit that such hardware has; the nearest by factor."""
    match = re.fullmatch(r"([KMGT]?)(i?)(b|B|bit)(/s|ps)", amount.unit.replace("k", "K"))
    if match is None or amount.expression:
        return ""
    prefix, binary, letter, per = match.groups()
    candidates = [(prefix, "B" if letter != "B" else "b")]
    place = _PREFIXES.index(prefix)
    near = [_PREFIXES[p] for p in (place - 1, place + 1) if 0 <= p < len(_PREFIXES)]
    candidates += [(other, letter) for other in near]
    for other, sign in candidates:
        unit = f"{other}{binary if other else ''}{sign}{per}"
        if unit in UNITS and role.least <= value / UNITS[amount.unit][1] * UNITS[unit][1] <= role.most:
            return f"`{amount.number} {unit}`"
    return ""


def _latency(amount: Amount, value: Fraction, role: Role) -> Diagnostic | None:
    if value == 0 or role.least_latency <= value <= role.most_latency:
        return None
    much = "long" if value > role.most_latency else "short"
    message = f"{_written(amount)} is too {much} for {role.what}"
    other = (_SHORTER if much == "long" else _LONGER).get(amount.unit, "")
    fits = (
        other
        and not amount.expression
        and role.least_latency <= value / UNITS[amount.unit][1] * UNITS[other][1] <= role.most_latency
    )
    help_ = f"did you mean `{amount.number} {other}`?" if fits else "a latency is alpha: seconds for each transfer"
    return Diagnostic("HS242", amount.span, message, help_, "warning")


def _written(amount: Amount) -> str:
    return amount.expression or f"{amount.number} {amount.unit}"


def _rate(value: Fraction) -> str:
    """``56.25 GB/s``."""
    for size, unit in ((10**12, "TB/s"), (GB, "GB/s"), (10**6, "MB/s")):
        if value >= size:
            return f"{float(value / size):.4g} {unit}"
    return f"{float(value):.4g} B/s"
