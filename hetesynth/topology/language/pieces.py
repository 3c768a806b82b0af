"""Source -> its tokens and comments, in order, as the parser lexes them.

In: a ``Source``. Out: ``Piece`` values with their text in one spelling (``x2`` as ``x 2``), or ``SourceError``.
Knows nothing of layout. The types of the tokens are those of the grammar, so that a name is never taken for a word
of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hetesynth.topology.language import tables
from hetesynth.topology.language.parser import grammar_parser, parse
from hetesynth.topology.language.source import Source

_HEADLESS = ("flow",)  # statements that begin with a name
_BRACKETS = re.compile(r"\[[^\]]*\]")
_OUTSIDE_PARENTHESES = re.compile(r"\([^\]]*\)|[ \t]+")
_INSIDE = re.compile(r"(\()[ \t]+|[ \t]+(\))")
_COMMA = re.compile(r"[ \t]*,[ \t]*")
_COMMENT = re.compile(r"(?:#|//)[^\n]*")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its sign; ``trailing``: behind something on its line; ``blank``: below an empty line."""

    text: str
    trailing: bool
    blank: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A token and what stands before it. ``starts``: it begins a statement; ``adjacent``: no space before it."""

    type: str
    text: str
    starts: bool
    comments: tuple[Comment, ...]
    blank: bool
    broken: bool
    adjacent: bool


def pieces_of(source: Source) -> tuple[list[Piece], tuple[Comment, ...]]:
    """The tokens of ``source`` but for its semicolons, and the comments behind the last one."""
    parse(source)  # whatever is wrong with it is said here
    lark = grammar_parser()
    text = source.text
    beginning = heads(lark)
    flows = {tree.meta.start_pos for tree in lark.parse(text).iter_subtrees() if tree.data in _HEADLESS}
    pieces: list[Piece] = []
    gap, end = "", 0
    spaced = False  # the token before has a space at its end
    for token in lark.parse_interactive(text).iter_parse():
        gap += text[end : token.start_pos]
        end = token.end_pos or end
        if token.type == "_SEMI":
            gap += re.sub(r"[^\n]+", " ", str(token))
            continue
        if not str(token).strip():
            gap += " "
            continue
        starts = token.type in beginning or token.start_pos in flows
        adjacent = not gap and not spaced and not str(token)[0].isspace()
        pieces.append(_piece(token, gap, starts=starts, first=not pieces, adjacent=adjacent))
        gap, spaced = "", str(token)[-1] in " \t,"
    return pieces, tuple(_comments(gap + text[end:], first=False)[0])


def words(lark: Any) -> frozenset[str]:
    """The types of the tokens that are words of the language, such as ``SWITCH``."""
    return frozenset(t.name for t in lark.terminals if tables.is_word(t))


def heads(lark: Any) -> frozenset[str]:
    """The words that begin a statement: those that begin a rule of the grammar."""
    return words(lark) & {rule.expansion[0].name for rule in lark.rules if rule.expansion}


def _piece(token: Any, gap: str, *, starts: bool, first: bool, adjacent: bool) -> Piece:
    comments, rest = _comments(gap, first)
    return Piece(
        token.type,
        spelling(token.type, str(token)),
        starts,
        tuple(comments),
        blank=rest.count("\n") > 1,
        broken="\n" in gap,
        adjacent=adjacent,
    )


def _comments(gap: str, first: bool) -> tuple[list[Comment], str]:
    """The comments of ``gap`` and the white space behind the last one, which its line end belongs to."""
    comments: list[Comment] = []
    end = 0
    for match in _COMMENT.finditer(gap):
        before = gap[end : match.start()]
        trailing = "\n" not in before and not first and not comments
        comments.append(Comment(match[0].rstrip(), trailing, blank=before.count("\n") > 1))
        end = match.end()
    return comments, gap[end:]


def spelling(type_: str, text: str) -> str:
    """The one spelling of a token: ``450GB/s`` as ``450 GB/s``, ``gpu[0, 2]`` as ``gpu[0,2]``."""
    if type_ == "QUANTITY":
        return re.sub(r"^(-?[0-9.]+)[ \t]*", r"\1 ", text)
    if type_ == "LANES":
        return re.sub(r"^x[ \t]*", "x ", text)
    if type_ == "PIECE":
        return _COMMA.sub(", ", " ".join(text.split())).strip()
    if type_ == "LOOP":
        text = _COMMA.sub(", ", _INSIDE.sub(r"\1\2", " ".join(text.split())))
    if type_ in ("WORD", "PARTS", "LOOP"):
        return _BRACKETS.sub(lambda m: _OUTSIDE_PARENTHESES.sub(_kept, m[0]), text)
    return text


def _kept(match: re.Match[str]) -> str:
    return _INSIDE.sub(r"\1\2", " ".join(match[0].split())) if match[0].startswith("(") else ""


def tokens_of(source: Source) -> Iterator[tuple[str, str]]:
    """What a change of layout has to keep: types and spellings of tokens, and comments."""
    pieces, last = pieces_of(source)
    for piece in pieces:
        for comment in piece.comments:
            yield "COMMENT", comment.text
        yield piece.type, piece.text
    for comment in last:
        yield "COMMENT", comment.text
