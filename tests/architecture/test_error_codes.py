"""docs/errors.md lists every code of the package once, with the exit code that all of its raisers give it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hetesynth

PACKAGE = Path(hetesynth.__file__).parent
PAGE = PACKAGE.parent / "docs" / "errors.md"
CODE = re.compile(r"HS[0-9]{3}")
UNSTATED = "HS000"  # what HetesynthError has when nobody states a code

# codes that more than one part of the package may raise, for one and the same reason
SHARED = {
    "HS304": "a collective, asked for or found in a file, with too many chunks",
    "HS306": "search and baselines, both in synthesis",
    "HS307": "a quantity or a range on the command line",
    "HS500": "a target that is not known, or not named",
    "HS520": "a schedule JSON: its reader, and what only import can tell",
    "HS540": "an input file that cannot be read",
    "HS541": "an input file that is too large",
    "HS570": "two files of one command with the same name",
    "HS625": "what cegis cannot begin with: of the wrong kind, or of another problem",
    "HS644": "a file that init would replace: a topology or a manifest",
    "HS702": "a program that its judge or the lifting finds wrong",
    "HS706": "import, of a program or a schedule",
    "HS733": "what a cluster needs and no file tells: readers, the writer, the command",
    "HS800": "rank 0 says it: raised, passed on, kept quiet",
    "HS804": "memory, of one rank or of all",
    "HS809": "a file that its judge refuses: run, and what loads tables",
    "HS820": "a library that is not installed: run, and its executor",
}


@cache
def _nodes() -> tuple[tuple[str, ast.AST], ...]:
    """(module, node) of all of the package."""
    return tuple(
        (path.relative_to(PACKAGE).as_posix(), node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
    )


def _is_code(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and bool(CODE.fullmatch(str(node.value)))


def _calls() -> Iterator[tuple[str, ast.Call, dict[str, ast.expr], set[str]]]:
    """(module, a call, its keywords, the codes among its own arguments)."""
    for module, node in _nodes():
        if isinstance(node, ast.Call):
            keywords = {k.arg: k.value for k in node.keywords if k.arg}
            given = [*node.args, *keywords.values()]
            codes = {str(v.value) for v in given if isinstance(v, ast.Constant) and _is_code(v)}
            yield module, node, keywords, codes


def _named_codes() -> set[str]:
    """Every text in the package that is a code."""
    return {str(n.value) for _, n in _nodes() if isinstance(n, ast.Constant) and _is_code(n)}


def _table() -> list[tuple[str, str, str]]:
    """(code, meaning, exit code) of every row of the page."""
    rows = re.findall(r"^\| (HS[0-9]{3}) \| (.+?) \| *([0-9]*) *\|$", PAGE.read_text(), re.MULTILINE)
    return [(code, meaning, leaving) for code, meaning, leaving in rows]


def test_the_page_lists_every_code_once_and_no_other() -> None:
    codes = [code for code, _, _ in _table()]
    assert codes == sorted(set(codes))
    assert set(codes) == _named_codes() - {UNSTATED}


def test_every_failure_has_a_code() -> None:
    without = [
        f"{module}:{call.lineno}"
        for module, call, keywords, _ in _calls()
        if isinstance(call.func, ast.Name) and call.func.id == "HetesynthError" and "code" not in keywords
    ]
    assert without == []


def test_a_code_leaves_with_one_exit_code() -> None:
    """Two meanings under one code mostly show in this."""
    stated = {code: leaving for code, _, leaving in _table()}
    for module, call, keywords, codes in _calls():
        leaving = keywords.get("exit_code", ast.Constant(2))
        for code in codes & set(stated):
            if isinstance(leaving, ast.Constant) and "code" in keywords:
                assert str(leaving.value) == stated[code], f"{module}:{call.lineno} {code}"


def test_a_code_belongs_to_one_part_of_the_package() -> None:
    """What two parts raise must be one meaning: it is then named above."""
    parts: dict[str, set[str]] = defaultdict(set)
    for module, _, _, codes in _calls():
        for code in codes:
            parts[code].add(module if "/" not in module else module.split("/")[0])
    several = {code for code, where in parts.items() if len(where) > 1}
    assert several <= set(SHARED), sorted(several - set(SHARED))
    assert set(SHARED) <= set(parts)
