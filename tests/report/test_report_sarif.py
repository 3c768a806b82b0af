"""SARIF logs: what the standard (OASIS SARIF 2.1.0, sections 3.13 to 3.49) requires of every object."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from hetesynth.report.sarif import SarifResult, SarifRule, sarif_log

RULES = [SarifRule("HX1", "one", "The first.", "Do this."), SarifRule("HX2", "two", "The second.", "Do that.")]


def demand_sarif(log: dict[str, Any]) -> None:
    """The members that the schema requires, their types, and that references meet."""
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    assert isinstance(log["runs"], list)
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"] and isinstance(driver["name"], str)
        identifiers = [rule["id"] for rule in driver["rules"]]
        assert len(set(identifiers)) == len(identifiers)
        for rule in driver["rules"]:
            assert rule["shortDescription"]["text"]
            assert rule["help"]["text"]
        for result in run["results"]:
            assert isinstance(result["message"]["text"], str)
            assert result["level"] in ("none", "note", "warning", "error")
            assert identifiers[result["ruleIndex"]] == result["ruleId"]
            for location in result["locations"]:
                physical = location["physicalLocation"]
                assert " " not in physical["artifactLocation"]["uri"]
                assert physical.get("region", {"startLine": 1})["startLine"] >= 1
                assert all(place["fullyQualifiedName"] for place in location.get("logicalLocations", []))
    json.dumps(log)


def test_a_log() -> None:
    results = [
        SarifResult("HX2", "error", "bad", 7, "gpu 0/thread block 1", (("targets", ["rccl-6"]),)),
        SarifResult("HX1", "note", "so so"),
    ]
    log = sarif_log("a b/x.xml", RULES, results, "1.2.3")
    demand_sarif(log)
    first, second = log["runs"][0]["results"]
    assert (first["ruleIndex"], second["ruleIndex"]) == (1, 0)
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}
    assert first["properties"] == {"targets": ["rccl-6"]}
    assert "region" not in second["locations"][0]["physicalLocation"]
    assert "logicalLocations" not in second["locations"][0]


def test_nothing_found_is_a_log_too() -> None:
    demand_sarif(sarif_log("x.xml", [], [], "1"))


@pytest.mark.parametrize("path", ["x.xml", "../x.xml", "/a b/x#y?.xml", "schräg/ü.xml", "c:x.xml"])
def test_the_uri_names_the_path(path: str) -> None:
    log = sarif_log(path, RULES, [SarifResult("HX1", "error", "bad", 1)], "1")
    uri = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    parts = urlsplit(uri)
    assert parts.scheme == ("file" if path.startswith("/") else "")
    assert unquote(parts.path) == path
