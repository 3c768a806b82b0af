"""The words of the progress line."""

import pytest

from hetesynth.cli.progress import ProgressLine
from hetesynth.model import deadline


def test_it_shows_seconds_gone_and_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 13.4)
    assert ProgressLine(10.0, 20.0).text("bound", None) == "3 of 20 s: bound"
    assert ProgressLine(10.0, None).text("bound", None) == "3 s: bound"
