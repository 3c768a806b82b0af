"""The words of the progress line."""

import math

import pytest

from hetesynth.cli.progress import ProgressLine
from hetesynth.engine.choice.choice import Standing
from hetesynth.model import deadline


def test_it_shows_seconds_gone_and_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 13.4)
    assert ProgressLine(10.0, 20.0).text("bound", None) == "3 of 20 s: bound"
    assert ProgressLine(10.0, None).text("bound", None) == "3 s: bound"


def test_the_standing_is_of_programs_beside_limit_and_rings() -> None:
    said: list[str] = []
    standing = Standing(lambda what, steps: said.append(what))
    standing.progress("a", None)
    standing.progress("b; best schedule 1 us", None)
    assert math.isinf(standing.best) and said == ["a", "b; best schedule 1 us"]
    standing.tried("x, c=2", 100e-6)
    assert said[-1] == "x, c=2: 100 us; best 100 us"
    standing.limit = 80e-6
    standing.tried("y", 120e-6)
    assert said[-1] == "y: 120 us; best 100 us, 80 % of the limit"
    standing.limit = 79.6e-6
    standing.tried("y", 120e-6)
    assert said[-1].endswith("79 % of the limit")  # rounded down, as the verdict says it
    standing.limit, standing.rings = 80e-6, 125e-6
    standing.progress("c; best schedule 90 us", None)
    assert said[-1] == "c; best 100 us, 80 % of the limit, 1.25 x NCCL's rings"
