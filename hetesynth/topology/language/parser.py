"""Source -> syntax tree, with the Lark grammar of dsl/topology.lark, whose token names never reach the user."""

import functools
import re
from collections.abc import Callable
from typing import Any, cast, get_args

from lark import Discard, Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr
from lark.tree import Meta

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Diagnostic, SourceError, Span
from hetesynth.topology.language import syntax, tables
from hetesynth.topology.language.source import Source
from hetesynth.topology.language.syntax import Amount, Property, Word
from hetesynth.topology.language.units import MAX_DIGITS

Words = tuple[Word, ...]
_Parsed = list[Any]

_ELEMENTS, _JOINS, _NETWORKS = map(get_args, (syntax.ElementKind, syntax.JoinKind, syntax.NetworkKind))
_FIRST_WORDS = {"loop": "for", "tuple": "(", "list": "(", "map": "{"}  # of rules that are called otherwise


def _arguments(children: _Parsed) -> tuple[syntax.Argument, ...]:
    return next((child for child in children if isinstance(child, tuple)), ())


def _plain(children: _Parsed) -> tuple[Any, ...]:
    """Return the children that are neither selectors nor arguments."""
    return tuple(child for child in children if not isinstance(child, tuple))


def _both_ways(children: _Parsed) -> bool:
    return "<->" in children


def _sides(children: _Parsed) -> tuple[Words, Words]:
    sides: list[Words] = [*(child for child in children if isinstance(child, tuple)), (), ()]
    return sides[0], sides[1]


def _rate(children: _Parsed) -> tuple[Any, Amount | None]:
    rate = [*(child for child in children if isinstance(child, Amount)), None, None]
    return rate[0], rate[1]


_MADE: dict[str, Callable[[_Parsed, Span], Any]] = {  # of the children of a rule and the span of its first word
    "start": lambda c, _: c,
    "selectors": lambda c, _: tuple(c),
    "arguments": lambda c, _: tuple(c),
    "parameters": lambda c, _: tuple(c),
    "argument": lambda c, _: syntax.Argument(c[0], c[1] if len(c) > 1 else None),
    "parameter": lambda c, _: syntax.Argument(c[0], c[1] if len(c) > 1 else None),
    "import": lambda c, _: syntax.Import(c[0], is_path=c[0].span.length == len(c[0].text) + 2),
    "node": lambda c, span: syntax.NodeType(c[0], _plain(c[1:]), span, _arguments(c)),
    "pod": lambda c, span: syntax.PodType(c[0], _plain(c[1:]), span, _arguments(c)),
    "cluster": lambda c, span: syntax.Cluster(c[0], tuple(c[1:]), span),
    "instance": lambda c, span: syntax.Instance(
        c[0], c[1], _rate(c)[0], tuple(x for x in _plain(c[2:]) if not isinstance(x, Amount)), span, _arguments(c)
    ),
    "loop": lambda c, span: syntax.Loop(c[0], c[1], tuple(c[2:]), span),
    "gpus": lambda c, span: syntax.Gpus(c[0], tuple(c[1:]), span),
    "port": lambda c, span: Property("port", span, c[1], c[2] if len(c) > 2 else None, words=c[0]),
    "set": lambda c, span: syntax.Change(c[0], tuple(c[1:]), span),
    "disable": lambda c, span: syntax.Disable(c[0], span),
    "without": lambda c, span: syntax.Without(c[0], span),
    "detach": lambda c, span: syntax.Detach(c[0], c[-1], False, span),
    "down": lambda c, span: syntax.Down(c[0], c[-1], _both_ways(c), span),
    "degrade": lambda c, span: syntax.Degrade(*_sides(c), _both_ways(c), span, *_rate(c)),
    "flow": lambda c, _: syntax.Flow(c[0], c[-1], _both_ways(c), c[0][0].span),
    "shared": lambda c, span: syntax.Shared(
        c[0], *_rate(c), tuple(child for child in c if isinstance(child, syntax.Flow)), span
    ),
    # the paper form
    "define": lambda c, span: syntax.Define(c[0], c[1], span),
    "amount": lambda c, _: c[0],
    "word": lambda c, _: c[0],
    "tuple": lambda c, span: syntax.Sequence(tuple(c), span),
    "list": lambda c, span: syntax.Sequence(tuple(c), span),
    "entry": lambda c, _: syntax.Define(c[0], c[2], c[0].span),
    "map": lambda c, span: syntax.Mapping(tuple(c), span),
}


@functools.cache
def grammar_parser() -> Lark:
    """Return the parser of the grammar, for callers that need tokens rather than a syntax tree."""
    return tables.parser()


def parse(source: Source) -> syntax.File:
    """Return the syntax tree of ``source``. Raise ``SourceError`` at the first syntax error."""
    try:
        tree = grammar_parser().parse(source.text)
    except UnexpectedInput as error:
        finding = _diagnostic(error, source, grammar_parser())
        raise SourceError([finding], {source.name: source.text}) from None
    items = tuple(_TreeBuilder(source).transform(cast(Any, tree)))
    if not items:
        help_ = "start with `import h20` and `cluster NAME { ... }`; see dsl/reference.md and examples/"
        empty = Diagnostic("HS110", Span(source.name, 1, 1), "the topology is empty", help_)
        raise SourceError([empty], {source.name: source.text})
    return syntax.File(source.name, items)


class _TreeBuilder(Transformer[Token, Any]):
    """A transformer of each rule and token into its node of the syntax tree."""

    def __init__(self, source: Source) -> None:
        super().__init__(visit_tokens=True)
        self._file, self._text = source.name, source.text

    def __default__(self, data: Any, children: _Parsed, meta: Meta) -> Any:
        kind: Any = str(data).rstrip("_")
        word = kind
        if kind == "computed":
            text = self._text[meta.start_pos + 1 : meta.end_pos - 1]
            word = f"({text})".split("\n")[0]
        elif kind == "edge":
            left, sign, right = children
            way: Any = "->" if sign.type == "ONE_WAY" else ">->"
            return syntax.Edge(left, right, way, Span(self._file, sign.line, sign.column, len(sign)))
        line, column = getattr(meta, "line", 1), getattr(meta, "column", 1)
        span = Span(self._file, line, column, len(_FIRST_WORDS.get(kind, word)))
        if kind == "computed":
            return Amount("", "", span, text or " ")
        if kind in _MADE:
            return _MADE[kind](children, span)
        near, far = _sides(children)
        properties = tuple(child for child in children if isinstance(child, Property))
        if kind in _ELEMENTS:
            return syntax.Element(kind, children[0], properties, span)
        if kind in _JOINS:
            both_ways = kind in ("attach", "mesh") or _both_ways(children)
            return syntax.Join(kind, near, far, both_ways, properties, span)
        if kind in _NETWORKS:
            sizes = next((c for c in children if isinstance(c, Token) and c.type == "SIZES"), "")
            numbers = tuple(int(size[:MAX_DIGITS]) for size in re.findall("[0-9]+", sizes))
            return syntax.Network(kind, near[0] if near else children[0], near, numbers, properties, span)
        words = near or tuple(child for child in children if isinstance(child, Word))
        return Property(kind, span, *_rate(children), words, far)

    def __default_token__(self, token: Token) -> Any:
        text = token.rstrip() if token.type == "LOOP" else str(token)
        span = Span(self._file, token.line or 1, token.column or 1, max(1, len(text)))
        match token.type:
            case "WORD" | "PARTS" | "LOOP":
                return Word(text, span)
            case "STRING":
                return Word(text[1:-1], span)
            case "NUMBER":
                return Amount(text, "", span)
            case "QUANTITY":
                number = re.match("-?[0-9.]*", text)[0]  # type: ignore[index]
                return Amount(number, text[len(number) :].strip(), span)
            case "PERCENT":
                return Amount(text[:-1].strip(), "%", span)
            case "LANES":
                return Amount(text[1:].strip(), "", span)
            case "TIMES":
                return Discard
            case _:
                return token


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


def begins_statement(line: str) -> bool:
    """Return True if ``line`` begins like a statement of the language."""
    first = re.match(r"[\s{}]*([a-z]+)\b", line)
    return first is not None and first[1] in _WRITTEN


def _diagnostic(error: UnexpectedInput, source: Source, lark: Lark) -> Diagnostic:
    """Return the diagnostic of the place at which Lark stopped, with what may stand there."""
    signs = {t.name: f"`{t.pattern.value}`" for t in lark.terminals if isinstance(t.pattern, PatternStr)}
    interactive = getattr(error, "interactive_parser", None)
    names = interactive.accepts() if interactive is not None else getattr(error, "allowed", None) or ["$END"]
    expected = [{**signs, **_SHOWN}.get(name, f"`{name.lower()}`") for name in sorted({*names} - {"_SEMI"})]
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


def _expected_help(expected: list[str]) -> str:
    *others, last = dict.fromkeys(expected[:_MAX_EXPECTED])
    more = ", ..." if len(expected) > _MAX_EXPECTED else ""
    return f"expected {', '.join(others)}{' or ' if others else ''}{last}{more}"
