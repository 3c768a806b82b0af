"""The paper form (HeteCCL, Appendix A, Figure 10), lowered to node types and one cluster with the original spans.

GPU numbers are local to a node. Values are nested tuples like ``[( (0,1) -> (25,2) )]``, whatever redundant
parentheses surround them; the figure's own ``( (0,1), (2,3) >-> (16,1) )`` means the same as with the sides in
parentheses. Bandwidths without a unit are GB/s a lane and one direction, latencies without one microseconds.

What a GPU sends over ``switch`` connections and NICs passes the PCIe switch that it shares with others, where
there is one; ``direct``, ``mesh`` and ``port`` connections do not.

An internode without connections joins the NICs of its nodes by one switch. One with connections joins GPUs: a
wire each for ``direct``, a pipe for ``switch``. There the GPUs that a node names in an entry are those that share
a NIC: where a node names them in several pairs of nodes, a stated group in each direction limits all their links.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Span
from hetesynth.topology.language import syntax
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.syntax import Amount, Define, Edge, Element, Flow, Join, Property, Value, Word
from hetesynth.topology.language.units import count, lanes_of, measure

_Sort = TypeVar("_Sort", Amount, Word)

MAX_NODES = 1024
MAX_NAME = 60
_WORK_OF_A_PIPE = 100  # in names matched: what making one takes
_WORK_OF_A_CONNECTION = 128  # what reading one takes

_NODE = re.compile(r"node\d{1,6}")
_OF_A_NODE = ("bandwidth", "latency", "linktype", "model", "reduce", "group", "failure", "slowdown")
_OF_ONE_NODE = ("failure", "slowdown")
_OF_AN_INTERNODE = ("interbandwidth", "interlatency", "interlinktype")
_OF_THE_CLUSTER = ("nodenum", "chunk", "intergroup")
NAMES = (*_OF_THE_CLUSTER, "node1", *_OF_A_NODE, "internode", *_OF_AN_INTERNODE)

IN_A_NODE = {  # link types by the sort of a connection
    "direct": "direct",
    "mesh": "direct",
    "port": "switch",
    "switch": "switch",
    "pcie": "pcie",
    "nic": "net",
}
BETWEEN_NODES = {"direct": "direct", "switch": "net"}
_EXAMPLES = {
    "direct": "(0,1) -> (25,2)",
    "mesh": "(0,1,2,3) -> (25,2)",
    "port": "(0,1,2,3) -> (450,1)",
    "switch": "((0,1),(2,3)) >-> (16,1)",
    "pcie": "(0,1) >-> (16,1)",
    "nic": "(0,1) >-> (50,1)",
    "latency": "{direct => 0.7 us, switch => 1.3 us}",
    "linktype": "{direct => nvlink, switch => pcie}",
    "group": "{upi => ([(0,1) -> (2,3)], (48,1))}",
    "intergroup": "{core => ([(node1) -> (node2, node3.gpu0)], (10,1))}",
    "failure": "{gpu => (3)}",
    "slowdown": "{nic => 18 Gbps}` or `{nic => [(0,1) -> (18 Gbps,1)]}",
    "bandwidth": "{direct => [(0,1) -> (25,2)]}",
    "model": "define model = V100",
    "internode": "define internode = (node1, node2)",
}
_SLOWED = {part: part for part in ("nic", "port", "switch", "pcie")}
_FAILED = {"gpu": "gpu", **_SLOWED}


@dataclass(frozen=True, slots=True)
class Rate:
    """``(25, 2, 0.7 us)``: the bandwidth of a lane, the number of lanes, the latency."""

    bandwidth: Amount
    lanes: Amount | None = None
    latency: Amount | None = None

    def properties(self) -> tuple[Property, ...]:
        """Return the bandwidth, and the latency if there is one, as properties."""
        bandwidth = Property("bandwidth", self.bandwidth.span, amount=self.bandwidth, lanes=self.lanes)
        return bandwidth, *([] if self.latency is None else [time_property(self.latency, self.latency.span)])


@dataclass(frozen=True, slots=True)
class Connection:
    """The GPU numbers of its sides and its rate; ``number`` counts the entries of its ``sort``."""

    sides: tuple[tuple[Amount, ...], ...]
    rate: Rate
    span: Span
    sort: str
    number: int = 0
    properties: tuple[Property, ...] = ()


@dataclass(slots=True)
class _Owner:
    """A node (its number of GPUs, or the node it is like) or an internode, and its statements by name."""

    name: Word
    value: Value
    behind: dict[str, Define] = field(default_factory=dict)
    nodes: tuple[Word, ...] = ()  # of an internode, none where they cannot be told
    pcie: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)  # of GPUs: switch, GPUs behind it
    has_nics: bool = False


# One pair of nodes, GPUs of a node that share a NIC in it, those of the other node, and what is stated.
_Use = tuple[int, tuple[Word, ...], tuple[Word, ...], Connection]


def lowered(file: syntax.File, findings: Findings) -> syntax.File:
    """Return ``file`` with its ``define`` statements replaced by node types and a cluster; else unchanged."""
    defines = [item for item in file.items if isinstance(item, Define)]
    if not defines:
        return file
    span = defines[0].span
    if len(defines) < len(file.items):
        help_ = "keep either the `define` statements or the `node` and `cluster` blocks"
        findings.add("HS222", span, "a file is in the paper form or in the block form, not both", help_)
        findings.raise_any()
    lowering = _Lowering(findings)
    lowering.gather(defines)
    findings.limit(len(lowering.nodes), MAX_NODES, "nodes", span)
    nodes = [lowering.node(node) for node in lowering.nodes.values()]
    chunk = lowering.of_cluster.get("chunk")
    sizes = [] if chunk is None else [Property("chunk", chunk.name.span, amount=lowering.value(chunk, Amount))]
    network = lowering.network()
    groups = lowering.groups(lowering.of_cluster.get("intergroup"))
    name = "cluster"  # the form names none: take the file's name, or its folder's where that says no more
    if not span.file.startswith("<"):
        path = Path(span.file).absolute()
        name = path.parent.name if path.stem in ("topo", "topology", "paper") else path.stem
        name = re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_NAME]) or "cluster"
    items = (*sizes, *(instance for _, instance in nodes), *network, *groups)
    cluster = syntax.Cluster(Word(name, span), items, span)
    return syntax.File(file.name, (*(node for node, _ in nodes), cluster))


@dataclass(slots=True)
class _Lowering:
    """A file of the paper form: its statements by their node, internode or cluster, nodes as they are defined."""

    findings: Findings
    nodes: dict[str, _Owner] = field(default_factory=dict)
    internodes: list[_Owner] = field(default_factory=list)
    of_cluster: dict[str, Define] = field(default_factory=dict)
    _uses: dict[str, dict[frozenset[str], list[_Use]]] = field(default_factory=dict)
    _wired: set[tuple[str, str]] = field(default_factory=set)
    _pairs: int = 0

    # --- statements by what they belong to

    def gather(self, defines: list[Define]) -> None:
        """Give each statement to the node or internode opened last, or to the cluster, and resolve names."""
        opened: dict[bool, _Owner] = {}  # the last node, the last internode
        for define in defines:
            name, span = define.name.text, define.name.span
            if _NODE.fullmatch(name):
                opened[False] = _Owner(define.name, define.value)
                self._put(self.nodes, define, opened[False])
            elif name == "internode":
                opened[True] = _Owner(Word(f"internode{len(self.internodes)}", span), define.value)
                self.internodes.append(opened[True])
            elif name in _OF_THE_CLUSTER:
                self._put(self.of_cluster, define, define)
            elif name not in NAMES:
                help_ = did_you_mean(name, NAMES, "the names are " + ", ".join(NAMES))
                self.findings.add("HS220", span, f"`{name[:60]}` is not a name of the paper form", help_)
            elif (name in _OF_AN_INTERNODE) in opened:
                self._put(opened[name in _OF_AN_INTERNODE].behind, define, define)
            else:
                self.findings.add("HS221", span, f"nothing is defined yet that `{name}` could belong to")
        for node in self.nodes.values():  # which may be defined after what names them
            self._settle(node)
        for internode in self.internodes:
            names = words(internode.value)
            if len(names) < 2 or len({word.text for word in names}) < len(names):
                refuse("internode", internode.name.span, self.findings)
            elif all(self._known(word) for word in names):
                internode.nodes = names
        nodenum = self.of_cluster.get("nodenum")
        amount = None if nodenum is None else self.value(nodenum, Amount)
        if nodenum is None or (
            amount and count(amount, "nodenum", MAX_NODES, self.findings) not in (None, len(self.nodes))
        ):
            span = defines[0].span if nodenum is None else nodenum.value.span
            message = f"`nodenum` is not the number of nodes that are defined, {len(self.nodes)}"
            self.findings.add("HS221", span, message)

    def _put(self, statements: dict[str, Any], define: Define, value: Define | _Owner) -> None:
        if define.name.text in statements:
            self.findings.add("HS203", define.name.span, f"`{define.name.text}` is defined twice")
        statements[define.name.text] = value

    def _settle(self, node: _Owner) -> None:
        """Give ``node`` (``define node2 = node1``) node1's statements, but no failures and none that it states."""
        passed = {node.name.text}
        value = stripped(node.value)
        while isinstance(value, Word):
            if not self._known(value):
                return
            if value.text in passed:
                self.findings.add("HS221", value.span, f"`{node.name.text}` is defined by itself")
                return
            passed.add(value.text)
            like = self.nodes[value.text]
            inherited = {name: define for name, define in like.behind.items() if name not in _OF_ONE_NODE}
            node.behind = inherited | node.behind
            value = stripped(like.value)
        node.value = value

    def _known(self, word: Word) -> bool:
        """Return True if the node of ``word``, a node or a GPU of one, is defined; else add a finding."""
        node = word.text.partition(".")[0]
        if node not in self.nodes:
            help_ = did_you_mean(node, self.nodes, "define the node: `define node1 = 4`")
            self.findings.add("HS201", word.span, f"there is no node `{node[:60]}`", help_)
        return node in self.nodes

    def value(self, define: Define, sort: type[_Sort], name: str = "") -> _Sort | None:
        """Return the value of a statement, a number or a word; None, with a finding, for another value."""
        value = stripped(define.value)
        if isinstance(value, sort):
            return value
        refuse(name or define.name.text, define.name.span, self.findings)
        return None

    def _values(self, owner: _Owner, name: str, sort: type[_Sort]) -> dict[str, tuple[Span, _Sort]]:
        """Return the numbers or words stated for all connections of a sort, each with the place of its key."""
        prefix, kinds = ("inter", BETWEEN_NODES) if owner.nodes else ("", IN_A_NODE)
        values: dict[str, tuple[Span, _Sort]] = {}
        for entry in entries(owner.behind.get(f"{prefix}{name}"), kinds, self.findings):
            value = self.value(entry, sort, name)
            values |= {} if value is None else {entry.name.text: (entry.name.span, value)}
        return values

    # --- a node: its type, and what is out of order in its one instance

    def node(self, node: _Owner) -> tuple[syntax.NodeType, syntax.Instance]:
        """Return the type and the instance of a node."""
        name, behind = node.name, node.behind
        stated = list(self._connections(node))
        nics: dict[str, list[Connection]] = {}
        for connection in stated:
            gpus = connection.sides[0]
            if connection.sort == "pcie":
                switch = (f"pcie{connection.number}", frozenset(gpu.number for gpu in gpus))
                for gpu in gpus:
                    if node.pcie.setdefault(gpu.number, switch) is not switch:
                        self.findings.add("HS218", gpu.span, f"GPU {gpu.number} is behind two PCIe switches")
            elif connection.sort == "nic":
                node.has_nics = True
                for gpu in gpus:
                    nics.setdefault(gpu.number, []).append(connection)
        items: list[syntax.NodeItem] = []
        if isinstance(node.value, Amount):
            items.append(syntax.Gpus(node.value, (), name.span))
        elif not isinstance(node.value, Word):  # a likeness has its finding
            refuse(name.text, name.span, self.findings)
        if "model" in behind and (word := self.value(behind["model"], Word)):
            items.append(Property("model", behind["model"].name.span, words=(word,)))
        if reduce := behind.get("reduce"):
            items.append(Property("reduce", reduce.name.span, amount=self.value(reduce, Amount)))
        for connection in stated:
            items += self._hardware(connection, node, nics)
        items += self.groups(behind.get("group"))
        instance = syntax.Instance(name, name, None, tuple(self._overrides(node)), name.span)
        return syntax.NodeType(name, tuple(items), name.span), instance

    def _overrides(self, node: _Owner) -> Iterator[syntax.Override]:
        """Yield the changes of a node's instance: parts slower than in the type, and parts that failed."""
        for entry in entries(node.behind.get("slowdown"), _SLOWED, self.findings):
            rate = rate_of(entry.value)
            if rate is not None:
                every = (Word(f"{entry.name.text}*", entry.name.span),)
                yield syntax.Change(every, rate.properties(), entry.name.span)
                continue
            for connection in connections_in(entry.value, "slowdown", 1, self.findings):
                slowed = _named(entry.name.text, connection.sides[0])
                yield syntax.Change(slowed, connection.rate.properties(), slowed[0].span)
        for entry in entries(node.behind.get("failure"), _FAILED, self.findings):
            failed = numbers(entry.value)
            if failed:
                yield syntax.Disable(_named(entry.name.text, failed), entry.name.span)
            else:
                refuse("failure", entry.name.span, self.findings)

    def _connections(self, owner: _Owner) -> Iterator[Connection]:
        """Yield the connections inside a node, or between the nodes of an internode, in the order written."""
        lists = len(owner.nodes) or 2
        prefix, kinds = ("inter", BETWEEN_NODES) if owner.nodes else ("", IN_A_NODE)
        latency = self._latencies(owner)
        kind_of = self._values(owner, "linktype", Word)
        numbers_of: Counter[str] = Counter()
        for entry in entries(owner.behind.get(f"{prefix}bandwidth"), kinds, self.findings):
            sort = entry.name.text
            sides = lists if sort == "switch" else 2 if sort == "direct" else 1
            if sort == "direct" and lists > 2:
                help_ = "give the two nodes an `internode` of their own"
                self.findings.add("HS221", entry.name.span, "`direct` joins GPUs of two nodes", help_)
                continue
            for connection in connections_in(entry.value, sort, sides, self.findings):
                self.findings.spend(_WORK_OF_A_CONNECTION, connection.span)
                word = kind_of[sort][1] if sort in kind_of else Word(kinds[sort], connection.span)
                bandwidth, *alpha = connection.rate.properties()
                alpha = alpha or [latency[sort]] if sort in latency else alpha
                properties = (bandwidth, Property("kind", word.span, words=(word,)), *alpha)
                yield replace(connection, number=numbers_of[sort], properties=properties)
                numbers_of[sort] += 1

    def _latencies(self, owner: _Owner) -> dict[str, Property]:
        stated = self._values(owner, "latency", Amount)
        return {sort: time_property(amount, span) for sort, (span, amount) in stated.items()}

    def _hardware(
        self, connection: Connection, node: _Owner, nics: dict[str, list[Connection]]
    ) -> Iterator[Element | Join]:
        """Yield the switches, buses, NICs and wires of one connection; ``nics`` by the numbers of their GPUs."""
        sides, span, properties = connection.sides, connection.span, connection.properties
        name = Word(f"{connection.sort}{connection.number}", span)
        gpus = _named("gpu", sides[0])
        if connection.sort == "direct":
            yield Join("link", gpus, _named("gpu", sides[1]), False, properties, span)
        elif connection.sort == "mesh":
            yield Join("mesh", gpus, (), True, properties, span)
        elif connection.sort == "port":
            yield Element("switch", name, (Property("ports", span, words=gpus), *properties), span)
        elif connection.sort == "switch":
            left, right = (self._outlets(side, node) for side in sides)
            yield Element("switch", name, (Property("members", span, words=left, far=right), *properties), span)
        elif connection.sort == "pcie":
            behind = {nic.number: nic for gpu in sides[0] for nic in nics.get(gpu.number, ())}
            for nic in list(behind.values())[1:]:
                message = "GPUs that share a PCIe switch share one NIC; this is a second one"
                self.findings.add("HS221", nic.span, message)
            far = tuple(Word(f"nic{number}", nic.span) for number, nic in behind.items())
            members = Property("members", span, words=gpus, far=far, two_sided=True)
            yield Element("bus", name, (members, *properties), span)
        else:
            yield Element("nic", name, properties, span)
            attached = [word for word in self._outlets(sides[0], node) if word.text.startswith("gpu")]
            if attached:
                yield Join("attach", tuple(attached), (name,), True, (), span)

    def _outlets(self, gpus: tuple[Amount, ...], node: _Owner, *, outside: bool = False) -> tuple[Word, ...]:
        """Return the first parts on the ways out of ``gpus``: PCIe switches, each once, and GPUs behind none."""
        given = {gpu.number for gpu in gpus}
        outlets: dict[str, Word] = {}
        for gpu in gpus:
            name, sharing = node.pcie.get(gpu.number, (f"gpu{gpu.number}", frozenset[str]()))
            if not sharing <= given:
                others = ", ".join(sorted(sharing - given, key=int))
                message = f"GPU {gpu.number} shares a PCIe switch with GPUs that are not named here: {others}"
                self.findings.add("HS221", gpu.span, message)
            outlets.setdefault(name, Word(f"{node.name.text}.{name}" if outside else name, gpu.span))
        return tuple(outlets.values())

    def groups(self, define: Define | None) -> Iterator[syntax.Shared]:
        """Yield the groups (E_g, C_g) of a node or of the cluster (eq. 5)."""
        if define is None:
            return
        name = define.name.text
        if not isinstance(define.value, syntax.Mapping):
            refuse(name, define.name.span, self.findings)
            return
        for entry in define.value.entries:
            group = group_of(entry.value)
            if group is None:
                refuse(name, entry.name.span, self.findings)
                continue
            edges, rate = group
            sides = [(self._members(edge.left, name), self._members(edge.right, name)) for edge in edges]
            flows = tuple(Flow(a, b, False, edge.span) for (a, b), edge in zip(sides, edges, strict=True))
            if all(flow.left and flow.right for flow in flows):
                yield syntax.Shared(entry.name, rate.bandwidth, rate.lanes, flows, entry.name.span)

    def _members(self, value: Value, name: str) -> tuple[Word, ...]:
        """Return the GPUs of ``(0,1)``, in `intergroup` of ``(node1, node2.gpu0)``: all of node1, one of node2."""
        if name == "group":
            gpus = _named("gpu", numbers(value))
        else:
            gpus = tuple(
                word if "." in word.text else replace(word, text=f"{word.text}.gpu*")
                for word in words(value)
                if self._known(word)
            )
        if not gpus:
            refuse(name, value.span, self.findings)
        return gpus

    # --- internodes: fabrics, wires and stated groups between instances

    def network(self) -> Iterator[syntax.ClusterItem]:
        """Yield the links, fabrics and shared groups that join the nodes."""
        switches: list[list[_Owner]] = []  # internodes whose NICs are on one switch
        for internode in self.internodes:
            if "interbandwidth" in internode.behind and internode.nodes:
                yield from self._between(internode)
            elif internode.nodes:
                own = {node.text for node in internode.nodes}
                meeting = [of for of in switches if any(node.text in own for one in of for node in one.nodes)]
                switches = [of for of in switches if of not in meeting]
                switches.append([*(one for of in meeting for one in of), internode])
        for together in switches:
            yield self._switch(together)
        for node, nics in self._uses.items():
            number = 0
            for gpus, uses in nics.items():
                pairs, span = {pair for pair, *_ in uses}, uses[-1][-1].span
                # in two pairs of nodes, lists of GPUs of a node are the same NIC or have no GPU in common
                self.findings.spend(len(nics), span)
                for other_gpus, other_uses in nics.items():
                    both = gpus & other_gpus if other_gpus != gpus else ()
                    if both and len(pairs | {pair for pair, *_ in other_uses}) > 1:
                        message = f"`{min(both)}` shares its NIC with other GPUs elsewhere"
                        self.findings.add("HS221", span, message)
                        break
                if len(pairs) > 1:
                    yield from self._nic_groups(f"{node}_nic{number}", uses)
                    number += 1

    def _between(self, internode: _Owner) -> Iterator[Element | Join]:
        """Yield the wires and pipes of the connections that ``internode`` states."""
        first_pair, pipes = self._pairs, 0
        pairs = math.comb(len(internode.nodes), 2)
        self._pairs += pairs
        for connection in self._connections(internode):
            span = connection.span
            sides = [
                tuple(Word(f"{node.text}.gpu{gpu.number}", gpu.span) for gpu in side)
                for node, side in zip(internode.nodes, connection.sides, strict=True)
            ]
            if connection.sort == "direct":
                self._wired.add((sides[0][0].text, sides[1][0].text))
                yield Join("link", sides[0], sides[1], False, connection.properties, span)
                continue
            for node in internode.nodes:
                if self.nodes[node.text].has_nics:
                    message = f"`{node.text}` states its NICs, so the bandwidth between nodes is theirs"
                    self.findings.add("HS221", span, message)
            self.findings.spend(pairs * _WORK_OF_A_PIPE, span)
            for pair, (a, b) in enumerate(combinations(range(len(internode.nodes)), 2), first_pair):
                for here, there in ((a, b), (b, a)):  # the use that the pipe makes of their NICs
                    of_node = self._uses.setdefault(internode.nodes[here].text, {})
                    of_nic = of_node.setdefault(frozenset(gpu.text for gpu in sides[here]), [])
                    of_nic.append((pair, sides[here], sides[there], connection))
                owners = [self.nodes[node.text] for node in internode.nodes]
                near, far = (self._outlets(connection.sides[i], owners[i], outside=True) for i in (a, b))
                members = Property("members", span, words=near, far=far)
                name = Word(f"{internode.name.text}_{pipes}", span)
                yield Element("fabric", name, (members, *connection.properties), span)
                pipes += 1

    def _nic_groups(self, name: str, uses: list[_Use]) -> Iterator[syntax.Shared]:
        """Yield the groups of all flows out of and into a NIC that pairs share, at the largest rate of a pair."""
        rates: dict[int, tuple[Fraction, int, Amount]] = {}
        for pair, _, _, ends in uses:
            bandwidth = measure(ends.rate.bandwidth, "bandwidth", "a bandwidth", self.findings) or Fraction(1)
            before, lanes, _ = rates.get(pair, (bandwidth, 0, None))
            if before != bandwidth:
                self.findings.add("HS221", ends.span, "one NIC has links of two bandwidths in this pair of nodes")
            lanes += lanes_of(ends.rate.lanes, self.findings)
            rates[pair] = (bandwidth, lanes, ends.rate.bandwidth)
        _, lanes, amount = max(rates.values(), key=lambda rate: rate[0] * rate[1])
        span = uses[0][-1].span
        leaving = tuple(flow for _, gpus, others, _ in uses for flow in self._flows(gpus, others))
        entering = tuple(flow for _, gpus, others, _ in uses for flow in self._flows(others, gpus))
        for direction, flows in (("out", leaving), ("in", entering)):
            if flows:
                word = Word(f"{name}_{direction}", span)
                yield syntax.Shared(word, amount, Amount(str(lanes), "", span), flows, span, optional=True)

    def _flows(self, sources: tuple[Word, ...], targets: tuple[Word, ...]) -> Iterator[Flow]:
        """Yield the flows over a NIC from ``sources`` to ``targets``, but no pair with a wire of its own."""
        for source in sources:
            free = tuple(target for target in targets if (source.text, target.text) not in self._wired)
            if free:
                yield Flow((source,), free, False, source.span)

    def _switch(self, together: list[_Owner]) -> Element:
        """Return the switch of nodes whose NICs are joined; a finding unless the source joins each two of them."""
        span, last = together[0].name.span, together[-1].name.span
        members = {node.text for internode in together for node in internode.nodes}
        order = [node for node in self.nodes if node in members]
        for internode in together:
            self.findings.spend(math.comb(len(internode.nodes), 2), internode.name.span)
        joined = {frozenset(pair) for i in together for pair in combinations([node.text for node in i.nodes], 2)}
        stated = [self._latencies(internode).get("switch") for internode in together]
        values = {latency.amount and (latency.amount.number, latency.amount.unit) for latency in stated if latency}
        if len(joined) < math.comb(len(order), 2) or len(values) > 1 or (values and None in stated):
            message = "the NICs of these nodes are on one switch, which joins each two and has one latency"
            help_ = f"write one `define internode = ({', '.join(order[:12])}{', ...' if len(order) > 12 else ''})`"
            self.findings.add("HS221", last, message, help_)
        nics = tuple(Word(f"{node}.nic*", span) for node in order)
        latency = [prop for prop in stated[:1] if prop is not None]
        return Element("fabric", together[0].name, (Property("join", span, words=nics), *latency), span)


def _named(sort: str, numbers: Iterable[Amount]) -> tuple[Word, ...]:
    return tuple(Word(f"{sort}{number.number}", number.span) for number in numbers)


# --- values


def refuse(name: str, span: Span, findings: Findings) -> None:
    """Add the finding for a value of ``name``, a statement or a sort of connection, that is something else."""
    example = _EXAMPLES.get(name) or _EXAMPLES.get(name.removeprefix("inter"), f"define {name} = 2")
    findings.add("HS221", span, f"`{name}` is not written like this", f"write it like `{example}`")


def entries(define: Define | None, keys: dict[str, str], findings: Findings) -> Iterator[Define]:
    """Yield the entries of a mapping whose keys are among ``keys``, each once; others are findings."""
    if define is None:
        return
    if not isinstance(define.value, syntax.Mapping):
        refuse(define.name.text, define.name.span, findings)
        return
    seen: set[str] = set()
    for entry in define.value.entries:
        key = entry.name.text
        if key not in keys:
            message = f"`{define.name.text}` has no `{key[:60]}`"
            findings.add("HS220", entry.name.span, message, did_you_mean(key, keys))
        elif key in seen and not define.name.text.endswith("bandwidth"):
            findings.add("HS203", entry.name.span, f"`{key}` is given twice", "keep one of them")
        else:
            seen.add(key)
            yield entry


def connections_in(value: Value, sort: str, lists: int, findings: Findings) -> Iterator[Connection]:
    """Yield the connections in ``value``, each of ``lists`` lists of GPU numbers; other values are findings."""
    edges = _edges(value)
    if not edges:
        refuse(sort, value.span, findings)
    for before, edge in edges:
        values = (*before, edge.left)  # the lists from `A, B` or from `(A, B)`
        if len(values) == 1 and lists > 1:
            values = _items(values[0])
        sides = [numbers(value) or () for value in values]
        if lists == 1 and all(sides):
            sides = [tuple(number for side in sides for number in side)]
        rate = rate_of(edge.right)
        shared = sort in ("switch", "pcie", "nic")
        single = sort == "direct" and any(len(side) > 1 for side in sides)
        if rate is None or not all(sides) or len(sides) != lists or single or shared != (edge.sign == ">->"):
            refuse(sort, edge.span, findings)
        else:
            yield Connection(tuple(sides), rate, edge.span, sort)


def _edges(value: Value | Edge) -> list[tuple[tuple[Value | Edge, ...], Edge]]:
    """Return every edge with the values before it in the same parentheses; none if anything else stands there."""
    if isinstance(value, Edge):
        return [((), value)]
    if not isinstance(value, syntax.Sequence) or not value.items:
        return []
    inside = [_edges(item) for item in value.items]
    last = value.items[-1]
    if isinstance(last, Edge) and not any(inside[:-1]):
        return [(value.items[:-1], last)]
    return [edge for edges in inside for edge in edges] if all(inside) else []


def stripped(value: Value) -> Value:
    """Return ``value`` without parentheses around a single value."""
    while isinstance(value, syntax.Sequence) and len(value.items) == 1 and not isinstance(value.items[0], Edge):
        value = value.items[0]
    return value


def _items(value: Value | Edge) -> tuple[Value | Edge, ...]:
    value = value if isinstance(value, Edge) else stripped(value)
    return value.items if isinstance(value, syntax.Sequence) else (value,)


def words(value: Value) -> tuple[Word, ...]:
    """Return the words of ``(node1, node2)``; none if the value is something else."""
    items = _items(value)
    words = tuple(item for item in items if isinstance(item, Word))
    return words if len(words) == len(items) else ()


def numbers(value: Value | Edge) -> tuple[Amount, ...]:
    """Return the GPU numbers of ``(0,1,2)``, short and without units; none if the value is something else."""
    amounts: list[Amount] = []
    for item in _items(value):
        item = item if isinstance(item, Edge) else stripped(item)
        if not isinstance(item, Amount) or item.unit or not re.fullmatch(r"\d{1,6}", item.number):
            return ()
        amounts.append(Amount(str(int(item.number)), "", item.span))
    return tuple(amounts)


def rate_of(value: Value | Edge) -> Rate | None:
    """Return ``(25, 2, 0.7)`` as 25 GB/s, 2 lanes, 0.7 us; units may be written. None for another value."""
    items = _items(value)
    amounts = [item for item in items if isinstance(item, Amount)]
    if len(amounts) != len(items) or not 1 <= len(amounts) <= 3:
        return None
    lanes, latency = [*amounts[1:], None, None][:2]
    return Rate(_with_unit(amounts[0], "GB/s"), lanes, latency)


def time_property(amount: Amount, span: Span) -> Property:
    """Return a latency as a property, in microseconds if no unit is written."""
    return Property("latency", span, amount=_with_unit(amount, "us"))


def _with_unit(amount: Amount, unit: str) -> Amount:
    return amount if amount.unit else Amount(amount.number, unit, amount.span)


def group_of(value: Value) -> tuple[list[Edge], Rate] | None:
    """Return (E_g, C_g), edges and their limit, of ``([(0,1) -> (2,3), ...], (48,1))``; None for another value."""
    items = _items(value)
    inside = [_edges(item) for item in items[:-1]]
    edges = [edge for item in inside for _, edge in item]
    rate = rate_of(items[-1]) if items else None
    if not inside or not all(inside) or rate is None or rate.latency or any(e.sign != "->" for e in edges):
        return None
    return edges, rate
