"""Syntax tree -> ``Topology``, or a ``PodCluster`` without the links between pods, or everything that is wrong."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hetesynth.model.diagnostics import SourceError, SourceWarning, render
from hetesynth.model.pods import PodCluster
from hetesynth.model.topology import Topology
from hetesynth.topology.language import assembly, paper, syntax
from hetesynth.topology.language.expansion import expanded
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.imports import Program, resolve, type_meant
from hetesynth.topology.language.losses import Losses
from hetesynth.topology.language.names import HardwareGraph, Part, Scope, declared, hosts_named
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.source import Source
from hetesynth.topology.language.syntax import Cluster, Element, Instance, NodeType, PodType, Property, Shared
from hetesynth.topology.language.units import by_name, count, measure, measured
from hetesynth.topology.language.wiring import Wiring, statements_of

MAX_GPUS = 2048
MAX_POD_GPUS = 16 * MAX_GPUS
MAX_INSTANCES = 1024
PARTS_OF_A_GPU = 16  # at most, on average

_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")


def topology_of(source: Source) -> Topology:
    """Return the cluster that ``source`` describes; warn (``SourceWarning``) of each thing mended in it."""
    findings = Findings()
    tell_mended(source)
    program = expanded(resolve(source, findings), findings)
    return assembly.topology_from(_Elaboration(program, findings, MAX_GPUS).build(), findings)


def tell_mended(source: Source) -> None:
    """Issue a ``SourceWarning`` for each thing that was mended in ``source``."""
    for warning in source.warnings:
        warnings.warn(render(warning, source.written), SourceWarning, stacklevel=4)


def pods_of(source: Source) -> PodCluster:
    """Return the cluster that ``source`` describes as pods, one for every instance of the cluster."""
    findings = Findings()
    program = expanded(resolve(source, findings), findings)
    return assembly.pods_from(_Elaboration(program, findings, MAX_POD_GPUS).build(), findings)


@dataclass(slots=True)
class _Elaboration:
    """A run that builds the hardware of a cluster, with the scopes of all instances and of the cluster."""

    program: Program
    findings: Findings
    max_gpus: int
    hardware: HardwareGraph = field(default_factory=HardwareGraph)
    instances: list[tuple[Scope, NodeType | PodType]] = field(default_factory=list)
    groups: list[tuple[Shared, Scope]] = field(default_factory=list)
    gpus: int = 0
    losses: Losses = field(init=False)
    wiring: Wiring = field(init=False)
    _hosts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.losses = Losses(self.hardware, self.findings)
        self.wiring = Wiring(self.hardware, self.findings)

    def build(self) -> assembly.Built:
        """Make parts and wires; findings are raised where going on would only repeat them."""
        cluster = self.program.cluster
        scope = Scope(f"cluster `{cluster.name.text}`", self.findings)
        items = self._declare(cluster.items, scope)
        self._override(items, scope)
        for local, node in self.instances:
            self._lay(node.items, local)
        self._lay(items, scope)
        self.losses.apply()
        if self.losses.notes:  # a group may have lost all its links
            self.groups = [(replace(shared, optional=True), local) for shared, local in self.groups]
        sizes = by_name((i for i in items if isinstance(i, Property) and i.name == "chunk"), self.findings)
        chunk = None
        if "chunk" in sizes and sizes["chunk"].amount is not None:
            chunk = measure(sizes["chunk"].amount, "size", "the chunk size", self.findings)
            if chunk is not None and (chunk.denominator != 1 or chunk > 1 << 50):
                message = "the chunk size must be whole bytes, at most 1 PiB"
                self.findings.add("HS208", sizes["chunk"].span, message)
        if not self.hardware.gpus() and not self.findings:
            self.findings.add("HS200", cluster.span, "the cluster has no GPUs", "add `instance a = h20x8`")
        self.findings.raise_any()
        disabled = [p.name for p in self.hardware.parts if p.disabled and p.name not in self.losses.lost]
        notes = (*(f"{name} is disabled" for name in disabled), *self.losses.notes)
        return cluster, None if chunk is None else int(chunk), self.hardware, self.groups, notes

    def _limit_parts(self, item: syntax.ClusterItem | syntax.NodeItem) -> None:
        self.findings.limit(len(self.hardware.parts), PARTS_OF_A_GPU * self.max_gpus, "parts", item.span)

    def _instantiate(self, item: Instance, scope: Scope) -> None:
        node = self.program.nodes.get(item.node.text)
        if node is None:
            types = [name for name in self.program.nodes if name.isidentifier()]  # not those made by expansion
            message = f"there is no node type `{item.node.text[:60]}`"
            self.findings.add("HS201", item.node.span, message, type_meant(item.node.text, types))
            return
        names = declared(item.name, "an instance", self.findings)
        if item.count is not None:
            copies = count(item.count, "the number of instances", MAX_INSTANCES, self.findings)
            if len(names) != 1:
                self.findings.add("HS210", item.name.span, "give a range or a count, not both")
            names = [f"{names[0]}{i}" for i in range(copies or 0)] if len(names) == 1 else []
        sort = "node" if isinstance(node, NodeType) else "pod"
        for name, host in zip(names, self._hosts_of(item, names), strict=True):
            full = f"{scope.prefix}{name}"
            local = Scope(f"{sort} `{node.name.text}`", self.findings, prefix=f"{full}.")
            if isinstance(node, NodeType):
                self._declare_gpus(node, local, full)
            items = self._declare(node.items, local, full if isinstance(node, NodeType) else "")
            if isinstance(node, PodType):
                self._override(items, local)
            if host and (host in self._hosts or sort == "pod"):
                message = f"host `{host}` cannot be that of {full}: it is another server's, or {full} is a pod"
                self.findings.add("HS203", item.name.span, message)
            self._hosts.add(host)
            self._override(item.overrides, local)
            for part in local.parts.values():
                part.host = host or part.host
                part.pod = part.pod if scope.prefix else name
            if local.parts and f"{name}.{next(iter(local.parts))}" in scope.parts:
                self.findings.add("HS203", item.name.span, f"there are two instances `{name}`")
                return
            scope.parts.update({f"{name}.{key}": part for key, part in local.parts.items()})
            self.instances.append((local, replace(node, items=items)))
            what = "GPUs" + f"; `--strategy composition` takes {MAX_POD_GPUS}" * (self.max_gpus < MAX_POD_GPUS)
            self.findings.limit(self.gpus, self.max_gpus, what, item.span)

    def _declare(self, items: tuple[Any, ...], scope: Scope, server: str = "") -> tuple[Any, ...]:
        """Declare the parts of ``items`` and return them with one-line networks replaced by their statements."""
        for item in items:
            if isinstance(item, Instance):
                if scope.prefix and isinstance(self.program.nodes.get(item.node.text), PodType):
                    self.findings.add("HS211", item.node.span, f"`{item.node.text[:60]}` is a pod")
                else:
                    self._instantiate(item, scope)
            elif isinstance(item, Element):
                self.wiring.declare(item, scope, server)
            if not scope.prefix:
                self._limit_parts(item)
        result: list[Any] = []
        for item in items:
            if not isinstance(item, syntax.Network):
                result.append(item)
                continue
            for statement in statements_of(item, scope, self.findings):
                if isinstance(statement, Element):
                    self.wiring.declare(statement, scope, server)
                result.append(statement)
            self._limit_parts(item)
        return tuple(result)

    def _declare_gpus(self, node: NodeType, scope: Scope, server: str) -> None:
        declarations = [item for item in node.items if isinstance(item, syntax.Gpus)]
        settings = measured([item for item in node.items if isinstance(item, Property)], self.findings)
        if len(declarations) != 1:
            problem = "has no `gpus`" if not declarations else "has more than one `gpus`"
            span = declarations[1].span if declarations else node.name.span
            self.findings.add("HS209", span, f"node `{node.name.text}` {problem}")
        for item in declarations[:1]:
            total = count(item.count, "the number of GPUs", MAX_GPUS, self.findings) or 0
            for index in range(total):
                part = Part(f"{scope.prefix}gpu{index}", "gpu", server, item.span)
                settings.put_on(part)
                scope.declare(f"gpu{index}", part, item.span)
                self.hardware.parts.append(part)
            self.gpus += total
            for amount in item.missing:
                missing = count(amount, "a GPU's number", max(0, total - 1), self.findings, least=0)
                if missing is not None and total:
                    scope.parts[f"gpu{missing}"].disabled = True

    def _override(self, items: Sequence[object], scope: Scope) -> None:
        for item in items:
            if isinstance(item, syntax.Change):
                self.wiring.change(item, scope)
            elif isinstance(item, syntax.Disable):
                for part in scope.resolve(item.targets):
                    part.disabled = True
            elif isinstance(item, syntax.Loss):
                self.losses.take(item, scope)
            elif isinstance(item, Property) and item.name in ("model", "reduce", "copy"):
                values = measured([item], self.findings)
                for part in scope.parts.values():
                    if part.kind == "gpu":
                        values.put_on(part)

    def _lay(self, items: Sequence[object], scope: Scope) -> None:
        for item in items:
            if isinstance(item, Element):
                self.wiring.lay_element(item, scope)
            elif isinstance(item, syntax.Join):
                self.wiring.lay_join(item, scope)
            elif isinstance(item, syntax.Detach):
                self.wiring.detach(item, scope)
            elif isinstance(item, Shared):
                self.groups.append((item, scope))

    def _hosts_of(self, item: Instance, names: Sequence[str]) -> list[str]:
        """Return a host for each of ``names``, "" if none is stated: `host "node[10-13]"` in an instance."""
        hosts_stated = (o for o in item.overrides if isinstance(o, Property) and o.name == "host")
        stated = by_name(hosts_stated, self.findings)
        if not stated:
            return [""] * len(names)
        word = stated["host"].words[0]
        hosts = hosts_named(word.text)
        if len(hosts) != len(names) or not all(_HOST.fullmatch(host) for host in hosts):
            message = f"`{word.text[:60]}` does not name {len(names)} hosts, one for each instance"
            self.findings.add("HS212", word.span, message)
            return [""] * len(names)
        return hosts


@dataclass(frozen=True, slots=True)
class Inspection:
    """The results of reading a file without errors."""

    file: syntax.File  # in the block form
    is_paper: bool
    cluster: Cluster | None  # None where there are node types only
    topology: Topology
    types: Mapping[str, NodeType | PodType]  # what may be instantiated, imported ones too
    stated: tuple[NodeType | PodType | Cluster, ...]  # types of this file and its cluster, loops repeated
    expanded: Mapping[str, NodeType | PodType]  # all types like that, by the names that instances have for them
    parts: tuple[Part, ...]  # in the order of declaration
    servers: tuple[tuple[str, str], ...]  # instances and their types
    sources: Mapping[str, str]  # what spans point into


def inspected(source: Source) -> Iterator[Inspection]:
    """Yield the inspection of ``source``, or of each of its node types and pods if there is no cluster.

    A type whose GPUs meet outside of it only, as in a tray of a larger NVLink domain, is left out.
    """
    written = parse(source)
    file = paper.lowered(written, Findings())
    is_paper = any(isinstance(item, syntax.Define) for item in written.items)
    types = [item for item in file.items if isinstance(item, (NodeType, PodType))]
    if not types or any(isinstance(item, Cluster) for item in file.items):
        yield _inspection(source, file, is_paper=is_paper)
        return
    for node in types:
        if any(parameter.value is None for parameter in node.parameters):
            continue
        text = f"{source.text}\ncluster alone {{ instance a = {node.name.text} }}\n"
        try:
            yield replace(_inspection(replace(source, text=text), file, is_paper=False), cluster=None)
        except SourceError as error:
            if any(diagnostic.code != "HS217" for diagnostic in error.diagnostics):
                raise


def _inspection(source: Source, file: syntax.File, *, is_paper: bool) -> Inspection:
    findings = Findings()
    written = resolve(source, findings)
    program = expanded(written, findings)
    elaboration = _Elaboration(program, findings, MAX_GPUS)
    topology = assembly.topology_from(elaboration.build(), findings)
    servers = tuple(
        (scope.prefix.removesuffix("."), node.name.text)
        for scope, node in elaboration.instances
        if isinstance(node, NodeType)
    )
    own = (node for node in program.nodes.values() if node.name.span.file == source.name)
    return Inspection(
        file=file,
        is_paper=is_paper,
        cluster=written.cluster,
        topology=topology,
        types=written.nodes,
        stated=(*own, program.cluster),
        expanded=program.nodes,
        parts=tuple(elaboration.hardware.parts),
        servers=servers,
        sources=findings.sources,
    )


def instances_in(cluster: Cluster, types: Mapping[str, NodeType | PodType]) -> Iterator[syntax.Word]:
    """Yield the names of the types that ``cluster`` instantiates, those inside of pods included."""
    todo = [*_instances(cluster.items)]
    seen: set[str] = set()
    while todo:
        name = todo.pop().node
        yield name
        node = types.get(name.text)
        if isinstance(node, PodType) and name.text not in seen:
            seen.add(name.text)
            todo += _instances(node.items)


def _instances(items: Iterable[object]) -> Iterator[Instance]:
    for item in items:
        if isinstance(item, Instance):
            yield item
        elif isinstance(item, syntax.Loop):
            yield from _instances(item.items)
