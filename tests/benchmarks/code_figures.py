"""Figures of the code itself, for a table of before and after a change of structure.

    python tests/benchmarks/code_figures.py [CHECKOUT ...]

Lines are physical lines of a module. A function's lines are those of its body and signature. A threshold is a
field of ``hetesynth/policy``; a numeric constant a name in capitals at the top of another module, bound to a
number or to a tuple of numbers. Replaced words are those that docs/glossary.md has another word for, in
names, comments and texts of the package. Empty names are local names and parameters that say nothing of what
they hold.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONG = 50
REPLACED = re.compile(
    r"(?<![a-z])(contenders?|contests?|finalists?|terrain|plants?|panes?|torn|pac(?:e|es|ed|ing)|on duty|landings?"
    r"|punctual|grace|dissemination|requery|crowds?|surroundings|rails|teams?|levell?ing|windows?|paus(?:e|es|ed)"
    r"|steady|listings?|fillings?)(?![a-z])",
    re.IGNORECASE,
)
EMPTY = ("found", "known", "wanted", "held", "made", "taken")


def figures(checkout: Path) -> dict[str, str]:
    """What is counted, by its name in the table."""
    package = checkout / "hetesynth"
    texts = {path: path.read_text() for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lengths = [text.count("\n") for text in texts.values() if text.strip()]
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, FUNCTION)]
    sizes = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]
    policy = [path for path in trees if "policy" in path.relative_to(package).parts]
    return {
        "modules": str(len(lengths)),
        "lines of a module, median": f"{statistics.median(lengths):g}",
        "lines of the largest module": str(max(lengths)),
        "functions": str(len(functions)),
        "lines of a function, median": f"{statistics.median(sizes):g}",
        f"functions of more than {LONG} lines": str(sum(size > LONG for size in sizes)),
        "lines of the longest function": str(max(sizes)),
        "thresholds in the policy": str(sum(len([*thresholds(trees[path])]) for path in policy)),
        "numeric constants elsewhere": str(
            sum(len([*constants(tree)]) for path, tree in trees.items() if path not in policy)
        ),
        "replaced words": str(sum(len(REPLACED.findall(text)) for text in texts.values())),
        "empty names": str(sum(len([*empty(tree)]) for tree in trees.values())),
    }


FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def constants(tree: ast.Module) -> Iterator[str]:
    """The numeric constants of a module."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and numeric(node.value):
            yield from (t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper())


def numeric(value: ast.expr) -> bool:
    """Whether an expression is a number or a tuple of numbers, perhaps computed from numbers."""
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(map(numeric, value.elts))
    if isinstance(value, ast.BinOp):
        return numeric(value.left) and numeric(value.right)
    if isinstance(value, ast.UnaryOp):
        return numeric(value.operand)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def thresholds(tree: ast.Module) -> Iterator[str]:
    """The fields that a section of the policy declares."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Name) and called.id == "threshold":
                yield ast.unparse(node.target)


def empty(tree: ast.Module) -> Iterator[str]:
    """Local names and parameters that say nothing."""
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None
        name = node.arg if isinstance(node, ast.arg) else name
        if name in EMPTY:
            yield name


def main() -> None:
    """Print a Markdown table with a column for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT], metavar="CHECKOUT")
    columns = [figures(checkout) for checkout in parser.parse_args().checkouts]
    print("| |" + " |" * len(columns))
    print("|---|" + "---|" * len(columns))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(column[name] for column in columns) + " |")


if __name__ == "__main__":
    main()
