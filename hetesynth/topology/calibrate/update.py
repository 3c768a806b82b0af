"""Edits of a text by place: replaced and inserted pieces, everything else as it was.

In: a text and edits. Out: the new text. Two edits must not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Span
from hetesynth.model.topology import Topology
from hetesynth.topology.calibrate.link_class import LinkClass
from hetesynth.topology.importers.wording import bandwidth as bandwidth_text
from hetesynth.topology.importers.wording import time as time_text
from hetesynth.topology.language import parse_topology
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.language import library_path
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.properties import lanes_of
from hetesynth.topology.language.source import checked_source, read_source
from hetesynth.topology.language.syntax import (
    Amount,
    Cluster,
    Element,
    Import,
    Instance,
    Join,
    Loop,
    Network,
    NodeType,
    PodType,
    Property,
)
from hetesynth.topology.language.units import UNITS

CALIBRATED = "# calibrated:"

_TOKENS = re.compile(r'(?:#|//)[^\n]*|"[^"\n]*"|[{}]')


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from ``start`` to ``end`` (exclusive) become ``text``."""

    start: int
    end: int
    text: str

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"an edit from {self.start} to {self.end}")


def edited(text: str, edits: Iterable[Edit]) -> str:
    """``text`` after ``edits``."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at:
            raise ValueError("two edits overlap")
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*pieces, text[at:]])


def offset(text: str, span: Span) -> int:
    """Where ``span`` begins in ``text``."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: span.line - 1]) + span.column - 1


def opening(text: str, start: int) -> int | None:
    """Behind the first `{` at or after ``start``."""
    for token in _TOKENS.finditer(text, start):
        if token[0] == "{":
            return token.end()
    return None


def closing(text: str, start: int) -> int | None:
    """The `}` that closes the first `{` at or after ``start``."""
    depth = 0
    for token in _TOKENS.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if token[0] == "}" and depth == 0:
            return token.start()
    return None


def noted(text: str, start: int, note: str) -> Edit:
    """``note`` as a comment on the line above that of ``start``, in place of an older one."""
    line = text.rfind("\n", 0, start) + 1
    indent = text[line : line + len(text[line:]) - len(text[line:].lstrip(" \t"))]
    before = text.rfind("\n", 0, max(0, line - 1)) + 1
    begin = before if line and text[before:line].lstrip().startswith(CALIBRATED) else line
    return Edit(begin, line, f"{indent}{CALIBRATED} {note}\n")


_DIGITS = 4
_WRITTEN = 1e-3  # a figure has four digits
_DEFAULT_KINDS = {
    **dict.fromkeys(("link", "mesh", "ring", "grid", "torus", "hypercube"), "direct"),
    **dict.fromkeys(("nic", "fabric"), "net"),
}
_MICRO = Fraction(1, 10**6)
_GIGA = 10**9
_PROBE = 2 * _MICRO

Statement = Element | Join | Network


@dataclass(frozen=True, slots=True)
class Figures:
    """What to write: seconds and bytes per second; None leaves the file as it is."""

    alpha: float | None = None
    rate: float | None = None
    reduce: float | None = None
    copy: float | None = None


def updated(
    text: str, name: str, topology: Topology, links: LinkClass, figures: Figures, note: str
) -> tuple[str, tuple[str, ...]]:
    """``text`` with ``figures``, and what else that changes; HetesynthError HS847 where a figure has no place."""
    try:
        return _updated(text, name, topology, links, figures, note)
    except HetesynthError as error:
        own = _with_own_types(text, name, links) if error.code == "HS847" else text
        if own == text:
            raise
        return _updated(own, name, topology, links, figures, note)


def _updated(
    text: str, name: str, topology: Topology, links: LinkClass, figures: Figures, note: str
) -> tuple[str, tuple[str, ...]]:
    changed = text
    if figures.rate is not None:
        changed = _with_rate(changed, name, topology, links, figures.rate, note)
        changed = _as_measured(changed, name, topology, links)
    if figures.alpha is not None:
        changed = _with_alpha(changed, name, topology, links, figures, note)
    for word, value in (("reduce", figures.reduce), ("copy", figures.copy)):
        if value is not None:
            changed = _with_gpus(changed, name, topology, links, word, value, note)
    return changed, _effects(topology, parse_topology(changed, name), links, figures)


def rounded(value: float) -> Fraction:
    """``value`` with four significant digits, as it is written."""
    return Fraction(f"{value:.{_DIGITS - 1}e}")


def _with_own_types(text: str, name: str, links: LinkClass) -> str:
    """``text`` with the library's node types that have such links in place of their imports."""
    file = parse(checked_source(text, name))
    used = {item.node.text for item in _all_items(text, name) if isinstance(item, Instance)}
    edits = []
    for item in file.items:
        if not isinstance(item, Import) or item.is_path or (path := library_path(item.target.text)) is None:
            continue
        library = read_source(path)
        types = "\n\n".join(
            library.text[start : closing(library.text, start)] + "}"
            for node in parse(library).items
            if isinstance(node, NodeType) and node.name.text in used
            for start in [offset(library.text, node.span)]
        )
        if any(_is_of(statement, links) for statement in _statements(types, library.name)):
            target = offset(text, item.target.span)
            start = text.rindex("import", 0, target)
            edits.append(Edit(start, target + item.target.span.length, f"# as in {path.name}\n{types}"))
    return edited(text, edits)


# --- bandwidths


def _with_rate(text: str, name: str, topology: Topology, links: LinkClass, rate: float, note: str) -> str:
    total = rounded(rate)
    statements = [s for s in _statements(text, name) if _is_of(s, links)]
    if statements:
        edits: list[Edit] = []
        for statement in statements:
            bandwidth = _property(statement, "bandwidth")
            if bandwidth is None or bandwidth.amount is None:
                continue
            lanes = lanes_of(bandwidth.lanes, Findings())
            edits.append(_replaced(text, bandwidth.amount, bandwidth_text(rounded(float(total) / lanes))))
        return edited(text, [*edits, *_notes(text, statements, note)])
    owners = _owners(topology, links)
    several = topology.wires[links.wires[0]].lanes
    if not owners or {topology.wires[w].lanes for w in links.wires} != {several}:
        raise _no_place(links, "bandwidth")
    per_lane = rounded(float(total) / several)
    shown = bandwidth_text(per_lane) + (f" x {several}" if several > 1 else "")
    return _with_set(text, name, topology, owners, f"bandwidth {shown}", note)


def _statements(text: str, name: str) -> list[Statement]:
    """The elements and joins in the file itself that state a bandwidth in so many figures."""
    return [s for s in _all_statements(text, name) if _literal(text, _property(s, "bandwidth"))]


def _all_statements(text: str, name: str) -> list[Statement]:
    return [item for item in _all_items(text, name) if isinstance(item, (Element, Join, Network))]


def _all_items(text: str, name: str) -> list[object]:
    """What stands in types and in the cluster, inside of loops too."""
    file = parse(checked_source(text, name))
    todo: list[object] = [item for item in file.items if isinstance(item, (NodeType, PodType, Cluster))]
    inside: list[object] = []
    while todo:
        item = todo.pop(0)
        if isinstance(item, (NodeType, PodType, Cluster, Loop)):
            todo += item.items
        else:
            inside.append(item)
    return inside


def _property(statement: Statement, name: str) -> Property | None:
    return next((p for p in statement.properties if p.name == name), None)


def _literal(text: str, prop: Property | None) -> bool:
    if prop is None or not isinstance(prop.amount, Amount):
        return False
    start = offset(text, prop.amount.span)
    return text.startswith(prop.amount.number, start) and prop.amount.unit in UNITS


def _is_of(statement: Statement, links: LinkClass) -> bool:
    bandwidth, kind = _property(statement, "bandwidth"), _property(statement, "kind")
    if bandwidth is None or bandwidth.amount is None:
        return False
    word = kind.words[0].text if kind is not None else _DEFAULT_KINDS.get(statement.kind, statement.kind)
    total = Fraction(bandwidth.amount.number) * UNITS[bandwidth.amount.unit][1]
    stated = float(total * lanes_of(bandwidth.lanes, Findings()))
    return word == links.kind and abs(stated / float(links.rate) - 1) < _WRITTEN


def _replaced(text: str, amount: Amount, shown: str) -> Edit:
    start = offset(text, amount.span)
    return Edit(start, start + amount.span.length, shown)


def _notes(text: str, statements: Iterable[Statement], note: str) -> list[Edit]:
    lines = {s.span.line: s for s in statements}
    notes = [noted(text, offset(text, s.span), note) for s in lines.values()]
    return list({(e.start, e.end): e for e in notes}.values())


# --- latencies


def _with_alpha(text: str, name: str, topology: Topology, links: LinkClass, figures: Figures, note: str) -> str:
    """The latency of the element that stands for the class, so that all of the way has ``alpha``."""
    goal = rounded(figures.alpha or 0.0)
    sample = next(i for i in links.links if topology.links[i].latency == links.alpha)
    if figures.rate is not None:
        links = replace(links, rate=rounded(figures.rate))
    none = _alpha_of(_latency_set(text, name, topology, links, Fraction(0), note), name, sample)
    once = _alpha_of(_latency_set(text, name, topology, links, _PROBE, note), name, sample)
    crossings = (once - none) / _PROBE
    if crossings <= 0:
        raise _no_place(links, "latency")
    latency = max(Fraction(0), (goal - none) / crossings)
    return _latency_set(text, name, topology, links, rounded(float(latency)), note)


def _alpha_of(text: str, name: str, sample: int) -> Fraction:
    return parse_topology(text, name).links[sample].latency


def _latency_set(text: str, name: str, topology: Topology, links: LinkClass, latency: Fraction, note: str) -> str:
    shown = time_text(latency)
    statements = _latency_statements(text, name, topology, links)
    if statements:
        edits = [_latency_edit(text, statement, shown) for statement in statements]
        return edited(text, [*edits, *_notes(text, statements, note)])
    owners = _owners(topology, links, latency=True)
    if not owners:
        raise _no_place(links, "latency")
    return _with_set(text, name, topology, owners, f"latency {shown}", note)


def _latency_statements(text: str, name: str, topology: Topology, links: LinkClass) -> list[Statement]:
    """What holds the latency, where the file itself states it: the fabric of a network, else what limits."""
    items = [s for s in _all_statements(text, name) if _takes_a_latency(text, s)]
    if not any(topology.vertices[topology.wires[w].dst].kind == "fabric" for w in _path_wires(topology, links)):
        limiting = [s for s in items if _literal(text, _property(s, "bandwidth")) and _is_of(s, links)]
        return [s for s in limiting if isinstance(s, Element)] or limiting
    return [s for s in items if isinstance(s, Element) and s.kind == "fabric"]


def _takes_a_latency(text: str, statement: Statement) -> bool:
    """Whether its latency stands there in figures, or not at all."""
    latency = _property(statement, "latency")
    return latency is None or _literal(text, latency)


def _latency_edit(text: str, statement: Statement, shown: str) -> Edit:
    latency = _property(statement, "latency")
    if latency is not None and latency.amount is not None:
        return _replaced(text, latency.amount, shown)
    bandwidth = _property(statement, "bandwidth")
    if bandwidth is not None:
        before = offset(text, bandwidth.span)
        return Edit(before, before, f"latency {shown}; ")
    inside = opening(text, offset(text, statement.span)) or offset(text, statement.span)
    return Edit(inside, inside, f" latency {shown};")


# --- figures stated by `set`


def _with_gpus(
    text: str, name: str, topology: Topology, links: LinkClass, word: str, value: float, note: str
) -> str:  # fmt: skip
    ends = {end for i in links.links for end in (topology.links[i].src, topology.links[i].dst)}
    owners = [topology.vertices[rank].name for rank in sorted(ends)]
    return _with_set(text, name, topology, owners, f"{word} {bandwidth_text(rounded(value))}", note)


def _with_set(
    text: str, name: str, topology: Topology, owners: Sequence[str], figure: str, note: str
) -> str:  # fmt: skip
    """A ``set`` before the cluster's closing brace, in place of one that was written for the same before."""
    cluster = next(i for i in parse(checked_source(text, name)).items if isinstance(i, Cluster))
    end = closing(text, offset(text, cluster.span))
    if end is None:
        raise HetesynthError("the cluster has no end", code="HS847", help="state the cluster in the block form")
    target = compressed(owners, [v.name for v in topology.vertices])
    word = figure.split()[0]
    before = re.compile(
        rf"[ \t]*{re.escape(CALIBRATED)}[^\n]*\n[ \t]*set {re.escape(target)} \{{ {word} [^\n]*\}}\n"
    )
    line = text.rfind("\n", 0, end) + 1
    at = line if not text[line:end].strip() else end
    lead = "" if at == line else "\n"
    statement = f"{lead}  {CALIBRATED} {note}\n  set {target} {{ {figure} }}\n"
    old = before.search(text, offset(text, cluster.span), end)
    removed = [Edit(old.start(), old.end(), "")] if old is not None else []
    return edited(text, [*removed, Edit(at, at, statement)])


def _as_measured(text: str, name: str, topology: Topology, links: LinkClass) -> str:
    """``text`` with a statement that the rates of ``links`` are what transfers get, so that nothing derates them;
    the paper form has none."""
    cluster = next(i for i in parse(checked_source(text, name)).items if isinstance(i, Cluster))
    end = closing(text, offset(text, cluster.span))
    if end is None or links.kind.lower() in topology.measured:
        return text
    line = text.rfind("\n", 0, end) + 1
    at, lead = (line, "") if not text[line:end].strip() else (end, "\n")
    return edited(text, [Edit(at, at, f"{lead}  measured {links.kind}\n")])


def _path_wires(topology: Topology, links: LinkClass) -> tuple[int, ...]:
    return topology.links[links.links[0]].wires


def _owners(topology: Topology, links: LinkClass, *, latency: bool = False) -> list[str]:
    """The parts whose figures these are: NICs, switches, buses; of latencies, the fabric where there is one."""
    owners: dict[str, None] = {}
    for number in links.links if latency else ():
        fabric = [topology.vertices[topology.wires[w].dst] for w in topology.links[number].wires]
        owners.update(dict.fromkeys(_part(v.name) for v in fabric if v.kind == "fabric"))
    if owners:
        return list(owners)
    for wire in links.wires:
        ends = [topology.vertices[v] for v in (topology.wires[wire].src, topology.wires[wire].dst)]
        parts = [v for v in ends if v.kind == "nic"] or [v for v in ends if v.kind not in ("gpu", "fabric")]
        if parts:
            owners[_part(parts[0].name)] = None
    return list(owners)


def _part(vertex: str) -> str:
    """A bus has several vertices: ``a.pcie0.fwd.in`` is of ``a.pcie0``."""
    return re.sub(r"(\.(fwd|rev))?\.(in|out)$", "", vertex)


def compressed(names: Sequence[str], every: Iterable[str]) -> str:
    """``names`` as one pattern where it fits no other part, else as a list."""
    chosen, parts = set(names), {_part(name) for name in every}
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


def _no_place(links: LinkClass, what: str) -> HetesynthError:
    return HetesynthError(
        f"the {what} of {links.title} has no statement that could be changed: it comes from an imported file "
        "that is not the library's, from a loss (`degrade`), or another part of the way limits it",
        code="HS847",
        help="see `topo show --all`; state the figure by hand, or copy the node type into a file of yours",
    )


def _effects(before: Topology, after: Topology, links: LinkClass, figures: Figures) -> tuple[str, ...]:
    """What else changed, a sentence for each class; HS847 where the links have not the fitted figures."""
    if len(after.links) != len(before.links):
        raise HetesynthError("there would be other links then", code="HS847", help="state the figures by hand")
    members = set(links.links)
    others: dict[str, None] = {}
    for number, (old, new) in enumerate(zip(before.links, after.links, strict=True)):
        was, is_ = (old.bandwidth * old.lanes, old.latency), (new.bandwidth * new.lanes, new.latency)
        if number in members:
            _demand_figures(links, figures, old.latency, *is_)
        elif was != is_:
            change = f"{_titled(old.kind, was)} becomes {_titled(new.kind, is_)}"
            others[f"{change}: its way crosses what was changed"] = None
    return tuple(others)


def _demand_figures(links: LinkClass, figures: Figures, was: Fraction, rate: Fraction, latency: Fraction) -> None:
    if figures.rate is not None and abs(float(rate) / figures.rate - 1) > _WRITTEN:
        raise _no_place(links, "bandwidth")
    alpha = figures.alpha
    if alpha is not None and was == links.alpha and abs(float(latency) / (alpha or 1) - 1) > _WRITTEN:
        rest = time_text(latency)
        raise HetesynthError(
            f"links of {links.title} cannot have {alpha * 1e6:.4g} us: other parts of their way leave {rest}",
            code="HS847",
            help="calibrate what these parts are made of first, or state their latencies by hand",
        )


def _titled(kind: str, character: tuple[Fraction, Fraction]) -> str:
    return f"{kind} of {float(character[0] / _GIGA):.4g} GB/s and {float(character[1] / _MICRO):.4g} us"
