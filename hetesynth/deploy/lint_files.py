"""Topology files -> what is doubtful or wrong about each, as findings, JSON or SARIF.

In: paths and the thresholds. Out: one ``LintedFile`` for each path, in the order given; a file that cannot be read
or is wrong is a result too, so that the others are still looked at.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hetesynth
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Diagnostic, SourceError
from hetesynth.model.topology import Topology
from hetesynth.policy.compile import CompilePolicy
from hetesynth.report.sarif import SarifResult, SarifRule, sarif_failure, sarif_log
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.elaborate import tell_mended
from hetesynth.topology.language.inspection import inspected
from hetesynth.topology.language.source import read_source
from hetesynth.topology.lint import RULES, lint, lint_inspected


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
    return [_linted(path, policy) for path in dict.fromkeys(paths)]


def _linted(path: str | os.PathLike[str], policy: CompilePolicy) -> LintedFile:
    try:
        findings, sources = lint(read_source(path), policy)
    except HetesynthError as error:
        return LintedFile(os.fspath(path), (), {}, error)
    return LintedFile(os.fspath(path), tuple(findings), sources)


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
    return {"ok": ok, "files": [{"file": f.path, "findings": [d.plain() for d in _all(f)]} for f in files]}


def _all(file: LintedFile) -> tuple[Diagnostic, ...]:
    """The findings of ``file``, those that make it wrong included."""
    if isinstance(file.error, SourceError):
        return file.error.diagnostics
    return file.findings


def sarif(files: Sequence[LintedFile]) -> dict[str, Any]:
    """A SARIF log with a run for each file."""
    version = hetesynth.__version__
    rules = [SarifRule(rule.code, rule.name, rule.summary, "see docs/lint.md") for rule in RULES]
    logs = [
        sarif_log(file.path, rules, [_result(finding) for finding in file.findings], version)
        if file.error is None
        else sarif_failure(file.error, version, file.path)
        for file in files
    ]
    return {**logs[0], "runs": [run for log in logs for run in log["runs"]]}


def _result(finding: Diagnostic) -> SarifResult:
    span = finding.span
    message = f"{finding.message}; {finding.help}" if finding.help else finding.message
    columns = (span.column, span.column + span.length)
    return SarifResult(finding.code, finding.severity, message, line=span.line, columns=columns)
