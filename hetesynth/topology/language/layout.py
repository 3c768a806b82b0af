"""One layout for every source: tokens and comments stay, white space and semicolons are set anew.

A statement a line, two columns for each open brace; a block on one line stays there while it fits.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hetesynth.topology.language import tables
from hetesynth.topology.language.parser import grammar_parser, parse
from hetesynth.topology.language.source import Source

WIDTH = 115
_INDENT, _CONTINUATION = "  ", "    "
_SIGNS = {"ONE_WAY", "BOTH_WAYS", "SHARED_WAY", "FAT_ARROW", "EQUAL"}
_OPERATORS = {"PIECE", "LPAR", "LSQB", "RSQB", "RPAR"}
_OPENED = ("LPAR", "LSQB", "LBRACE")
_CLOSED = ("RPAR", "RSQB", "RBRACE", "COMMA")

_BRACKETS = re.compile(r"\[[^\]()]*\]")
_COMMA = re.compile(r"[ \t]*,[ \t]*")
_COMMENT = re.compile(r"(?:#|//)[^\n]*")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its sign; ``trailing``: behind a token on its line; ``blank``: below an empty line."""

    text: str
    trailing: bool
    blank: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A token and the comments before it. ``starts``: begins a statement; ``adjacent``: no space before."""

    type: str
    text: str
    starts: bool
    comments: tuple[Comment, ...]
    blank: bool
    broken: bool
    adjacent: bool


def formatted(source: Source) -> str:
    """Return the text of ``source`` in the one layout; ``SourceError`` if it does not parse."""
    pieces, last = pieces_of(source)
    return _Layout(pieces).text(last)


def pieces_of(source: Source) -> tuple[list[Piece], tuple[Comment, ...]]:
    """Return the tokens of ``source`` without semicolons, and the comments behind the last token."""
    parse(source)  # whatever is wrong with it is said here
    lark = grammar_parser()
    text = source.text
    beginning = heads(lark)
    flows = {tree.meta.start_pos for tree in lark.parse(text).iter_subtrees() if tree.data == "flow"}
    pieces: list[Piece] = []
    gap, end = "", 0
    spaced = False  # the token before has a space at its end
    for token in lark.parse_interactive(text).iter_parse():
        written = str(token)
        gap += text[end : token.start_pos]
        end = token.end_pos or end
        if token.type == "_SEMI" or not written.strip():
            gap += re.sub(r"[^\n]+", " ", written)
            continue
        comments, rest = _comments(gap, first=not pieces)
        piece = Piece(
            token.type,
            _spelling(token.type, written),
            token.type in beginning or token.start_pos in flows,  # a flow begins with a name
            tuple(comments),
            blank=rest.count("\n") > 1,
            broken="\n" in gap,
            adjacent=not gap and not spaced and not written[0].isspace(),
        )
        pieces.append(piece)
        gap, spaced = "", written[-1] in " \t,"
    return pieces, tuple(_comments(gap + text[end:], first=False)[0])


def heads(lark: Any) -> frozenset[str]:
    """Return the types of words that begin a statement, such as ``SWITCH``: words that begin a grammar rule."""
    words = {terminal.name for terminal in lark.terminals if tables.is_word(terminal)}
    return frozenset(words & {rule.expansion[0].name for rule in lark.rules if rule.expansion})


def _comments(gap: str, first: bool) -> tuple[list[Comment], str]:
    """Return the comments of ``gap``, and the white space behind the last one, its line end included."""
    comments: list[Comment] = []
    end = 0
    for match in _COMMENT.finditer(gap):
        before = gap[end : match.start()]
        trailing = "\n" not in before and not first and not comments
        comments.append(Comment(match[0].rstrip(), trailing, blank=before.count("\n") > 1))
        end = match.end()
    return comments, gap[end:]


def _spelling(type_: str, text: str) -> str:
    """Return the one spelling of a token: ``450GB/s`` as ``450 GB/s``, ``gpu[0, 2]`` as ``gpu[0,2]``."""
    if type_ in ("QUANTITY", "LANES"):
        return re.sub(r"^(-?[0-9.]+|x)[ \t]*", r"\1 ", text)
    if type_ in ("PIECE", "LOOP", "WORD", "PARTS"):
        text = " ".join(text.split())
    if type_ in ("PIECE", "LOOP"):
        text = _COMMA.sub(", ", text).strip()
    if type_ in ("WORD", "PARTS", "LOOP"):
        return _BRACKETS.sub(lambda match: re.sub(r"[ \t]+", "", match[0]), text)
    return text


@dataclass(slots=True)
class _Layout:
    """A writer of the pieces, with the finished lines and the line that is being written."""

    pieces: Sequence[Piece]
    lines: list[str] = field(default_factory=list)
    _line: str = ""
    _depth: int = 0
    _at: int = 0
    _value: bool = False  # within the value of a `define`
    _after_block: bool = False  # behind a block of several lines at the top

    def text(self, last: tuple[Comment, ...]) -> str:
        while self._at < len(self.pieces):
            piece = self.pieces[self._at]
            if piece.starts:
                self._begin(piece)
            elif piece.type == "RBRACE" and not self._value:
                self._close(piece)
            elif piece.type == "LBRACE" and not self._value:
                self._open(piece)
            else:
                self._continue(piece)
            self._at += 1
        self._comments(last)
        self._end()
        return "\n".join(self.lines) + "\n"

    def _begin(self, piece: Piece) -> None:
        """Begin a statement on a line of its own."""
        self._value = piece.type == "DEFINE"
        self._comments(piece.comments)
        self._end()
        heads_block = self._depth == 0 and piece.type in ("NODE", "POD", "CLUSTER")
        alone = all(comment.trailing for comment in piece.comments)
        if piece.blank or self._after_block or (heads_block and alone):
            self._blank()
        self._after_block = False
        self._line = _INDENT * self._depth + piece.text

    def _continue(self, piece: Piece) -> None:
        """Add a token to the statement; only a comment, a `define` or a long list goes on in the next line."""
        before = self.pieces[self._at - 1]
        width = len(self._line) + 1  # where the line ends when the list goes on in it up to the next comma
        for index, ahead in enumerate(self.pieces[self._at :]):
            if ahead.type == "COMMA" or (index and (ahead.starts or ahead.type in ("RBRACE", "LBRACE"))):
                break
            width += len(ahead.text) + (index > 0)
        long = not self._value and before.type == "COMMA" and width > WIDTH
        self._comments(piece.comments)
        if piece.comments or long or (self._value and piece.broken):
            self._end()
        if not self._line:
            self._line = _INDENT * self._depth + (_INDENT if self._value else _CONTINUATION) + piece.text
        else:
            self._line += ("" if _closes_up(before, piece, paper=self._value) else " ") + piece.text

    def _open(self, piece: Piece) -> None:
        self._comments(piece.comments)
        end, open_braces = self._at, 1
        while open_braces:
            end += 1
            open_braces += {"LBRACE": 1, "RBRACE": -1}.get(self.pieces[end].type, 0)
        inside = self.pieces[self._at + 1 : end + 1]
        nested = any(piece.type == "LBRACE" for piece in inside)
        several = any(piece.broken or piece.comments for piece in inside) or (nested and self._depth == 0)
        text = "{"
        for before, inner in pairwise(self.pieces[self._at : end + 1]):
            at_brace = before.type == "LBRACE" or inner.type in ("LBRACE", "RBRACE")
            empty = (before.type, inner.type) == ("LBRACE", "RBRACE")
            if inner.starts and not at_brace:
                text += "; "
            elif not empty and (at_brace or not _closes_up(before, inner, paper=False)):
                text += " "
            text += inner.text
        if several or len(self._line) + 1 + len(text) > WIDTH:
            text = "{"
            self._depth += 1
        else:
            self._at = end
        self._line = f"{self._line} {text}" if self._line else _INDENT * (self._depth + (text != "{")) + text

    def _close(self, piece: Piece) -> None:
        opened = self.pieces[self._at - 1].type == "LBRACE" and not piece.comments
        self._comments(piece.comments)
        self._depth -= 1
        if not opened:
            self._end()
        self._line = f"{self._line}}}" if opened else _INDENT * self._depth + "}"
        self._after_block = self._depth == 0

    def _comments(self, comments: Sequence[Comment]) -> None:
        for comment in comments:
            if comment.trailing and self._line:
                self._line += f"  {comment.text}"
                self._end()
                continue
            self._end()
            if comment.blank or self._after_block:
                self._blank()
            self._after_block = False
            self.lines.append(_INDENT * self._depth + comment.text)

    def _end(self) -> None:
        if self._line:
            self.lines.append(self._line.rstrip())
        self._line = ""

    def _blank(self) -> None:
        """Add an empty line, unless there is one, or a block has just begun."""
        if self.lines and self.lines[-1] and not self.lines[-1].endswith("{"):
            self.lines.append("")


def _closes_up(before: Piece, piece: Piece, *, paper: bool) -> bool:
    """Return True if no space stands between two tokens of a line."""
    if piece.type in _CLOSED or before.type in _OPENED:
        return True
    if before.type == "COMMA":
        return paper and piece.type == "NUMBER"
    around = {before.type, piece.type}
    if around & _SIGNS:
        return False
    if piece.type == "LPAR" and before.type not in _OPERATORS:
        return before.type == "WORD"
    return bool(around & _OPERATORS) and "LBRACE" not in around and piece.adjacent and not before.starts
