"""Source -> all that is known of a file that is right: syntax, parts with spans, the cluster.

A file of node types alone is looked at as the cluster of one server of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import paper
from hetesynth.topology.language.elaborate import built_of
from hetesynth.topology.language.expansion import expanded
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.imports import resolve
from hetesynth.topology.language.names import Part
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.source import Source
from hetesynth.topology.language.syntax import Cluster, Define, File, Instance, Loop, NodeType, PodType, Word

_APART = "HS217"  # GPUs that cannot reach each other


@dataclass(frozen=True, slots=True)
class Inspection:
    """``file``: the syntax of the file, in the block form; ``cluster`` is None where it holds node types only.

    ``types``: what may be instantiated, by name, imported ones too; ``stated`` are the types of this file and,
    last, its cluster with numbers worked out and loops repeated; ``expanded`` are all types like that, by the
    names that instances then have for them. ``parts`` are in the order of declaration, ``servers`` are pairs of an
    instance and its type; ``sources`` are the texts that spans point into.
    """

    file: File
    is_paper: bool
    cluster: Cluster | None
    topology: Topology
    types: Mapping[str, NodeType | PodType]
    stated: tuple[NodeType | PodType | Cluster, ...]
    expanded: Mapping[str, NodeType | PodType]
    parts: tuple[Part, ...]
    servers: tuple[tuple[str, str], ...]
    sources: Mapping[str, str]


def inspected(source: Source) -> Iterator[Inspection]:
    """The inspection of ``source``: one, or one for each node type and pod where it has no cluster.

    There the statement that makes one server of it stands behind the text. A type whose GPUs meet outside of it
    only, as in a tray of a larger NVLink domain, is left out.
    """
    written = parse(source)
    file = paper.lowered(written, Findings())
    is_paper = any(isinstance(item, Define) for item in written.items)
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
            if any(diagnostic.code != _APART for diagnostic in error.diagnostics):
                raise


def _inspection(source: Source, file: File, *, is_paper: bool) -> Inspection:
    findings = Findings()
    written = resolve(source, findings)
    program = expanded(written, findings)
    topology, parts, servers = built_of(program, findings)
    own = (node for node in program.nodes.values() if node.name.span.file == source.name)
    return Inspection(
        file=file,
        is_paper=is_paper,
        cluster=written.cluster,
        topology=topology,
        types=written.nodes,
        stated=(*own, program.cluster),
        expanded=program.nodes,
        parts=parts,
        servers=servers,
        sources=findings.sources,
    )


def instances_in(cluster: Cluster, types: Mapping[str, NodeType | PodType]) -> Iterator[Word]:
    """The types that ``cluster`` instantiates, pods and what is in them included."""
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
        elif isinstance(item, Loop):
            yield from _instances(item.items)
