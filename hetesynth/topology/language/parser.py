"""Source -> syntax tree, with the Lark grammar of dsl/topology.lark.

In: a ``Source``. Out: a ``File``, or ``SourceError`` at the first syntax error. Decides nothing about names and
units. Every statement's span is that of its first word.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, cast, get_args

from lark import Discard, Lark, Token, Transformer
from lark.exceptions import UnexpectedInput
from lark.tree import Meta

from hetesynth.model.diagnostics import SourceError, Span
from hetesynth.topology.language import syntax, syntax_errors, tables
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
    """The children that are neither selectors nor arguments."""
    return tuple(child for child in children if not isinstance(child, tuple))


def _both_ways(children: _Parsed) -> bool:
    return "<->" in children


def _sides(children: _Parsed) -> tuple[Words, Words]:
    sides: list[Words] = [*(child for child in children if isinstance(child, tuple)), (), ()]
    return sides[0], sides[1]


def _rate(children: _Parsed) -> tuple[Any, Amount | None]:
    rate = [*(child for child in children if isinstance(child, Amount)), None, None]
    return rate[0], rate[1]


def _instance(c: _Parsed, span: Span) -> syntax.Instance:
    overrides = tuple(child for child in _plain(c[2:]) if not isinstance(child, Amount))
    return syntax.Instance(c[0], c[1], _rate(c)[0], overrides, span, _arguments(c))


def _shared(c: _Parsed, span: Span) -> syntax.Shared:
    return syntax.Shared(c[0], *_rate(c), tuple(child for child in c if isinstance(child, syntax.Flow)), span)


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
    "instance": _instance,
    "loop": lambda c, span: syntax.Loop(c[0], c[1], tuple(c[2:]), span),
    "gpus": lambda c, span: syntax.Gpus(c[0], tuple(c[1:]), span),
    "port": lambda c, span: Property("port", span, c[1], c[2] if len(c) > 2 else None, words=c[0]),
    "set": lambda c, span: syntax.Change(c[0], tuple(c[1:]), span),
    "disable": lambda c, span: syntax.Disable(c[0], span),
    "without": lambda c, span: syntax.Without(c[0], span),
    "detach": lambda c, span: syntax.Detach(c[0], c[-1], False, span),
    "down": lambda c, span: syntax.Down(c[0], c[-1], _both_ways(c), span),
    "degrade": lambda c, span: syntax.Degrade(*_sides(c), _both_ways(c), *_rate(c), span),
    "flow": lambda c, _: syntax.Flow(c[0], c[-1], _both_ways(c), c[0][0].span),
    "shared": _shared,
    # the paper form
    "define": lambda c, span: syntax.Define(c[0], c[1], span),
    "amount": lambda c, _: c[0],
    "word": lambda c, _: c[0],
    "tuple": lambda c, span: syntax.Sequence(tuple(c), span),
    "list": lambda c, span: syntax.Sequence(tuple(c), span),
    "entry": lambda c, _: syntax.Entry(c[0], c[2]),
    "map": lambda c, span: syntax.Mapping(tuple(c), span),
}


@functools.cache
def grammar_parser() -> Lark:
    """The parser of the grammar, for what needs tokens rather than a syntax tree."""
    return tables.parser()


def parse(source: Source) -> syntax.File:
    """The syntax tree of ``source``; ``SourceError`` at the first syntax error."""
    try:
        tree = grammar_parser().parse(source.text)
    except UnexpectedInput as error:
        finding = syntax_errors.diagnostic(error, source, grammar_parser())
        raise SourceError([finding], {source.name: source.text}) from None
    items = tuple(_TreeBuilder(source).transform(cast(Any, tree)))
    if not items:
        raise SourceError([syntax_errors.empty(source)], {source.name: source.text})
    return syntax.File(source.name, items)


class _TreeBuilder(Transformer[Token, Any]):
    """Makes of each rule and token what the tree has in its place."""

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
        span = Span(
            self._file, getattr(meta, "line", 1), getattr(meta, "column", 1), len(_FIRST_WORDS.get(kind, word))
        )
        if kind == "computed":
            return Amount("", "", span, text or " ")
        if kind in _MADE:
            return _MADE[kind](children, span)
        near, far = _sides(children)
        properties = tuple(child for child in children if isinstance(child, Property))
        if kind in _ELEMENTS:
            return syntax.Element(kind, children[0], properties, span)
        if kind in _JOINS:
            return syntax.Join(
                kind, near, far, kind in ("attach", "mesh") or _both_ways(children), properties, span
            )
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
