"""JUnit XML keeps to the strictest schema in use, and its numbers are those of its cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree
from support.build_report_sample import PLACES, sample

from hetesynth.deploy.outcome import BAD, BuildReport, TopologyFinding
from hetesynth.deploy.reports.write import junit_xml

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent / "junit_strict.xsd"))
STOPPED = TopologyFinding("a.dsl", 1, 2, "error", "HS203", "there is no gpu9", "use gpu7")
REPORTS = {
    "every status": sample(),
    "a build that was stopped": BuildReport(Path("hetesynth.toml"), Path("o"), (), (STOPPED,)),
    "nothing": BuildReport(Path("hetesynth.toml"), Path("o"), ()),
    "both": replace(sample(), findings=(STOPPED, STOPPED)),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_schema_takes_it(name: str) -> None:
    SCHEMA.assertValid(etree.fromstring(junit_xml(REPORTS[name], PLACES)))


def test_the_schema_refuses_what_readers_refuse() -> None:
    root = etree.fromstring(junit_xml(sample(), PLACES))
    case = root.find("testsuite/testcase")
    assert case is not None
    case.append(etree.Element("properties"))
    assert not SCHEMA.validate(root)


@pytest.mark.parametrize("name", REPORTS)
def test_numbers_are_those_of_the_cases(name: str) -> None:
    root = etree.fromstring(junit_xml(REPORTS[name], PLACES))
    for suite in (root, *root.findall("testsuite")):
        kinds = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
        for attribute, element in kinds.items():
            if suite.get(attribute) is not None:
                assert int(suite.get(attribute) or "") == len(list(suite.iter(element))), (attribute, element)


def test_a_case_fails_where_the_build_does() -> None:
    root = etree.fromstring(junit_xml(sample(), PLACES))
    cases = [case for case in root.iter("testcase") if case.find("failure") is not None]
    failed = {f"{case.get('classname')}/{case.get('name')}" for case in cases}
    bad = {cell.cell.name for cell in sample().cells if cell.status in BAD}
    assert failed == bad | {"folders/ci/schedules/beta/rccl-6 1"}
    assert [c.get("type") for c in root.iter("skipped")] == ["kept"]


def test_figures_are_properties_of_their_suite() -> None:
    root = etree.fromstring(junit_xml(sample(), PLACES))
    alpha = next(suite for suite in root if suite.get("name") == "alpha/rccl-6")
    values = {p.get("name"): p.get("value") for p in alpha.iter("property")}
    assert values["allreduce/1MB..64MB.program_us"] == "290"
    change = float(values["allreduce/1MB..64MB.change_percent"] or "")
    assert change == pytest.approx(100 * (290.0 / 299.3 - 1), abs=1e-4)
