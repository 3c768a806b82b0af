"""Docstrings say what is returned or done: none begins with a clause, a preposition or a pronoun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "hetesynth"
CLAUSE = "What|Whether|Why|How|Which|Where|When|Who|Those|That"
FRAGMENT = "Of|As|It|Its|In|By|With|From|To|At|On|All but|One|Both|Once|The same|Apart"
REFUSED = re.compile(rf"({CLAUSE}|{FRAGMENT})\b")


def test_docstrings_begin_with_what_is_returned_or_done() -> None:
    refused = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}: {docstring.splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and (docstring := ast.get_docstring(node))
        and REFUSED.match(docstring)
    ]
    assert not refused, "\n".join(["say in one sentence what is returned or done:", *refused])
