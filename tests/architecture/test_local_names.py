"""Local names and parameters say what they hold: ``candidates``, ``seconds``, ``by_rank``, not ``found``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hetesynth

PACKAGE = Path(hetesynth.__file__).parent
EMPTY = frozenset({"found", "known", "wanted", "held", "made", "taken"})


def empty_names(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of every assignment and parameter with an empty name; fields may have one."""
    tree = ast.parse(source)
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name in EMPTY and id(node) not in fields:
                yield node.lineno, name
            case ast.arg(arg=name) if name in EMPTY:
                yield node.lineno, name


def test_no_local_name_says_nothing() -> None:
    empty = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in empty_names(path.read_text(encoding="utf-8"))
    ]
    assert not empty, "these say nothing of what they hold:\n" + "\n".join(empty)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("found = 1", ["found"]),
        ("for known in (): pass", ["known"]),
        ("sizes = [held for held in ()]", ["held"]),
        ("def f(wanted: int = 0, *, made: int = 0) -> None: ...", ["made", "wanted"]),
        ("size = lambda taken: 0", ["taken"]),
        ("if (found := f()): pass", ["found"]),
        ("with f() as made: pass", ["made"]),
        ("(a, (b, taken)) = f()", ["taken"]),
        ("self.found = 1\nf(found=1)\nprint(found)", []),
        ("class Witness:\n    wanted: int\n    def of(self, known: int) -> None: ...", ["known"]),
        ("candidates = []\nfoundation = 1", []),
    ],
)
def test_empty_names_are_recognised(source: str, expected: list[str]) -> None:
    assert sorted(name for _, name in empty_names(source)) == expected
