"""The ``define`` statements of the paper form, each put where it belongs.

In: ``Define`` values in the order written. Out: ``Definitions``: the nodes and the internodes, each with the
statements that belong to it. Nodes may be defined after what names them. Knows nothing of connections.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hetesynth.topology.language import paper_values
from hetesynth.topology.language.findings import Findings, did_you_mean
from hetesynth.topology.language.syntax import Amount, Define, Value, Word

_NODE = re.compile(r"node\d{1,6}")
_OF_A_NODE = ("bandwidth", "latency", "linktype", "model", "reduce", "group", "failure", "slowdown")
_OF_ONE_NODE = ("failure", "slowdown")
_OF_AN_INTERNODE = ("interbandwidth", "interlatency", "interlinktype")
_OF_THE_CLUSTER = ("nodenum", "chunk", "intergroup")
NAMES = (*_OF_THE_CLUSTER, "node1", *_OF_A_NODE, "internode", *_OF_AN_INTERNODE)


@dataclass(slots=True)
class NodeDefinition:
    """A node: how many GPUs, or like which other node, and the statements behind it by name."""

    name: Word
    value: Value
    behind: dict[str, Define] = field(default_factory=dict)


@dataclass(slots=True)
class Internode:
    """Nodes that are joined, and the statements behind them; ``nodes`` is empty where they cannot be told."""

    name: Word
    value: Value
    nodes: tuple[Word, ...] = ()
    behind: dict[str, Define] = field(default_factory=dict)


@dataclass(slots=True)
class Definitions:
    """All statements of a file."""

    nodes: dict[str, NodeDefinition] = field(default_factory=dict)
    internodes: list[Internode] = field(default_factory=list)
    of_cluster: dict[str, Define] = field(default_factory=dict)


def gathered(defines: list[Define], findings: Findings) -> Definitions:
    """``defines`` by what they belong to, names resolved."""
    definitions = Definitions()
    gathering = _Gathering(definitions, findings)
    for define in defines:
        gathering.take(define)
    for node in definitions.nodes.values():
        _settle_likeness(node, definitions.nodes, findings)
    for internode in definitions.internodes:
        internode.nodes = _joined_nodes(internode, definitions.nodes, findings)
    return definitions


@dataclass(slots=True)
class _Gathering:
    """Statements one by one: what stands behind a node or an internode belongs to the one opened last."""

    definitions: Definitions
    findings: Findings
    _node: NodeDefinition | None = None
    _internode: Internode | None = None

    def take(self, define: Define) -> None:
        name = define.name.text
        if _NODE.fullmatch(name):
            self._open_node(define)
        elif name == "internode":
            label = Word(f"internode{len(self.definitions.internodes)}", define.name.span)
            self._internode = Internode(label, define.value)
            self.definitions.internodes.append(self._internode)
        elif name in _OF_THE_CLUSTER:
            self._put(self.definitions.of_cluster, define)
        elif name in _OF_A_NODE:
            self._behind(self._node, "a node (`define node1 = 4`)", define)
        elif name in _OF_AN_INTERNODE:
            self._behind(self._internode, "an internode (`define internode = (node1, node2)`)", define)
        else:
            help_ = did_you_mean(name, NAMES, "the names are " + ", ".join(NAMES))
            self.findings.add("HS220", define.name.span, f"`{name[:60]}` is not a name of the paper form", help_)

    def _open_node(self, define: Define) -> None:
        name = define.name.text
        self._node = NodeDefinition(define.name, define.value)
        if name in self.definitions.nodes:
            self._twice(define)
        self.definitions.nodes[name] = self._node

    def _behind(self, part: NodeDefinition | Internode | None, of: str, define: Define) -> None:
        if part is None:
            message = f"`{define.name.text}` belongs to {of}, none is defined yet"
            self.findings.add("HS221", define.name.span, message)
        else:
            self._put(part.behind, define)

    def _put(self, statements: dict[str, Define], define: Define) -> None:
        if define.name.text in statements:
            self._twice(define)
        statements[define.name.text] = define

    def _twice(self, define: Define) -> None:
        message = f"`{define.name.text}` is defined twice"
        self.findings.add("HS203", define.name.span, message, "keep one of them")


def _settle_likeness(node: NodeDefinition, nodes: dict[str, NodeDefinition], findings: Findings) -> None:
    """``define node2 = node1``: node2 has what node1 has, but for failures, where nothing behind it says else."""
    passed = {node.name.text}
    value = paper_values.stripped(node.value)
    while isinstance(value, Word):
        like = nodes.get(value.text)
        if like is None:
            help_ = did_you_mean(value.text, nodes, "a node has a number of GPUs: `define node1 = 4`")
            findings.add("HS201", value.span, f"there is no node `{value.text[:60]}`", help_)
            return
        if value.text in passed:
            message = f"`{node.name.text}` is defined by itself"
            findings.add("HS221", value.span, message, "give one of the nodes a number of GPUs")
            return
        passed.add(value.text)
        inherited = {name: define for name, define in like.behind.items() if name not in _OF_ONE_NODE}
        node.behind = inherited | node.behind
        value = paper_values.stripped(like.value)
    node.value = value


def gpu_count(node: NodeDefinition, findings: Findings) -> Amount | None:
    """The number of GPUs as written."""
    return amount_of(node.name, node.value, findings)


def amount_of(name: Word, value: Value, findings: Findings) -> Amount | None:
    """``value`` as a number; None, with a finding, when it is something else."""
    value = paper_values.stripped(value)
    if isinstance(value, Amount):
        return value
    if not (isinstance(value, Word) and _NODE.fullmatch(name.text)):  # a likeness has its finding
        findings.add("HS221", name.span, f"`{name.text}` takes a number", "write it like `= 2`")
    return None


def _joined_nodes(internode: Internode, nodes: dict[str, NodeDefinition], findings: Findings) -> tuple[Word, ...]:
    """The nodes that ``internode`` names; none, with a finding, where they are not two different ones or more."""
    names = paper_values.words(internode.value)
    if names is None or len(names) < 2:
        message = "`internode` takes two nodes or more"
        findings.add("HS221", internode.name.span, message, "write it like `define internode = (node1, node2)`")
        return ()
    seen: set[str] = set()
    for word in names:
        if word.text not in nodes:
            help_ = did_you_mean(word.text, nodes, "define the node: `define node1 = 4`")
            findings.add("HS201", word.span, f"there is no node `{word.text[:60]}`", help_)
            return ()
        if word.text in seen:
            findings.add("HS218", word.span, f"`{word.text}` is joined to itself", "name each node once")
            return ()
        seen.add(word.text)
    return names
