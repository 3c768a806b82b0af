"""Annotations as workflow commands of GitHub: lines of standard output that its runner reads.

In: annotations. Out: lines. A value cannot end its line or its property: the runner's own escapes are used.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.deploy.reports.annotations import Annotation, Severity
from hetesynth.model.diagnostics import visible

MAX_OF_A_SEVERITY = 10  # that GitHub shows of one step
MAX_MESSAGE = 4_000
_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


def workflow_commands(all_: Sequence[Annotation]) -> list[str]:
    """A command for each annotation; of more than GitHub shows, the last says how many there are."""
    lines = []
    for severity, command in _COMMANDS.items():
        of_it = [annotation for annotation in all_ if annotation.severity == severity]
        shown = of_it if len(of_it) <= MAX_OF_A_SEVERITY else of_it[: MAX_OF_A_SEVERITY - 1]
        lines += [_command(command, annotation) for annotation in shown]
        if len(shown) < len(of_it):
            more = len(of_it) - len(shown)
            lines.append(f"::{command} title={more} more::{_data('the summary and the JSON report list all')}")
    return lines


def _command(command: str, annotation: Annotation) -> str:
    place = {"file": annotation.path, "line": str(annotation.line)}
    if annotation.column is not None:
        place["col"] = str(annotation.column)
    place["title"] = annotation.title
    properties = ",".join(f"{name}={_property(value)}" for name, value in place.items())
    return f"::{command} {properties}::{_data(annotation.message)}"


def _data(text: str) -> str:
    """What stands behind the last ``::``."""
    cut = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}..."
    return visible(cut.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
