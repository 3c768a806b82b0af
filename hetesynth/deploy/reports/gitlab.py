"""Annotations as a Code Quality report of GitLab.

In: annotations. Out: JSON: a list of issues, each with a fingerprint that does not depend on its line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hetesynth.deploy.reports.annotations import Annotation, Severity, fingerprints

_SEVERITIES: dict[Severity, str] = {"error": "major", "warning": "minor", "note": "info"}


def code_quality(all_: Sequence[Annotation]) -> bytes:
    """The report; an empty list where there is nothing to say, which GitLab takes as such."""
    issues = [
        {
            "description": annotation.message,
            "check_name": annotation.rule,
            "fingerprint": fingerprint,
            "severity": _SEVERITIES[annotation.severity],
            "location": {"path": annotation.path, "lines": {"begin": annotation.line}},
        }
        for annotation, fingerprint in zip(all_, fingerprints(all_), strict=True)
    ]
    return (json.dumps(issues, indent=1) + "\n").encode()
