"""Source -> syntax tree, with the Lark grammar of dsl/topology.lark.

In: a ``Source``. Out: a ``File``, or ``SourceError`` with every syntax error that could be told apart. Decides
nothing about names and units. Every statement's span is that of its first word.
"""

from __future__ import annotations

import functools
import re
from typing import Any, cast, get_args

from lark import Discard, Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput
from lark.tree import Meta

from hetesynth.errors import InternalError
from hetesynth.model.diagnostics import Diagnostic, SourceError, Span
from hetesynth.topology.language import syntax, syntax_errors, tables
from hetesynth.topology.language.source import Source
from hetesynth.topology.language.syntax import Amount, Property, Word
from hetesynth.topology.language.units import MAX_DIGITS

MAX_SYNTAX_ERRORS = 10
MAX_RECOVERY_CHARACTERS = 1 << 16

Words = tuple[Word, ...]
_Parsed = list[Any]

_ELEMENTS, _JOINS, _NETWORKS = map(get_args, (syntax.ElementKind, syntax.JoinKind, syntax.NetworkKind))
_OF_WORDS = ("measured", "kind", "model", "host", "multicast", "reduction")
_OF_SELECTORS = ("ports", "join", "members")
_OF_AMOUNTS = (
    *("bandwidth", "latency", "reduce", "copy", "chunk", "send", "receive", "length"),
    *("spine", "uplink", "global", "servers", "spines", "groups", "routers", "oversubscription"),
)


@functools.cache
def grammar_parser() -> Lark:
    """The parser of the grammar, for what needs tokens rather than a syntax tree."""
    return tables.parser()


def parse(source: Source) -> syntax.File:
    """The syntax tree of ``source``; after a syntax error the statement is blanked and the rest still checked."""
    text = source.text
    if not re.sub(r"(#|//)[^\n]*", "", text).strip():
        raise SourceError([syntax_errors.empty(source)], {source.name: text})
    errors: list[Diagnostic] = []
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
            return syntax.File(source.name, tuple(_TreeBuilder(source.name, text).transform(cast(Any, tree))))
    raise SourceError(errors, {source.name: source.text})


@v_args(meta=True)
class _TreeBuilder(Transformer[Token, Any]):
    """One method a grammar rule; rules that make the same class of different words share ``__default__``."""

    def __init__(self, file_name: str, text: str) -> None:
        super().__init__(visit_tokens=True)
        self._file = file_name
        self._text = text

    def _span(self, meta: Meta, word: str) -> Span:
        return Span(self._file, meta.line, meta.column, len(word))

    def __default__(self, data: Any, children: _Parsed, meta: Meta) -> Any:
        kind: Any = str(data).rstrip("_")
        span = self._span(meta, kind)
        sides: list[Words] = [child for child in children if isinstance(child, tuple)]
        properties = tuple(child for child in children if isinstance(child, Property))
        if kind in _OF_AMOUNTS:
            return Property(kind, span, amount=children[0], lanes=children[1] if len(children) > 1 else None)
        if kind in _OF_WORDS:
            return Property(kind, span, words=tuple(children))
        if kind in _OF_SELECTORS:
            return Property(kind, span, words=sides[0], far=sides[1] if len(sides) > 1 else ())
        if kind in _ELEMENTS:
            return syntax.Element(kind, children[0], properties, span)
        if kind in _JOINS:
            both = kind in ("attach", "mesh") or _both_ways(children)
            return syntax.Join(kind, sides[0], sides[1] if len(sides) > 1 else (), both, properties, span)
        if kind in _NETWORKS:
            parts = sides[0] if sides else ()
            sizes = next((c for c in children if isinstance(c, Token) and c.type == "SIZES"), "")
            numbers = tuple(int(size[:MAX_DIGITS]) for size in re.findall("[0-9]+", sizes))
            return syntax.Network(kind, parts[0] if parts else children[0], parts, numbers, properties, span)
        raise InternalError(f"no class of the syntax tree is made of the rule {data}")

    def selectors(self, meta: Meta, children: _Parsed) -> Words:
        return tuple(children)

    arguments = parameters = selectors

    def port(self, meta: Meta, children: _Parsed) -> Property:
        lanes = children[2] if len(children) > 2 else None
        return Property("port", self._span(meta, "port"), amount=children[1], lanes=lanes, words=children[0])

    def detach(self, meta: Meta, children: _Parsed) -> syntax.Detach:
        return syntax.Detach(children[0], children[-1], self._span(meta, "detach"))

    def flow(self, meta: Meta, children: _Parsed) -> syntax.Flow:
        return syntax.Flow(children[0], children[-1], _both_ways(children), children[0][0].span)

    def shared(self, meta: Meta, children: _Parsed) -> syntax.Shared:
        rate = [child for child in children if isinstance(child, Amount)]
        flows = tuple(child for child in children if isinstance(child, syntax.Flow))
        lanes = rate[1] if len(rate) > 1 else None
        return syntax.Shared(children[0], rate[0], lanes, flows, self._span(meta, "shared"))

    def gpus(self, meta: Meta, children: _Parsed) -> syntax.Gpus:
        return syntax.Gpus(children[0], tuple(children[1:]), self._span(meta, "gpus"))

    def set(self, meta: Meta, children: _Parsed) -> syntax.Change:
        return syntax.Change(children[0], tuple(children[1:]), self._span(meta, "set"))

    def disable(self, meta: Meta, children: _Parsed) -> syntax.Disable:
        return syntax.Disable(children[0], self._span(meta, "disable"))

    def without(self, meta: Meta, children: _Parsed) -> syntax.Without:
        return syntax.Without(children[0], self._span(meta, "without"))

    def down(self, meta: Meta, children: _Parsed) -> syntax.Down:
        return syntax.Down(children[0], children[-1], _both_ways(children), self._span(meta, "down"))

    def degrade(self, meta: Meta, children: _Parsed) -> syntax.Degrade:
        sides = [child for child in children if isinstance(child, tuple)]
        rate = [child for child in children if isinstance(child, Amount)]
        right = sides[1] if len(sides) > 1 else ()
        lanes = rate[1] if len(rate) > 1 else None
        return syntax.Degrade(sides[0], right, _both_ways(children), rate[0], lanes, self._span(meta, "degrade"))

    def instance(self, meta: Meta, children: _Parsed) -> syntax.Instance:
        count = next((child for child in children if isinstance(child, Amount)), None)
        overrides = tuple(c for c in children[2:] if not isinstance(c, (Amount, tuple)))
        span = self._span(meta, "instance")
        return syntax.Instance(children[0], children[1], count, overrides, span, _parameters(children))

    def loop(self, meta: Meta, children: _Parsed) -> syntax.Loop:
        return syntax.Loop(children[0], children[1], tuple(children[2:]), self._span(meta, "for"))

    def argument(self, meta: Meta, children: _Parsed) -> syntax.Argument:
        return syntax.Argument(children[0], children[1] if len(children) > 1 else None)

    parameter = argument

    def node(self, meta: Meta, children: _Parsed) -> syntax.NodeType:
        items = tuple(child for child in children[1:] if not isinstance(child, tuple))
        return syntax.NodeType(children[0], items, self._span(meta, "node"), _parameters(children))

    def pod(self, meta: Meta, children: _Parsed) -> syntax.PodType:
        items = tuple(child for child in children[1:] if not isinstance(child, tuple))
        return syntax.PodType(children[0], items, self._span(meta, "pod"), _parameters(children))

    def cluster(self, meta: Meta, children: _Parsed) -> syntax.Cluster:
        return syntax.Cluster(children[0], tuple(children[1:]), self._span(meta, "cluster"))

    def start(self, meta: Meta, children: _Parsed) -> _Parsed:
        return children

    def import_(self, meta: Meta, children: _Parsed) -> syntax.Import:
        target = children[0]
        return syntax.Import(target, is_path=target.span.length == len(target.text) + 2)

    def computed(self, meta: Meta, children: _Parsed) -> Amount:
        text = self._text[meta.start_pos + 1 : meta.end_pos - 1]
        return Amount("", "", self._span(meta, f"({text})".split("\n")[0]), text or " ")

    # --- the paper form

    def define(self, meta: Meta, children: _Parsed) -> syntax.Define:
        return syntax.Define(children[0], children[1], self._span(meta, "define"))

    def amount(self, meta: Meta, children: _Parsed) -> Any:
        return children[0]

    word = amount

    def edge(self, meta: Meta, children: _Parsed) -> syntax.Edge:
        left, sign, right = children
        span = Span(self._file, sign.line, sign.column, len(sign))
        return syntax.Edge(left, right, "->" if sign.type == "ONE_WAY" else ">->", span)

    def tuple(self, meta: Meta, children: _Parsed) -> syntax.Sequence:
        return syntax.Sequence(tuple(children), self._span(meta, "("))

    list = tuple

    def entry(self, meta: Meta, children: _Parsed) -> syntax.Entry:
        return syntax.Entry(children[0], children[2])

    def map(self, meta: Meta, children: _Parsed) -> syntax.Mapping:
        return syntax.Mapping(tuple(children), self._span(meta, "{"))

    # --- tokens

    def _of(self, token: Token) -> Span:
        return Span(self._file, token.line or 1, token.column or 1, max(1, len(token)))

    def WORD(self, token: Token) -> Word:
        return Word(str(token), self._of(token))

    PARTS = WORD

    def LOOP(self, token: Token) -> Word:
        text = token.rstrip()
        return Word(text, Span(self._file, token.line or 1, token.column or 1, len(text)))

    def STRING(self, token: Token) -> Word:
        return Word(str(token)[1:-1], self._of(token))

    def NUMBER(self, token: Token) -> Amount:
        return Amount(str(token), "", self._of(token))

    def QUANTITY(self, token: Token) -> Amount:
        match = re.fullmatch(r"(-?[0-9.]+)[ \t]*(.*)", str(token))
        number, unit = match.groups() if match else (str(token), "")
        return Amount(number, unit, self._of(token))

    def PERCENT(self, token: Token) -> Amount:
        return Amount(str(token)[:-1].strip(), "%", self._of(token))

    def LANES(self, token: Token) -> Amount:
        return Amount(str(token)[1:].strip(), "", self._of(token))

    def TIMES(self, token: Token) -> Any:
        return Discard


def _parameters(children: _Parsed) -> tuple[syntax.Argument, ...]:
    return next((child for child in children if isinstance(child, tuple)), ())


def _both_ways(children: _Parsed) -> bool:
    return any(isinstance(child, Token) and child.type == "BOTH_WAYS" for child in children)
