"""The internodes of the paper form -> fabrics, wires and stated groups between instances.

In: the internodes and the nodes they join. Out: items of the cluster.

An internode without connections joins the NICs of its nodes by one switch. One with connections joins GPUs: a
wire each for ``direct``, a pipe for ``switch``. There the GPUs that a node names in an entry are those that share
a NIC: where a node names them in several pairs of nodes, a stated group in each direction limits all their links.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations

from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.findings import Findings, did_you_mean
from hetesynth.topology.language.paper_connections import (
    BETWEEN_NODES,
    Connection,
    connections_between,
    entries,
    latency_between,
)
from hetesynth.topology.language.paper_definitions import Internode
from hetesynth.topology.language.paper_node import Node, outlets
from hetesynth.topology.language.paper_values import Rate, words
from hetesynth.topology.language.properties import lanes_of
from hetesynth.topology.language.syntax import (
    Amount,
    ClusterItem,
    Element,
    Flow,
    Join,
    Property,
    Shared,
    Value,
    Word,
)
from hetesynth.topology.language.units import measure

Gpus = frozenset[str]

_WORK_OF_A_PIPE = 100  # in names matched: what making one takes


@dataclass(frozen=True, slots=True)
class _Use:
    """GPUs of a node that share a NIC, in one entry of one pair of nodes."""

    pair: int
    gpus: tuple[Word, ...]
    others: tuple[Word, ...]
    rate: Rate
    span: Span


@dataclass(slots=True)
class Network:
    """Internodes one by one; ``nodes`` by name, in the order of their definition."""

    nodes: dict[str, Node]
    findings: Findings
    _joining: list[Internode] = field(default_factory=list)
    _uses: dict[str, dict[Gpus, list[_Use]]] = field(default_factory=dict)
    _wired: set[tuple[str, str]] = field(default_factory=set)
    _pairs: int = 0

    def items(self, internodes: Iterable[Internode]) -> Iterator[ClusterItem]:
        """All that joins the nodes."""
        for internode in internodes:
            if internode.nodes:
                yield from self._between(internode)
            else:  # what is wrong with them has been said
                list(entries(internode.behind.get("interbandwidth"), BETWEEN_NODES, self.findings))
        yield from self._switches()
        yield from self._shared_nics()

    # --- connections that are stated

    def _between(self, internode: Internode) -> Iterator[ClusterItem]:
        connections = connections_between(internode.behind, len(internode.nodes), self.findings)
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
        for connection in connections:
            if connection.sort == "direct":
                yield self._direct(internode, connection)
                continue
            self._states_no_nics(internode, connection)
            self.findings.spend(pairs * _WORK_OF_A_PIPE, connection.ends.span)
            sides = range(len(internode.nodes))
            for pair, (left, right) in enumerate(combinations(sides, 2), first_pair):
                name = Word(f"{internode.name.text}_{pipes}", connection.ends.span)
                yield self._pipe(internode, connection, (left, right), pair, name)
                pipes += 1

    def _direct(self, internode: Internode, connection: Connection) -> Join:
        left, right = (_gpus(internode, i, side) for i, side in enumerate(connection.ends.sides))
        self._wired.add((left[0].text, right[0].text))
        return Join("link", left, right, False, connection.properties, connection.ends.span)

    def _pipe(
        self, internode: Internode, connection: Connection, ends: tuple[int, int], pair: int, name: Word
    ) -> Element:
        """One pipe in each direction between two nodes, and the use that it makes of their NICs."""
        sides, span = connection.ends.sides, connection.ends.span
        members = tuple(self._outlets(internode, i, sides[i]) for i in ends)
        for here, there in (ends, ends[::-1]):
            gpus, others = _gpus(internode, here, sides[here]), _gpus(internode, there, sides[there])
            use = _Use(pair, gpus, others, connection.ends.rate, span)
            of_node = self._uses.setdefault(internode.nodes[here].text, {})
            of_node.setdefault(frozenset(gpu.text for gpu in gpus), []).append(use)
        properties = (Property("members", span, words=members[0], far=members[1]), *connection.properties)
        return Element("fabric", name, properties, span)

    def _outlets(self, internode: Internode, side: int, gpus: Iterable[Amount]) -> tuple[Word, ...]:
        node = internode.nodes[side].text
        return tuple(
            replace(word, text=f"{node}.{word.text}")
            for word in outlets(gpus, self.nodes[node].pcie, self.findings)
        )

    def _states_no_nics(self, internode: Internode, connection: Connection) -> None:
        for node in internode.nodes:
            if self.nodes[node.text].has_nics:
                message = f"`{node.text}` states its NICs, so the bandwidth between nodes is theirs"
                help_ = "remove this `interbandwidth`, or `nic => ...` behind the node"
                self.findings.add("HS221", connection.ends.span, message, help_)

    # --- NICs that several pairs share

    def _shared_nics(self) -> Iterator[Shared]:
        """Two groups for each NIC that a node has in several pairs: what leaves over it, and what enters."""
        for node, nics in self._uses.items():
            number = 0
            for gpus, uses in nics.items():
                self._disjoint(node, gpus, nics)
                if len({use.pair for use in uses}) > 1:
                    yield from self._groups(f"{node}_nic{number}", uses)
                    number += 1

    def _groups(self, name: str, uses: list[_Use]) -> Iterator[Shared]:
        rate = self._largest(uses)
        leaving = tuple(flow for use in uses for flow in self._flows(use.gpus, use.others, use.span))
        entering = tuple(flow for use in uses for flow in self._flows(use.others, use.gpus, use.span))
        for direction, flows in (("out", leaving), ("in", entering)):
            if flows:
                word = Word(f"{name}_{direction}", uses[0].span)
                yield Shared(word, rate.bandwidth, rate.lanes, flows, uses[0].span, optional=True)

    def _disjoint(self, node: str, gpus: Gpus, nics: dict[Gpus, list[_Use]]) -> None:
        """In two pairs of nodes, lists of GPUs of a node are the same NIC or have no GPU in common."""
        uses = nics[gpus]
        self.findings.spend(len(nics), uses[-1].span)
        for other_gpus, other_uses in nics.items():
            earlier = next((use for use in other_uses if use.pair < uses[-1].pair), None)
            if other_gpus != gpus and gpus & other_gpus and earlier is not None:
                shared = min(gpus & other_gpus)
                message = f"`{shared}` shares its NIC with other GPUs here than on line {earlier.span.line}"
                help_ = f"name the same GPUs of {node} in each pair, or write `nic => [...]` behind it"
                self.findings.add("HS221", uses[-1].span, message, help_)
                return

    def _largest(self, uses: list[_Use]) -> Rate:
        """The largest rate that a pair of nodes states for a NIC; entries of a pair lie side by side."""
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
        return max(rates.values(), key=lambda rate: rate[0])[1]

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

    def _switches(self) -> Iterator[Element]:
        """One switch for each set of nodes whose NICs are joined."""
        for together in _joined_sets(self._joining):
            first = together[0]
            for internode in together:
                for node in internode.nodes:
                    if not self.nodes[node.text].has_nics:
                        message = f"`internode` without `interbandwidth` joins NICs; `{node.text}` states none"
                        help_ = "add `nic => [(0) >-> (50,1)]` to its bandwidth, or define `interbandwidth`"
                        self.findings.add("HS221", node.span, message, help_)
            members = {node.text for internode in together for node in internode.nodes}
            self._all_pairs(together, members)
            properties: tuple[Property, ...] = ()
            latencies = [latency_between(internode.behind, self.findings) for internode in together]
            if latencies[0] is not None:
                properties = (replace(latencies[0], name="latency"),)
            self._one_latency(together, latencies)
            nics = tuple(Word(f"{node}.nic*", first.name.span) for node in self.nodes if node in members)
            join = Property("join", first.name.span, words=nics)
            yield Element("fabric", first.name, (join, *properties), first.name.span)

    def _all_pairs(self, together: list[Internode], members: set[str]) -> None:
        """A NIC is on one switch, which joins all its nodes to each other: the source has to say so."""
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
            self.findings.add("HS221", together[-1].name.span, message, help_)

    def _one_latency(self, together: list[Internode], latencies: list[Property | None]) -> None:
        seconds = {_seconds(latency, self.findings) for latency in latencies}
        if len(seconds) > 1:
            message = "the NICs of these nodes are on one switch, which has one latency"
            help_ = "define the same `interlatency` behind each `internode`, or write one with all nodes"
            self.findings.add("HS221", together[-1].name.span, message, help_)

    # --- what names in `intergroup` mean

    def gpus_named(self, value: Value, findings: Findings) -> tuple[Word, ...]:
        """``(node1, node2.gpu0)``: all GPUs of node1 and one of node2."""
        names = words(value)
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


def _gpus(internode: Internode, side: int, gpus: Iterable[Amount]) -> tuple[Word, ...]:
    node = internode.nodes[side].text
    return tuple(Word(f"{node}.gpu{gpu.number}", gpu.span) for gpu in gpus)


def _seconds(latency: Property | None, findings: Findings) -> Fraction | None:
    if latency is None or latency.amount is None:
        return Fraction(0)
    return measure(latency.amount, "time", "a latency", findings)


def _joined_sets(internodes: Iterable[Internode]) -> list[list[Internode]]:
    """``internodes`` in sets that have no node in common."""
    sets: list[tuple[set[str], list[Internode]]] = []
    for internode in internodes:
        names = {node.text for node in internode.nodes}
        meeting = [entry for entry in sets if entry[0] & names]
        merged = [other for entry in meeting for other in entry[1]]
        sets = [entry for entry in sets if entry not in meeting]
        sets.append((names.union(*(entry[0] for entry in meeting)), [*merged, internode]))
    return [together for _, together in sets]
