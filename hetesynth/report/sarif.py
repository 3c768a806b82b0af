"""Findings as SARIF 2.1.0, the format that code hosts and editors show beside the lines of a file."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError, Span

Level = Literal["error", "warning", "note"]
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif_rule(id: str, name: str, summary: str, help: str) -> dict[str, Any]:
    """Return the SARIF rule of a check: a stable id, a name, a summary of one line, and what to do."""
    return {"id": id, "name": name, "shortDescription": {"text": summary}, "help": {"text": help}}


def sarif_result(
    rule: str,
    level: Level,
    message: str,
    path: str,
    line: int | None = None,
    *,
    columns: Sequence[int] = (),
    place: str | None = None,
    properties: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the SARIF result of a finding. ``line`` is 1-based, as ``columns``: the first and the one behind the
    last. ``place`` names the element, such as ``gpu 0/thread block 1``."""
    location = _location(path, line, columns)
    if place is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": place}]
    said = {"ruleId": rule, "level": level, "message": {"text": message}, "locations": [location]}
    return said | ({"properties": dict(properties)} if properties else {})


def sarif_log(
    rules: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]], version: str
) -> dict[str, Any]:
    """Return a log with one run, whose ``results`` name ``rules``."""
    index = {rule["id"]: k for k, rule in enumerate(rules)}
    plain = [{"ruleId": one["ruleId"], "ruleIndex": index[one["ruleId"]], **one} for one in results]
    driver = {"name": "hetesynth", "semanticVersion": version, "rules": [*rules]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": plain}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def sarif_failure(error: HetesynthError, version: str, path: str | None = None) -> dict[str, Any]:
    """Return a log with one run that could not be carried out (section 3.20.21: toolExecutionNotifications).

    ``path``: the file that was judged, for an error that names no place.
    """
    places: list[tuple[str, str, Span | None]] = [(error.code, error.message, None)]
    if isinstance(error, SourceError):
        places = [(d.code, d.message, d.span) for d in error.diagnostics]
    notifications = []
    for code, message, span in places:
        plain: dict[str, Any] = {"descriptor": {"id": code}, "level": "error", "message": {"text": message}}
        if span is not None:
            plain["locations"] = [_location(span.file, span.line, (span.column,))]
        elif path is not None:
            plain["locations"] = [_location(path)]
        notifications.append(plain)
    log = sarif_log((), (), version)
    failure = {"executionSuccessful": False, "exitCode": error.exit_code}
    log["runs"][0]["invocations"] = [failure | {"toolExecutionNotifications": notifications}]
    return log


def _location(path: str, line: int | None = None, columns: Sequence[int] = ()) -> dict[str, Any]:
    """Return the location of ``path`` (a relative path stays one, an absolute one is a file URI) and ``line``."""
    quoted = quote(path.replace("\\", "/").encode("utf-8", "surrogateescape"), safe="/~")
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": f"file://{quoted}" if quoted.startswith("/") else quoted}
    }
    if line is not None and line > 0:
        physical["region"] = {"startLine": line, **dict(zip(("startColumn", "endColumn"), columns, strict=False))}
    return {"physicalLocation": physical}
