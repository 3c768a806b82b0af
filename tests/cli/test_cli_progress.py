"""The words of the progress line, and what a build says of its cells."""

import pytest

from hetesynth.cli.build import SILENT, _Lines
from hetesynth.cli.progress import ProgressLine
from hetesynth.model import deadline
from tests.support.build_report_sample import cell, with_status


def test_it_shows_seconds_gone_and_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 13.4)
    assert ProgressLine(10.0, 20.0).text("bound", None) == "3 of 20 s: bound"
    assert ProgressLine(10.0, None).text("bound", None) == "3 s: bound"


def test_a_build_in_a_pipe_shows_that_it_lives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(deadline, "source", lambda: clock[0])
    made = cell("alpha", "reduce")
    report = with_status("built", made)
    watcher = _Lines()
    watcher.expected(2, {report.key: made.name})
    watcher.working(report.key, "starts")
    clock[0] = SILENT
    watcher.working(report.key, "search\x1b[2K")
    watcher.working(report.key, "said too soon")
    clock[0] = SILENT + 4
    watcher.decided(report)
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "0 s: 2 cells, 1 to make",
        f"30 s: 0 of 1 made; {made.name}: search\\u001b[2K",
        f"34 s: 1 of 1 {made.name}: built",
    ]
    assert "\x1b" not in said
