"""Where a number that was worked out comes from: an argument of an instance, a default, or where it stands.

In: the types as written and as expanded. Out: for each amount of an expanded type the amounts to point at.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.syntax import Amount, Argument, Cluster, Instance, NodeType, PodType

_NAME = re.compile(r"[A-Za-z_]\w*")

_Arguments = tuple[Argument, ...]


class Origins:
    """Of one file: which arguments each expanded type was made with."""

    def __init__(self, inspection: Inspection) -> None:
        self._parameters: dict[Span, _Arguments] = {
            node.name.span: node.parameters for node in inspection.types.values()
        }
        self._uses: dict[str, dict[_Arguments, None]] = defaultdict(dict)
        of_pods = [node for node in inspection.expanded.values() if isinstance(node, PodType)]
        items: Sequence[NodeType | PodType | Cluster] = [*of_pods, *inspection.stated[-1:]]
        for item in items:
            for statement in item.items:
                if isinstance(statement, Instance):
                    self._uses[statement.node.text][statement.arguments] = None

    def of(self, amount: Amount, key: str, node: NodeType | PodType) -> Iterator[Amount]:
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
    name = amount.expression.strip()
    for _ in parameters:
        if name not in parameters:
            break
        value = given.get(name, parameters[name]).value
        if not isinstance(value, Amount):
            return amount
        if value.number:
            return value
        name = value.expression.strip()  # a default in terms of others
    todo, seen = [amount.expression], set[str]()
    while todo:
        for name in _NAME.findall(todo.pop()):
            if name in seen or name not in parameters:
                continue
            seen.add(name)
            value = given.get(name, parameters[name]).value
            if name in given and isinstance(value, Amount):  # no other unit of it would be the one that was meant
                return Amount(amount.number, amount.unit, value.span, amount.expression)
            if isinstance(value, Amount) and value.expression:
                todo.append(value.expression)
    return amount
