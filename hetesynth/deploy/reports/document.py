"""What a build came to as one JSON object, with names that stay.

In: a ``BuildReport``, places. Out: values for JSON. docs/build_reports.md lists the fields.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.reports.figures import change_percent, figures
from hetesynth.deploy.reports.places import Places
from hetesynth.deploy.reports.words import STATUSES

FORMAT = 1
"""Raised where a field changes its meaning or goes; a new field raises nothing."""


def document(report: BuildReport, places: Places) -> dict[str, Any]:
    """All of ``report``."""
    number = dict.fromkeys(STATUSES, 0)
    for cell in report.cells:
        number[cell.status] += 1
    plain: dict[str, Any] = {
        "kind": "hetesynth build report",
        "format": FORMAT,
        "ok": report.ok,
        "checked": report.checked,
        "interrupted": report.interrupted,
        "manifest": places.manifest,
        "output": places.shown(report.output),
        "seconds": round(report.seconds, 3),
        "counts": {**number, "all": len(report.cells)},
        "warnings": list(report.warnings),
        "written": [places.shown(path) for path in report.written],
        "cells": [_cell(cell, places) for cell in report.cells],
        "folders": [
            {"folder": places.shown(finding.folder), "message": finding.message, "stale": finding.stale}
            for finding in report.folders
        ],
        "findings": [{**asdict(finding), "file": places.shown(finding.file)} for finding in report.findings],
    }
    return {name: _finite(value) for name, value in plain.items()}


def _cell(report: CellReport, places: Places) -> dict[str, Any]:
    cell, at = report.cell, figures(report.record)
    return {
        "name": cell.name,
        "cluster": cell.cluster,
        "target": cell.target,
        "collective": cell.collective,
        "extent": cell.extent_text,
        "status": report.status,
        "messages": list(report.messages),
        "line": places.line(cell.cluster),
        "key": report.key,
        "figures": None if at is None else asdict(at),
        "change_percent": change_percent(report),
        "files": [*report.files],
        "record": report.record,
        "previous": report.previous,
        "candidate": report.candidate,
    }


def _finite(value: Any) -> Any:
    """For JSON, which has no infinity and no NaN."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
