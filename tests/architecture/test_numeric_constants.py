"""Numbers with a name that stand outside the policy are listed: constants of modules, and defaults of parameters.

What it does not see: numbers written into the body of a function (``cost / 2``), defaults of the fields of a class
and of options of the command line, lower-case names, and numbers that a call works out. Those are for reviews.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture.numeric_constants import ALLOWED

import hetesynth

PACKAGE = Path(hetesynth.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


NEUTRAL = (0, 1)  # as a default: none, nothing, the first, once


def is_number(node: ast.expr) -> bool:
    """Whether it is a number, a sum or product of such and constants, or a tuple of such."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.Tuple(elts=elements):
            return bool(elements) and all(map(is_number, elements))
        case ast.BinOp(left=left, right=right):
            return all(is_number(side) or is_constant(side) for side in (left, right))
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
    return False


def is_constant(node: ast.expr) -> bool:
    """Whether it is the name of a constant, of this module or another."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.isupper()


def numbers(source: str) -> Iterator[str]:
    """The upper-case names to which a module assigns numbers, and ``function.parameter`` of defaults."""
    module = ast.parse(source)
    yield from constants(module)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (f"{node.name}.{parameter}" for parameter in defaults(node.args))


def defaults(parameters: ast.arguments) -> Iterator[str]:
    """The parameters whose default is a number other than 0 and 1."""
    positional = [*parameters.posonlyargs, *parameters.args]
    last = positional[len(positional) - len(parameters.defaults) :]
    pairs = [*zip(last, parameters.defaults, strict=True)]
    pairs += [(p, d) for p, d in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if d is not None]
    for parameter, default in pairs:
        if is_number(default) and not (isinstance(default, ast.Constant) and default.value in NEUTRAL):
            yield parameter.arg


def constants(module: ast.Module) -> Iterator[str]:
    """The upper-case names to which a module assigns numbers."""
    for node in module.body:
        match node:
            case ast.Assign(targets=targets, value=value) if is_number(value):
                names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None and is_number(value):
                names = [name]
            case _:
                continue
        yield from (name for name in names if name.isupper())


def in_code() -> set[str]:
    """``module: NAME`` of every such number of the package."""
    return {
        f"hetesynth/{path.relative_to(PACKAGE).as_posix()}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in numbers(path.read_text(encoding="utf-8"))
    }


def allowed() -> Counter[str]:
    """The same of those that are listed."""
    listed: Counter[str] = Counter()
    for names in ALLOWED.values():
        module = ""
        for word in names.split():
            if word.endswith(":"):
                module = word
            else:
                listed[f"{module} {word}"] += 1
    return listed


def test_no_number_that_decides_stands_outside_the_policy() -> None:
    """None with a name. A new one becomes a field of the policy or, if it decides nothing, a line of
    numeric_constants.py."""
    new = sorted(in_code() - allowed().keys())
    assert not new, "new, and not in numeric_constants.py:\n" + "\n".join(new)


def test_every_number_that_may_stand_outside_the_policy_is_there() -> None:
    """What is gone leaves the list."""
    gone = sorted(allowed().keys() - in_code())
    assert not gone, "in numeric_constants.py, and gone:\n" + "\n".join(gone)


def test_no_number_is_listed_twice() -> None:
    assert [name for name, times in allowed().items() if times > 1] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("ROUNDS = 60", ["ROUNDS"]),
        ("_SHARE: float = 0.5", ["_SHARE"]),
        ("LIMIT = 64 * 2**20\nNONE = -1", ["LIMIT", "NONE"]),
        ("WIDE, HIGH = 1, 2", ["WIDE", "HIGH"]),
        ("EACH = (0.1, (2, 3))", ["EACH"]),
        ("rounds = 60\nNAME = 'x'\nON = True\nNAMES = ()\nSUM = sum((1, 2))", []),
        ("ALL = 16 * EACH\nTIMES = units.MS / 2\nOTHER = ALL", ["ALL", "TIMES"]),
        ("def f():\n    ROUNDS = 60", []),
        ("def f(x=3, /, y=0, *, z=-2, u=None):\n    def g(v=1.5): ...", ["f.x", "f.z", "g.v"]),
        ("class C:\n    def f(self, x=1, y=True, z=2 * K): ...", ["f.z"]),
    ],
)
def test_numbers_with_a_name_are_recognised(source: str, expected: list[str]) -> None:
    assert list(numbers(source)) == expected
