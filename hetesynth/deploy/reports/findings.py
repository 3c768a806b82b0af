"""What the linter says of every topology file of a manifest, and what stopped a build, as findings.

In: a manifest, or an error. Out: ``TopologyFinding``s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hetesynth.deploy.lint_files import lint_files
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import TopologyFinding
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Diagnostic, SourceError
from hetesynth.policy import DEFAULT, Policy


def topology_findings(manifest: Manifest, policy: Policy = DEFAULT) -> tuple[TopologyFinding, ...]:
    """The findings about each topology file, each file once, in the order of the manifest."""
    files = lint_files([entry.topology for entry in manifest.clusters], policy.compile)
    findings: list[TopologyFinding] = []
    for file in files:
        findings += _findings(file.findings) if file.error is None else failure_findings(file.error, file.path)
    return tuple(dict.fromkeys(findings))  # two clusters may import one file


def failure_findings(error: HetesynthError, file: str | Path) -> tuple[TopologyFinding, ...]:
    """What ``error`` says; where it does not point into a file that is there it is about all of ``file``."""
    if isinstance(error, SourceError):
        findings = _findings(error.diagnostics)
        there = (f if Path(f.file).is_file() else replace(f, file=str(file), line=1, column=1) for f in findings)
        return tuple(dict.fromkeys(there))
    return (TopologyFinding(str(file), 1, 1, "error", error.code, error.message, error.help),)


def _findings(diagnostics: Iterable[Diagnostic]) -> Iterable[TopologyFinding]:
    for diagnostic in diagnostics:
        span = diagnostic.span
        yield TopologyFinding(
            span.file,
            span.line,
            span.column,
            diagnostic.severity,
            diagnostic.code,
            diagnostic.message,
            diagnostic.help,
        )
