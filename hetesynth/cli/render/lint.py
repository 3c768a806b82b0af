"""What ``topo lint`` prints: each finding with its line, and a verdict for each file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hetesynth.model.diagnostics import render
from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.deploy.topology_files import LintedFile


def lint_report(files: Sequence[LintedFile]) -> Iterator[str]:
    """The findings of each file, then what they come to."""
    for file in files:
        if file.error is not None:
            yield file.error.render()
            yield f"{file.path}: wrong"
            continue
        for finding in file.findings:
            yield render(finding, file.sources.get(finding.span.file))
        warnings, notes = file.count("warning"), file.count("note")
        told = [counted(warnings, "warning")] * bool(warnings) + [counted(notes, "note")] * bool(notes)
        yield f"{file.path}: {', '.join(told) or 'ok'}"
