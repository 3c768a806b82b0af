"""JUnit XML keeps to the strictest schema in use, and its numbers are those of its cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree
from support.build_report_sample import PLACES, sample

from hetesynth.deploy.outcome import BuildReport
from hetesynth.deploy.reports.write import junit_xml
from hetesynth.model.diagnostics import Diagnostic, Span

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent / "junit_strict.xsd"))
STOPPED = Diagnostic("HS203", Span("a.dsl", 1, 2), "there is no gpu9", "use gpu7")
REPORTS = {
    "every status": sample(),
    "a build that was stopped": BuildReport(Path("hetesynth.toml"), Path("o"), (), (STOPPED,)),
    "nothing": BuildReport(Path("hetesynth.toml"), Path("o"), ()),
    "both": replace(sample(), findings=(STOPPED, STOPPED)),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_schema_takes_it(name: str) -> None:
    SCHEMA.assertValid(etree.fromstring(junit_xml(REPORTS[name], PLACES)))
