"""One layout for every source: tokens and comments stay, white space and semicolons are set anew.

In: a ``Source``. Out: its text as ``topo fmt`` writes it. A statement a line, two columns for each open brace; a
block that stands on one line stays there while it fits. Knows nothing of what the statements mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hetesynth.errors import InternalError
from hetesynth.topology.language.pieces import Comment, Piece, pieces_of, tokens_of
from hetesynth.topology.language.source import Source

WIDTH = 115
_INDENT, _CONTINUATION = "  ", "    "
_SIGNS = ("ONE_WAY", "BOTH_WAYS", "SHARED_WAY", "FAT_ARROW", "EQUAL")
_OPERATORS = ("PIECE", "LPAR", "LSQB", "RSQB", "RPAR")
_OPENED = ("LPAR", "LSQB", "LBRACE")
_CLOSED = ("RPAR", "RSQB", "RBRACE", "COMMA")


def formatted(source: Source) -> str:
    """The text of ``source`` in its one layout; ``SourceError`` where it does not parse."""
    pieces, last = pieces_of(source)
    text = _Layout(pieces).text(last)
    if list(tokens_of(Source(source.name, text))) != list(tokens_of(source)):
        raise InternalError(f"{source.name}: the layout would change what the file says")
    return text


@dataclass(slots=True)
class _Layout:
    """Writes the pieces one by one: finished lines, and the line that is being written."""

    pieces: Sequence[Piece]
    lines: list[str] = field(default_factory=list)
    _line: str = ""
    _depth: int = 0
    _at: int = 0
    _value: bool = False  # within the value of a `define`
    _after_block: bool = False  # behind a block of several lines at the top

    def text(self, last: tuple[Comment, ...]) -> str:
        while self._at < len(self.pieces):
            self._next()
        self._comments(last)
        self._end()
        return "\n".join(self.lines) + "\n"

    def _next(self) -> None:
        piece = self.pieces[self._at]
        if piece.type == "RBRACE" and not self._value:
            self._close(piece)
        elif piece.starts:
            self._begin(piece)
        elif piece.type == "LBRACE" and not self._value:
            self._open(piece)
        else:
            self._continue(piece)
        self._at += 1

    # --- statements

    def _begin(self, piece: Piece) -> None:
        """A statement on a line of its own."""
        heads_block = self._depth == 0 and piece.type in ("NODE", "POD", "CLUSTER")
        separate = self._after_block or (heads_block and bool(self.lines or self._line))
        self._value = piece.type == "DEFINE"
        own = [comment for comment in piece.comments if not comment.trailing]
        if separate and (not own or self._after_block):
            piece = _below_an_empty_line(piece)
        self._after_block = False
        self._comments(piece.comments)
        self._end()
        if piece.blank:
            self._blank()
        self._line = _INDENT * self._depth + piece.text

    def _continue(self, piece: Piece) -> None:
        """A further token of the statement; only a comment, or a `define`, goes on in the next line."""
        before = self.pieces[self._at - 1]
        if piece.comments:
            self._comments(piece.comments)
            self._end()
        if self._value and piece.broken:
            self._end()
        if not self._line:
            self._line = _INDENT * self._depth + (_INDENT if self._value else _CONTINUATION) + piece.text
            return
        space = "" if _closes_up(before, piece, paper=self._value) else " "
        if not self._value and before.type == "COMMA" and self._column_after_list() > WIDTH:
            self._end()
            self._line = _INDENT * self._depth + _CONTINUATION + piece.text
        else:
            self._line += space + piece.text

    def _column_after_list(self) -> int:
        """Where the line ends when the list goes on in it up to the next comma, its end included."""
        width = len(self._line) + 1
        for index in range(self._at, len(self.pieces)):
            piece = self.pieces[index]
            if index > self._at and (piece.starts or piece.type in ("RBRACE", "LBRACE")):
                break
            width += len(piece.text) + (index > self._at)
            if piece.type == "COMMA":
                return width - 1
        return width

    # --- blocks

    def _open(self, piece: Piece) -> None:
        self._comments(piece.comments)
        if not self._line:
            self._line = _INDENT * self._depth + _CONTINUATION.removesuffix("  ")
        inline = self._inline()
        if inline is not None:
            end, text = inline
            self._line = f"{self._line.rstrip()} {text}" if self._line.strip() else self._line + text
            self._at = end
            return
        self._line += " {" if self._line.strip() else "{"
        self._depth += 1

    def _inline(self) -> tuple[int, str] | None:
        """The place of the closing brace and the block on one line, if that is how it stands and it fits.

        At the top of a file a block with blocks in it has several lines.
        """
        end = self._closing()
        inside = self.pieces[self._at + 1 : end + 1]
        nested = any(piece.type == "LBRACE" for piece in inside)
        if any(piece.broken or piece.comments for piece in inside) or (nested and self._depth == 0):
            return None
        text = "{"
        for before, piece in zip(self.pieces[self._at : end], inside, strict=True):
            if before.type == "LBRACE" or piece.type in ("LBRACE", "RBRACE"):
                text += "" if (before.type, piece.type) == ("LBRACE", "RBRACE") else " "
            elif piece.starts:
                text += "; "
            elif not _closes_up(before, piece, paper=False):
                text += " "
            text += piece.text
        return (end, text) if len(self._line) + 1 + len(text) <= WIDTH else None

    def _closing(self) -> int:
        """The place of the brace that closes the one here."""
        open_braces = 0
        for index in range(self._at, len(self.pieces)):
            open_braces += {"LBRACE": 1, "RBRACE": -1}.get(self.pieces[index].type, 0)
            if not open_braces:
                return index
        raise InternalError("a brace without its partner came through the parser")

    def _close(self, piece: Piece) -> None:
        opened = self.pieces[self._at - 1].type == "LBRACE" and not piece.comments
        self._comments(piece.comments)
        self._depth -= 1
        if opened:
            self._line += "}"
        else:
            self._end()
            self._line = _INDENT * self._depth + "}"
        self._after_block = self._depth == 0

    # --- lines

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
        """An empty line, unless there is one, or a block has just begun."""
        if self.lines and self.lines[-1] and not self.lines[-1].endswith("{"):
            self.lines.append("")


def _below_an_empty_line(piece: Piece) -> Piece:
    """``piece`` with an empty line before it and its own comments."""
    for index, comment in enumerate(piece.comments):
        if not comment.trailing:
            comments = (*piece.comments[:index], replace(comment, blank=True), *piece.comments[index + 1 :])
            return replace(piece, comments=comments)
    return replace(piece, blank=True)


def _closes_up(before: Piece, piece: Piece, *, paper: bool) -> bool:
    """Whether nothing stands between two tokens of a line."""
    if piece.type in _CLOSED or before.type in _OPENED:
        return True
    if before.type == "COMMA":
        return paper and piece.type == "NUMBER"
    if {before.type, piece.type} & set(_SIGNS):
        return False
    if piece.type == "LPAR" and before.type not in _OPERATORS:
        return before.type == "WORD"
    if "LBRACE" in (before.type, piece.type):
        return False
    if before.type in _OPERATORS or piece.type in _OPERATORS:
        return piece.adjacent and not before.starts
    return False
