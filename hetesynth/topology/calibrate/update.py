"""The classes of links that measurements are of, and the text of a topology with fitted figures for one of them.

A rate that stands in the file is replaced there; one from an imported type or an expression is stated by ``set``
in the cluster; for direct links, which have no name to be set by, the library's types are copied into the file.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Span, visible
from hetesynth.model.topology import Topology
from hetesynth.topology.importers.wording import bandwidth as bandwidth_text
from hetesynth.topology.importers.wording import time as time_text
from hetesynth.topology.language import parse_topology, syntax
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.library import library_path
from hetesynth.topology.language.names import part_of
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.source import checked_source, read_source
from hetesynth.topology.language.syntax import Amount, Element, Join, Network, Property
from hetesynth.topology.language.units import UNITS, lanes_of

_CALIBRATED = "# calibrated"
_TOKENS = re.compile(r'(?:#|//)[^\n]*|"[^"\n]*"|[{}]')
_WRITTEN = 1e-3  # a figure has four digits
_DEFAULT_KINDS = {
    **dict.fromkeys(("link", "mesh", "ring", "grid", "torus", "hypercube"), "direct"),
    **dict.fromkeys(("nic", "fabric"), "net"),
}
_PROBE = Fraction(2, 10**6)

Statement = Element | Join | Network
_Block = syntax.NodeType | syntax.PodType | syntax.Cluster
Edit = tuple[int, int, str]
"""The characters from the first place to the second (exclusive) become the text."""


@dataclass(frozen=True, slots=True)
class LinkClass:
    """The links of one ``kind`` and ``rate`` (bytes per second, all lanes)."""

    kind: str
    rate: Fraction
    alpha: Fraction  # the latency that most of them have
    links: tuple[int, ...]
    wires: tuple[int, ...]  # those that limit them
    width: int  # links that a GPU drives at once in a collective, or its server where they leave it

    @property
    def title(self) -> str:
        """The name of the class for ``--class``, such as ``nvlink@450GB/s``."""
        return f"{self.kind}@{float(self.rate / 10**9):g}GB/s"


def link_classes(topology: Topology) -> tuple[LinkClass, ...]:
    """Return all classes, those with the most links first."""
    members: dict[tuple[str, Fraction], list[int]] = defaultdict(list)
    for number, link in enumerate(topology.links):
        members[link.kind, link.bandwidth * link.lanes].append(number)
    classes = []
    for (kind, rate), links in members.items():
        alphas = Counter(topology.links[i].latency for i in links)
        alpha = min(alphas, key=lambda a: (-alphas[a], a))
        # the first wire of each way that has the rate of the link, by GPU, or by server where links leave it
        through: dict[str, set[int]] = defaultdict(set)
        for link in (topology.links[i] for i in links):
            wires = ((w, topology.wires[w]) for w in link.wires)
            src, dst = topology.vertices[link.src], topology.vertices[link.dst]
            through[src.server if src.server != dst.server else src.name].add(
                next(w for w, wire in wires if wire.bandwidth is not None and wire.bandwidth * wire.lanes == rate)
            )
        width = min(len(wires) for wires in through.values())
        limiting = tuple(sorted(set().union(*through.values())))
        classes.append(LinkClass(kind, rate, alpha, tuple(links), limiting, width))
    return tuple(sorted(classes, key=lambda c: (-len(c.links), c.title)))


def named_class(topology: Topology, name: str | None) -> LinkClass:
    """Return the class called ``name``; the only one where there is one. HetesynthError HS846 otherwise."""
    classes = link_classes(topology)
    fitting = [c for c in classes if name is None or name in (c.kind, c.title)]
    if len(fitting) == 1:
        return fitting[0]
    shown = ", ".join(c.title for c in classes[:12])
    what, help_ = f"{len(classes)} classes of links", f"name one with --class: {shown}"
    if name is not None:
        number = f"{len(fitting)} classes" if fitting else "no class"
        what, help_ = f"{number} of links {visible(name)[:60]}", f"--class takes: {shown}"
    raise HetesynthError(f"{topology.name} has {what}", code="HS846", help=help_)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures to write, in seconds and bytes per second; None leaves the file as it is."""

    alpha: float | None = None
    rate: float | None = None
    reduce: float | None = None
    copy: float | None = None


def rounded(value: float) -> Fraction:
    """Return ``value`` with four significant digits, as it is written."""
    return Fraction(f"{value:.3e}")


def updated(
    text: str, name: str, topology: Topology, links: LinkClass, figures: Figures, note: str
) -> tuple[str, tuple[str, ...]]:
    """Return ``text`` with ``figures`` and a ``note`` in front, and its effects on other links; else HS847."""
    editor = _Editor(name, topology, links, figures)
    if figures != Figures() and not any(
        isinstance(item, syntax.Cluster) for item in parse(checked_source(text, name)).items
    ):
        help_ = "hetesynth topo convert FILE --to block writes the cluster in the block form"
        raise HetesynthError(f"{name} is in the paper form, which is not edited", code="HS847", help=help_)
    try:
        changed, effects = editor.updated(text)
    except HetesynthError as error:
        own = _with_own_types(text, name, links) if error.code == "HS847" else text
        if own == text:
            raise
        changed, effects = editor.updated(own)
    if changed == text:
        return text, effects
    head = f"{_CALIBRATED} {links.kind}: "
    return f"{head}{note}\n" + re.sub(rf"(?m)^{re.escape(head)}[^\n]*\n", "", changed), effects


@dataclass(frozen=True, slots=True)
class _Editor:
    """An editor of the text of the file called ``name``."""

    name: str
    topology: Topology
    links: LinkClass
    figures: Figures

    def updated(self, text: str) -> tuple[str, tuple[str, ...]]:
        changed, figures = text, self.figures
        if figures.rate is not None:
            changed = self._with_rate(changed, rounded(figures.rate))
        if figures.alpha is not None:
            changed = self._with_alpha(changed, rounded(figures.alpha))
        ends = [self.topology.links[i] for i in self.links.links]
        gpus = sorted({end for link in ends for end in (link.src, link.dst)})
        owners = [self.topology.vertices[rank].name for rank in gpus]
        for word, value in (("reduce", figures.reduce), ("copy", figures.copy)):
            if value is not None:
                changed = self._with_set(changed, owners, f"{word} {bandwidth_text(rounded(value))}")
        return changed, self._effects(parse_topology(changed, self.name))

    def _with_rate(self, text: str, total: Fraction) -> str:
        """Return ``text`` with the rate, stated to be what transfers get, so that nothing derates it."""
        edits = []
        for statement in _statements(text, self.name):
            stated = _property(statement, "bandwidth") if _is_of(statement, self.links) else None
            if stated is not None and stated.amount is not None:
                lane = rounded(float(total) / lanes_of(stated.lanes, Findings()))
                edits.append(_replaced(text, stated.amount, bandwidth_text(lane)))
        if edits:
            text = _edited(text, edits)
        else:
            lanes = {self.topology.wires[w].lanes for w in self.links.wires}
            if len(lanes) > 1:
                raise _no_place(self.links, "bandwidth")
            rate = bandwidth_text(rounded(float(total) / min(lanes)), min(lanes))
            text = self._with_set(text, self._owners(), f"bandwidth {rate}")
        if self.links.kind.lower() in self.topology.measured:
            return text
        at, lead = self._end(text)
        return f"{text[:at]}{lead}  measured {self.links.kind}\n{text[at:]}"

    def _with_alpha(self, text: str, goal: Fraction) -> str:
        """Return ``text`` with the latency of the class's element such that the whole way has ``goal`` seconds."""
        topology, links = self.topology, self.links
        sample = next(i for i in links.links if topology.links[i].latency == links.alpha)
        if self.figures.rate is not None:
            links = replace(links, rate=rounded(self.figures.rate))
        none, once = (
            parse_topology(self._latency_set(text, links, latency), self.name).links[sample].latency
            for latency in (Fraction(0), _PROBE)
        )
        crossings = (once - none) / _PROBE
        if crossings <= 0:
            raise _no_place(links, "latency")
        latency = max(Fraction(0), (goal - none) / crossings)
        return self._latency_set(text, links, rounded(float(latency)))

    def _latency_set(self, text: str, links: LinkClass, latency: Fraction) -> str:
        """Return ``text`` with ``latency`` stated of the network's fabric, else of the element that limits."""
        shown = time_text(latency)
        statements = [item for item in _items(text, self.name) if isinstance(item, Statement)]
        statements = [s for s in statements if (_property(s, "latency") is None or _literal(text, s, "latency"))]
        first_way = (self.topology.wires[w].dst for w in self.topology.links[links.links[0]].wires)
        if any(self.topology.vertices[end].kind == "fabric" for end in first_way):
            statements = [s for s in statements if isinstance(s, Element) and s.kind == "fabric"]
        else:
            statements = [s for s in statements if _literal(text, s, "bandwidth") and _is_of(s, links)]
            statements = [s for s in statements if isinstance(s, Element)] or statements
        if not statements:
            return self._with_set(text, self._owners(latency=True), f"latency {shown}")
        edits = []
        for statement in statements:
            stated = _property(statement, "latency")
            if stated is not None and stated.amount is not None:
                edits.append(_replaced(text, stated.amount, shown))
            else:
                start = _offset(text, statement.span)
                inside = next(token.end() for token in _TOKENS.finditer(text, start) if token[0] == "{")
                edits.append((inside, inside, f" latency {shown};"))
        return _edited(text, edits)

    def _end(self, text: str) -> tuple[int, str]:
        """Return the offset for lines added to the cluster, and a line break unless its brace stands alone."""
        items = parse(checked_source(text, self.name)).items
        end = next(_closing(text, _offset(text, item.span)) for item in items if isinstance(item, syntax.Cluster))
        line = text.rfind("\n", 0, end) + 1
        return (line, "") if not text[line:end].strip() else (end, "\n")

    def _with_set(self, text: str, owners: Sequence[str], figure: str) -> str:
        """Return ``text`` with a ``set`` at the cluster's end, in place of one written before for the same."""
        if not owners:
            raise _no_place(self.links, figure.split()[0])
        at, lead = self._end(text)
        target = compressed(owners, [v.name for v in self.topology.vertices])
        added = f"set {target} {{ {figure} }}  {_CALIBRATED}"
        older = rf"(?m)^[ \t]*set {re.escape(target)} \{{ {figure.split()[0]} [^\n]*\}}  {_CALIBRATED}\n"
        return re.sub(older, "", text[:at]) + f"{lead}  {added}\n{text[at:]}"

    def _owners(self, *, latency: bool = False) -> list[str]:
        """Return the NICs, switches or buses with the class's rate; with ``latency`` the fabrics, if any."""
        vertices, wires = self.topology.vertices, self.topology.wires
        links = [self.topology.links[number] for number in self.links.links] if latency else []
        crossed = [vertices[wires[w].dst] for link in links for w in link.wires]
        owners = [vertex.name for vertex in crossed if vertex.kind == "fabric"]
        for wire in (wires[w] for w in self.links.wires) if not owners else ():
            ends = [vertices[v] for v in (wire.src, wire.dst)]
            named = [v for v in ends if v.kind == "nic"] or [v for v in ends if v.kind not in ("gpu", "fabric")]
            owners += [v.name for v in named[:1]]
        return list(dict.fromkeys(map(part_of, owners)))

    def _effects(self, after: Topology) -> tuple[str, ...]:
        """Return a sentence for each change of other links. Raise HS847 if a fitted figure did not arrive."""
        links, alpha, rate = self.links, self.figures.alpha, self.figures.rate
        if len(after.links) != len(self.topology.links):
            raise _no_place(links, "rate")
        members = set(links.links)
        others: dict[str, None] = {}
        for number, (old, new) in enumerate(zip(self.topology.links, after.links, strict=True)):
            was, is_ = (old.bandwidth * old.lanes, old.latency), (new.bandwidth * new.lanes, new.latency)
            if number not in members:
                change = f"{_titled(old.kind, *was)} becomes {_titled(new.kind, *is_)}"
                others |= {f"{change}: its way crosses what was changed": None} if was != is_ else {}
            elif rate is not None and abs(float(is_[0]) / rate - 1) > _WRITTEN:
                raise _no_place(links, "bandwidth")
            elif alpha and old.latency == links.alpha and abs(float(new.latency) / alpha - 1) > _WRITTEN:
                raise _no_place(links, "latency")
        return tuple(others)


def _titled(kind: str, rate: Fraction, latency: Fraction) -> str:
    return f"{kind} of {float(rate / 10**9):.4g} GB/s and {float(latency * 10**6):.4g} us"


def _no_place(links: LinkClass, what: str) -> HetesynthError:
    message = f"the {what} of {links.title} has no statement that could be changed to what was fitted: it "
    message += "comes from an imported file that is not the library's, from a loss (`degrade`), or from "
    message += "other parts of the way"
    help_ = "see `topo show --all`; state the figure by hand, or copy the node type into a file of yours"
    return HetesynthError(message, code="HS847", help=help_)


def _with_own_types(text: str, name: str, links: LinkClass) -> str:
    """Return ``text`` with the library's types in use that have links of the class, in place of their imports."""
    file = parse(checked_source(text, name))
    used = {item.node.text for item in _items(text, name) if isinstance(item, syntax.Instance)}
    edits = []
    for item in file.items:
        if not isinstance(item, syntax.Import) or item.is_path or (path := library_path(item.target.text)) is None:
            continue
        library = read_source(path)
        types = "\n\n".join(
            library.text[start : _closing(library.text, start)] + "}"
            for node in parse(library).items
            if isinstance(node, syntax.NodeType) and node.name.text in used
            for start in [_offset(library.text, node.span)]
        )
        if any(_is_of(statement, links) for statement in _statements(types, library.name)):
            target = _offset(text, item.target.span)
            start = text.rindex("import", 0, target)
            edits.append((start, target + item.target.span.length, f"# as in {path.name}\n{types}"))
    return _edited(text, edits)


def _items(text: str, name: str) -> list[object]:
    """Return the items of a file, and those inside its types, pods, cluster and loops."""
    items: list[object] = [*parse(checked_source(text, name)).items]
    for item in items:  # grows while it is walked
        items += item.items if isinstance(item, _Block | syntax.Loop) else ()
    return items


def _statements(text: str, name: str) -> list[Statement]:
    """Return the elements, joins and networks in the file that state a bandwidth as a plain number."""
    items = [item for item in _items(text, name) if isinstance(item, Statement)]
    return [item for item in items if _literal(text, item, "bandwidth")]


def _property(statement: Statement, name: str) -> Property | None:
    return next((p for p in statement.properties if p.name == name), None)


def _literal(text: str, statement: Statement, name: str) -> bool:
    """Return True if the figure ``name`` of a statement is a plain number in ``text``."""
    prop = _property(statement, name)
    if prop is None or not isinstance(prop.amount, Amount):
        return False
    return text.startswith(prop.amount.number, _offset(text, prop.amount.span)) and prop.amount.unit in UNITS


def _is_of(statement: Statement, links: LinkClass) -> bool:
    """Return True if a statement has the kind and the rate of a class."""
    bandwidth, kind = _property(statement, "bandwidth"), _property(statement, "kind")
    if bandwidth is None or bandwidth.amount is None:
        return False
    word = kind.words[0].text if kind is not None else _DEFAULT_KINDS.get(statement.kind, statement.kind)
    total = Fraction(bandwidth.amount.number) * UNITS[bandwidth.amount.unit][1]
    stated = float(total * lanes_of(bandwidth.lanes, Findings()))
    return word == links.kind and abs(stated / float(links.rate) - 1) < _WRITTEN


def compressed(names: Sequence[str], every: Iterable[str]) -> str:
    """Return ``names`` as one pattern where it fits no other part, else as a list."""
    chosen, parts = set(names), {part_of(name) for name in every}
    if len(chosen) == 1:
        return names[0]
    last = {name.rpartition(".")[2] for name in chosen}
    stems = {re.sub(r"\d+$", "", word) for word in last}
    for tail in [*(last if len(last) == 1 else ()), *(f"{s}*" for s in stems if len(stems) == 1)]:
        pattern = ".".join(["*"] * names[0].count(".") + [tail])
        regex = re.compile(re.escape(pattern).replace(r"\*", "[^.]*"))
        if {part for part in parts if regex.fullmatch(part)} == chosen:
            return pattern
    return ", ".join(dict.fromkeys(names))


def _edited(text: str, edits: Iterable[Edit]) -> str:
    """Return ``text`` after ``edits``, no two of which overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _offset(text: str, span: Span) -> int:
    """Return the offset in ``text`` at which ``span`` begins."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: span.line - 1]) + span.column - 1


def _closing(text: str, start: int) -> int:
    """Return the offset of the `}` that closes the first `{` at or after ``start``."""
    braces = [token for token in _TOKENS.finditer(text, start) if token[0] in "{}"]
    depths = accumulate(1 if token[0] == "{" else -1 for token in braces)
    return next(token.start() for token, depth in zip(braces, depths, strict=True) if depth == 0)


def _replaced(text: str, amount: Amount, shown: str) -> Edit:
    start = _offset(text, amount.span)
    return start, start + amount.span.length, shown
