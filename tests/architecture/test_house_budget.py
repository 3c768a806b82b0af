"""The house keeps its budget: lines, modules, words and thresholds are at most what CONTRIBUTING.md grants."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from policy.test_policy import THRESHOLD

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md", "dsl/**/*.md")


def lines(folder: str) -> int:
    """Lines of Python below ``folder``."""
    return sum(path.read_text().count("\n") for path in (ROOT / folder).rglob("*.py"))


def words(*patterns: str) -> int:
    """Words of the pages that match ``patterns``."""
    return sum(len(path.read_text().split()) for pattern in patterns for path in ROOT.glob(pattern))


def named_numbers() -> int:
    """Constants of modules that are numbers, or arithmetic of numbers."""
    nodes = [node for path in (ROOT / "hetesynth").rglob("*.py") for node in ast.parse(path.read_text()).body]
    values = [node.value for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    return sum(_is_number(value) for value in values)


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.UnaryOp(operand=inner):
            return _is_number(inner)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


COUNTED: dict[str, Callable[[], int]] = {
    "lines of the package": lambda: lines("hetesynth"),
    "modules": lambda: len(list((ROOT / "hetesynth").rglob("*.py"))),
    "lines of tests and benchmarks": lambda: lines("tests"),
    "thresholds": lambda: len(THRESHOLD.findall((ROOT / "hetesynth" / "policy.py").read_text())),
    "numbers with a name": named_numbers,
    "words of pages": lambda: words(*PAGES),
    "words of README.md": lambda: words("README.md"),
}


def granted() -> dict[str, int]:
    """The table of CONTRIBUTING.md."""
    rows = re.findall(r"^\| ([a-zA-Z. ]+) \| ([0-9,]+) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    return {name: int(most.replace(",", "")) for name, most in rows}


@pytest.mark.parametrize("name", COUNTED)
def test_the_house_keeps_its_budget(name: str) -> None:
    assert COUNTED[name]() <= granted()[name], "make it smaller, or raise the table in a commit that says what for"


def test_every_row_of_the_table_is_counted() -> None:
    assert granted().keys() == COUNTED.keys()
