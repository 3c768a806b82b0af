"""A node of the paper form -> a node type of the block form and what is out of order in its one instance.

In: a ``NodeDefinition``. Out: ``Node``. What a GPU sends over ``switch`` connections and NICs passes the PCIe
switch that it shares with others, where there is one; ``direct``, ``mesh`` and ``port`` connections do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Table
from dataclasses import dataclass

from hetesynth.topology.language import paper_values
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.paper_connections import Connection, connections_in, entries
from hetesynth.topology.language.paper_definitions import NodeDefinition, amount_of, gpu_count
from hetesynth.topology.language.paper_values import Rate
from hetesynth.topology.language.syntax import (
    Amount,
    Change,
    Define,
    Disable,
    Edge,
    Element,
    Flow,
    Gpus,
    Instance,
    Join,
    Mapping,
    NodeItem,
    NodeType,
    Override,
    Property,
    Shared,
    Value,
    Word,
)

GpusOf = Callable[[Value, Findings], tuple[Word, ...]]

_SLOWED = {"nic": "nic", "port": "port", "switch": "switch", "pcie": "pcie"}
_FAILED = {"gpu": "gpu", **_SLOWED}


@dataclass(frozen=True, slots=True)
class Pcie:
    """A PCIe switch: its name in the node and the numbers of the GPUs that share it."""

    name: str
    gpus: frozenset[str]


PcieOf = Table[str, Pcie]  # by the number of a GPU, as NICs are
NicsOf = Table[str, list[Connection]]


@dataclass(frozen=True, slots=True)
class Node:
    """A node in the block form; ways out of it begin with its PCIe switches."""

    type: NodeType
    instance: Instance
    pcie: PcieOf
    has_nics: bool


def node_of(definition: NodeDefinition, findings: Findings) -> Node:
    """The hardware of one node."""
    name, behind = definition.name, definition.behind
    connections = connections_in(behind, findings)
    pcie, nics = _pcie_switches(connections, findings), _nics_by_gpu(connections)
    size = gpu_count(definition, findings)
    items: list[NodeItem] = [Gpus(size, (), name.span)] if size is not None else []
    items += _profile(behind.get("model"), behind.get("reduce"), findings)
    for connection in connections:
        items += _hardware(connection, nics, pcie, findings)
    items += groups(behind.get("group"), _local_gpus, findings)
    overrides: tuple[Override, ...] = (
        *_slowdowns(behind.get("slowdown"), findings),
        *_failures(behind.get("failure"), findings),
    )
    instance = Instance(name, name, None, overrides, name.span)
    return Node(NodeType(name, tuple(items), name.span), instance, pcie, bool(nics))


def _profile(model: Define | None, reduce: Define | None, findings: Findings) -> Iterator[Property]:
    """The model of the GPUs and their computational profile."""
    if model is not None:
        word = paper_values.stripped(model.value)
        if isinstance(word, Word):
            yield Property("model", model.name.span, words=(word,))
        else:
            findings.add("HS221", model.name.span, "`model` takes a word", "write it like `define model = V100`")
    if reduce is not None:
        yield Property("reduce", reduce.name.span, amount=amount_of(reduce.name, reduce.value, findings))


# --- PCIe switches


def _pcie_switches(connections: Iterable[Connection], findings: Findings) -> dict[str, Pcie]:
    """The PCIe switch of each GPU that is behind one; a second one is a finding."""
    switches: dict[str, Pcie] = {}
    for connection in connections:
        if connection.sort != "pcie":
            continue
        (gpus,) = connection.ends.sides
        switch = Pcie(f"pcie{connection.number}", frozenset(gpu.number for gpu in gpus))
        for gpu in gpus:
            if switches.setdefault(gpu.number, switch) is not switch:
                message = f"GPU {gpu.number} is behind two PCIe switches"
                findings.add("HS218", gpu.span, message, "name it in one of them")
    return switches


def outlets(gpus: Iterable[Amount], pcie: PcieOf, findings: Findings) -> tuple[Word, ...]:
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


# --- connections


def _hardware(connection: Connection, nics: NicsOf, pcie: PcieOf, findings: Findings) -> Iterator[Element | Join]:
    """The switches, buses, NICs and wires of one connection."""
    sides, span, properties = connection.ends.sides, connection.ends.span, connection.properties
    name = Word(f"{connection.sort}{connection.number}", span)
    gpus = _names(sides[0])
    if connection.sort == "direct":
        yield Join("link", gpus, _names(sides[1]), False, properties, span)
    elif connection.sort == "mesh":
        yield Join("mesh", gpus, (), True, properties, span)
    elif connection.sort == "port":
        yield Element("switch", name, (Property("ports", span, words=gpus), *properties), span)
    elif connection.sort == "switch":
        left, right = (outlets(side, pcie, findings) for side in sides)
        yield Element("switch", name, (Property("members", span, words=left, far=right), *properties), span)
    elif connection.sort == "pcie":
        far = _nics_behind(sides[0], nics, findings)
        yield Element(
            "bus", name, (Property("members", span, words=gpus, far=far, two_sided=True), *properties), span
        )
    else:
        yield Element("nic", name, properties, span)
        attached = [word for word in outlets(sides[0], pcie, findings) if word.text.startswith("gpu")]
        if attached:
            yield Join("attach", tuple(attached), (name,), True, (), span)


def _nics_by_gpu(connections: Iterable[Connection]) -> dict[str, list[Connection]]:
    nics: dict[str, list[Connection]] = {}
    for connection in connections:
        for gpu in connection.ends.sides[0] if connection.sort == "nic" else ():
            nics.setdefault(gpu.number, []).append(connection)
    return nics


def _nics_behind(gpus: Iterable[Amount], nics: NicsOf, findings: Findings) -> tuple[Word, ...]:
    """The NIC of a PCIe switch, if it has one; a second one is a finding."""
    behind = {nic.number: nic for gpu in gpus for nic in nics.get(gpu.number, ())}
    for nic in list(behind.values())[1:]:
        message = "GPUs that share a PCIe switch share one NIC; this is a second one"
        help_ = "write one NIC with more links: `(0,1) >-> (50,2)`"
        findings.add("HS221", nic.ends.span, message, help_)
    return tuple(Word(f"nic{number}", nic.ends.span) for number, nic in behind.items())


def _names(gpus: Iterable[Amount]) -> tuple[Word, ...]:
    return tuple(Word(f"gpu{gpu.number}", gpu.span) for gpu in gpus)


# --- groups (HeteCCL eq. 5)


def _local_gpus(value: Value, findings: Findings) -> tuple[Word, ...]:
    """The GPUs of ``(0,1)``."""
    gpus = paper_values.numbers(value)
    if gpus is None:
        findings.add(
            "HS221", value.span, "an edge of a group joins lists of GPU numbers", "as in `(0,1) -> (2,3)`"
        )
    return _names(gpus or ())


def groups(define: Define | None, gpus_of: GpusOf, findings: Findings) -> Iterator[Shared]:
    """The groups (E_g, C_g) of a node or of the cluster; ``gpus_of`` says what an end of an edge names."""
    if define is None:
        return
    if not isinstance(define.value, Mapping):
        message = f"`{define.name.text}` takes a mapping"
        findings.add("HS221", define.name.span, message, "write it like `{upi => ((0,1) -> (2,3), (48,1))}`")
        return
    for entry in define.value.entries:
        group = paper_values.group_of(entry.value)
        if group is None:
            message = "a group is its edges and their common limit"
            findings.add("HS221", entry.key.span, message, "write it like `([(0,1) -> (2,3)], (48,1))`")
            continue
        flows = tuple(_flow(edge, gpus_of, findings) for edge in group.edges)
        if all(flow.left and flow.right for flow in flows):
            yield Shared(entry.key, group.rate.bandwidth, group.rate.lanes, flows, entry.key.span)


def _flow(edge: Edge, gpus_of: GpusOf, findings: Findings) -> Flow:
    return Flow(gpus_of(edge.left, findings), gpus_of(edge.right, findings), False, edge.span)


# --- failures and slowdowns


def _failures(define: Define | None, findings: Findings) -> Iterator[Disable]:
    for entry in entries(define, _FAILED, findings):
        numbers = paper_values.numbers(entry.value)
        if not numbers:
            findings.add("HS221", entry.key.span, "a failure names numbers", "write it like `{gpu => (3)}`")
            continue
        stem = _FAILED[entry.key.text]
        words = tuple(Word(f"{stem}{amount.number}", amount.span) for amount in numbers)
        yield Disable(words, entry.key.span)


def _slowdowns(define: Define | None, findings: Findings) -> Iterator[Change]:
    for entry in entries(define, _SLOWED, findings):
        stem = _SLOWED[entry.key.text]
        rate = paper_values.rate_of(entry.value)
        if rate is not None:
            yield _slowed((Word(f"{stem}*", entry.key.span),), rate)
            continue
        shape = paper_values.Shape("->", 1, False, "a list of numbers", "`(0,1) -> (18 Gbps,1)`")
        for ends in paper_values.connections(entry.value, "slowdown", shape, findings):
            words = tuple(Word(f"{stem}{amount.number}", amount.span) for amount in ends.sides[0])
            yield _slowed(words, ends.rate)


def _slowed(targets: tuple[Word, ...], rate: Rate) -> Change:
    bandwidth = Property("bandwidth", rate.bandwidth.span, amount=rate.bandwidth, lanes=rate.lanes)
    latency = () if rate.latency is None else (Property("latency", rate.latency.span, amount=rate.latency),)
    return Change(targets, (bandwidth, *latency), targets[0].span)
