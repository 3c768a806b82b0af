"""Plots and SARIF: every curve is told apart, what the standard asks for is there."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from support.reports import luminance

from hetesynth.report.sarif import sarif_log, sarif_result, sarif_rule
from hetesynth.report.size_plot import COLOURS, ON_DARK, size_plot

SVG = "{http://www.w3.org/2000/svg}"
SIZES = [1000 * 4**k for k in range(11)]
RULES = [sarif_rule("HX1", "one", "The first.", "Do this."), sarif_rule("HX2", "two", "The second.", "Do that.")]


def test_every_curve_has_a_look_of_its_own_its_name_and_its_course() -> None:
    curves = {f"way <{k}>": [(size, size / (1 + k + size / 1000)) for size in SIZES] for k in range(32)}
    curves["bound"] = [(size, 2 * size / (1 + size / 1000)) for size in SIZES]
    root = ElementTree.fromstring(size_plot("a & b", curves, [5000]))
    paths = [p for p in root.iter(f"{SVG}path") if p.find(f"{SVG}title") is not None]
    looks = [(p.get("class"), p.get("stroke-dasharray")) for p in paths]
    assert len(paths) == 33 == len(set(looks))
    assert all(a[1] != b[1] for a, b in pairwise(looks[:8])), "neighbours differ without colours"
    assert {f"way <{k}>" for k in range(32)} | {"bound", "a & b"} <= {t.text for t in root.iter(f"{SVG}text")}
    heights = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", paths[0].get("d") or "")]
    assert len(heights) == len(SIZES) and heights[0] > heights[4] and all(b <= a for a, b in pairwise(heights))
    with pytest.raises(ValueError, match="nothing to plot"):
        size_plot("x", {"a": [(1000, 0.0)]})


@pytest.mark.parametrize(("colours", "ground"), [(COLOURS, "#ffffff"), (ON_DARK, "#0d1117")])
def test_curves_stand_out_from_the_ground(colours: tuple[str, ...], ground: str) -> None:
    """WCAG asks for 3:1 of graphics."""
    for colour in colours:
        low, high = sorted((luminance(colour), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3


def test_a_sarif_log_refers_to_its_rules() -> None:
    """OASIS SARIF 2.1.0, sections 3.13 to 3.49."""
    results = [
        sarif_result("HX2", "error", "bad", "a b/x.xml", 7, place="gpu 0", properties={"targets": ["rccl-6"]}),
        sarif_result("HX1", "note", "so so", "a b/x.xml"),
    ]
    log = sarif_log(RULES, results, "1.2.3")
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    identifiers = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [identifiers[result["ruleIndex"]] for result in run["results"]] == ["HX2", "HX1"]
    first, second = run["results"]
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}
    assert first["properties"] == {"targets": ["rccl-6"]}
    assert "region" not in second["locations"][0]["physicalLocation"]
    assert "logicalLocations" not in second["locations"][0]
    assert sarif_log([], [], "1")["runs"][0]["results"] == []


@pytest.mark.parametrize("path", ["../x.xml", "/a b/x#y?.xml", "schräg/ü.xml"])
def test_the_uri_names_the_path(path: str) -> None:
    log = sarif_log(RULES, [sarif_result("HX1", "error", "bad", path, 1)], "1")
    uri = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    parts = urlsplit(uri)
    assert parts.scheme == ("file" if path.startswith("/") else "")
    assert unquote(parts.path) == path and " " not in uri
