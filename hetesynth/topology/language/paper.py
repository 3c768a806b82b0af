"""The paper form (HeteCCL, Appendix A, Figure 10), lowered to the block form.

In: a ``File`` of ``define`` statements. Out: a ``File`` of node types and one cluster, with the original spans.
Bandwidths without a unit are GB/s a lane and one direction, as in the figure, latencies without one microseconds.
GPU numbers are local to a node.

What a GPU sends over ``switch`` connections and NICs passes the PCIe switch that it shares with others, where
there is one; ``direct``, ``mesh`` and ``port`` connections do not.

An internode without connections joins the NICs of its nodes by one switch. One with connections joins GPUs: a
wire each for ``direct``, a pipe for ``switch``. There the GPUs that a node names in an entry are those that share
a NIC: where a node names them in several pairs of nodes, a stated group in each direction limits all their links.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Span
from hetesynth.topology.language import paper_statements, syntax
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.paper_statements import (
    BETWEEN_NODES,
    Connection,
    Internode,
    NodeDefinition,
    Rate,
    amount_of,
    bandwidth_of,
    connections,
    entries,
    latencies,
)
from hetesynth.topology.language.properties import lanes_of
from hetesynth.topology.language.reachability import joined_sets
from hetesynth.topology.language.syntax import Amount, Define, Element, Flow, Join, Property, Shared, Value, Word
from hetesynth.topology.language.units import count, measure

MAX_NODES = 1024
MAX_NAME = 60
_WORK_OF_A_PIPE = 100  # in names matched: what making one takes

_SLOWED = {part: part for part in ("nic", "port", "switch", "pcie")}
_FAILED = {"gpu": "gpu", **_SLOWED}

GpusOf = Callable[[Value, Findings], tuple[Word, ...]]


@dataclass(frozen=True, slots=True)
class _Pcie:
    """A PCIe switch: its name in the node and the numbers of the GPUs that share it."""

    name: str
    gpus: frozenset[str]


_PcieOf = Mapping[str, _Pcie]  # by the number of a GPU


@dataclass(frozen=True, slots=True)
class _Node:
    """A node in the block form; ways out of it begin with its PCIe switches."""

    type: syntax.NodeType
    instance: syntax.Instance
    pcie: _PcieOf
    has_nics: bool


def lowered(file: syntax.File, findings: Findings) -> syntax.File:
    """``file`` with its ``define`` statements replaced by node types and a cluster; else unchanged."""
    defines = [item for item in file.items if isinstance(item, Define)]
    if not defines:
        return file
    first = defines[0]
    if len(defines) < len(file.items):
        help_ = "keep either the `define` statements or the `node` and `cluster` blocks"
        findings.add("HS222", first.span, "a file is in the paper form or in the block form, not both", help_)
        findings.raise_any()
    definitions = paper_statements.gathered(defines, findings)
    nodenum = definitions.of_cluster.get("nodenum")
    if nodenum is None:
        help_ = f"add `define nodenum = {len(definitions.nodes)}`"
        findings.add("HS221", first.span, "`nodenum` is missing", help_)
    else:
        amount = amount_of(nodenum.name, nodenum.value, findings)
        number = None if amount is None else count(amount, "nodenum", MAX_NODES, findings)
        if amount is not None and number is not None and number != len(definitions.nodes):
            message = f"nodenum is {number}, but {len(definitions.nodes)} nodes are defined"
            findings.add("HS221", amount.span, message, f"define node1 to node{number}, or change nodenum")
    if len(definitions.nodes) > MAX_NODES:
        findings.add("HS208", first.span, f"the cluster has more than {MAX_NODES} nodes", "define fewer")
        findings.raise_any()
    nodes = {name: _node_of(definition, findings) for name, definition in definitions.nodes.items()}
    network = _Network(nodes, findings)
    inside: list[syntax.ClusterItem] = []
    chunk = definitions.of_cluster.get("chunk")
    if chunk is not None:
        inside.append(Property("chunk", chunk.name.span, amount=amount_of(chunk.name, chunk.value, findings)))
    inside += [node.instance for node in nodes.values()]
    inside += network.items(definitions.internodes)
    inside += _groups(definitions.of_cluster.get("intergroup"), network.gpus_named, findings)
    name = "cluster"  # the form names none: take the file's name, or its folder's where that says no more
    if not first.span.file.startswith("<"):
        path = Path(first.span.file).absolute()
        name = path.parent.name if path.stem in ("topo", "topology", "paper") else path.stem
        name = re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_NAME]) or "cluster"
    cluster = syntax.Cluster(Word(name, first.span), tuple(inside), first.span)
    return syntax.File(file.name, (*(node.type for node in nodes.values()), cluster))


# --- a node: its type, and what is out of order in its one instance


def _node_of(definition: NodeDefinition, findings: Findings) -> _Node:
    name, behind = definition.name, definition.behind
    stated = list(connections(behind, findings))
    pcie: dict[str, _Pcie] = {}
    nics: dict[str, list[Connection]] = {}
    for connection in stated:
        gpus = connection.ends.sides[0]
        if connection.sort == "pcie":
            switch = _Pcie(f"pcie{connection.number}", frozenset(gpu.number for gpu in gpus))
            for gpu in gpus:
                if pcie.setdefault(gpu.number, switch) is not switch:
                    message = f"GPU {gpu.number} is behind two PCIe switches"
                    findings.add("HS218", gpu.span, message, "name it in one of them")
        elif connection.sort == "nic":
            for gpu in gpus:
                nics.setdefault(gpu.number, []).append(connection)
    size = amount_of(name, definition.value, findings)
    items: list[syntax.NodeItem] = [syntax.Gpus(size, (), name.span)] if size is not None else []
    model, reduce = behind.get("model"), behind.get("reduce")
    if model is not None:
        word = paper_statements.stripped(model.value)
        if isinstance(word, Word):
            items.append(Property("model", model.name.span, words=(word,)))
        else:
            findings.add("HS221", model.name.span, "`model` takes a word", "write it like `define model = V100`")
    if reduce is not None:
        amount = amount_of(reduce.name, reduce.value, findings)
        items.append(Property("reduce", reduce.name.span, amount=amount))
    for connection in stated:
        items += _hardware(connection, nics, pcie, findings)
    items += _groups(behind.get("group"), _local_gpus, findings)
    overrides: list[syntax.Override] = []
    shape = paper_statements.Shape("->", 1, False, "a list of numbers", "`(0,1) -> (18 Gbps,1)`")
    for entry in entries(behind.get("slowdown"), _SLOWED, findings):
        key, rate = entry.key, paper_statements.rate_of(entry.value)
        slowed = (
            [((Word(f"{key.text}*", key.span),), rate)]
            if rate is not None
            else [
                (_named(key.text, ends.sides[0]), ends.rate)
                for ends in paper_statements.ends_in(entry.value, "slowdown", shape, findings)
            ]
        )
        for words, less in slowed:
            latency = (
                () if less.latency is None else (Property("latency", less.latency.span, amount=less.latency),)
            )
            overrides.append(syntax.Change(words, (bandwidth_of(less), *latency), words[0].span))
    for entry in entries(behind.get("failure"), _FAILED, findings):
        numbers = paper_statements.numbers(entry.value)
        if numbers:
            overrides.append(syntax.Disable(_named(entry.key.text, numbers), entry.key.span))
        else:
            findings.add("HS221", entry.key.span, "a failure names numbers", "write it like `{gpu => (3)}`")
    instance = syntax.Instance(name, name, None, tuple(overrides), name.span)
    return _Node(syntax.NodeType(name, tuple(items), name.span), instance, pcie, bool(nics))


def _hardware(
    connection: Connection, nics: Mapping[str, list[Connection]], pcie: _PcieOf, findings: Findings
) -> Iterator[Element | Join]:
    """The switches, buses, NICs and wires of one connection; ``nics`` by the numbers of their GPUs."""
    sides, span, properties = connection.ends.sides, connection.ends.span, connection.properties
    name = Word(f"{connection.sort}{connection.number}", span)
    gpus = _named("gpu", sides[0])
    if connection.sort == "direct":
        yield Join("link", gpus, _named("gpu", sides[1]), False, properties, span)
    elif connection.sort == "mesh":
        yield Join("mesh", gpus, (), True, properties, span)
    elif connection.sort == "port":
        yield Element("switch", name, (Property("ports", span, words=gpus), *properties), span)
    elif connection.sort == "switch":
        left, right = (_outlets(side, pcie, findings) for side in sides)
        yield Element("switch", name, (Property("members", span, words=left, far=right), *properties), span)
    elif connection.sort == "pcie":
        behind = {nic.number: nic for gpu in sides[0] for nic in nics.get(gpu.number, ())}
        for nic in list(behind.values())[1:]:
            message = "GPUs that share a PCIe switch share one NIC; this is a second one"
            help_ = "write one NIC with more links: `(0,1) >-> (50,2)`"
            findings.add("HS221", nic.ends.span, message, help_)
        far = tuple(Word(f"nic{number}", nic.ends.span) for number, nic in behind.items())
        members = Property("members", span, words=gpus, far=far, two_sided=True)
        yield Element("bus", name, (members, *properties), span)
    else:
        yield Element("nic", name, properties, span)
        attached = [word for word in _outlets(sides[0], pcie, findings) if word.text.startswith("gpu")]
        if attached:
            yield Join("attach", tuple(attached), (name,), True, (), span)


def _named(sort: str, numbers: Iterable[Amount]) -> tuple[Word, ...]:
    return tuple(Word(f"{sort}{number.number}", number.span) for number in numbers)


def _outlets(gpus: Iterable[Amount], pcie: _PcieOf, findings: Findings) -> tuple[Word, ...]:
    """Where the ways out of ``gpus`` begin: their PCIe switches, each once, and the GPUs behind none."""
    listed = list(gpus)
    numbers = {gpu.number for gpu in listed}
    names: dict[str, Word] = {}
    for gpu in listed:
        shared = pcie.get(gpu.number)
        if shared is not None and not shared.gpus <= numbers:
            others = ", ".join(sorted(shared.gpus - numbers, key=int))
            message = f"GPU {gpu.number} shares a PCIe switch with GPUs that are not named here: {others}"
            findings.add("HS221", gpu.span, message, "name all GPUs of the PCIe switch, or none")
        name = f"gpu{gpu.number}" if shared is None else shared.name
        names.setdefault(name, Word(name, gpu.span))
    return tuple(names.values())


def _groups(define: Define | None, gpus_of: GpusOf, findings: Findings) -> Iterator[Shared]:
    """The groups (E_g, C_g) of a node or of the cluster (eq. 5); ``gpus_of`` says what an end of an edge names."""
    if define is None:
        return
    if not isinstance(define.value, syntax.Mapping):
        message = f"`{define.name.text}` takes a mapping"
        findings.add("HS221", define.name.span, message, "write it like `{upi => ((0,1) -> (2,3), (48,1))}`")
        return
    for entry in define.value.entries:
        group = paper_statements.group_of(entry.value)
        if group is None:
            message = "a group is its edges and their common limit"
            findings.add("HS221", entry.key.span, message, "write it like `([(0,1) -> (2,3)], (48,1))`")
            continue
        edges, rate = group
        flows = tuple(
            Flow(gpus_of(edge.left, findings), gpus_of(edge.right, findings), False, edge.span) for edge in edges
        )
        if all(flow.left and flow.right for flow in flows):
            yield Shared(entry.key, rate.bandwidth, rate.lanes, flows, entry.key.span)


def _local_gpus(value: Value, findings: Findings) -> tuple[Word, ...]:
    """The GPUs of ``(0,1)``."""
    gpus = paper_statements.numbers(value)
    if gpus is None:
        message = "an edge of a group joins lists of GPU numbers"
        findings.add("HS221", value.span, message, "as in `(0,1) -> (2,3)`")
    return _named("gpu", gpus or ())


# --- internodes: fabrics, wires and stated groups between instances


@dataclass(frozen=True, slots=True)
class _Use:
    """GPUs of a node that share a NIC, in one entry of one pair of nodes."""

    pair: int
    gpus: tuple[Word, ...]
    others: tuple[Word, ...]
    rate: Rate
    span: Span


@dataclass(slots=True)
class _Network:
    """Internodes one by one; ``nodes`` by name, in the order of their definition."""

    nodes: dict[str, _Node]
    findings: Findings
    _joining: list[Internode] = field(default_factory=list)
    _uses: dict[str, dict[frozenset[str], list[_Use]]] = field(default_factory=dict)
    _wired: set[tuple[str, str]] = field(default_factory=set)
    _pairs: int = 0

    def items(self, internodes: Iterable[Internode]) -> Iterator[syntax.ClusterItem]:
        """All that joins the nodes."""
        for internode in internodes:
            if internode.nodes:
                yield from self._between(internode)
            else:  # what is wrong with them has been said
                list(entries(internode.behind.get("interbandwidth"), BETWEEN_NODES, self.findings))
        for together in joined_sets(self._joining, lambda internode: {node.text for node in internode.nodes}):
            yield self._switch(together)
        # two groups for each NIC that a node has in several pairs: what leaves over it, and what enters
        for node, nics in self._uses.items():
            number = 0
            for gpus, uses in nics.items():
                # in two pairs of nodes, lists of GPUs of a node are the same NIC or have no GPU in common
                self.findings.spend(len(nics), uses[-1].span)
                for other_gpus, other_uses in nics.items():
                    earlier = next((use for use in other_uses if use.pair < uses[-1].pair), None)
                    if other_gpus != gpus and gpus & other_gpus and earlier is not None:
                        gpu, line = min(gpus & other_gpus), earlier.span.line
                        message = f"`{gpu}` shares its NIC with other GPUs here than on line {line}"
                        help_ = f"name the same GPUs of {node} in each pair, or write `nic => [...]` behind it"
                        self.findings.add("HS221", uses[-1].span, message, help_)
                        break
                if len({use.pair for use in uses}) > 1:
                    yield from self._nic_groups(f"{node}_nic{number}", uses)
                    number += 1

    def _between(self, internode: Internode) -> Iterator[syntax.ClusterItem]:
        """The wires and pipes of the connections that are stated; without, the internode joins NICs."""
        stated = list(connections(internode.behind, self.findings, len(internode.nodes)))
        if "interbandwidth" not in internode.behind:
            self._joining.append(internode)
            typed = internode.behind.get("interlinktype")
            if typed is not None:
                help_ = "write `linktype = {nic => ...}` behind the nodes"
                message = "without `interbandwidth` the links between nodes are of the type of their NICs"
                self.findings.add("HS221", typed.name.span, message, help_)
            return
        first_pair, pipes = self._pairs, 0
        pairs = math.comb(len(internode.nodes), 2)
        self._pairs += pairs
        for connection in stated:
            span = connection.ends.span
            sides = [
                tuple(Word(f"{node.text}.gpu{gpu.number}", gpu.span) for gpu in side)
                for node, side in zip(internode.nodes, connection.ends.sides, strict=True)
            ]
            if connection.sort == "direct":
                self._wired.add((sides[0][0].text, sides[1][0].text))
                yield Join("link", sides[0], sides[1], False, connection.properties, span)
                continue
            for node in internode.nodes:
                if self.nodes[node.text].has_nics:
                    message = f"`{node.text}` states its NICs, so the bandwidth between nodes is theirs"
                    help_ = "remove this `interbandwidth`, or `nic => ...` behind the node"
                    self.findings.add("HS221", span, message, help_)
            self.findings.spend(pairs * _WORK_OF_A_PIPE, span)
            for pair, ends in enumerate(combinations(range(len(internode.nodes)), 2), first_pair):
                for here, there in (ends, ends[::-1]):  # the use that the pipe makes of their NICs
                    use = _Use(pair, sides[here], sides[there], connection.ends.rate, span)
                    of_node = self._uses.setdefault(internode.nodes[here].text, {})
                    of_node.setdefault(frozenset(gpu.text for gpu in sides[here]), []).append(use)
                near, far = (self._outlets(internode.nodes[i].text, connection.ends.sides[i]) for i in ends)
                members = Property("members", span, words=near, far=far)
                name = Word(f"{internode.name.text}_{pipes}", span)
                yield Element("fabric", name, (members, *connection.properties), span)
                pipes += 1

    def _outlets(self, node: str, gpus: Iterable[Amount]) -> tuple[Word, ...]:
        words = _outlets(gpus, self.nodes[node].pcie, self.findings)
        return tuple(replace(word, text=f"{node}.{word.text}") for word in words)

    # --- NICs that several pairs share

    def _nic_groups(self, name: str, uses: list[_Use]) -> Iterator[Shared]:
        """What leaves over a NIC and what enters, at the largest rate that a pair of nodes states for it.

        Entries of a pair lie side by side.
        """
        rates: dict[int, tuple[Fraction, Rate]] = {}
        for use in uses:
            bandwidth = measure(use.rate.bandwidth, "bandwidth", "a bandwidth", self.findings) or Fraction(1)
            lanes = lanes_of(use.rate.lanes, self.findings)
            before = rates.get(use.pair)
            if before is not None:
                lanes += lanes_of(before[1].lanes, self.findings)
                if measure(before[1].bandwidth, "bandwidth", "a bandwidth", self.findings) != bandwidth:
                    message = "one NIC has links of two bandwidths in this pair of nodes"
                    self.findings.add("HS221", use.span, message, "write one of them, and the number of links")
            amount = Amount(str(lanes), "", use.span)
            rates[use.pair] = (bandwidth * lanes, Rate(use.rate.bandwidth, amount))
        rate = max(rates.values(), key=lambda rate: rate[0])[1]
        leaving = tuple(flow for use in uses for flow in self._flows(use.gpus, use.others, use.span))
        entering = tuple(flow for use in uses for flow in self._flows(use.others, use.gpus, use.span))
        for direction, flows in (("out", leaving), ("in", entering)):
            if flows:
                word = Word(f"{name}_{direction}", uses[0].span)
                yield Shared(word, rate.bandwidth, rate.lanes, flows, uses[0].span, optional=True)

    def _flows(self, sources: tuple[Word, ...], targets: tuple[Word, ...], span: Span) -> Iterator[Flow]:
        """The flows over the NIC: all but those that have a wire of their own."""
        if not any((a.text, b.text) in self._wired for a in sources for b in targets):
            yield Flow(sources, targets, False, span)
            return
        for source in sources:
            free = tuple(target for target in targets if (source.text, target.text) not in self._wired)
            if free:
                yield Flow((source,), free, False, span)

    # --- internodes that join NICs

    def _switch(self, together: list[Internode]) -> Element:
        """The one switch of nodes whose NICs are joined."""
        span, last = together[0].name.span, together[-1].name.span
        for node in (node for internode in together for node in internode.nodes):
            if not self.nodes[node.text].has_nics:
                message = f"`internode` without `interbandwidth` joins NICs; `{node.text}` states none"
                help_ = "add `nic => [(0) >-> (50,1)]` to its bandwidth, or define `interbandwidth`"
                self.findings.add("HS221", node.span, message, help_)
        members = {node.text for internode in together for node in internode.nodes}
        # a NIC is on one switch, which joins all its nodes to each other: the source has to say so
        for internode in together:
            self.findings.spend(math.comb(len(internode.nodes), 2), internode.name.span)
        joined = {frozenset(pair) for i in together for pair in combinations([node.text for node in i.nodes], 2)}
        order = [node for node in self.nodes if node in members]
        missing = next((pair for pair in combinations(order, 2) if frozenset(pair) not in joined), None)
        if missing is not None:
            message = (
                f"the NICs of `{missing[0]}` and `{missing[1]}` are on one switch, but no `internode` joins them"
            )
            help_ = f"write one `define internode = ({', '.join(order[:12])}{', ...' if len(order) > 12 else ''})`"
            self.findings.add("HS221", last, message, help_)
        stated = [
            latencies(internode.behind.get("interlatency"), BETWEEN_NODES, self.findings).get("switch")
            for internode in together
        ]
        seconds = {
            measure(latency.amount, "time", "a latency", self.findings) if latency and latency.amount else 0
            for latency in stated
        }
        if len(seconds) > 1:
            message = "the NICs of these nodes are on one switch, which has one latency"
            help_ = "define the same `interlatency` behind each `internode`, or write one with all nodes"
            self.findings.add("HS221", last, message, help_)
        latency = () if stated[0] is None else (stated[0],)
        nics = tuple(Word(f"{node}.nic*", span) for node in order)
        return Element("fabric", together[0].name, (Property("join", span, words=nics), *latency), span)

    # --- what names in `intergroup` mean

    def gpus_named(self, value: Value, findings: Findings) -> tuple[Word, ...]:
        """``(node1, node2.gpu0)``: all GPUs of node1 and one of node2."""
        names = paper_statements.words(value)
        if names is None:
            message = "an edge between nodes joins lists of nodes or of their GPUs"
            findings.add("HS221", value.span, message, "as in `(node1) -> (node2, node3.gpu0)`")
            return ()
        for word in names:
            node = word.text.partition(".")[0]
            if node not in self.nodes:
                help_ = did_you_mean(node, self.nodes, "define the node: `define node1 = 4`")
                findings.add("HS201", word.span, f"there is no node `{node[:60]}`", help_)
                return ()
        return tuple(word if "." in word.text else replace(word, text=f"{word.text}.gpu*") for word in names)
