"""Source -> syntax tree, with the Lark grammar of dsl/topology.lark.

In: a ``Source``. Out: a ``File``, or ``SourceError`` with every syntax error that could be told apart.
Knows nothing of what the names mean.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedInput, VisitError

from hetesynth.errors import InternalError
from hetesynth.model.diagnostics import Diagnostic, SourceError
from hetesynth.topology.language import syntax_errors, tables
from hetesynth.topology.language.source import Source
from hetesynth.topology.language.syntax import File
from hetesynth.topology.language.tree import build

MAX_SYNTAX_ERRORS = 10
MAX_RECOVERY_CHARACTERS = 1 << 16


@functools.cache
def grammar_parser() -> Lark:
    """The parser of the grammar, for what needs tokens rather than a syntax tree."""
    return tables.parser()


def parse(source: Source) -> File:
    """The syntax tree of ``source``; after a syntax error the statement is blanked and the rest still checked."""
    if not re.search(r"\S", _without_comments(source.text)):
        raise SourceError([syntax_errors.empty(source)], {source.name: source.text})
    errors: list[Diagnostic] = []
    text = source.text
    while len(errors) < MAX_SYNTAX_ERRORS:
        try:
            tree = grammar_parser().parse(text)
        except UnexpectedInput as error:
            errors.append(syntax_errors.diagnostic(error, source))
            blanked = syntax_errors.without_statement(text, error)
            if blanked is None or blanked == text or len(text) > MAX_RECOVERY_CHARACTERS:
                break
            if syntax_errors.hides_the_rest(error, text):
                break
            text = blanked
        else:
            if errors:
                break
            return _built(tree, source, text)
    raise SourceError(errors, {source.name: source.text})


def _built(tree: Any, source: Source, text: str) -> File:
    try:
        return build(tree, source.name, text)
    except VisitError as error:  # a rule without a builder
        raise InternalError(f"cannot build the syntax tree: {error}") from error


def _without_comments(text: str) -> str:
    return re.sub(r"(#|//)[^\n]*", "", text)
