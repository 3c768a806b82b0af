"""Parameters, loops and expressions -> a syntax tree without them, and what instances add -> own types."""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeVar, cast

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Span
from hetesynth.topology.language import syntax
from hetesynth.topology.language.expressions import Value, Variables, evaluated, outside, ranges
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.imports import Program
from hetesynth.topology.language.names import MAX_RANGE, WORK_OF_A_NAME, expand
from hetesynth.topology.language.syntax import Amount, Argument, Instance, NodeType, PodType, Word
from hetesynth.topology.language.units import UNITS, Dimension

MAX_STATEMENTS = 100_000
MAX_NESTED_LOOPS = 64

_BASE_UNITS: dict[Dimension, str] = {"count": "", "bandwidth": "B/s", "time": "s", "size": "B", "length": "m"}
_COMPUTED = re.compile(r"\[([^\]]*[A-Za-z_(][^\]]*)\]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = re.compile(r"[A-Za-z_*\[][^(){}\s]*")

_Item = TypeVar("_Item")
_Added = syntax.Element | syntax.Join | syntax.Shared | syntax.Detach  # by an instance to its type


def expanded(program: Program, findings: Findings) -> Program:
    """Return ``program`` without parameters, loops and expressions; ``SourceError`` if one is wrong."""
    before = len(findings)
    expansion = _Expansion(program.nodes, findings, dict(program.nodes))
    items = expansion.items(program.cluster.items, {}, in_pod=False)
    if len(findings) > before:
        findings.raise_any()
    return Program(expansion.types, replace(program.cluster, items=tuple(items)))


@dataclass(slots=True)
class _Expansion:
    """A run of the expansion. ``types``: the written types and those made of them, by the name in instances."""

    written: dict[str, NodeType | PodType]
    findings: Findings
    types: dict[str, NodeType | PodType]
    _names: dict[object, str] = field(default_factory=dict)
    _constant: set[int] = field(default_factory=set)
    _statements: int = 0

    def items(self, items: Iterable[_Item], variables: Variables, *, in_pod: bool, depth: int = 0) -> list[_Item]:
        """Return the statements with loops repeated and variables replaced."""
        result: list[_Item] = []
        for item in items:
            if isinstance(item, syntax.Loop):
                result += cast("list[_Item]", self._repeated(item, variables, in_pod, depth))
                continue
            if variables:
                self._count(item)
            new: Any = self._replaced(item, variables)
            node = self.written.get(new.node.text) if isinstance(new, Instance) else None
            if node is not None and not (in_pod and isinstance(node, PodType)):
                # of a type made for its arguments and for what it adds
                overrides = self.items(new.overrides, variables, in_pod=False)
                bound = self._bound(node, new)
                if bound is not None:
                    added = tuple(o for o in overrides if isinstance(o, _Added))
                    changes = tuple(o for o in overrides if o not in added)
                    name = Word(self._type(node, bound, added), new.node.span)
                    new = replace(new, node=name, overrides=changes)
            result.append(new)
        return result

    def _repeated(self, loop: syntax.Loop, variables: Variables, in_pod: bool, depth: int) -> list[Any]:
        self.findings.limit(depth + 1, MAX_NESTED_LOOPS, "loops in each other", loop.span)
        name = loop.name.text
        if not _NAME.fullmatch(name) or name in variables:
            code, problem = "HS210", "cannot be the name of a variable"
            if name in variables:
                code, problem = "HS203", "is a variable already"
            help_ = "choose another name, of letters, digits and underscores"
            self.findings.add(code, loop.name.span, f"`{name}` {problem}", help_)
            return []
        result: list[Any] = []
        self._count(loop)
        pieces = [Word(piece.strip(), loop.values.span) for piece in outside(loop.values.text, ",")]
        values = [value for piece in pieces for value in self._piece(piece, variables)]
        self.findings.limit(len(values), MAX_RANGE, "values of a loop", loop.values.span)
        for value in values:
            self._count(loop)
            result += self.items(loop.items, {**variables, name: value}, in_pod=in_pod, depth=depth + 1)
        return result

    def _count(self, item: Any) -> None:
        self._statements += 1
        self.findings.limit(self._statements, MAX_STATEMENTS, "statements made by loops and parameters", item.span)

    def _piece(self, word: Word, variables: Variables) -> Iterable[Value | str]:
        """Return the values, numbers or words, that a loop takes from one piece of its list."""
        if word.text in variables:
            return [variables[word.text]]
        if _NAMES.fullmatch(word.text) and "-" not in word.text.partition("[")[0]:
            if "*" in word.text:
                self.findings.add("HS210", word.span, "a loop cannot go through a pattern with `*`")
                return []
            return expand(self._word(word, variables), self.findings)
        values: list[Value | str] = []
        for first, last in ranges(word.text, word.span, variables, self.findings, may_be_empty=True) or ():
            if last < first - 1:
                self.findings.add("HS208", word.span, f"the range {first}-{last} runs backwards")
            values += [Value(Fraction(i)) for i in range(first, min(last, first + MAX_RANGE) + 1)]
        return values

    def _type(self, node: NodeType | PodType, bound: dict[str, Value], added: tuple[_Added, ...]) -> str:
        """Return the name of ``node`` with parameters ``bound`` and statements ``added`` behind its own."""
        key = (node.name.text, tuple(bound.items()), added)
        if key in self._names:
            return self._names[key]
        shown = ", ".join(f"{parameter} = {value.number}" for parameter, value in bound.items())
        name = node.name.text + (f"({shown})" if shown else "")
        if added:
            plain = self.types[self._type(node, bound, ())]
            new: NodeType | PodType = replace(plain, items=(*plain.items, *added))
        else:
            items = self.items(node.items, cast(Variables, bound), in_pod=isinstance(node, PodType))
            title = Word(name[:80], node.name.span)
            new = replace(node, name=title, items=tuple(items), parameters=())
        if added or name in self._names.values():
            name = f"{node.name.text}({shown}) + {len(self._names)}"
        self._names[key] = name
        self.types[name] = new
        return name

    def _bound(self, node: NodeType | PodType, item: Instance) -> dict[str, Value] | None:
        """Return the value of each parameter: the instance's, else the default; None if one is missing."""
        title, parameters = f"`{node.name.text}`", {p.name.text: p for p in node.parameters}
        if len(parameters) < len(node.parameters):
            self.findings.add("HS203", node.name.span, f"{title} has two parameters of one name")
        given: dict[str, Value] = {}
        for argument in item.arguments:
            name = argument.name.text
            if name not in parameters or name in given:
                help_ = did_you_mean(name, parameters, f"declare it: node {node.name.text}({name} = ...)")
                message = f"{title} has no parameter `{name[:60]}`, or it is given twice"
                self.findings.add("HS201", argument.name.span, message, help_)
            unread = isinstance(argument.value, Amount) and argument.value.expression and not argument.value.number
            argued = None if unread else self._value(argument, {})  # what is unread was reported
            if argued is None:
                return None
            given[name] = argued
        bound: dict[str, Value] = {}
        for name, parameter in parameters.items():
            default = self._value(parameter, bound)
            value = given.get(name, default)
            if value is None or (default is not None and value.dimension != default.dimension):
                if value is not None or parameter.value is None:
                    code, what = ("HS206", default.sort) if value and default else ("HS209", "a value")
                    help_ = f"write {node.name.text}({name} = ...)"
                    self.findings.add(code, item.node.span, f"{title} needs {what} for `{name}`", help_)
                return None
            bound[name] = value
        return bound

    def _value(self, argument: Argument, variables: dict[str, Value]) -> Value | None:
        amount = argument.value
        if amount is None or isinstance(amount, Word):
            return None
        if amount.number and amount.expression:
            dimension: Dimension = UNITS[amount.unit][0] if amount.unit else "count"
            return Value(Fraction(amount.number), dimension)
        text = amount.expression or f"{amount.number} {amount.unit}"
        start = replace(amount.span, column=amount.span.column + bool(amount.expression))
        return evaluated(text, start, cast(Variables, variables), self.findings)

    def _replaced(self, item: Any, variables: Variables) -> Any:
        """Return ``item`` with its expressions evaluated and the variables in its names replaced."""
        if id(item) in self._constant:  # by identity, as every item is one of the trees as written
            return item
        new = item
        if isinstance(item, Word):
            new = self._word(item, variables)
        elif isinstance(item, Amount):
            new = self._amount(item, variables)
        elif isinstance(item, tuple):
            parts = tuple([self._replaced(part, variables) for part in item])
            new = item if all(a is b for a, b in zip(item, parts, strict=True)) else parts
        elif isinstance(item, Argument) and isinstance(item.value, Word):  # a bare word is a variable
            bare = Amount("", "", item.value.span, item.value.text)
            return replace(item, value=self._amount(bare, variables, inside=0))
        elif isinstance(item, syntax.Property) and item.name in ("model", "kind"):
            pass  # its words are text, not names
        elif dataclasses.is_dataclass(item) and not isinstance(item, (Span, syntax.Loop)):
            names = [field.name for field in dataclasses.fields(item)]
            skipped = ("overrides",) if isinstance(item, Instance) else ()
            values = {
                name: self._replaced(getattr(item, name), variables) for name in names if name not in skipped
            }
            if any(value is not getattr(item, name) for name, value in values.items()):
                new = replace(cast(Any, item), **values)
        if new is item and not isinstance(item, (str, int)):
            self._constant.add(id(item))
        return new

    def _amount(self, amount: Amount, variables: Variables, inside: int = 1) -> Amount:
        if not amount.expression or amount.number:
            return amount
        start = replace(amount.span, column=amount.span.column + inside)
        value = evaluated(amount.expression, start, variables, self.findings)
        if value is None:
            return amount
        return replace(amount, number=str(value.number), unit=_BASE_UNITS[value.dimension])

    def _word(self, word: Word, variables: Variables) -> Word:
        """Return ``word`` with variables in brackets replaced: ``gpu[i]``, ``leaf_[s]``, ``gpu[(2*i)-(3*i)]``."""
        if "[" not in word.text:
            return word

        def bracket(match: re.Match[str]) -> str:
            inside = match[1].strip()
            value = variables.get(inside)
            if isinstance(value, str):
                return value
            span = replace(word.span, column=word.span.column + match.start(1))
            pairs = ranges(match[1], span, variables, self.findings)
            if pairs is None:
                return match[0]
            if len(pairs) == 1 and pairs[0][0] == pairs[0][1]:
                return str(pairs[0][0])
            return "[" + ",".join(f"{first}-{last}" for first, last in pairs) + "]"

        text = _COMPUTED.sub(bracket, word.text)
        self.findings.spend(WORK_OF_A_NAME + len(text) // 8, word.span)
        return Word(text, word.span) if text != word.text else word
