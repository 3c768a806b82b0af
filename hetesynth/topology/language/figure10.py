"""Figure 10 of HeteCCL as it is printed: its lines 5 and 7 each lack a closing bracket.

In: a text. Out: the same text with both brackets in their places, and a warning for each; nothing where the text
does not contain the figure token for token. Line numbers in the margin, as printed, may stand there. Line breaks,
spaces and comments do not matter, other statements may stand before and behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.model.diagnostics import Diagnostic, Span

_PRINTED = """
define nodenum = 2
define node1 = 2
define bandwidth = {direct => [( (0,1) -> (25,2) )
, ( (1,0) -> (25,2) ) ]}
define node2 = 4
define bandwidth = {switch => [( ( (0,1) , (2,3)
>-> (16,1) ) )!] , direct => [( (0,1) -> (25,2) )
, ( (1,0) -> (25,2) ) , ( (2,3) -> (25,2) ) , ( (3,2)
-> (25,2) ) ]}
define internode = (node1, node2)
define interbandwidth = {switch => [( ( (0,1)
, (0,1,2,3) >-> (8,1) )!) ]}
"""  # behind each ! stands a bracket that the print lacks
_TOKENS = re.compile(r"(?P<skipped>(?:#|//)[^\n]*|\s+)|>->|->|=>|\w+|[^\s\w]")
_LINES = {5: "]", 7: ")"}  # of the figure: what is missing


@dataclass(frozen=True, slots=True)
class Completed:
    """A text with the two brackets, and the warnings."""

    text: str
    warnings: tuple[Diagnostic, ...]


def completed(text: str, name: str) -> Completed | None:
    """``text`` with the brackets that the printed figure lacks; None where it does not contain the figure."""
    if "interbandwidth" not in text:
        return None
    tokens = list(_tokens(text))
    for numbered in (False, True):
        printed, behind = _printed(numbered)
        start = _position([token[0] for token in tokens], printed)
        if start is not None:
            inside = tokens[start : start + len(printed)]
            margin = [i for i, token in enumerate(inside) if numbered and _in_margin(printed, i)]
            return _with_brackets(text, name, [inside[i][1] for i in margin], [inside[i][2] for i in behind])
    return None


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Every token with its first position and the position behind it."""
    for match in _TOKENS.finditer(text):
        if match["skipped"] is None:
            yield match.group(), match.start(), match.end()


def _printed(numbered: bool) -> tuple[list[str], list[int]]:
    """The tokens of the print, and the indices of those behind which a bracket is missing."""
    tokens: list[str] = []
    behind: list[int] = []
    source = _PRINTED
    if numbered:
        lines = iter(range(1, source.count("define") + 1))
        source = re.sub("define", lambda _: f"{next(lines)} define", source)
    missing = False
    for token, _, _ in _tokens(source):
        if token == "!":
            behind.append(len(tokens) - 1)
            missing = True
        elif not missing:
            tokens.append(token)
        else:
            missing = False
    return tokens, behind


def _in_margin(printed: list[str], index: int) -> bool:
    return index + 1 < len(printed) and printed[index + 1] == "define"


def _position(tokens: list[str], printed: list[str]) -> int | None:
    """Where ``printed`` begins in ``tokens``."""
    for start in range(len(tokens) - len(printed) + 1):
        if tokens[start] == printed[0] and tokens[start : start + len(printed)] == printed:
            return start
    return None


def _with_brackets(text: str, name: str, margin: list[int], ends: list[int]) -> Completed:
    """Both brackets put in behind ``ends``, in place of a space where there is one, and the margin left blank."""
    warnings = []
    characters = list(text)
    for position in margin:
        characters[position] = " "
    for position, (line, bracket) in zip(ends, _LINES.items(), strict=True):
        message = f"`{bracket}` is missing behind this, as in line {line} of HeteCCL's Figure 10 as printed"
        here = position - 1
        span = Span(name, text.count("\n", 0, here) + 1, here - text.rfind("\n", 0, here))
        warnings.append(Diagnostic("HS105", span, message, f"it is read as if `{bracket}` stood there", "warning"))
        space = characters[position] == " "
        characters[position] = bracket if space else bracket + characters[position]
    return Completed("".join(characters), tuple(warnings))
