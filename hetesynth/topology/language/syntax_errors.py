"""Syntax errors in the user's words, and how to go on after one.

In: what Lark raised. Out: a ``Diagnostic``, or the text with the wrong statement blanked.
Token names of the grammar never reach the user.
"""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.topology.language.findings import did_you_mean
from hetesynth.topology.language.habits import habit, needed, outside
from hetesynth.topology.language.source import Source

_SHOWN = {
    "WORD": "a name",
    "PARTS": "a name",
    "LOOP": "what to go through, like `0-3` or `a, b`",
    "PIECE": "an expression",
    "TIMES": "lanes like `x 2`",
    "STRING": 'a text in quotes, like "H20"',
    "NUMBER": "a number",
    "QUANTITY": "a number with its unit",
    "PERCENT": "a share like `50 %`",
    "SIZES": "sizes like `4x4`",
    "LANES": "lanes like `x 2`",
    "ONE_WAY": "`->`",
    "BOTH_WAYS": "`<->`",
    "SHARED_WAY": "`>->`",
    "FAT_ARROW": "`=>`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "COMMA": "`,`",
    "EQUAL": "`=`",
    "$END": "the end of the file",
}
_MAX_EXPECTED = 14
_STATEMENT = {"INSTANCE", "SWITCH", "CLUSTER", "BANDWIDTH", "MODEL"}  # one of them may begin a statement anywhere
_NUMBER_LIKE = re.compile(r"(?<![\w.\]-])[+-]?\.?[0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def empty(source: Source) -> Diagnostic:
    """The finding for a source without a single statement."""
    help_ = "start with `import h20` and `cluster NAME { ... }`; see dsl/reference.md and examples/"
    return Diagnostic("HS110", Span(source.name, 1, 1), "the topology is empty", help_)


def diagnostic(error: UnexpectedInput, source: Source) -> Diagnostic:
    """What is wrong at the place Lark stopped, and what may stand there."""
    expected = _accepted(error)
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return Diagnostic("HS112", _end(source), "the text ends too early", _expected_help(expected))
    line, column = max(1, error.line), max(1, error.column)
    number = _odd_number(source, line, column)
    if number is not None:
        return number
    offending = str(error.token) if isinstance(error, UnexpectedToken) else _word_at(source.text, line, column)
    first_line = offending.splitlines()[0] if offending.strip() else offending[:1]
    span = Span(source.name, line, column, max(1, len(first_line)))
    shown = first_line if len(first_line) <= 40 else first_line[:40] + "..."
    if isinstance(error, UnexpectedCharacters) and not re.match(r"\w", shown):
        shown = shown[:1]
        span = Span(source.name, line, column)
    keywords = [word.lower() for word in expected if word not in _SHOWN and word != "_SEMI"]
    help_ = _habit(source, line, column, expected, keywords)
    if not help_ and re.fullmatch(r"[A-Za-z_]+", shown):
        help_ = did_you_mean(shown, keywords)
    elif help_:
        return Diagnostic("HS111", span, f"unexpected `{shown}`", help_)
    if not help_.startswith("did you mean"):
        help_ = _expected_help(expected)
    return Diagnostic("HS111", span, f"unexpected `{shown}`", help_)


def _habit(source: Source, line: int, column: int, expected: list[str], keywords: list[str]) -> str:
    """The way out for what people write who know other languages, empty if it is none of that."""
    lines = source.text.split("\n")
    text = lines[line - 1] if line <= len(lines) else ""
    before = text[: column - 1]
    if not before.strip() and expected in (["LBRACE"], ["LBRACE", "LPAR"]):
        return "the statement before it needs its properties: { bandwidth 25 GB/s }"
    if not before.strip() and not _STATEMENT & set(expected):
        above = [earlier.split("#")[0].rstrip() for earlier in lines[: line - 1]]
        before = next((earlier for earlier in reversed(above) if earlier), "")
    braces = [sign for name, sign in (("LBRACE", "{"), ("RBRACE", "}")) if name in expected]
    rest, signs = text[column - 1 :], [*keywords, *braces]
    return habit(before, rest, signs) or needed(before, signs) or outside(rest, keywords)


def hides_the_rest(error: UnexpectedInput, text: str) -> bool:
    """Whether what follows would only repeat this: a block without its brace, or a text in another language."""
    lines = text.split("\n")
    line, column = max(1, error.line), max(1, error.column)
    whole = lines[line - 1] if line <= len(lines) else ""
    before, rest = whole[: column - 1], whole[column - 1 :]
    if rest[:1] in ("<", "[") or rest[:2] == '{"' or rest.rstrip() == ":":
        return not before.strip() or rest.rstrip() == ":"
    headless = set(_accepted(error)) <= {"LBRACE", "LPAR"}
    return headless and (not before.strip() or "{" not in rest)


def _odd_number(source: Source, line: int, column: int) -> Diagnostic | None:
    """The finding for ``1e9``, ``1_000`` or ``.5`` when Lark stopped within it."""
    lines = source.text.split("\n")
    for match in _NUMBER_LIKE.finditer(lines[line - 1] if line <= len(lines) else ""):
        if match.start() < column <= match.end() and not _NUMBER.fullmatch(match.group()):
            span = Span(source.name, line, match.start() + 1, len(match.group()))
            message = f"`{match.group()[:40]}` is not a number as written here"
            return Diagnostic(
                "HS111", span, message, "use digits and at most one point, as 2.5, and a larger unit"
            )
    return None


def _accepted(error: UnexpectedInput) -> list[str]:
    interactive = getattr(error, "interactive_parser", None)
    if interactive is not None:
        return sorted(interactive.accepts())
    names = getattr(error, "allowed", None) or getattr(error, "expected", None) or ()
    return sorted(names)


def _expected_help(expected: list[str]) -> str:
    words = list(dict.fromkeys(_SHOWN[name] for name in expected if name in _SHOWN))
    words += [f"`{name.lower()}`" for name in expected if name not in _SHOWN and name != "_SEMI"]
    if "`(`" in words and {"a number with its unit", "a number"} & set(words):
        words[words.index("`(`")] = "an expression in parentheses"
        words.sort(key=lambda word: word.startswith("an expression"))
    if "a number with its unit" in words and "a number" in words:
        words.remove("a number")
    if not words:
        return "the end of the file is expected here"
    shown = words[:_MAX_EXPECTED]
    more = ", ..." if len(words) > len(shown) else ""
    return (
        "expected " + (" or ".join(shown) if len(shown) < 3 else ", ".join(shown[:-1]) + f" or {shown[-1]}") + more
    )


def _end(source: Source) -> Span:
    lines = source.text.rstrip().split("\n")
    return Span(source.name, len(lines), max(1, len(lines[-1])))


def _word_at(text: str, line: int, column: int) -> str:
    lines = text.split("\n")
    if line > len(lines):
        return " "
    match = re.compile(r"\w+|\S|\s").match(lines[line - 1], column - 1)
    return match.group() if match else " "


def without_statement(text: str, error: UnexpectedInput) -> str | None:
    """``text`` with the statement around the error blanked, so that the rest can be checked; None at the end.

    A statement here is what stands on the line between `;`, `{` and `}`, with the braces it opens.
    """
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return None
    position = _offset(text, error)
    start = max(text.rfind(mark, 0, position) for mark in "\n;{}") + 1
    end = _statement_end(text, position)
    if end <= start:
        return None
    blank = "".join("\n" if c == "\n" else " " for c in text[start:end])
    return text[:start] + blank + text[end:]


def _offset(text: str, error: UnexpectedInput) -> int:
    if isinstance(error, UnexpectedToken) and isinstance(error.token, Token) and error.token.start_pos is not None:
        return error.token.start_pos
    return error.pos_in_stream if isinstance(error.pos_in_stream, int) else 0


def _statement_end(text: str, position: int) -> int:
    depth = 0
    for match in re.compile(r'(?:#|//)[^\n]*|"[^"\n]*"|[{}\n;]').finditer(text, position):
        token = match.group()
        if token == "{":
            depth += 1
        elif token == "}":
            if depth == 0:
                return match.start()
            depth -= 1
            if depth == 0:
                return match.end()
        elif depth == 0 and token in ("\n", ";"):
            return match.start()
    return len(text)
