"""Lark's parse tree -> the frozen classes of ``syntax``: one method a grammar rule.

In: a ``lark.Tree`` with positions. Out: a ``File``. Decides nothing: wrong names and units pass through.
Every statement's span is that of its first word.
"""

from __future__ import annotations

import re
from typing import Any, cast

from lark import Discard, Token, Transformer, Tree, v_args
from lark.tree import Meta

from hetesynth.model.diagnostics import Span
from hetesynth.topology.language import syntax
from hetesynth.topology.language.syntax import Amount, Property, Word
from hetesynth.topology.language.units import MAX_DIGITS

Words = tuple[Word, ...]
_Parsed = list[Any]


def build(tree: Any, file_name: str, text: str) -> syntax.File:
    """The syntax tree of one file, whose text is ``text``."""
    return syntax.File(file_name, tuple(_TreeBuilder(file_name, text).transform(cast("Tree[Token]", tree))))


def _words(children: _Parsed) -> list[Words]:
    return [child for child in children if isinstance(child, tuple)]


def _amounts(children: _Parsed) -> list[Amount]:
    return [child for child in children if isinstance(child, Amount)]


def _properties(children: _Parsed) -> tuple[Property, ...]:
    return tuple(child for child in children if isinstance(child, Property))


def _parameters(children: _Parsed) -> tuple[syntax.Argument, ...]:
    return next((child for child in children if isinstance(child, tuple)), ())


def _items(children: _Parsed) -> tuple[Any, ...]:
    """What stands between the braces of a type."""
    return tuple(child for child in children[1:] if not isinstance(child, tuple))


def _both_ways(children: _Parsed) -> bool:
    return any(isinstance(child, Token) and child.type == "BOTH_WAYS" for child in children)


@v_args(meta=True)
class _Statements(Transformer[Token, Any]):
    """Rules of the block form."""

    _file: str
    _text: str

    def _span(self, meta: Meta, word: str) -> Span:
        return Span(self._file, meta.line, meta.column, len(word))

    def selectors(self, meta: Meta, children: _Parsed) -> Words:
        return tuple(children)

    # --- properties

    def _rate(self, meta: Meta, name: str, children: _Parsed) -> Property:
        lanes = children[1] if len(children) > 1 else None
        return Property(name, self._span(meta, name), amount=children[0], lanes=lanes)

    def bandwidth(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "bandwidth", children)

    def latency(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "latency", children)

    def reduce(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "reduce", children)

    def copy(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "copy", children)

    def chunk(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "chunk", children)

    def measured(self, meta: Meta, children: _Parsed) -> Property:
        return Property("measured", self._span(meta, "measured"), words=tuple(children))

    def kind(self, meta: Meta, children: _Parsed) -> Property:
        return Property("kind", self._span(meta, "kind"), words=tuple(children))

    def model(self, meta: Meta, children: _Parsed) -> Property:
        return Property("model", self._span(meta, "model"), words=tuple(children))

    def send(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "send", children)

    def receive(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "receive", children)

    def length(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "length", children)

    def host(self, meta: Meta, children: _Parsed) -> Property:
        return Property("host", self._span(meta, "host"), words=tuple(children))

    def multicast(self, meta: Meta, children: _Parsed) -> Property:
        return Property("multicast", self._span(meta, "multicast"))

    def reduction(self, meta: Meta, children: _Parsed) -> Property:
        return Property("reduction", self._span(meta, "reduction"))

    def port(self, meta: Meta, children: _Parsed) -> Property:
        lanes = children[2] if len(children) > 2 else None
        return Property("port", self._span(meta, "port"), amount=children[1], lanes=lanes, words=children[0])

    def ports(self, meta: Meta, children: _Parsed) -> Property:
        return Property("ports", self._span(meta, "ports"), words=children[0])

    def join(self, meta: Meta, children: _Parsed) -> Property:
        return Property("join", self._span(meta, "join"), words=children[0])

    def members(self, meta: Meta, children: _Parsed) -> Property:
        sides = _words(children)
        far = sides[1] if len(sides) > 1 else ()
        return Property("members", self._span(meta, "members"), words=sides[0], far=far)

    # --- statements

    def _element(self, kind: syntax.ElementKind, meta: Meta, children: _Parsed) -> syntax.Element:
        return syntax.Element(kind, children[0], _properties(children), self._span(meta, kind))

    def switch(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("switch", meta, children)

    def cpu(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("cpu", meta, children)

    def numa(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("numa", meta, children)

    def pcie(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("pcie", meta, children)

    def router(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("router", meta, children)

    def nic(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("nic", meta, children)

    def bus(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("bus", meta, children)

    def fabric(self, meta: Meta, children: _Parsed) -> syntax.Element:
        return self._element("fabric", meta, children)

    def _join(self, kind: syntax.JoinKind, meta: Meta, children: _Parsed) -> syntax.Join:
        sides = _words(children)
        right = sides[1] if len(sides) > 1 else ()
        both = kind in ("attach", "mesh") or _both_ways(children)
        return syntax.Join(kind, sides[0], right, both, _properties(children), self._span(meta, kind))

    def link(self, meta: Meta, children: _Parsed) -> syntax.Join:
        return self._join("link", meta, children)

    def upi(self, meta: Meta, children: _Parsed) -> syntax.Join:
        return self._join("upi", meta, children)

    def wan(self, meta: Meta, children: _Parsed) -> syntax.Join:
        return self._join("wan", meta, children)

    def detach(self, meta: Meta, children: _Parsed) -> syntax.Detach:
        left, right = _words(children)
        return syntax.Detach(left, right, self._span(meta, "detach"))

    def attach(self, meta: Meta, children: _Parsed) -> syntax.Join:
        return self._join("attach", meta, children)

    def mesh(self, meta: Meta, children: _Parsed) -> syntax.Join:
        return self._join("mesh", meta, children)

    def flow(self, meta: Meta, children: _Parsed) -> syntax.Flow:
        left, right = _words(children)
        return syntax.Flow(left, right, _both_ways(children), left[0].span)

    def shared(self, meta: Meta, children: _Parsed) -> syntax.Shared:
        amounts = _amounts(children)
        flows = tuple(child for child in children if isinstance(child, syntax.Flow))
        lanes = amounts[1] if len(amounts) > 1 else None
        return syntax.Shared(children[0], amounts[0], lanes, flows, self._span(meta, "shared"))

    def gpus(self, meta: Meta, children: _Parsed) -> syntax.Gpus:
        return syntax.Gpus(children[0], tuple(children[1:]), self._span(meta, "gpus"))

    def set(self, meta: Meta, children: _Parsed) -> syntax.Change:
        return syntax.Change(children[0], _properties(children), self._span(meta, "set"))

    def disable(self, meta: Meta, children: _Parsed) -> syntax.Disable:
        return syntax.Disable(children[0], self._span(meta, "disable"))

    # --- networks in one line

    def _network(self, kind: syntax.NetworkKind, meta: Meta, children: _Parsed) -> syntax.Network:
        parts = children[0] if isinstance(children[0], tuple) else ()
        name = parts[0] if parts else children[0]
        written = next((c for c in children if isinstance(c, Token) and c.type == "SIZES"), "")
        numbers = tuple(int(size[:MAX_DIGITS]) for size in re.findall("[0-9]+", written))
        return syntax.Network(kind, name, parts, numbers, _properties(children), self._span(meta, kind))

    def ring(self, meta: Meta, children: _Parsed) -> syntax.Network:
        return self._network("ring", meta, children)

    def grid(self, meta: Meta, children: _Parsed) -> syntax.Network:
        return self._network("grid", meta, children)

    def torus(self, meta: Meta, children: _Parsed) -> syntax.Network:
        return self._network("torus", meta, children)

    def hypercube(self, meta: Meta, children: _Parsed) -> syntax.Network:
        return self._network("hypercube", meta, children)

    def rails(self, meta: Meta, children: _Parsed) -> syntax.Network:
        return self._network("rails", meta, children)

    def leafspine(self, meta: Meta, children: _Parsed) -> syntax.Network:
        return self._network("leafspine", meta, children)

    def dragonfly(self, meta: Meta, children: _Parsed) -> syntax.Network:
        return self._network("dragonfly", meta, children)

    def spine(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "spine", children)

    def uplink(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "uplink", children)

    def global_(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "global", children)

    def servers(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "servers", children)

    def spines(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "spines", children)

    def groups(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "groups", children)

    def routers(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "routers", children)

    def oversubscription(self, meta: Meta, children: _Parsed) -> Property:
        return self._rate(meta, "oversubscription", children)

    def without(self, meta: Meta, children: _Parsed) -> syntax.Without:
        return syntax.Without(children[0], self._span(meta, "without"))

    def down(self, meta: Meta, children: _Parsed) -> syntax.Down:
        left, right = _words(children)
        return syntax.Down(left, right, _both_ways(children), self._span(meta, "down"))

    def degrade(self, meta: Meta, children: _Parsed) -> syntax.Degrade:
        sides, amounts = _words(children), _amounts(children)
        right = sides[1] if len(sides) > 1 else ()
        lanes = amounts[1] if len(amounts) > 1 else None
        span = self._span(meta, "degrade")
        return syntax.Degrade(sides[0], right, _both_ways(children), amounts[0], lanes, span)

    def instance(self, meta: Meta, children: _Parsed) -> syntax.Instance:
        counts = _amounts(children)
        overrides = tuple(c for c in children[2:] if not isinstance(c, (Amount, tuple)))
        span = self._span(meta, "instance")
        count = counts[0] if counts else None
        return syntax.Instance(children[0], children[1], count, overrides, span, _parameters(children))

    def loop(self, meta: Meta, children: _Parsed) -> syntax.Loop:
        return syntax.Loop(children[0], children[1], tuple(children[2:]), self._span(meta, "for"))

    def argument(self, meta: Meta, children: _Parsed) -> syntax.Argument:
        return syntax.Argument(children[0], children[1] if len(children) > 1 else None)

    def parameter(self, meta: Meta, children: _Parsed) -> syntax.Argument:
        return self.argument(meta, children)

    def arguments(self, meta: Meta, children: _Parsed) -> tuple[syntax.Argument, ...]:
        return tuple(children)

    def parameters(self, meta: Meta, children: _Parsed) -> tuple[syntax.Argument, ...]:
        return tuple(children)

    def node(self, meta: Meta, children: _Parsed) -> syntax.NodeType:
        return syntax.NodeType(children[0], _items(children), self._span(meta, "node"), _parameters(children))

    def pod(self, meta: Meta, children: _Parsed) -> syntax.PodType:
        return syntax.PodType(children[0], _items(children), self._span(meta, "pod"), _parameters(children))

    def cluster(self, meta: Meta, children: _Parsed) -> syntax.Cluster:
        return syntax.Cluster(children[0], tuple(children[1:]), self._span(meta, "cluster"))

    def start(self, meta: Meta, children: _Parsed) -> _Parsed:
        return children


@v_args(meta=True)
class _TreeBuilder(_Statements):
    """The paper form, the tokens, and ``import``."""

    def __init__(self, file_name: str, text: str) -> None:
        super().__init__(visit_tokens=True)
        self._file = file_name
        self._text = text

    def import_(self, meta: Meta, children: _Parsed) -> syntax.Import:
        target = children[0]
        return syntax.Import(target, is_path=target.span.length == len(target.text) + 2)

    def define(self, meta: Meta, children: _Parsed) -> syntax.Define:
        return syntax.Define(children[0], children[1], self._span(meta, "define"))

    def computed(self, meta: Meta, children: _Parsed) -> Amount:
        text = self._text[meta.start_pos + 1 : meta.end_pos - 1]
        return Amount("", "", self._span(meta, f"({text})".split("\n")[0]), text or " ")

    def amount(self, meta: Meta, children: _Parsed) -> Amount:
        return cast(Amount, children[0])

    def word(self, meta: Meta, children: _Parsed) -> Word:
        return cast(Word, children[0])

    def edge(self, meta: Meta, children: _Parsed) -> syntax.Edge:
        left, sign, right = children
        span = Span(self._file, sign.line, sign.column, len(sign))
        return syntax.Edge(left, right, "->" if sign.type == "ONE_WAY" else ">->", span)

    def tuple(self, meta: Meta, children: _Parsed) -> syntax.Sequence:
        return syntax.Sequence(tuple(children), self._span(meta, "("))

    def list(self, meta: Meta, children: _Parsed) -> syntax.Sequence:
        return syntax.Sequence(tuple(children), self._span(meta, "["))

    def entry(self, meta: Meta, children: _Parsed) -> syntax.Entry:
        return syntax.Entry(children[0], children[2])

    def map(self, meta: Meta, children: _Parsed) -> syntax.Mapping:
        return syntax.Mapping(tuple(children), self._span(meta, "{"))

    # --- tokens

    def _of(self, token: Token) -> Span:
        return Span(self._file, token.line or 1, token.column or 1, max(1, len(token)))

    def WORD(self, token: Token) -> Word:
        return Word(str(token), self._of(token))

    def PARTS(self, token: Token) -> Word:
        return self.WORD(token)

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
