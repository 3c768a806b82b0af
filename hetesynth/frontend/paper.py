"""The paper form (HeteCCL, Appendix A, Figure 10), lowered to the block form.

In: a ``File`` of ``define`` statements. Out: a ``File`` of node types and one cluster, with the original spans.
Bandwidths without a unit are GB/s a lane and one direction, as in the figure. GPU numbers are local to a node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from pathlib import Path

from hetesynth.frontend import paper_values
from hetesynth.frontend.findings import Findings, did_you_mean
from hetesynth.frontend.paper_values import Ends
from hetesynth.frontend.syntax import (
    Amount,
    Cluster,
    ClusterItem,
    Define,
    Element,
    File,
    Gpus,
    Instance,
    Join,
    Mapping,
    NodeItem,
    NodeType,
    Property,
    Value,
    Word,
)
from hetesynth.frontend.units import count

_NODE = re.compile(r"node\d{1,6}")
_NAMES = (
    "nodenum",
    "node1",
    "bandwidth",
    "latency",
    "reduce",
    "internode",
    "interbandwidth",
    "interlatency",
    "chunk",
)


def lowered(file: File, findings: Findings) -> File:
    """``file`` with its ``define`` statements replaced by node types and a cluster; else unchanged."""
    defines = [item for item in file.items if isinstance(item, Define)]
    if not defines:
        return file
    others = [item for item in file.items if not isinstance(item, Define)]
    if others:
        help_ = "keep either the `define` statements or the `node` and `cluster` blocks"
        findings.add("HS222", defines[0].span, "a file is in the paper form or in the block form, not both", help_)
        findings.raise_any()
    lowering = _Lowering(findings)
    for define in defines:
        lowering.take(define)
    return File(file.name, lowering.items(defines[0]))


@dataclass(slots=True)
class _Part:
    """A node, or a pair of nodes, with the bandwidth and latency defined for it."""

    name: Word
    nodes: tuple[Word, ...]
    count: Amount | None = None
    bandwidth: Mapping | None = None
    latency: Mapping | None = None
    reduce: Property | None = None


@dataclass(slots=True)
class _Lowering:
    findings: Findings
    nodes: dict[str, _Part] = field(default_factory=dict)
    pairs: list[_Part] = field(default_factory=list)
    nodenum: Amount | None = None
    chunk: Property | None = None
    _node: _Part | None = None
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def take(self, define: Define) -> None:
        """One ``define``: it opens a node or a pair, or belongs to the one opened last."""
        name = define.name.text
        if _NODE.fullmatch(name):
            self._open_node(define)
        elif name == "internode":
            self._open_pair(define)
        elif name == "nodenum":
            self._once("nodenum", define, self.nodenum is None)
            self.nodenum = self._amount(define)
        elif name == "chunk":
            self._once("chunk", define, self.chunk is None)
            self.chunk = Property("chunk", define.name.span, amount=self._amount(define))
        elif name in ("bandwidth", "latency", "reduce"):
            self._into(self._node, "a node (`define node1 = 4`)", name, define)
        elif name in ("interbandwidth", "interlatency"):
            pair = self.pairs[-1] if self.pairs else None
            self._into(pair, "a pair of nodes (`define internode = (node1, node2)`)", name[5:], define)
        else:
            help_ = did_you_mean(name, _NAMES, "the names are " + ", ".join(_NAMES))
            self.findings.add("HS220", define.name.span, f"`{name[:60]}` is not a name of the paper form", help_)

    def _once(self, name: str, define: Define, first: bool) -> None:
        if not first:
            self.findings.add("HS203", define.name.span, f"`{name}` is defined twice", "keep one of them")

    def _open_node(self, define: Define) -> None:
        name = define.name.text
        self._once(name, define, name not in self.nodes)
        self._node = _Part(define.name, (define.name,), self._amount(define))
        self.nodes[name] = self._node

    def _open_pair(self, define: Define) -> None:
        names = paper_values.words(define.value)
        if names is None or len(names) != 2:
            message = "`internode` takes two nodes"
            self.findings.add(
                "HS221", define.name.span, message, "write it like `define internode = (node1, node2)`"
            )
            names = ()
        for word in names:
            if word.text not in self.nodes:
                help_ = did_you_mean(word.text, self.nodes, "define the node before: `define node1 = 4`")
                self.findings.add("HS201", word.span, f"there is no node `{word.text[:60]}`", help_)
                names = ()
        if len(names) == 2 and names[0].text == names[1].text:
            self.findings.add("HS218", names[1].span, f"`{names[1].text}` is joined to itself", "name two nodes")
            names = ()
        label = Word(f"internode{len(self.pairs)}", define.name.span)
        self.pairs.append(_Part(label, tuple(names)))

    def _into(self, part: _Part | None, of: str, name: str, define: Define) -> None:
        if part is None:
            self.findings.add(
                "HS221", define.name.span, f"`{define.name.text}` belongs to {of}, none is defined yet"
            )
            return
        self._once(define.name.text, define, (id(part), name) not in self._seen)
        self._seen.add((id(part), name))
        if name == "reduce":
            part.reduce = Property("reduce", define.name.span, amount=self._amount(define))
        elif not isinstance(define.value, Mapping):
            help_ = "write it like `{direct => [...], switch => [...]}`"
            self.findings.add("HS221", define.name.span, f"`{define.name.text}` takes a mapping", help_)
        elif name == "bandwidth":
            part.bandwidth = define.value
        else:
            part.latency = define.value

    def _amount(self, define: Define) -> Amount | None:
        value = paper_values.stripped(define.value)
        if isinstance(value, Amount):
            return value
        self.findings.add("HS221", define.name.span, f"`{define.name.text}` takes a number", "write it like `= 2`")
        return None

    # --- the block form

    def items(self, first: Define) -> tuple[NodeType | Cluster, ...]:
        """The node types and the cluster."""
        self._check_nodenum(first)
        types = [self._node_type(part) for part in self.nodes.values()]
        inside: list[ClusterItem] = [self.chunk] if self.chunk is not None else []
        inside += [Instance(p.name, p.name, None, (), p.name.span) for p in self.nodes.values()]
        for pair in self.pairs:
            inside += self._between(pair, "net") if pair.nodes else []
        return (*types, Cluster(Word(_named_after(first.span.file), first.span), tuple(inside), first.span))

    def _check_nodenum(self, first: Define) -> None:
        if self.nodenum is None:
            span = first.span
            self.findings.add("HS221", span, "`nodenum` is missing", f"add `define nodenum = {len(self.nodes)}`")
            return
        stated = count(self.nodenum, "nodenum", 1024, self.findings)
        if stated is not None and stated != len(self.nodes):
            message = f"nodenum is {stated}, but {len(self.nodes)} nodes are defined"
            self.findings.add(
                "HS221", self.nodenum.span, message, f"define node1 to node{stated}, or change nodenum"
            )

    def _node_type(self, part: _Part) -> NodeType:
        items: list[NodeItem] = [Gpus(part.count, (), part.name.span)] if part.count is not None else []
        if part.reduce is not None:
            items.append(part.reduce)
        items += self._between(part, "switch")
        return NodeType(part.name, tuple(items), part.name.span)

    def _between(self, part: _Part, pipe_kind: str) -> list[Join | Element]:
        """The wires (direct) and pipes (switch) of a node or a pair of nodes."""
        connections: list[Join | Element] = []
        pipes = 0
        latency = self._latencies(part)
        for entry in part.bandwidth.entries if part.bandwidth is not None else ():
            if entry.key.text not in ("direct", "switch"):
                help_ = did_you_mean(entry.key.text, ("direct", "switch"))
                self.findings.add("HS220", entry.key.span, "a connection is `direct` or `switch`", help_)
                continue
            extra = latency.get(entry.key.text)
            for ends in paper_values.connections(entry.value, entry.key.text, self.findings):
                if entry.key.text == "direct":
                    connections.append(self._direct(part, ends, extra))
                else:
                    stem = "switch" if pipe_kind == "switch" else f"{part.name.text}_"
                    connections.append(self._pipe(part, Word(f"{stem}{pipes}", ends.span), ends, pipe_kind, extra))
                    pipes += 1
        return connections

    def _latencies(self, part: _Part) -> dict[str, Property]:
        latencies: dict[str, Property] = {}
        for entry in part.latency.entries if part.latency is not None else ():
            value: Value = paper_values.stripped(entry.value)
            if entry.key.text in ("direct", "switch") and isinstance(value, Amount):
                latencies[entry.key.text] = Property("latency", entry.key.span, amount=value)
            else:
                help_ = "write it like `define latency = {direct => 0.7 us, switch => 1.3 us}`"
                self.findings.add("HS221", entry.key.span, "a latency maps `direct` or `switch` to a time", help_)
        return latencies

    def _direct(self, part: _Part, ends: Ends, latency: Property | None) -> Join:
        left, right = (_gpus(part, side, ids) for side, ids in enumerate(ends.sides))
        return Join("link", left, right, False, _properties(ends, "direct", latency), ends.span)

    def _pipe(self, part: _Part, name: Word, ends: Ends, kind: str, latency: Property | None) -> Element:
        left, right = (_gpus(part, side, ids) for side, ids in enumerate(ends.sides))
        members = Property("members", ends.span, words=left, far=right)
        properties = (members, *_properties(ends, kind, latency))
        return Element("fabric" if kind == "net" else "switch", name, properties, ends.span)


def _properties(ends: Ends, kind: str, latency: Property | None) -> tuple[Property, ...]:
    rate = Property("bandwidth", ends.bandwidth.span, amount=ends.bandwidth, lanes=ends.lanes)
    stated = (rate, Property("kind", ends.span, words=(Word(kind, ends.span),)))
    return stated if latency is None else (*stated, latency)


def _gpus(part: _Part, side: int, ids: Many[Amount]) -> tuple[Word, ...]:
    """The GPUs of a side by name: local in a node, with the node's name between two."""
    prefix = f"{part.nodes[side].text}." if len(part.nodes) == 2 else ""
    return tuple(Word(f"{prefix}gpu{amount.number}", amount.span) for amount in ids)


def _named_after(file: str) -> str:
    """The paper's form names no cluster: take the file's name, or its folder's where the file is ``topo.dsl``."""
    if file.startswith("<"):
        return "cluster"
    path = Path(file).absolute()
    name = path.parent.name if path.stem in ("topo", "topology") else path.stem
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "cluster"
