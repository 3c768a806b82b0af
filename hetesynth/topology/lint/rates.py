"""Bandwidths and latencies that no such hardware has: bits for bytes, a prefix too much (HS241, HS242).

In: what the file itself states, with units as written. Out: findings that name the value that was probably meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hetesynth.model.diagnostics import Diagnostic
from hetesynth.topology.language import syntax
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.syntax import Amount, Property
from hetesynth.topology.language.units import MAX_DIGITS, UNITS
from hetesynth.topology.lint.roles import (
    GB,
    INSIDE,
    REDUCE,
    PartIndex,
    Role,
    role_of,
    role_of_part,
)

_Type = syntax.NodeType | syntax.PodType | syntax.Cluster
_SHORTER = {"s": "ms", "ms": "us", "us": "ns"}
_LONGER = {"ns": "us", "us": "ms", "µs": "ms", "μs": "ms"}
_PREFIXES = ("", "K", "M", "G", "T")
_RATES = ("bandwidth", "send", "receive", "port", "uplink", "spine", "global", "degrade", "reduce")
_LEAST_LEFT = Fraction(GB, 8)  # what may be left of degraded hardware


def doubtful_rates(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield the doubtful ones among all rates and latencies that the types and the cluster of the file state."""
    parts = PartIndex(inspection.parts)
    items: list[tuple[str, _Type]] = [*inspection.expanded.items()]
    items += [("", item) for item in inspection.stated if isinstance(item, syntax.Cluster)]
    uses = _uses(inspection)
    stated = (
        (prop, role, amount)
        for key, item in items
        for statement in item.items
        for prop, role in _roles(statement, parts, inside=isinstance(item, syntax.NodeType))
        if prop.amount is not None
        for amount in _pointed_at(prop.amount, uses.get(key, ()))
        if amount.number and amount.span.file == inspection.file.name
    )
    for prop, role, amount in stated:
        unit = UNITS.get(amount.unit)
        if unit is None or (len(amount.number) > MAX_DIGITS and not amount.expression):
            continue
        value = Fraction(amount.number) * unit[1]
        if prop.name == "latency" and unit[0] == "time":
            if value and not role.least_latency <= value <= role.most_latency:
                yield _odd_latency(amount, value, role)
        elif prop.name in _RATES and unit[0] == "bandwidth":
            lanes = int(Fraction(prop.lanes.number)) if prop.lanes is not None and prop.lanes.number else 1
            total = value * lanes
            low = _LEAST_LEFT if prop.name == "degrade" else role.least
            meant = "" if role.least <= total <= role.most else _meant(amount, value, role)
            if meant or not low <= total <= role.most:
                usual_rate = f"{_rate(role.least)} to {_rate(role.most)} is usual"
                help_ = f"did you mean {meant}? (b is a bit, B a byte)" if meant else usual_rate
                message = f"{_written(amount)} is {_rate(total)}, which {role.what} does not have"
                yield Diagnostic("HS241", amount.span, message, help_, "warning")


def _roles(
    statement: object, parts: PartIndex, *, inside: bool, instance: syntax.Instance | None = None
) -> Iterator[tuple[Property, Role]]:
    """What ``statement`` says of rates, and of which hardware."""
    if isinstance(statement, syntax.Element | syntax.Join | syntax.Network):
        for prop in statement.properties:
            yield prop, role_of(statement, prop, inside=inside)
    elif isinstance(statement, Property) and statement.name == "reduce":
        yield statement, REDUCE
    elif isinstance(statement, syntax.Change):
        for part in list(parts.matching(statement.targets, instance))[:1]:
            for prop in statement.properties:
                yield prop, REDUCE if prop.name == "reduce" else role_of_part(part)
    elif isinstance(statement, syntax.Degrade):
        for part in list(parts.matching(statement.left, instance))[:1]:
            role = INSIDE if statement.right else role_of_part(part)
            left = Property("degrade", statement.span, amount=statement.amount, lanes=statement.lanes)
            yield left, replace(role, what=f"what is left of {role.what}")
    elif isinstance(statement, syntax.Instance):
        for override in statement.overrides:
            yield from _roles(override, parts, inside=True, instance=statement)


def _odd_latency(amount: Amount, value: Fraction, role: Role) -> Diagnostic:
    much, units = ("long", _SHORTER) if value > role.most_latency else ("short", _LONGER)
    help_, other = "a latency is alpha: seconds for each transfer", units.get(amount.unit, "")
    meant = value / UNITS[amount.unit][1] * UNITS[other][1] if other and not amount.expression else 0
    if other and role.least_latency <= meant <= role.most_latency:
        help_ = f"did you mean `{amount.number} {other}`?"
    message = f"{_written(amount)} is too {much} for {role.what}"
    return Diagnostic("HS242", amount.span, message, help_, "warning")


def _meant(amount: Amount, value: Fraction, role: Role) -> str:
    """The same number with another unit that such hardware has, the nearest by factor; "" for none."""
    match = re.fullmatch(r"([KMGT]?)(i?)(b|B|bit)(/s|ps)", amount.unit.replace("k", "K"))
    if match is None or amount.expression:
        return ""
    prefix, binary, letter, per = match.groups()
    place = _PREFIXES.index(prefix)
    near = [(_PREFIXES[p], letter) for p in (place - 1, place + 1) if 0 <= p < len(_PREFIXES)]
    for other, sign in [(prefix, "B" if letter != "B" else "b"), *near]:
        unit = f"{other}{binary if other else ''}{sign}{per}"
        if unit in UNITS and role.least <= value / UNITS[amount.unit][1] * UNITS[unit][1] <= role.most:
            return f"`{amount.number} {unit}`"
    return ""


def _written(amount: Amount) -> str:
    return amount.expression or f"{amount.number} {amount.unit}"


def _rate(value: Fraction) -> str:
    """``56.25 GB/s``."""
    for size, unit in ((10**12, "TB/s"), (GB, "GB/s"), (10**6, "MB/s")):
        if value >= size:
            return f"{float(value / size):.4g} {unit}"
    return f"{float(value):.4g} B/s"


def _uses(inspection: Inspection) -> dict[str, list[Mapping[str, object]]]:
    """What instances make each expanded type with: values of its parameters, defaults where none are given."""
    uses: dict[str, list[Mapping[str, object]]] = defaultdict(list)
    defaults = {
        node.name.span: {p.name.text: p.value for p in node.parameters} for node in inspection.types.values()
    }
    of_pods = [node for node in inspection.expanded.values() if isinstance(node, syntax.PodType)]
    items: Sequence[_Type] = [*of_pods, *inspection.stated[-1:]]
    for item in items:
        for statement in item.items:
            if isinstance(statement, syntax.Instance):
                node = inspection.expanded[statement.node.text]
                given = {argument.name.text: argument.value for argument in statement.arguments}
                uses[statement.node.text].append({**defaults.get(node.name.span, {}), **given})
    return uses


def _pointed_at(amount: Amount, uses: Sequence[Mapping[str, object]]) -> Iterator[Amount]:
    """Where ``amount`` is stated: itself, or the arguments or the default whose name is all of its expression."""
    values = [values[amount.expression.strip()] for values in uses if amount.expression.strip() in values]
    yield from [value for value in values if isinstance(value, Amount) and value.number] or [amount]
