"""Arithmetic on exact rationals with units: what stands between parentheses, and in the brackets of names.

``+ - * / %``, ``min(,)`` and ``max(,)``. A quantity may be multiplied and divided by numbers, and divided by one
of its sort. Python's own parser finds the structure; nothing of it is executed.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

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
    r"|(?P<function>(?:min|max)(?=\s*\())"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>[-+*/%(),])"
    r"|(?P<other>.)"
)
_INDEX = re.compile(r"\s*(?:\w+|(?:min|max)?\s*\(.*\))\s*", re.DOTALL)  # a number, a variable or an expression
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%"}


@dataclass(frozen=True, slots=True)
class Value:
    """An exact number: a plain one (dimension ``count``), or B/s, seconds, bytes, meters."""

    number: Fraction
    dimension: Dimension = "count"

    @property
    def sort(self) -> str:
        """The words for its dimension, such as ``a bandwidth``."""
        return "a number" if self.dimension == "count" else f"a {self.dimension}"


Variables = Mapping[str, Value | str]  # a string is a word that a loop goes through


class _WrongError(Exception):
    """An error in an expression, with the code, message and help of its finding."""

    def __init__(self, code: str, message: str, help: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help


@contextmanager
def _reported(text: str, span: Span, findings: Findings) -> Iterator[None]:
    findings.spend(WORK_OF_A_CHARACTER * len(text), span)
    try:
        yield
    except _WrongError as error:
        findings.add(error.code, span, error.message, error.help)


def evaluated(text: str, span: Span, variables: Variables, findings: Findings) -> Value | None:
    """Return the value of ``text``, which begins at ``span``; None, with a finding, if it has none."""
    with _reported(text, span, findings):
        return _value(text, variables)
    return None


def ranges(
    text: str, span: Span, variables: Variables, findings: Findings, *, may_be_empty: bool = False
) -> list[tuple[int, int]] | None:
    """Return ``0-(n-1),i`` as pairs of first and last number; None, with a finding, if it is no list of ranges."""
    with _reported(text, span, findings):
        pairs = []
        for piece in outside(text, ","):
            ends = outside(piece, "-")
            if len(ends) > 2 or not all(map(_INDEX.fullmatch, ends)):
                raise _WrongError("HS230", f"`{piece.strip()[:40]}` is not a range")
            first, last = (_value(end, variables) for end in (ends[0], ends[-1]))
            least = -1 if may_be_empty and len(ends) > 1 else 0  # 0-(0-1) is a range without a number
            pairs.append((_index(first, 0), _index(last, least)))
        return pairs
    return None


def outside(text: str, sign: str) -> list[str]:
    """Return ``text`` cut at the signs that stand in no bracket."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == sign and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def _value(text: str, variables: Variables) -> Value:
    tree, constants = _parsed(text)
    return _worked_out(tree, constants, variables, 0)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[ast.expr, tuple[Value, ...]]:
    """Return the syntax tree of an expression: numbers become ``c0``, ``c1``, ..., a variable ``n`` ``v_n``."""
    if len(text) > MAX_LENGTH:
        raise _WrongError("HS230", f"an expression is longer than {MAX_LENGTH} characters")
    constants: list[Value] = []
    python = ""
    for token in _TOKEN.finditer(text):
        if token["other"]:
            raise _WrongError("HS230", f"`{token[0]}` cannot stand in an expression")
        if token["number"]:
            python += f" c{len(constants)} "
            constants.append(_constant(token["number"], token["unit"] or ""))
        else:
            python += " " if token["space"] else f" v_{token['name']} " if token["name"] else token[0]
    try:
        return ast.parse(python.strip(), mode="eval").body, tuple(constants)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _WrongError("HS230", f"`{text.strip()[:40]}` is no expression") from None


def _constant(number: str, unit: str) -> Value:
    if len(number) > MAX_DIGITS:
        raise _WrongError("HS208", f"a number may have at most {MAX_DIGITS} digits")
    if unit and unit not in UNITS:
        help_ = did_you_mean(unit, UNITS, "units are written like 25 GB/s, 0.7 us, 16 MB")
        raise _WrongError("HS205", f"unknown unit `{unit[:40]}`", help_)
    dimension, factor = UNITS[unit] if unit else ("count", Fraction(1))
    return Value(Fraction(number) * factor, dimension)


def _worked_out(node: ast.expr, constants: tuple[Value, ...], variables: Variables, depth: int) -> Value:
    if depth > MAX_NESTING:
        raise _WrongError("HS230", f"an expression is nested deeper than {MAX_NESTING} levels")
    if isinstance(node, ast.Name) and node.id.startswith("c"):
        return constants[int(node.id[1:])]
    if isinstance(node, ast.Name) and node.id.startswith("v_"):
        value = variables.get(node.id[2:])
        if value is None:
            otherwise = "variables are the parameters of a node type and the names behind `for`"
            help_ = did_you_mean(node.id[2:], variables, otherwise)
            raise _WrongError("HS201", f"there is no variable `{node.id[2:62]}`", help_)
        if isinstance(value, str):
            message = f"`{node.id[2:]}` is the word `{value}`, not a number"
            raise _WrongError("HS206", message, f"write [{node.id[2:]}] in a name")
        return value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _worked_out(node.operand, constants, variables, depth + 1)
        return Value(-value.number, value.dimension)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        left, right = (_worked_out(side, constants, variables, depth + 1) for side in (node.left, node.right))
        return _combined(left, _SIGNS[type(node.op)], right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        values = [_worked_out(argument, constants, variables, depth + 1) for argument in node.args]
        sorts = list(dict.fromkeys(value.sort for value in values))
        if len(sorts) > 1:
            message = f"`{node.func.id}` of {sorts[0]} and {sorts[1]}"
            raise _WrongError("HS206", message, "its values have to be of one sort")
        if values:
            choose = min if node.func.id == "min" else max
            return Value(choose(value.number for value in values), values[0].dimension)
    raise _WrongError("HS230", "this cannot stand in an expression")


def _index(value: Value, least: int) -> int:
    if value.dimension != "count":
        raise _WrongError("HS206", f"a number is expected here, not {value.sort}")
    if value.number.denominator != 1 or not least <= value.number <= MAX_INDEX:
        message = f"the number of a part has to be whole and 0 to {MAX_INDEX}, not {str(value.number)[:24]}"
        raise _WrongError("HS208", message)
    return int(value.number)


def _combined(left: Value, sign: str, right: Value) -> Value:
    """Return the sum, difference, product, quotient or remainder of two values."""
    dimension = left.dimension if right.dimension == "count" else right.dimension
    if sign in "+-":
        if left.dimension != right.dimension:
            message = f"`{sign}` joins {left.sort} and {right.sort}"
            raise _WrongError("HS206", message, "both sides have to be of one sort")
        number = left.number + right.number if sign == "+" else left.number - right.number
    elif sign != "*" and right.number == 0:
        raise _WrongError("HS231", "division by zero")
    elif sign == "*" and "count" in (left.dimension, right.dimension):
        number = left.number * right.number
    elif sign == "/" and right.dimension in ("count", left.dimension):
        number = left.number / right.number
        dimension = left.dimension if right.dimension == "count" else "count"
    elif sign == "%" and left.dimension == right.dimension == "count":
        number = left.number % right.number
    else:
        message = f"`{sign}` of {left.sort} and {right.sort} has no meaning here"
        help_ = "a quantity is multiplied and divided by numbers, or divided by one of its sort"
        raise _WrongError("HS206", message, help_)
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS:
        raise _WrongError("HS231", "the numbers become too large")
    return Value(number, dimension)
