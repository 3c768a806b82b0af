"""Source -> everything that is known of a file that is right: syntax, parts with spans, the cluster.

In: a ``Source``. Out: an ``Inspection``, or ``SourceError`` as any command would raise it. For those that look at
files rather than at clusters. A file of node types alone is looked at as the cluster of one server of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hetesynth.frontend import paper
from hetesynth.frontend.elaborate import MAX_GPUS, MAX_PARTS, Elaboration
from hetesynth.frontend.findings import Findings
from hetesynth.frontend.imports import resolve
from hetesynth.frontend.names import Part
from hetesynth.frontend.parser import parse
from hetesynth.frontend.source import Source
from hetesynth.frontend.syntax import Cluster, Define, File, Instance, NodeType, PodType, Word
from hetesynth.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Server:
    """An instance as built: the name its parts begin with and the type it is of."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """``file``: the syntax of the file, in the block form; ``cluster`` is None where it holds node types only.

    ``types``: what may be instantiated, by name, with the file each is defined in; ``parts`` are in the order of
    declaration; ``sources`` are the texts that spans point into.
    """

    file: File
    is_paper: bool
    cluster: Cluster | None
    topology: Topology
    types: Mapping[str, NodeType | PodType]
    parts: tuple[Part, ...]
    servers: tuple[Server, ...]
    sources: Mapping[str, str]


def inspected(source: Source) -> Iterator[Inspection]:
    """The inspection of ``source``: one, or one for each node type and pod where it has no cluster."""
    written = parse(source)
    file = paper.lowered(written, Findings())
    is_paper = any(isinstance(item, Define) for item in written.items)
    types = [item for item in file.items if isinstance(item, (NodeType, PodType))]
    if types and not any(isinstance(item, Cluster) for item in file.items):
        for node in types:
            if not _is_parametric(node):
                yield _alone(source, file, node)
        return
    yield _inspection(source, file, is_paper)


def _is_parametric(node: NodeType | PodType) -> bool:
    return bool(getattr(node, "parameters", ()))


def _alone(source: Source, file: File, node: NodeType | PodType) -> Inspection:
    """One server of type ``node``; the statement that makes it stands behind the text."""
    text = f"{source.text}\ncluster alone {{ instance a = {node.name.text} }}\n"
    inspection = _inspection(replace(source, text=text), file, is_paper=False)
    return replace(inspection, cluster=None)


def _inspection(source: Source, file: File, is_paper: bool) -> Inspection:
    findings = Findings()
    program = resolve(source, findings)
    elaboration = Elaboration(program, findings, MAX_GPUS, MAX_PARTS)
    topology = elaboration.topology()
    servers = tuple(
        Server(scope.prefix.removesuffix("."), node.name.text)
        for scope, node in elaboration.instances
        if isinstance(node, NodeType)
    )
    return Inspection(
        file,
        is_paper,
        program.cluster,
        topology,
        program.nodes,
        tuple(elaboration.hardware.parts),
        servers,
        findings.sources,
    )


def instances_in(cluster: Cluster, types: Mapping[str, NodeType | PodType]) -> Iterator[Word]:
    """The types that ``cluster`` instantiates, pods and what is in them included."""
    todo = [item for item in cluster.items if isinstance(item, Instance)]
    while todo:
        instance = todo.pop()
        yield instance.node
        node = types.get(instance.node.text)
        if isinstance(node, PodType):
            todo += [item for item in node.items if isinstance(item, Instance)]
