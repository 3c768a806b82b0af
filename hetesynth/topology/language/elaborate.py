"""Syntax tree -> Topology: instances are expanded, wires laid, links found, the result checked.

In: a ``Source``. Out: a ``Topology``, or a ``PodCluster`` without the links between pods; or ``SourceError`` with
everything that is wrong. Reading order: imports, parts, overrides, wires, checks, links, groups.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hetesynth.model.diagnostics import SourceWarning, render
from hetesynth.model.pods import PodCluster
from hetesynth.model.topology import Topology
from hetesynth.topology.language import checks
from hetesynth.topology.language.expansion import expanded
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.groups import shared_groups
from hetesynth.topology.language.hardware_graph import HardwareGraph
from hetesynth.topology.language.hosts import hosts_of, state_host
from hetesynth.topology.language.imports import Program, resolve, type_meant
from hetesynth.topology.language.losses import Losses
from hetesynth.topology.language.names import Part, Scope, declared
from hetesynth.topology.language.networks import statements_of
from hetesynth.topology.language.pods import Hardware, pod_cluster
from hetesynth.topology.language.properties import measured
from hetesynth.topology.language.source import Source
from hetesynth.topology.language.syntax import (
    Change,
    Cluster,
    ClusterItem,
    Detach,
    Disable,
    Element,
    Gpus,
    Instance,
    Join,
    Loss,
    Network,
    NodeItem,
    NodeType,
    Override,
    PodItem,
    PodType,
    Property,
    Shared,
)
from hetesynth.topology.language.units import count, measure
from hetesynth.topology.language.wiring import Wiring

AnyItem = TypeVar("AnyItem", NodeItem, PodItem, ClusterItem)

MAX_GPUS = 2048
MAX_POD_GPUS = 16 * MAX_GPUS
MAX_INSTANCES = 1024
MAX_PARTS = 16 * MAX_GPUS
MAX_POD_PARTS = 16 * MAX_PARTS


def topology_of(source: Source) -> Topology:
    """The cluster that ``source`` describes; a ``SourceWarning`` for each thing that was mended in it."""
    findings = Findings()
    tell_mended(source)
    program = expanded(resolve(source, findings), findings)
    return _Elaboration(program, findings, MAX_GPUS, MAX_PARTS).topology()


def tell_mended(source: Source) -> None:
    """A ``SourceWarning`` for each thing that was mended in ``source``."""
    for warning in source.warnings:
        warnings.warn(render(warning, source.written), SourceWarning, stacklevel=4)


def pods_of(source: Source) -> PodCluster:
    """The cluster that ``source`` describes as pods: every instance of the cluster is one."""
    findings = Findings()
    program = expanded(resolve(source, findings), findings)
    return _Elaboration(program, findings, MAX_POD_GPUS, MAX_POD_PARTS).pods()


@dataclass(slots=True)
class _Elaboration:
    """One run: the scopes of all instances and of the cluster, over one hardware."""

    program: Program
    findings: Findings
    max_gpus: int
    max_parts: int
    hardware: HardwareGraph = field(default_factory=HardwareGraph)
    instances: list[tuple[Scope, NodeType | PodType]] = field(default_factory=list)
    groups: list[tuple[Shared, Scope]] = field(default_factory=list)
    gpus: int = 0
    losses: Losses = field(init=False)
    _hosts: dict[str, str] = field(default_factory=dict)  # the instance of each

    def __post_init__(self) -> None:
        self.losses = Losses(self.hardware, self.findings)

    def topology(self) -> Topology:
        """All phases in order; findings are raised where going on would only repeat them."""
        return self._assembled(self.program.cluster, self._built())

    def pods(self) -> PodCluster:
        """The same without links between pods."""
        chunk = self._built()
        vertices, wires = self.hardware.graph()
        checks.attached_nics(self.hardware, vertices, wires, self.findings)
        self.findings.raise_any()
        built = Hardware(self.hardware, vertices, wires, self.groups, self._notes())
        return pod_cluster(self.program.cluster.name, chunk, built, self.findings)

    def _built(self) -> int | None:
        """Parts and wires; the chunk size that is stated."""
        cluster = self.program.cluster
        wiring = Wiring(self.hardware, self.findings)
        scope = Scope(f"cluster `{cluster.name.text}`", self.findings)
        self._declare(cluster, scope, wiring)
        cluster = replace(cluster, items=self._networks(cluster.items, scope, "", wiring))
        self._override(cluster, scope, wiring)
        self._lay(cluster, scope, wiring)
        self.losses.apply()
        if self.losses.notes:  # a group may have lost all its links
            self.groups = [(replace(shared, optional=True), local) for shared, local in self.groups]
        chunk = self._chunk(cluster)
        if not self.hardware.gpus() and not self.findings:
            self.findings.add("HS200", cluster.span, "the cluster has no GPUs", "add `instance a = h20x8`")
        self.findings.raise_any()
        return chunk

    def _assembled(self, cluster: Cluster, chunk: int | None) -> Topology:
        vertices, wires = self.hardware.graph()
        gpus = self.hardware.gpus()
        checks.attached_nics(self.hardware, vertices, wires, self.findings)
        self.findings.raise_any()
        links = checks.limited_links(vertices, wires, len(gpus), cluster.name.span, self.findings)
        groups = shared_groups(self.groups, gpus, links, self.findings)
        self.findings.raise_any()
        topology = Topology(
            name=cluster.name.text,
            vertices=vertices,
            ranks=len(gpus),
            wires=wires,
            links=links,
            groups=groups,
            reduce_bandwidth=tuple(p.reduce for p in gpus) if any(p.reduce for p in gpus) else (),
            copy_bandwidth=tuple(p.copy for p in gpus) if any(p.copy for p in gpus) else (),
            chunk_bytes=chunk,
            notes=self._notes(),
            measured=self._measured(cluster, {wire.kind.lower() for wire in wires}),
        )
        checks.connected(topology, cluster.name.span, self.findings)
        self.findings.raise_any()
        return topology

    # --- parts

    def _declare(self, cluster: Cluster, scope: Scope, wiring: Wiring) -> None:
        for item in cluster.items:
            if isinstance(item, Instance):
                self._instantiate(item, scope, wiring)
            elif isinstance(item, Element):
                wiring.declare(item, scope, "")
            if len(self.hardware.parts) > self.max_parts:
                self.findings.add("HS208", item.span, f"the cluster has more than {self.max_parts} parts")
                self.findings.raise_any()

    def _instantiate(self, item: Instance, scope: Scope, wiring: Wiring) -> None:
        node = self.program.nodes.get(item.node.text)
        if node is None:
            types = [name for name in self.program.nodes if name.isidentifier()]  # not those made by expansion
            help_ = type_meant(item.node.text, types)
            message = f"there is no node type `{item.node.text[:60]}`"
            self.findings.add("HS201", item.node.span, message, help_)
            return
        names = self._instance_names(item)
        for name, host in zip(names, hosts_of(item, names, self.findings), strict=True):
            full = f"{scope.prefix}{name}"
            what = "node" if isinstance(node, NodeType) else "pod"
            local = Scope(f"{what} `{node.name.text}`", self.findings, prefix=f"{full}.")
            built: NodeType | PodType
            if isinstance(node, NodeType):
                built = self._declare_node(node, local, full, wiring)
            else:
                built = self._declare_pod(node, local, wiring)
            state_host(item, host, node, local, self._hosts, self.findings)
            for override in item.overrides:
                _override_instance(override, local, wiring, self.findings)
            if f"{name}.gpu0" in scope.parts or any(
                p.startswith(f"{name}.") for p in local.parts if p in scope.parts
            ):
                self.findings.add("HS203", item.name.span, f"there are two instances `{name}`", "rename one")
                return
            scope.parts.update({f"{name}.{key}": part for key, part in local.parts.items()})
            for part in local.parts.values() if not scope.prefix else ():
                part.pod = name
            self.instances.append((local, built))
            self._limit_gpus(item)

    def _instance_names(self, item: Instance) -> list[str]:
        names = declared(item.name, "an instance", self.findings)
        if item.count is None:
            return names
        copies = count(item.count, "the number of instances", MAX_INSTANCES, self.findings)
        if len(names) != 1:
            help_ = "write `instance b[0-1] = ...` or `instance b = ... x 2`"
            self.findings.add("HS210", item.name.span, "give a range or a count, not both", help_)
            return []
        return [f"{names[0]}{i}" for i in range(copies)] if copies else []

    def _limit_gpus(self, item: Instance) -> None:
        if self.gpus > self.max_gpus:
            message = f"the cluster has more than {self.max_gpus} GPUs"
            help_ = "use fewer or smaller instances"
            if self.max_gpus < MAX_POD_GPUS:
                help_ += ", or `hetesynth synth --strategy composition`"
            self.findings.add("HS208", item.span, message, help_)
            self.findings.raise_any()

    def _networks(
        self, items: tuple[AnyItem, ...], scope: Scope, server: str, wiring: Wiring
    ) -> tuple[AnyItem | Element | Join, ...]:
        """``items`` with networks in one line replaced by what they stand for, whose parts are declared."""
        if not any(isinstance(item, Network) for item in items):
            return items
        result: list[AnyItem | Element | Join] = []
        for item in items:
            if not isinstance(item, Network):
                result.append(item)
                continue
            for statement in statements_of(item, scope, self.findings):
                if isinstance(statement, Element):
                    wiring.declare(statement, scope, server)
                result.append(statement)
            if len(self.hardware.parts) > self.max_parts:
                self.findings.add("HS208", item.span, f"the cluster has more than {self.max_parts} parts")
                self.findings.raise_any()
        return tuple(result)

    def _declare_pod(self, pod: PodType, scope: Scope, wiring: Wiring) -> PodType:
        for item in pod.items:
            if isinstance(item, Instance):
                if isinstance(self.program.nodes.get(item.node.text), PodType):
                    help_ = "name a node type: pods hold servers"
                    self.findings.add("HS211", item.node.span, f"`{item.node.text[:60]}` is a pod", help_)
                else:
                    self._instantiate(item, scope, wiring)
            elif isinstance(item, Element):
                wiring.declare(item, scope, "")
        pod = replace(pod, items=self._networks(pod.items, scope, "", wiring))
        for item in pod.items:
            if isinstance(item, (Change, Disable)):
                _override_instance(item, scope, wiring, self.findings)
            elif isinstance(item, Loss):
                self.losses.take(item, scope)
        return pod

    def _declare_node(self, node: NodeType, scope: Scope, server: str, wiring: Wiring) -> NodeType:
        declarations = [item for item in node.items if isinstance(item, Gpus)]
        settings = measured([item for item in node.items if isinstance(item, Property)], self.findings)
        if len(declarations) != 1:
            problem = "has no `gpus`" if not declarations else "has more than one `gpus`"
            span = declarations[1].span if declarations else node.name.span
            self.findings.add("HS209", span, f"node `{node.name.text}` {problem}", "state once how many: `gpus 8`")
        for declaration in declarations[:1]:
            self._declare_gpus(declaration, scope, server)
        for part in scope.parts.values():
            part.model, part.reduce, part.copy = settings.model or "", settings.reduce, settings.copy
        for item in node.items:
            if isinstance(item, Element):
                wiring.declare(item, scope, server)
        return replace(node, items=self._networks(node.items, scope, server, wiring))

    def _declare_gpus(self, item: Gpus, scope: Scope, server: str) -> None:
        total = count(item.count, "the number of GPUs", MAX_GPUS, self.findings) or 0
        for index in range(total):
            part = Part(f"{scope.prefix}gpu{index}", "gpu", server, item.span)
            scope.declare(f"gpu{index}", part, item.span)
            self.hardware.add(part)
        self.gpus += total
        for amount in item.missing:
            missing = count(amount, "a GPU's number", max(0, total - 1), self.findings, least=0)
            if missing is not None and total:
                scope.parts[f"gpu{missing}"].disabled = True

    # --- overrides of the cluster, then wires

    def _override(self, cluster: Cluster, scope: Scope, wiring: Wiring) -> None:
        for item in cluster.items:
            if isinstance(item, (Change, Disable)):
                _override_instance(item, scope, wiring, self.findings)
            elif isinstance(item, Loss):
                self.losses.take(item, scope)

    def _lay(self, cluster: Cluster, scope: Scope, wiring: Wiring) -> None:
        wrong: set[int] = set()  # types whose findings are told: others of them would only repeat these
        for local, node in self.instances:
            before = len(self.findings)
            if id(node) not in wrong:
                self._lay_items(node.items, local, wiring)
            if len(self.findings) > before:
                wrong.add(id(node))
        self._lay_items(cluster.items, scope, wiring)
        wiring.check_joined()

    def _lay_items(self, items: Sequence[NodeItem | ClusterItem], scope: Scope, wiring: Wiring) -> None:
        for item in items:
            if isinstance(item, Element):
                wiring.lay_element(item, scope)
            elif isinstance(item, Join):
                wiring.lay_join(item, scope)
            elif isinstance(item, Detach):
                wiring.detach(item, scope)
            elif isinstance(item, Shared):
                self.groups.append((item, scope))

    def _notes(self) -> tuple[str, ...]:
        disabled = [p.name for p in self.hardware.parts if p.disabled and p.name not in self.losses.lost]
        return (*(f"{name} is disabled" for name in disabled), *self.losses.notes)

    def _chunk(self, cluster: Cluster) -> int | None:
        sizes = [item for item in cluster.items if isinstance(item, Property) and item.name == "chunk"]
        if len(sizes) > 1:
            self.findings.add("HS209", sizes[1].span, "`chunk` is given twice", "keep one")
        if not sizes or sizes[0].amount is None:
            return None
        size = measure(sizes[0].amount, "size", "the chunk size", self.findings)
        if size is not None and (size.denominator != 1 or size > 1 << 50):
            self.findings.add("HS208", sizes[0].amount.span, "the chunk size must be whole bytes, at most 1 PiB")
            return None
        return int(size) if size is not None else None

    def _measured(self, cluster: Cluster, kinds: set[str]) -> tuple[str, ...]:
        """The kinds whose rates are stated as measured; there have to be such wires."""
        stated = [item for item in cluster.items if isinstance(item, Property) and item.name == "measured"]
        words = [word for item in stated for word in item.words]
        for word in words:
            if word.text.lower() not in kinds:
                help_ = f"there are {', '.join(sorted(kinds))}"
                self.findings.add("HS210", word.span, f"no wire is of kind `{word.text}`", help_)
        return tuple(sorted({word.text.lower() for word in words}))


def _override_instance(item: Override, scope: Scope, wiring: Wiring, findings: Findings) -> None:
    if isinstance(item, Change):
        wiring.change(item, scope)
    elif isinstance(item, Disable):
        wiring.disable(item, scope)
    elif isinstance(item, Property) and item.name != "host":
        values = measured([item], findings)
        for part in scope.parts.values():
            if part.kind == "gpu":
                part.model = values.model if values.model is not None else part.model
                part.reduce = values.reduce if values.reduce is not None else part.reduce
                part.copy = values.copy if values.copy is not None else part.copy


def built_of(
    program: Program, findings: Findings
) -> tuple[Topology, tuple[Part, ...], tuple[tuple[str, str], ...]]:
    """The cluster of an expanded ``program``, its parts, and its servers with the type of each."""
    elaboration = _Elaboration(program, findings, MAX_GPUS, MAX_PARTS)
    topology = elaboration.topology()
    servers = tuple(
        (scope.prefix.removesuffix("."), node.name.text)
        for scope, node in elaboration.instances
        if isinstance(node, NodeType)
    )
    return topology, tuple(elaboration.hardware.parts), servers
