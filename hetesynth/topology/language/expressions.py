"""Arithmetic on exact rationals with units: what stands between parentheses, and in the brackets of names.

``+ - * / %``, ``min(,)`` and ``max(,)``. A quantity may be multiplied and divided by numbers, and divided by one
of its sort.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.units import MAX_DIGITS, UNITS, Dimension

MAX_LENGTH = 1000  # of an expression, in characters
MAX_NESTING = 64
MAX_BITS = 256  # of a numerator or a denominator
MAX_INDEX = 10**6
WORK_OF_A_CHARACTER = 2  # in units of one name tried against a pattern

_TOKEN = re.compile(
    r"(?P<space>\s+|(?:#|//)[^\n]*)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?)(?:[ \t]*(?P<unit>[A-Za-z\u00b5\u03bc]+(?:/s(?![A-Za-z0-9_]))?))?"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>[-+*/%(),])"
)
_WITHOUT_UNIT = re.compile(
    r"(?P<space>\s+)|(?P<number>[0-9]+)(?P<unit>)|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-+*/%(),])"
)


@dataclass(frozen=True, slots=True)
class Value:
    """An exact number: a plain one (dimension ``count``), or B/s, seconds, bytes, metres."""

    number: Fraction
    dimension: Dimension = "count"

    @property
    def sort(self) -> str:
        """``a bandwidth``: what it is a value of."""
        return "a number" if self.dimension == "count" else f"a {self.dimension}"


_Result = TypeVar("_Result")
Variables = Mapping[str, Value | str]  # a string is a word that a loop goes through


class _WrongError(Exception):
    """What is wrong with an expression, and at which character."""

    def __init__(self, code: str, offset: int, message: str, help: str = "") -> None:
        super().__init__(message)
        self.code, self.offset, self.message, self.help = code, offset, message, help


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number, name, sign, end
    text: str
    offset: int
    unit: str = ""


def evaluated(text: str, span: Span, variables: Variables, findings: Findings) -> Value | None:
    """The value of ``text``, which begins at ``span``; None, with a finding, when it has none."""
    return _read(text, span, findings, lambda: _Reader(_tokens(text, _TOKEN), variables).whole())


def ranges(
    text: str, span: Span, variables: Variables, findings: Findings, *, may_be_empty: bool = False
) -> list[tuple[int, int]] | None:
    """``0-(n-1),i`` as pairs of first and last number; None, with a finding, when that is no list of ranges.

    ``may_be_empty``: 0-(0-1) is a range without a number.
    """
    least = -1 if may_be_empty else 0
    return _read(text, span, findings, lambda: _Reader(_tokens(text, _WITHOUT_UNIT), variables).ranges(least))


def _read(text: str, span: Span, findings: Findings, result: Callable[[], _Result]) -> _Result | None:
    findings.spend(WORK_OF_A_CHARACTER * len(text), span)
    try:
        return result()
    except _WrongError as error:
        line = text.count("\n", 0, error.offset)
        column = error.offset - text.rfind("\n", 0, error.offset) if line else span.column + error.offset
        findings.add(error.code, Span(span.file, span.line + line, column), error.message, error.help)
        return None


def _tokens(text: str, pattern: re.Pattern[str]) -> list[_Token]:
    if len(text) > MAX_LENGTH:
        message = f"an expression is longer than {MAX_LENGTH} characters"
        help_ = "name parts of it: a parameter may have an expression as its default"
        raise _WrongError("HS230", 0, message, help_)
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            help_ = "use numbers, variables, + - * / %, min(,), max(,) and parentheses"
            raise _WrongError("HS230", at, f"`{text[at]}` cannot stand in an expression", help_)
        if match["number"]:
            tokens.append(_Token("number", match["number"], at, match["unit"] or ""))
        elif match["name"] or match["sign"]:
            tokens.append(_Token("name" if match["name"] else "sign", match[0], at))
        at = match.end()
    return [*tokens, _Token("end", "", max(0, len(text.rstrip()) - 1))]


@dataclass(slots=True)
class _Reader:
    """Precedence climbing over the tokens; values are computed on the way."""

    tokens: list[_Token]
    variables: Variables
    at: int = 0

    def whole(self) -> Value:
        """The value of all tokens."""
        value = self._value(0)
        self._expect_end()
        return value

    def _value(self, depth: int, least: int = 0) -> Value:
        """Values joined by operators that bind as tightly as ``least``: 0 for + and -, 1 for * / and %."""
        if depth > MAX_NESTING:
            message = f"an expression is nested deeper than {MAX_NESTING} levels"
            raise _WrongError("HS230", self.tokens[self.at].offset, message, "write it in simpler words")
        negative = False
        while self._sign("-") is not None:
            negative = not negative
        value = self._atom(depth)
        value = replace(value, number=-value.number) if negative else value
        while (sign := self._sign(*("+-*/%", "*/%", "")[least])) is not None:
            value = _combined(value, sign, self._value(depth, 1 if sign.text in "+-" else 2))
        return value

    def _atom(self, depth: int) -> Value:
        token = self._next()
        if token.kind == "number":
            if len(token.text) > MAX_DIGITS:
                message = f"a number may have at most {MAX_DIGITS} digits"
                raise _WrongError("HS208", token.offset, message, "use a larger unit")
            if token.unit and token.unit not in UNITS:
                times = f"write `{token.text} * {token.unit}`" if token.unit in self.variables else ""
                help_ = times or did_you_mean(token.unit, UNITS, "units are written like 25 GB/s, 0.7 us, 16 MB")
                raise _WrongError("HS205", token.offset, f"unknown unit `{token.unit[:40]}`", help_)
            dimension, factor = UNITS[token.unit] if token.unit else ("count", Fraction(1))
            return Value(Fraction(token.text) * factor, dimension)
        if token.kind == "name" and self._sign("(") is not None:
            choose: Callable[[list[Fraction]], Fraction] | None = {"min": min, "max": max}.get(token.text)
            if choose is None:
                message = f"there is no function `{token.text[:60]}`"
                raise _WrongError("HS230", token.offset, message, "there are min(,) and max(,)")
            values = [self._value(depth + 1)]
            while self._sign(",") is not None:
                values.append(self._value(depth + 1))
            self._expect(")")
            other = next((value for value in values if value.dimension != values[0].dimension), None)
            if other is not None:
                message = f"`{token.text}` of {values[0].sort} and {other.sort}"
                raise _WrongError("HS206", token.offset, message, "its values have to be of one sort")
            return Value(choose([value.number for value in values]), values[0].dimension)
        if token.kind == "name":
            value = self.variables.get(token.text)
            if value is None:
                otherwise = "variables are the parameters of a node type and the names behind `for`"
                help_ = did_you_mean(token.text, self.variables, otherwise)
                raise _WrongError("HS201", token.offset, f"there is no variable `{token.text[:60]}`", help_)
            if isinstance(value, str):
                message = f"`{token.text}` is the word `{value}`, not a number"
                raise _WrongError("HS206", token.offset, message, f"write [{token.text}] in a name")
            return value
        if token.text == "(":
            value = self._value(depth + 1)
            self._expect(")")
            return value
        shown = f"`{token.text}`" if token.text else "the end"
        raise _WrongError("HS230", token.offset, f"a number or a variable is expected, not {shown}")

    def ranges(self, least: int) -> list[tuple[int, int]]:
        """Numbers, variables and parenthesised expressions, or two of them with - between, after commas."""
        pairs: list[tuple[int, int]] = []
        while True:
            start = self.at
            first = self._index(0)
            last = self._index(least) if self._sign("-") is not None else first
            pairs.append((first, last))
            if self._sign(",") is None:
                break
        form = "[{}]" if least == 0 else "{}"
        token = self.tokens[self.at]
        if token.kind == "sign" and token.text in "+-*/%":
            message = f"`{token.text}` stands outside of parentheses"
            lead, *rest = (each.text for each in self.tokens[start:-1])
            written = (
                f"{lead}-({''.join(rest[1:])[:60]})" if rest[:1] == ["-"] else f"({lead}{''.join(rest)[:60]})"
            )
            raise _WrongError("HS230", token.offset, message, f"write {form.format(written)}")
        if token.text == "to":
            raise _WrongError("HS230", token.offset, "`to` is not a range", f"write {form.format('0-3')}")
        self._expect_end()
        return pairs

    def _index(self, least: int) -> int:
        token = self.tokens[self.at]
        value = self._atom(0)
        if value.dimension != "count":
            raise _WrongError("HS206", token.offset, f"a number is expected here, not {value.sort}")
        if value.number.denominator != 1 or not least <= value.number <= MAX_INDEX:
            shown = str(value.number)[:24]
            message = f"the number of a part has to be whole and 0 to {MAX_INDEX}, not {shown}"
            help_ = "check the expression and the values it is used with"
            raise _WrongError("HS208", token.offset, message, help_)
        return int(value.number)

    def _expect_end(self) -> None:
        token = self.tokens[self.at]
        if token.kind != "end":
            message = f"unexpected `{token.text[:40]}` in an expression"
            help_ = "there is an operator missing, or a bracket too many"
            raise _WrongError("HS230", token.offset, message, help_)

    def _next(self) -> _Token:
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def _sign(self, *texts: str) -> _Token | None:
        token = self.tokens[self.at]
        if token.kind == "sign" and token.text in texts:
            self.at += 1
            return token
        return None

    def _expect(self, text: str) -> None:
        token = self._next()
        if token.kind != "sign" or token.text != text:
            shown = f"`{token.text[:40]}`" if token.text else "the end"
            raise _WrongError("HS230", token.offset, f"`{text}` is expected, not {shown}")


def _combined(left: Value, sign: _Token, right: Value) -> Value:
    """The sum, difference, product, quotient or remainder of two values."""
    dimension = left.dimension if right.dimension == "count" else right.dimension
    if sign.text in "+-":
        if left.dimension != right.dimension:
            message = f"`{sign.text}` joins {left.sort} and {right.sort}"
            raise _WrongError("HS206", sign.offset, message, "both sides have to be of one sort")
        number = left.number + right.number if sign.text == "+" else left.number - right.number
    elif sign.text != "*" and right.number == 0:
        raise _WrongError("HS231", sign.offset, "division by zero", "check the values that this is used with")
    elif sign.text == "*" and "count" in (left.dimension, right.dimension):
        number = left.number * right.number
    elif sign.text == "/" and right.dimension in ("count", left.dimension):
        number = left.number / right.number
        dimension = left.dimension if right.dimension == "count" else "count"
    elif sign.text == "%" and left.dimension == right.dimension == "count":
        number = left.number % right.number
    else:
        message = f"`{sign.text}` of {left.sort} and {right.sort} has no meaning here"
        help_ = "a quantity is multiplied and divided by numbers, or divided by one of its sort"
        raise _WrongError("HS206", sign.offset, message, help_)
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS:
        raise _WrongError("HS231", sign.offset, "the numbers become too large", "use larger units")
    return Value(number, dimension)
