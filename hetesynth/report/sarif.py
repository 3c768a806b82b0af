"""Findings as SARIF 2.1.0, the format that code hosts and editors show beside the lines of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError, Span

Level = Literal["error", "warning", "note"]
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@dataclass(frozen=True, slots=True)
class SarifRule:
    """What a check is: a stable id, a name, one line, and what to do."""

    id: str
    name: str
    summary: str
    help: str


@dataclass(frozen=True, slots=True)
class SarifResult:
    """One finding. ``line`` is 1-based or None; ``place`` names the element, such as ``gpu 0/thread block 1``.

    ``columns``: the first one and the one behind the last, both 1-based. ``path``: in a log of several files.
    """

    rule: str
    level: Level
    message: str
    line: int | None = None
    place: str | None = None
    properties: tuple[tuple[str, Any], ...] = ()
    columns: tuple[int, int] | None = None
    path: str | None = None


def sarif_log(
    path: str, rules: Sequence[SarifRule], results: Sequence[SarifResult], version: str
) -> dict[str, Any]:
    """A log with one run over the file ``path``, or those of its results, whose rules are in ``rules``."""
    index = {rule.id: k for k, rule in enumerate(rules)}
    described = [
        {"id": r.id, "name": r.name, "shortDescription": {"text": r.summary}, "help": {"text": r.help}}
        for r in rules
    ]
    driver = {"name": "hetesynth", "semanticVersion": version, "rules": described}
    plain = []
    for result in results:
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(result.path or path)}}
        if result.line is not None and result.line > 0:
            physical["region"] = {"startLine": result.line}
            if result.columns is not None:
                physical["region"] |= {"startColumn": result.columns[0], "endColumn": result.columns[1]}
        location: dict[str, Any] = {"physicalLocation": physical}
        if result.place is not None:
            location["logicalLocations"] = [{"fullyQualifiedName": result.place}]
        said = {"ruleId": result.rule, "ruleIndex": index[result.rule], "level": result.level}
        said |= {"message": {"text": result.message}, "locations": [location]}
        plain.append(said | ({"properties": dict(result.properties)} if result.properties else {}))
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": plain}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def sarif_failure(error: HetesynthError, version: str, path: str | None = None) -> dict[str, Any]:
    """A log with one run that could not be carried out (section 3.20.21: toolExecutionNotifications).

    ``path``: the file that was judged, for an error that names no place.
    """
    places: list[tuple[str, str, str | None, Span | None]] = [(error.code, error.message, path, None)]
    if isinstance(error, SourceError):
        places = [(d.code, d.message, d.span.file, d.span) for d in error.diagnostics]
    notifications = []
    for code, message, file, span in places:
        plain: dict[str, Any] = {"descriptor": {"id": code}, "level": "error", "message": {"text": message}}
        if file is not None:
            physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
            if span is not None:
                physical["region"] = {"startLine": span.line, "startColumn": span.column}
            plain["locations"] = [{"physicalLocation": physical}]
        notifications.append(plain)
    log = sarif_log("", (), (), version)
    failure = {"executionSuccessful": False, "exitCode": error.exit_code}
    log["runs"][0]["invocations"] = [failure | {"toolExecutionNotifications": notifications}]
    return log


def _uri(path: str) -> str:
    """A URI reference: relative stays relative, absolute becomes a file URI."""
    quoted = quote(path.replace("\\", "/").encode("utf-8", "surrogateescape"), safe="/~")
    return f"file://{quoted}" if quoted.startswith("/") else quoted
