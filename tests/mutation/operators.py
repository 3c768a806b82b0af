"""The mutants of a source file: comparisons, guards, operands, numbers and statements, one changed at a time.

In: source. Out: for each mutant its name, which stays the same while the function does, and the changed code of
its function. Texts of messages and annotations are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Do = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """``name``: function, line within it, what was and what is. ``function``: its name and first line."""

    name: str
    function: tuple[str, int]
    code: CodeType


def mutants(source: str, path: str) -> Iterator[Mutant]:
    """All mutants of the functions and methods of ``source``, in order of lines."""
    tree = ast.parse(source)
    for qualified, function in _functions(tree, ""):
        first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
        for line, before, do, undo in _changes(function):
            do()
            try:
                ast.fix_missing_locations(tree)
                after = _text(line) if _text(line) != before else "(gone)"
                code = _code(compile(tree, path, "exec"), (function.name, first))
            except (SyntaxError, ValueError):
                code, after = None, ""
            finally:
                undo()
            if code is not None:
                yield Mutant(
                    f"{qualified}+{line.lineno - first}: {before} => {after}", (function.name, first), code
                )


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _code(module: CodeType, function: tuple[str, int]) -> CodeType | None:
    for constant in module.co_consts:
        if isinstance(constant, CodeType):
            if (constant.co_name, constant.co_firstlineno) == function:
                return constant
            if (inner := _code(constant, function)) is not None:
                return inner
    return None


def _text(node: ast.AST) -> str:
    """The first line of ``node`` as source."""
    return ast.unparse(node).split("\n")[0]


def _changes(function: Function) -> Iterator[tuple[ast.stmt, str, Do, Do]]:
    """For each change: its statement, that as it was, and how to make and unmake the change."""
    for statement, node in _mutable(function):
        before = _text(statement)
        for do, undo in [*_of_expression(node), *_of_test(node)]:
            yield statement, before, do, undo
        for gone, do, undo in _without_a_statement(node):
            yield gone, _text(gone), do, undo


WHOLE = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)


def _mutable(function: Function) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """The nodes that may change, each with the innermost statement around it."""
    body = function.body
    waiting: list[tuple[ast.stmt, ast.AST]] = [(one, one) for one in reversed(body)]
    yield function, ast.Module(body, [])  # the docstring is a constant, which stays
    while waiting:
        statement, node = waiting.pop()
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue  # what it says; zip(strict=...), where lengths are equal
        yield statement, node
        if isinstance(node, ast.Raise):  # what it says
            continue
        inner = [
            child
            for field, value in ast.iter_fields(node)
            if field
            not in ("annotation", "returns", "decorator_list", "args" if isinstance(node, ast.Lambda) else "")
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]
        if isinstance(node, (ast.If, ast.IfExp)) and _is_negated_as_a_whole(node.test):
            inner = [child for child in inner if child is not node.test] + list(ast.iter_child_nodes(node.test))
        waiting += [(child if isinstance(child, ast.stmt) else statement, child) for child in reversed(inner)]


def _is_negated_as_a_whole(test: ast.expr) -> bool:
    """Whether the opposite of ``test`` is its only change: who notices both True and False notices that too."""
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and isinstance(test.ops[0], WHOLE)
    return isinstance(test, ast.UnaryOp)


def _set(node: ast.AST, field: str, value: object) -> tuple[Do, Do]:
    old = getattr(node, field)
    return lambda: setattr(node, field, value), lambda: setattr(node, field, old)


def _put(values: list, index: int, *new: object) -> tuple[Do, Do]:  # type: ignore[type-arg]
    old = list(values)
    return lambda: values.__setitem__(slice(index, index + 1), new), lambda: values.__setitem__(slice(None), old)


def _of_expression(node: ast.AST) -> Iterator[tuple[Do, Do]]:
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            yield _put(node.ops, i, COMPARISONS[type(operator)]())
    elif isinstance(node, ast.BoolOp):
        for i in range(len(node.values)):
            yield _put(node.values, i)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _set(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        yield _set(node, "op", ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield _set(node, "value", node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield _set(node, "value", not node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        yield _set(node.func, "id", CALLS[node.func.id])
    elif isinstance(node, ast.IfExp):
        yield _set(node, "test", ast.Constant(True))
        yield _set(node, "test", ast.Constant(False))
    elif isinstance(node, ast.comprehension):
        for i in range(len(node.ifs)):
            yield _put(node.ifs, i)


def _of_test(node: ast.AST) -> Iterator[tuple[Do, Do]]:
    if isinstance(node, ast.If):
        yield _set(node, "test", ast.Constant(True))
    if isinstance(node, (ast.If, ast.While)):
        yield _set(node, "test", ast.Constant(False))


def _without_a_statement(node: ast.AST) -> Iterator[tuple[ast.stmt, Do, Do]]:
    fields = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    for statements in fields:
        if not isinstance(statements, list):
            continue
        for i, statement in enumerate(statements):
            if _may_go(statement):
                yield statement, *_put(statements, i, ast.Pass())


def _may_go(statement: ast.stmt) -> bool:
    """Statements without which the function still has all its names."""
    if isinstance(statement, ast.Assign):
        return not any(isinstance(target, (ast.Name, ast.Tuple)) for target in statement.targets)
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    return isinstance(statement, (ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete))
