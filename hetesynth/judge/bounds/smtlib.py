"""Reading the little of SMT-LIB 2 that a certificate needs: Boolean constants, clauses and counts.

In: text. Out: what is asserted, one ``Clause`` or ``AtMost`` each, names as they stand. Refuses everything else:
a command or an operator it does not know could change what the text means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

from hetesynth.judge.bounds.laws import Refuted, demand

Tree = Union[str, "list[Tree]"]
Literal = tuple[str, bool]  # a name and whether it stands unnegated

MAX_DEPTH = 100
_TOKEN = re.compile(r";[^\n]*|[()]|\|[^|]*\||\"[^\"]*\"|[^\s()\";|]+")
_IGNORED = frozenset({"set-info", "set-logic", "check-sat", "exit"})


@dataclass(frozen=True, slots=True)
class Clause:
    """At least one literal holds; none: false."""

    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class AtMost:
    """At most ``limit`` of the names are true; the names differ."""

    names: tuple[str, ...]
    limit: int


def assertions(text: str) -> Iterator[Clause | AtMost]:
    """What ``text`` asserts, but for ``true``. Refuted when it is not of the kind described above."""
    declared: set[str] = set()
    for command in _commands(text):
        head = command[0] if command else None
        if head == "declare-fun" or head == "declare-const":
            *_, sort = command
            name = command[1]
            demand(sort == "Bool" and isinstance(name, str), "the query declares something that is not Boolean")
            demand(
                head == "declare-const" or (len(command) == 4 and command[2] == []),
                "the query declares a function",
            )
            declared.add(str(name))
        elif head == "assert" and len(command) == 2:
            yield from _Formula(declared).stated(command[1], {})
        else:
            demand(
                isinstance(head, str) and head in _IGNORED,
                f"the query has a command that is not rechecked: {head}",
            )


def _commands(text: str) -> Iterator[list[Tree]]:
    open_lists: list[list[Tree]] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token[0] == ";":
            continue
        if token == "(":
            open_lists.append([])
            demand(len(open_lists) <= MAX_DEPTH, "the query is nested too deeply")
        elif token == ")":
            demand(bool(open_lists), "the query closes a parenthesis too many")
            closed = open_lists.pop()
            if open_lists:
                open_lists[-1].append(closed)
            else:
                yield closed
        else:
            demand(bool(open_lists), f"the query has {token[:40]!r} outside of a command")
            open_lists[-1].append(token)
    demand(not open_lists, "the query ends in the middle of a command")


class _Formula:
    """Formulas over the declared names."""

    def __init__(self, declared: set[str]) -> None:
        self.declared = declared

    def stated(self, tree: Tree, bound: dict[str, Tree]) -> Iterator[Clause | AtMost]:
        tree, bound = self._inside_lets(tree, bound)
        match tree:
            case "true":
                return
            case [["_", "at-most", str(limit)], *names]:
                yield self._count(names, limit, bound)
            case [["_", "pble", str(limit), *weights], *names] if weights == ["1"] * len(names):
                yield self._count(names, limit, bound)
            case _:
                yield Clause(tuple(self._disjunction(tree, bound)))

    def _inside_lets(self, tree: Tree, bound: dict[str, Tree]) -> tuple[Tree, dict[str, Tree]]:
        """The body of nested lets. Bound terms are expanded at once: inside, names may mean others."""
        while isinstance(tree, list) and len(tree) == 3 and tree[0] == "let" and isinstance(tree[1], list):
            fresh: dict[str, Tree] = {}
            for pair in tree[1]:
                if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
                    raise Refuted("the query has a let that is not rechecked")
                positive = [_plain(literal) for literal in self._disjunction(pair[1], bound)]
                fresh[pair[0]] = ["or", *positive]
            bound = {**bound, **fresh}
            tree = tree[2]
        if isinstance(tree, str) and tree in bound:
            return bound[tree], {}
        return tree, bound

    def _count(self, names: list[Tree], limit: str, bound: dict[str, Tree]) -> AtMost:
        variables: list[str] = []
        for tree in names:
            literals = list(self._disjunction(tree, bound))
            demand(len(literals) == 1 and literals[0][1], "the query counts something that is not a variable")
            variables.append(literals[0][0])
        demand(len(set(variables)) == len(variables), "the query counts a variable twice")
        demand(limit.isdigit(), f"the query has a count of at most {limit}")
        return AtMost(tuple(variables), int(limit))

    def _disjunction(self, tree: Tree, bound: dict[str, Tree]) -> Iterator[Literal]:
        match tree:
            case "false":
                return
            case str(name) if name in bound:
                yield from self._disjunction(bound[name], {})
            case str(name):
                demand(name in self.declared, f"the query does not declare {name}")
                yield name, True
            case ["not", inner]:
                literals = list(self._disjunction(inner, bound))
                demand(len(literals) == 1, "the query negates more than a variable")
                yield literals[0][0], not literals[0][1]
            case ["or", *parts]:
                for part in parts:
                    yield from self._disjunction(part, bound)
            case ["=>", left, right]:
                yield from self._disjunction(["not", left], bound)
                yield from self._disjunction(right, bound)
            case _:
                raise Refuted("the query has a formula that is neither a clause nor a count")


def _plain(literal: Literal) -> Tree:
    name, positive = literal
    return name if positive else ["not", name]
