"""Figures from records of anybody, places in the text of a manifest, and options that cannot be met."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.build_report_sample import MANIFEST_TEXT, cell, record, with_status

from hetesynth.deploy.outcome import BuildReport, TopologyFinding
from hetesynth.deploy.reports.pages import program_shown
from hetesynth.deploy.reports.words import (
    Places,
    candidate_percent,
    change_percent,
    change_text,
    figures,
    percent_text,
)
from hetesynth.deploy.reports.write import (
    MARK,
    ReportOptions,
    demand_outside,
    report_options,
    report_places,
    write_failure,
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


def test_what_stands_and_was_not_made_now_is_not_new() -> None:
    assert change_text(with_status("stale", AT, record=record(1.0))) == ""
    assert change_percent(with_status("stale", AT, record=record(1.0), previous=record(1.0))) is None
    assert percent_text(-0.0) == "same"


def test_what_is_withheld_by_a_new_gate_is_not_compared_with_itself() -> None:
    assert candidate_percent(with_status("withheld", AT, record=record(9.0), candidate=record(9.0))) is None
    assert candidate_percent(with_status("kept", AT, record=record(8.0), candidate=record(9.0))) == 12.5


def test_paths_are_shown_from_the_root() -> None:
    assert Places(Path("/r"), "").shown("/r/ci/./x/../m.toml") == "ci/m.toml"
    assert Places(Path("/r"), "").shown("/elsewhere/m.toml") == "/elsewhere/m.toml"
    assert Places(Path("/r"), "").shown("/r/..x") == "..x"


def test_the_root_is_that_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    manifest = tmp_path / "ci" / "hetesynth.toml"
    manifest.parent.mkdir()
    manifest.write_text(MANIFEST_TEXT)
    at = report_places(manifest)
    assert (at.manifest, at.line("beta")) == ("ci/hetesynth.toml", 1)


# -- options


def _strange(folder: Path) -> dict[str, Any]:
    (folder / "README.md").write_text("# mine\n")
    return {"markdown": folder / "README.md"}


def _strange_index(folder: Path) -> dict[str, Any]:
    (folder / "index.html").write_text("<!doctype html>\n<p>mine</p>\n")
    return {"pages": folder}


def _given(name: str, text: str) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return written


_TOML, _DSL = _given("m.toml", MANIFEST_TEXT), _given("a.dsl", "cluster a {}\n")
_XML, _INDEX = _given("a.xml", '<?xml version="1.0"?>\n<algo/>\n'), _given("index.json", '{\n "kind": "x"\n}\n')


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        (lambda d: {"junit": _TOML(d)}, "HS857"),
        (lambda d: {"junit": _XML(d)}, "HS857"),
        (lambda d: {"annotations": [f"gitlab={_DSL(d)}"]}, "HS857"),
        (lambda d: {"annotations": [f"gitlab={_INDEX(d)}"]}, "HS857"),
        (lambda d: {"annotations": [f"sarif={_INDEX(d)}"]}, "HS857"),
        (lambda _: {"junit": Path("-")}, "HS856"),
        (lambda _: {"annotations": ["sarif=-"]}, "HS856"),
        (lambda _: {"annotations": ["gitlab"]}, "HS856"),
        (lambda _: {"annotations": ["github=x"]}, "HS856"),
        (lambda _: {"annotations": ["forge=x"]}, "HS856"),
        (lambda d: {"annotations": [f"sarif={d}/a", f"sarif={d}/b"]}, "HS856"),
        (lambda _: {"as_json": True, "markdown": Path("-")}, "HS856"),
        (lambda d: {"junit": d / "x", "markdown": d / "." / "x"}, "HS570"),
        (lambda d: {"junit": d / "gone" / "x"}, "HS571"),
        (lambda d: {"annotations": [f"gitlab={d}"]}, "HS571"),
        (_strange, "HS857"),
        (_strange_index, "HS857"),
    ],
)
def test_options_that_cannot_be_met(
    stated: Callable[[Path], dict[str, Any]], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HetesynthError) as raised:
        report_options(**stated(tmp_path))
    assert raised.value.code == code
    assert raised.value.help


def test_reports_of_ours_are_replaced_and_so_are_empty_files(tmp_path: Path) -> None:
    forges = [f"{forge}={tmp_path / forge}" for forge in ("gitlab", "sarif")]
    finding = TopologyFinding("a", 1, 1, "error", "HS203", "m")
    (tmp_path / "gitlab").touch()
    for findings in ((), (finding,), (finding, finding), ()):
        options = report_options(junit=tmp_path / "j", markdown=tmp_path / "m", annotations=forges)
        write_reports(BuildReport(tmp_path / "m.toml", tmp_path, (), findings), options)


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
    printed = write_failure(tmp_path / "hetesynth.toml", error, options, checked=False)
    (line,) = printed.commands
    assert line.startswith("::error file=") and line.endswith("::the disk is full; make room")
    assert 'errors="1"' in (tmp_path / "j.xml").read_text()
    assert "Schedules built: something has to be done" in (tmp_path / "s.md").read_text()
    write_failure(tmp_path / "hetesynth.toml", error, options, checked=True)
    assert "Schedules checked: something has to be done" in (tmp_path / "s.md").read_text()


def test_a_finding_that_is_an_error_is_not_ok() -> None:
    note = TopologyFinding("a", 1, 1, "note", "HS246", "m")
    wrong = TopologyFinding("a", 1, 1, "error", "HS203", "m")
    assert BuildReport(Path("m"), Path("o"), (), (note,)).ok
    assert not BuildReport(Path("m"), Path("o"), (), (note, wrong)).ok


def test_what_is_shown_is_the_program_of_the_size_that_is_shown() -> None:
    """The middle one of the sizes that have a program, and the page of its file."""
    rows = [{"size": 10**k, "program_us": us, "program": name} for k, us, name in (
        (3, 1.0, "a.xml"), (4, 2.0, "a.xml"), (5, 3.0, "b.xml"), (6, None, None), (7, None, None))]  # fmt: skip
    files = dict.fromkeys(("a.xml", "a.inplace.xml", "a.schedule.json", "b.xml"), "0" * 64)
    at = figures({"sizes": rows, "files": files})
    assert at is not None and (at.size, at.program_us) == (10**4, 2.0)
    named = [program_shown({"sizes": rows, "files": files}, 10**k) for k in range(3, 9)]
    assert named == ["a.xml", "a.xml", "b.xml", None, None, "a.xml"]
