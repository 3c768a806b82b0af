"""Ctrl-C, and Ctrl-C again: what was shown as best is written, with its programs or alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.synth_report import synthesis_report, synthesis_summary
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.problem import Budget
from hetesynth.search.interrupts import announcing

FIG10 = Path(__file__).parents[2] / "examples" / "fig10" / "topo.dsl"
SIZE = 64 << 20


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def pressing(monkeypatch: pytest.MonkeyPatch, times: int, after: int = 0) -> None:
    """Ctrl-C ``times`` times when the first program is about to be judged, or the one ``after`` so many."""
    left, before = [times], [after]
    real = Lowering.emitted

    def emitted(*arguments: Any) -> Any:
        if before[0]:
            before[0] -= 1
            return real(*arguments)
        while left[0]:
            left[0] -= 1
            press()
        return real(*arguments)

    monkeypatch.setattr(Lowering, "emitted", emitted)


def made(request: Request) -> Synthesis:
    with announcing(lambda: None):
        return synthesize(request)


def asked(size: int | None = SIZE) -> Request:
    return Request(FIG10, "allgather", budget=Budget(), size=size)


@pytest.mark.parametrize("size", [None, SIZE])
def test_a_first_one_keeps_the_programs(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    pressing(monkeypatch, 1)
    kept = made(asked(size))
    assert kept.programs and not kept.abandoned


@pytest.mark.parametrize("size", [None, SIZE])
def test_a_second_one_keeps_the_schedule_of_the_best(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    best = made(asked(size))
    pressing(monkeypatch, 2)
    kept = made(asked(size))
    assert kept.abandoned and not kept.programs and set(kept.files) == {".schedule.json"}
    assert kept.solution.schedule == best.solution.schedule
    assert kept.ending == "interrupt" and kept.cut_short
    assert "missing are not written" in kept.warnings[0].message


@pytest.mark.parametrize("size", [None, SIZE])
def test_a_second_one_keeps_programs_that_were_judged(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    best = made(asked(size))
    pressing(monkeypatch, 2, after=1)
    kept = made(asked(size))
    first = next(iter(best.programs))
    assert list(kept.programs) == [first] and kept.files[first] == best.files[first]
    assert kept.abandoned and kept.ending == "interrupt" and kept.cut_short
    assert "those that are missing" in kept.warnings[-1].message
    assert "time budget" not in "".join(synthesis_report(synthesis_summary(kept, [])))
