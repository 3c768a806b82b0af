"""Annotations as one SARIF run, which code scanning of several forges takes.

In: annotations. Out: SARIF 2.1.0. One run, for forges refuse several of one tool in a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import hetesynth
from hetesynth.deploy.reports.annotations import FOLDER_RULE, Annotation, fingerprints, rule_of
from hetesynth.deploy.reports.words import ATTENTION, WAYS_OUT
from hetesynth.model.diagnostics import visible
from hetesynth.report.sarif import SarifResult, SarifRule, sarif_log
from hetesynth.topology.lint import RULES


def sarif_annotations(all_: Sequence[Annotation]) -> bytes:
    """The log as it is written."""
    rules = _rules(all_)
    results: list[dict[str, Any]] = []
    for annotation, fingerprint in zip(all_, fingerprints(all_), strict=True):
        log = sarif_log(_encodable(annotation.path), rules, [_result(annotation)], hetesynth.__version__)
        results.append(
            {**log["runs"][0]["results"][0], "partialFingerprints": {"hetesynthFinding/v1": fingerprint}}
        )
    log = sarif_log("", rules, [], hetesynth.__version__)
    log["runs"][0]["results"] = results
    return (json.dumps(log, indent=1) + "\n").encode()


def _encodable(path: str) -> str:
    """``path`` as it is, or as it is shown where no file can be called that."""
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return visible(path)
    return path


def _rules(all_: Sequence[Annotation]) -> list[SarifRule]:
    """The rules that are broken, each once."""
    ours = {rule.code: SarifRule(rule.code, rule.name, rule.summary, "see docs/lint.md") for rule in RULES}
    for status in ATTENTION:
        name = rule_of(status)
        ours[name] = SarifRule(name, name, f"a schedule of the manifest is {status}", WAYS_OUT[status])
    ours[FOLDER_RULE] = SarifRule(
        FOLDER_RULE, FOLDER_RULE, "a folder is not what a build would write", "build again"
    )
    broken = dict.fromkeys(annotation.rule for annotation in all_)
    return [ours.get(code) or SarifRule(code, code, "see docs/errors.md", "see docs/errors.md") for code in broken]


def _result(annotation: Annotation) -> SarifResult:
    columns = None if annotation.column is None else (annotation.column, annotation.column + 1)
    return SarifResult(annotation.rule, annotation.severity, annotation.message, annotation.line, columns=columns)
