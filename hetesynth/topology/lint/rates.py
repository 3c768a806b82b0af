"""Bandwidths and latencies that no such hardware has: bits for bytes, a prefix too much (HS241, HS242, HS249).

In: what the file itself states, with units as written. Out: findings that name the value that was probably meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.topology.language import syntax
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.syntax import Amount, Argument, Property
from hetesynth.topology.language.units import MAX_DIGITS, UNITS
from hetesynth.topology.lint.roles import (
    BITS,
    GB,
    INSIDE,
    LEAST_PCIE,
    NVLINK,
    NVSWITCH,
    PCIE,
    REDUCE,
    PartIndex,
    Role,
    link_kind,
    role_of,
    role_of_part,
)

_Stated = syntax.Element | syntax.Join | syntax.Network | syntax.Change
_SHORTER = {"s": "ms", "ms": "us", "us": "ns"}
_LONGER = {"ns": "us", "us": "ms", "µs": "ms", "μs": "ms"}
_PREFIXES = ("", "K", "M", "G", "T")
_RATES = ("bandwidth", "send", "receive", "port", "uplink", "spine", "global", "degrade", "reduce")
_LEAST_LEFT = Fraction(GB, 8)  # what may be left of degraded hardware


def doubtful_rates(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield the doubtful ones among all rates and latencies that the types and the cluster of the file state."""
    # rates that look right, by what they compare with
    usual: dict[tuple[int, str, str], dict[Fraction, list[Amount]]] = defaultdict(lambda: defaultdict(list))
    parts, origins = PartIndex(inspection.parts), Origins(inspection)
    items: list[tuple[str, syntax.NodeType | syntax.PodType | syntax.Cluster]] = [*inspection.expanded.items()]
    items += [("", item) for item in inspection.stated if isinstance(item, syntax.Cluster)]
    stated = (
        (number, key, item, statement, prop, role)
        for number, (key, item) in enumerate(items)
        for statement in item.items
        for prop, role in _roles(statement, parts, inside=isinstance(item, syntax.NodeType))
    )
    for number, key, item, statement, prop, role in stated:
        if prop.amount is None:
            continue
        for amount in [prop.amount] if isinstance(item, syntax.Cluster) else origins.of(prop.amount, key, item):
            if not amount.number or amount.span.file != inspection.file.name:
                continue
            if prop.name == "latency":
                value = _value(amount, "time")
                if not value or role.least_latency <= value <= role.most_latency:
                    continue
                much, units = ("long", _SHORTER) if value > role.most_latency else ("short", _LONGER)
                help_, other = "a latency is alpha: seconds for each transfer", units.get(amount.unit, "")
                meant = value / UNITS[amount.unit][1] * UNITS[other][1] if other and not amount.expression else 0
                if other and role.least_latency <= meant <= role.most_latency:
                    help_ = f"did you mean `{amount.number} {other}`?"
                message = f"{_written(amount)} is too {much} for {role.what}"
                yield Diagnostic("HS242", amount.span, message, help_, "warning")
            elif prop.name in _RATES and (value := _value(amount, "bandwidth")) is not None:
                lanes = int(Fraction(prop.lanes.number)) if prop.lanes is not None and prop.lanes.number else 1
                finding = _bandwidth(prop, amount, role, value * lanes, lanes)
                if finding is not None:
                    yield finding
                elif value and role in (INSIDE, NVLINK, NVSWITCH):
                    kinds = isinstance(
                        statement, (syntax.Element, syntax.Join, syntax.Network, syntax.Change)
                    ) and link_kind(statement)
                    sort = f"{getattr(statement, 'kind', '')} {kinds or ''}"
                    usual[number, role.what, sort][value].append(amount)
    for rates in usual.values():
        yield from _eighths(rates)


def _roles(
    statement: object, parts: PartIndex, *, inside: bool, instance: syntax.Instance | None = None
) -> Iterator[tuple[Property, Role]]:
    """What ``statement`` says of rates, and of which hardware."""
    if isinstance(statement, syntax.Element | syntax.Join | syntax.Network):
        for prop in statement.properties:
            yield prop, role_of(statement, prop, inside=inside)
    elif isinstance(statement, Property):
        if statement.name == "reduce":
            yield statement, REDUCE
    elif isinstance(statement, syntax.Change):
        part = next(parts.matching(statement.targets, instance), None)
        if part is not None:
            for prop in statement.properties:
                yield prop, REDUCE if prop.name == "reduce" else role_of_part(part)
    elif isinstance(statement, syntax.Degrade):
        part = next(parts.matching(statement.left, instance), None)
        if part is not None:
            role = INSIDE if statement.right else role_of_part(part)
            left = Property("degrade", statement.span, amount=statement.amount, lanes=statement.lanes)
            yield left, replace(role, what=f"what is left of {role.what}")
    elif isinstance(statement, syntax.Instance):
        for override in statement.overrides:
            yield from _roles(override, parts, inside=True, instance=statement)


def _value(amount: Amount, dimension: str) -> Fraction | None:
    """B/s or seconds; None where ``amount`` is none of these."""
    unit = UNITS.get(amount.unit)
    if unit is None or unit[0] != dimension or (len(amount.number) > MAX_DIGITS and not amount.expression):
        return None
    return Fraction(amount.number) * unit[1]


def _bandwidth(prop: Property, amount: Amount, role: Role, value: Fraction, lanes: int) -> Diagnostic | None:
    if role.least <= value <= role.most:
        return None
    meant = ""  # the same number with another unit that such hardware has; the nearest by factor
    match = re.fullmatch(r"([KMGT]?)(i?)(b|B|bit)(/s|ps)", amount.unit.replace("k", "K"))
    if match is not None and not amount.expression:
        prefix, binary, letter, per = match.groups()
        place = _PREFIXES.index(prefix)
        near = [_PREFIXES[p] for p in (place - 1, place + 1) if 0 <= p < len(_PREFIXES)]
        for other, sign in [(prefix, "B" if letter != "B" else "b"), *((other, letter) for other in near)]:
            unit = f"{other}{binary if other else ''}{sign}{per}"
            if unit in UNITS and role.least <= value / UNITS[amount.unit][1] * UNITS[unit][1] <= role.most:
                meant = f"`{amount.number} {unit}`"
                break
    if prop.name == "degrade" and _LEAST_LEFT <= value <= role.most and not meant:
        return None
    shown = _written(amount) + (f" x {lanes}" if lanes > 1 else "")
    if role == PCIE and value < LEAST_PCIE:
        message = f"{shown} is less than any PCIe slot of a GPU or a NIC carries ({_rate(value)})"
        help_ = "bridges of virtual machines say 2.5 GT/s x1; state the slot's rate: 24 GB/s for gen4 x16"
        return Diagnostic("HS249", amount.span, message, help_, "warning")
    message = f"{_shown(shown, value)}, which {role.what} does not have"
    if shown == _rate(value):
        message = f"{shown} is not what {role.what} has"
    help_ = (
        f"did you mean {meant}? (b is a bit, B a byte)"
        if meant
        else f"{_rate(role.least)} to {_rate(role.most)} is usual"
    )
    return Diagnostic("HS241", amount.span, message, help_, "warning")


def _eighths(rates: dict[Fraction, list[Amount]]) -> Iterator[Diagnostic]:
    """Rates that are an eighth of others like them, or eight times as much, where most are the others."""
    for less, amounts in list(rates.items()):
        more = rates.get(less * BITS)
        if more is None:
            continue
        same = {Fraction(amount.number) for amount in more} & {Fraction(amount.number) for amount in amounts}
        if same or len(more) >= 2 * len(amounts):
            odd, value, others, times = amounts, less, less * BITS, "an eighth of"
        elif len(amounts) >= 2 * len(more):
            odd, value, others, times = more, less * BITS, less, "eight times"
        else:
            continue
        help_ = f"did you mean {_rate(others)}? (b is a bit, B a byte)"
        for amount in dict.fromkeys(odd):
            shown = _shown(_written(amount), value)
            message = f"{shown}, {times} what others like it have ({_rate(others)})"
            yield Diagnostic("HS241", amount.span, message, help_, "warning")


def _shown(written: str, value: Fraction) -> str:
    return written if written == _rate(value) else f"{written} is {_rate(value)}"


def _written(amount: Amount) -> str:
    return amount.expression or f"{amount.number} {amount.unit}"


def _rate(value: Fraction) -> str:
    """``56.25 GB/s``."""
    for size, unit in ((10**12, "TB/s"), (GB, "GB/s"), (10**6, "MB/s")):
        if value >= size:
            return f"{float(value / size):.4g} {unit}"
    return f"{float(value):.4g} B/s"


_NAME = re.compile(r"[A-Za-z_]\w*")

_Arguments = tuple[Argument, ...]


class Origins:
    """Of one file: which arguments each expanded type was made with."""

    def __init__(self, inspection: Inspection) -> None:
        self._parameters: dict[Span, _Arguments] = {
            node.name.span: node.parameters for node in inspection.types.values()
        }
        self._uses: dict[str, dict[_Arguments, None]] = defaultdict(dict)
        of_pods = [node for node in inspection.expanded.values() if isinstance(node, syntax.PodType)]
        items: Sequence[syntax.NodeType | syntax.PodType | syntax.Cluster] = [*of_pods, *inspection.stated[-1:]]
        for item in items:
            for statement in item.items:
                if isinstance(statement, syntax.Instance):
                    self._uses[statement.node.text][statement.arguments] = None

    def of(self, amount: Amount, key: str, node: syntax.NodeType | syntax.PodType) -> Iterator[Amount]:
        """What to point at for ``amount`` in type ``node``, which instances call ``key``."""
        parameters = self._parameters.get(node.name.span, ())
        if not amount.expression or not parameters:
            yield amount
            return
        written = {parameter.name.text: parameter for parameter in parameters}
        for arguments in self._uses.get(key) or {(): None}:
            yield _origin(amount, written, {a.name.text: a for a in arguments})


def _origin(amount: Amount, parameters: Mapping[str, Argument], given: Mapping[str, Argument]) -> Amount:
    """The argument or default that ``amount`` is or depends on; itself where there is none."""
    todo, seen = [amount.expression.strip()], set[str]()
    whole = True  # so far each was nothing but the name of the next
    while todo:
        expression = todo.pop()
        whole = whole and expression in parameters
        for name in _NAME.findall(expression):
            if name in seen or name not in parameters:
                continue
            seen.add(name)
            value = given.get(name, parameters[name]).value
            if not isinstance(value, Amount):
                continue
            if whole and value.number:
                return value
            if name in given and not whole:  # no other unit of it would be the one that was meant
                return Amount(amount.number, amount.unit, value.span, amount.expression)
            if value.expression:
                todo.append(value.expression.strip())
    return amount
