"""Topology files: what is doubtful or wrong about each, as findings, JSON or SARIF; facts and pictures."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hetesynth
from hetesynth.engine.places import demand_place
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_all
from hetesynth.model.diagnostics import Diagnostic, SourceError, visible
from hetesynth.model.topology import Topology
from hetesynth.report.cluster_facts import ClusterFacts, cluster_facts
from hetesynth.report.sarif import sarif_failure, sarif_log, sarif_result, sarif_rule
from hetesynth.search.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.elaborate import inspected, tell_mended
from hetesynth.topology.language.source import read_source
from hetesynth.topology.lint import RULES, lint, lint_inspected

MAX_DRAWN_WIRES = 50_000


@dataclass(frozen=True, slots=True)
class LintedFile:
    """The findings about a file; ``error`` is what any command would say where the file is wrong."""

    path: str
    findings: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    error: HetesynthError | None = None

    def count(self, severity: str) -> int:
        """Return the number of findings of this severity."""
        return sum(finding.severity == severity for finding in self.findings)


def lint_files(paths: Sequence[str | os.PathLike[str]]) -> list[LintedFile]:
    """Return the findings about each of ``paths``, each read once."""
    files = []
    for path in dict.fromkeys(paths):
        try:
            findings, sources = lint(read_source(path))
        except HetesynthError as error:
            files.append(LintedFile(os.fspath(path), (), {}, error))
        else:
            files.append(LintedFile(os.fspath(path), tuple(findings), sources))
    return files


def document(files: Sequence[LintedFile], *, ok: bool) -> dict[str, Any]:
    """Return the object that ``topo lint --json`` prints."""
    rows = []
    for file in files:
        findings = file.error.diagnostics if isinstance(file.error, SourceError) else file.findings
        rows.append({"file": file.path, "findings": [finding.plain() for finding in findings]})
    return {"ok": ok, "files": rows}


def sarif(files: Sequence[LintedFile]) -> dict[str, Any]:
    """A SARIF log with a run for each file."""
    version = hetesynth.__version__
    rules = [sarif_rule(rule.code, rule.name, rule.summary, "see docs/lint.md") for rule in RULES]
    logs = []
    for file in files:
        if file.error is not None:
            logs.append(sarif_failure(file.error, version, file.path))
        else:
            results = []
            for one in file.findings:
                message = f"{one.message}; {one.help}" if one.help else one.message
                where, columns = (file.path, one.span.line), (one.span.column, one.span.column + one.span.length)
                results.append(sarif_result(one.code, one.severity, message, *where, columns=columns))
            logs.append(sarif_log(rules, results, version))
    return {**logs[0], "runs": [run for log in logs for run in log["runs"]]}


Look = tuple[Chunking, ClusterFacts, tuple[Diagnostic, ...]]
"""Capacities, facts, and warnings about what is doubtful in the file."""


def look(path: os.PathLike[str], options: ChunkingOptions, svg: Path | None, graph: Path | None) -> Look:
    """Capacities, facts and warnings of the topology at ``path``; its picture is written to ``svg``, its
    multigraph to ``graph`` as GraphML."""
    for place in filter(None, (svg, graph)):
        demand_place(place)
    source = read_source(path)
    inspections, findings = list(inspected(source)), list[Diagnostic]()
    if len(inspections) != 1 or inspections[0].cluster is None:
        topology = load_topology(path)  # which says that there is no cluster
    else:
        tell_mended(source)
        topology = inspections[0].topology
        findings, _ = lint_inspected(inspections, source)
    files: dict[Path, bytes] = {}
    if svg is not None:
        from hetesynth.report.svg import topology_svg

        if len(topology.wires) > MAX_DRAWN_WIRES:
            message = f"{len(topology.wires)} wires are too many to draw: at most {MAX_DRAWN_WIRES}"
            raise HetesynthError(message, code="HS574", help="describe all-to-all joined GPUs by a switch")
        files[svg] = topology_svg(topology).encode()
    if graph is not None:
        files[graph] = graphml(topology)
    write_all(files)
    warnings = tuple(finding for finding in findings if finding.severity == "warning")
    return chunk(topology, options), cluster_facts(topology), warnings


def graphml(topology: Topology) -> bytes:
    """The physical multigraph: a node for each vertex by name, an edge for each direction of a wire."""
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=visible(topology.name))
    names = [visible(vertex.name) for vertex in topology.vertices]
    for rank, (name, vertex) in enumerate(zip(names, topology.vertices, strict=True)):
        of_gpus = {"rank": rank} if rank < topology.ranks else {}
        graph.add_node(name, kind=vertex.kind, server=visible(vertex.server), **of_gpus)
    for key, wire in enumerate(topology.wires):
        values = {"lanes": wire.lanes, "latency_us": float(wire.latency * 1_000_000)}
        if wire.bandwidth is not None:
            values["gbytes_per_second"] = float(wire.bandwidth * wire.lanes / 10**9)
        graph.add_edge(names[wire.src], names[wire.dst], key=key, kind=wire.kind, **values)
    return ("\n".join(nx.generate_graphml(graph)) + "\n").encode()
