"""Topology files -> what is doubtful or wrong about each, as findings, JSON or SARIF; facts, capacities, pictures.

In: paths and the thresholds. Out: one ``LintedFile`` for each path, in the order given; a file that cannot be read
or is wrong is a result too, so that the others are still looked at. A ``Look`` at one; its pictures, both or none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hetesynth
from hetesynth.engine.places import demand_place
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_all
from hetesynth.model.diagnostics import Diagnostic, SourceError
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.policy.compile import CompilePolicy
from hetesynth.report.cluster_facts import ClusterFacts, cluster_facts
from hetesynth.report.sarif import SarifResult, SarifRule, sarif_failure, sarif_log
from hetesynth.search.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.elaborate import tell_mended
from hetesynth.topology.language.inspection import inspected
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
        """How many findings of this severity there are."""
        return sum(finding.severity == severity for finding in self.findings)


def lint_files(paths: Sequence[str | os.PathLike[str]], policy: CompilePolicy) -> list[LintedFile]:
    """Each of ``paths`` looked at once."""
    files = []
    for path in dict.fromkeys(paths):
        try:
            findings, sources = lint(read_source(path), policy)
        except HetesynthError as error:
            files.append(LintedFile(os.fspath(path), (), {}, error))
        else:
            files.append(LintedFile(os.fspath(path), tuple(findings), sources))
    return files


def linted_topology(
    path: str | os.PathLike[str], policy: CompilePolicy
) -> tuple[Topology, tuple[Diagnostic, ...]]:
    """The cluster in the file at ``path`` and the findings. HetesynthError: as of load_topology."""
    source = read_source(path)
    inspections = list(inspected(source))
    if len(inspections) != 1 or inspections[0].cluster is None:
        return load_topology(path), ()  # which says that there is no cluster
    tell_mended(source)
    return inspections[0].topology, tuple(lint_inspected(inspections, source, policy)[0])


def document(files: Sequence[LintedFile], *, ok: bool) -> dict[str, Any]:
    """What ``--json`` prints."""
    rows = []
    for file in files:
        findings = file.error.diagnostics if isinstance(file.error, SourceError) else file.findings
        rows.append({"file": file.path, "findings": [finding.plain() for finding in findings]})
    return {"ok": ok, "files": rows}


def sarif(files: Sequence[LintedFile]) -> dict[str, Any]:
    """A SARIF log with a run for each file."""
    version = hetesynth.__version__
    rules = [SarifRule(rule.code, rule.name, rule.summary, "see docs/lint.md") for rule in RULES]
    logs = []
    for file in files:
        if file.error is not None:
            logs.append(sarif_failure(file.error, version, file.path))
        else:
            results = []
            for finding in file.findings:
                span = finding.span
                message = f"{finding.message}; {finding.help}" if finding.help else finding.message
                columns = (span.column, span.column + span.length)
                results.append(
                    SarifResult(finding.code, finding.severity, message, line=span.line, columns=columns)
                )
            logs.append(sarif_log(file.path, rules, results, version))
    return {**logs[0], "runs": [run for log in logs for run in log["runs"]]}


@dataclass(frozen=True, slots=True)
class Pictures:
    """Where the drawing and the graph go, if anywhere."""

    svg: Path | None = None
    graphml: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files to be written."""
        return tuple(path for path in (self.svg, self.graphml) if path is not None)


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to show: capacities, facts, and what is doubtful about the file."""

    chunking: Chunking
    facts: ClusterFacts
    warnings: tuple[Diagnostic, ...]


def look(path: os.PathLike[str], options: ChunkingOptions, pictures: Pictures, policy: Policy = DEFAULT) -> Look:
    """Capacities, facts and warnings of the topology at ``path``; its pictures are written."""
    for place in pictures.paths:
        demand_place(place)
    topology, findings = linted_topology(path, policy.compile)
    chunking = chunk(topology, options)
    facts = cluster_facts(topology)
    files: dict[Path, bytes] = {}
    if pictures.svg is not None:
        from hetesynth.report.svg import topology_svg

        if len(topology.wires) > MAX_DRAWN_WIRES:
            message = f"{len(topology.wires)} wires are too many to draw: at most {MAX_DRAWN_WIRES}"
            help_ = "describe all-to-all joined GPUs by a switch, or use --graphml"
            raise HetesynthError(message, code="HS574", help=help_)
        files[pictures.svg] = topology_svg(topology).encode()
    if pictures.graphml is not None:
        from hetesynth.report.svg import graphml

        files[pictures.graphml] = graphml(topology)
    if files:
        write_all(files)
    return Look(chunking, facts, tuple(d for d in findings if d.severity == "warning"))
