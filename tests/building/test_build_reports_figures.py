"""Figures from records of anybody, places in the text of a manifest, and options that cannot be met."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.build_report_sample import cell, record, with_status

from hetesynth.deploy.outcome import BuildReport
from hetesynth.deploy.reports.pages import program_shown
from hetesynth.deploy.reports.words import change_text, figures
from hetesynth.deploy.reports.write import (
    MARK,
    ReportOptions,
    demand_outside,
    failure_findings,
    report_options,
    write_reports,
)
from hetesynth.errors import HetesynthError

AT = cell("c", "allgather")


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (record(96.9), record(100.0), "-3.1 %"),
        (record(100.04), record(100.0), "same"),
        (record(100.06), record(100.0), "+0.1 %"),
        (record(100.0), None, "new"),
        (None, record(100.0), ""),
        (record(100.0, size=77), record(50.0), ""),
    ],
)
def test_the_change_against_the_last_run(now: Any, before: Any, said: str) -> None:
    assert change_text(with_status("built", AT, record=now, previous=before)) == said


# -- options


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"junit": "mine"}, "HS857"),
        ({"markdown": "mine"}, "HS857"),
        ({"pages": "."}, "HS857"),
        ({"annotations": ["gitlab=mine"]}, "HS857"),
        ({"junit": "-"}, "HS856"),
        ({"annotations": ["gitlab"]}, "HS856"),
        ({"annotations": ["forge=x"]}, "HS856"),
        ({"annotations": ["sarif=a", "sarif=b"]}, "HS856"),
        ({"as_json": True, "markdown": "-"}, "HS856"),
        ({"junit": "x", "markdown": "./x"}, "HS570"),
        ({"junit": "gone/x"}, "HS571"),
    ],
)
def test_options_that_cannot_be_met(
    stated: dict[str, Any], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``mine`` and ``index.html`` are of somebody else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text('{\n "kind": "x"\n}\n')
    (tmp_path / "index.html").write_text("<!doctype html>\n<p>mine</p>\n")
    with pytest.raises(HetesynthError) as raised:
        report_options(**{name: Path(v) if isinstance(v, str) else v for name, v in stated.items()})
    assert raised.value.code == code and raised.value.help


def test_no_report_is_in_a_folder_that_is_deployed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    demand_outside(report_options(pages=tmp_path / "out"), [tmp_path / "out" / "a"])
    with pytest.raises(HetesynthError) as raised:
        demand_outside(report_options(junit=tmp_path / "out" / "j.xml"), [tmp_path / "out"])
    assert raised.value.code == "HS857"


def test_a_summary_of_ours_is_replaced_and_that_of_the_step_is_added_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, ours = tmp_path / "step", tmp_path / "ours.md"
    step.write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    report = BuildReport(tmp_path / "m.toml", tmp_path, ())
    for _ in range(2):
        write_reports(report, report_options(markdown=step))
        write_reports(report, report_options(markdown=ours))
    assert step.read_text().startswith("# before\n")
    assert step.read_text().count(MARK) == 2
    assert ours.read_text().count(MARK) == 1


def test_what_stops_a_build_is_in_its_reports(tmp_path: Path) -> None:
    options = ReportOptions(github=True, junit=tmp_path / "j.xml", markdown=tmp_path / "s.md")
    error = HetesynthError("the disk is full", code="HS510", help="make room")
    manifest = tmp_path / "hetesynth.toml"
    report = BuildReport(manifest, tmp_path, (), failure_findings(error, manifest))
    _, commands, _ = write_reports(report, options)
    (line,) = commands
    assert line.startswith("::error file=") and line.endswith("::the disk is full; make room")
    assert 'errors="1"' in (tmp_path / "j.xml").read_text()
    assert "Schedules built: something has to be done" in (tmp_path / "s.md").read_text()
    write_reports(replace(report, checked=True), options)
    assert "Schedules checked: something has to be done" in (tmp_path / "s.md").read_text()


def test_what_is_shown_is_the_program_of_the_size_that_is_shown() -> None:
    """The middle one of the sizes that have a program, and the page of its file."""
    rows = [{"size": 10**k, "program_us": us, "program": name} for k, us, name in (
        (3, 1.0, "a.xml"), (4, 2.0, "a.xml"), (5, 3.0, "b.xml"), (6, None, None), (7, None, None))]  # fmt: skip
    files = dict.fromkeys(("a.xml", "a.inplace.xml", "a.schedule.json", "b.xml"), "0" * 64)
    at = figures({"sizes": rows, "files": files})
    assert at is not None and (at["size"], at["program_us"]) == (10**4, 2.0)
    named = [program_shown({"sizes": rows, "files": files}, 10**k) for k in range(3, 9)]
    assert named == ["a.xml", "a.xml", "b.xml", None, None, "a.xml"]
