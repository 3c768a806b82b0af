"""Syntax errors in the user's words.

In: what Lark raised. Out: a ``Diagnostic``, whose help is the nearest word, how the statement is written, or what
may stand there. Token names of the grammar never reach the user.
"""

from __future__ import annotations

import re

from lark import Lark
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Diagnostic, Span
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
    "$END": "the end of the file",
}
_MAX_EXPECTED = 14
_MAX_SHOWN = 40

_WRITTEN = {  # how a statement that begins with a word is written
    "import": 'import h20` or `import "own.dsl"',
    "cluster": "cluster NAME { ... }",
    "node": "node NAME { gpus 8; ... }",
    "pod": "pod NAME { instance t[0-1] = NODE; ... }",
    "instance": "instance a[0-1] = NODE` or `instance a = NODE x 2",
    "for": "for i in 0-3 { ... }",
    "gpus": "gpus 8",
    "link": "link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2 }",
    "mesh": "mesh gpu[0-3] { bandwidth 25 GB/s }",
    "attach": "attach gpu[0-3] -> nic0",
    "switch": "switch s { ports gpu[0-7]; bandwidth 450 GB/s }",
    "nic": "nic nic0 { bandwidth 400 Gbps }",
    "bus": "bus b { members gpu[0-1] <-> nic0; bandwidth 16 GB/s }",
    "fabric": "fabric ib { join *.nic*; latency 1.3 us }",
    "grid": "grid gpu* 2x4 { bandwidth 25 GB/s }",
    "torus": "torus gpu* 2x4 { bandwidth 25 GB/s }",
    "shared": "shared s 48 GB/s { gpu0 -> gpu[2-3] }",
    "set": "set a.nic0 { bandwidth 18 Gbps }",
    "disable": "disable gpu3",
    "without": "without a.gpu3",
    "down": "down a.gpu0 <-> a.gpu1",
    "degrade": "degrade a.nic0 to 18 Gbps",
    "bandwidth": "bandwidth 25 GB/s` or `bandwidth (rate / 2) x 2",
    "latency": "latency 0.7 us",
    "chunk": "chunk 16 MB",
    "model": 'model "H20"',
    "host": 'host "node[10-13]"',
    "define": "define node1 = 4` or `define bandwidth = {direct => [(0,1) -> (25,2)]}",
}


def empty(source: Source) -> Diagnostic:
    """The finding for a source without a single statement."""
    help_ = "start with `import h20` and `cluster NAME { ... }`; see dsl/reference.md and examples/"
    return Diagnostic("HS110", Span(source.name, 1, 1), "the topology is empty", help_)


def diagnostic(error: UnexpectedInput, source: Source, lark: Lark) -> Diagnostic:
    """What is wrong at the place Lark stopped, and what may stand there."""
    signs = {t.name: f"`{t.pattern.value}`" for t in lark.terminals if isinstance(t.pattern, PatternStr)}
    expected = [{**signs, **_SHOWN}.get(name, f"`{name.lower()}`") for name in _accepted(error)]
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        lines = source.text.rstrip().split("\n")
        end = Span(source.name, len(lines), max(1, len(lines[-1])))
        return Diagnostic("HS112", end, "the text ends too early", _expected_help(expected))
    line, column = max(1, error.line), max(1, error.column)
    here = source.text.split("\n")[line - 1]
    match = re.compile(r"\w+|[-<>=]+|\S|").match(here, column - 1)
    offending = match[0] if match else ""
    span = Span(source.name, line, column, max(1, len(offending)))
    shown = offending if len(offending) <= _MAX_SHOWN else offending[:_MAX_SHOWN] + "..."
    help_ = did_you_mean(shown, [word.strip("`") for word in expected if word[1:-1].isalpha()])
    if not help_.startswith("did you mean"):
        begun = re.search(r"(?:^|[;{}])\s*([a-z]+)\b(?!\s*=>)[^;{}]*$", here[: column - 1])
        help_ = _expected_help(expected)
        if begun and begun[1] in _WRITTEN:
            help_ = f"write it like `{_WRITTEN[begun[1]]}`"
    return Diagnostic("HS111", span, f"unexpected `{shown}`", help_)


def _accepted(error: UnexpectedInput) -> list[str]:
    interactive = getattr(error, "interactive_parser", None)
    names = interactive.accepts() if interactive is not None else getattr(error, "allowed", None) or ["$END"]
    return sorted(set(names) - {"_SEMI"})


def _expected_help(expected: list[str]) -> str:
    *others, last = dict.fromkeys(expected[:_MAX_EXPECTED])
    more = ", ..." if len(expected) > _MAX_EXPECTED else ""
    return f"expected {', '.join(others)}{' or ' if others else ''}{last}{more}"
