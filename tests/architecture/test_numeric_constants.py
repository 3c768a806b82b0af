"""A new threshold cannot stand outside the policy unnoticed: every numeric constant of a module is listed."""

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


def is_number(node: ast.expr) -> bool:
    """Whether it is a number, a sum or product of such, or a tuple of such."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.Tuple(elts=elements):
            return bool(elements) and all(map(is_number, elements))
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
    return False


def constants(source: str) -> Iterator[str]:
    """The upper-case names to which a module assigns numbers."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=targets, value=value) if is_number(value):
                names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None and is_number(value):
                names = [name]
            case _:
                continue
        yield from (name for name in names if name.isupper())


def in_code() -> set[str]:
    """``module: NAME`` of every numeric constant of the package."""
    return {
        f"hetesynth/{path.relative_to(PACKAGE).as_posix()}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in constants(path.read_text(encoding="utf-8"))
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
    """A new one becomes a field of the policy or, if it decides nothing, a line of numeric_constants.py."""
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
        ("def f():\n    ROUNDS = 60", []),
    ],
)
def test_constants_are_recognised(source: str, expected: list[str]) -> None:
    assert list(constants(source)) == expected
