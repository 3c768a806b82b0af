"""A round of the greedy search ends when time is out."""

from __future__ import annotations

import time

import pytest
from support.graphs import problem, ring

from hetesynth.model.problem import Budget
from hetesynth.synthesis.greedy import greedy
from hetesynth.synthesis.search import Search
from hetesynth.verify.schedule.judge import schedule_violations


def test_the_first_round_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy, "EXTENSION", 0.2)
    monkeypatch.setattr(greedy, "COMPILE_FROM", (10**12, 10**12))
    search = Search(problem(ring(8), "allgather", 256), 1, Budget(0.1), schedule_violations)
    began = time.monotonic()
    greedy.improve(search)
    assert search.best is None  # this round takes many seconds
    assert search.cut_short
    assert time.monotonic() - began < 30


def test_the_first_schedule_is_given_time_beyond_the_deadline() -> None:
    search = Search(problem(ring(6), "allgather"), 1, Budget(1e-6), schedule_violations)
    greedy.improve(search)
    assert search.best is not None


def test_a_punctual_budget_rather_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy, "COMPILE_FROM", (10**12, 10**12))
    search = Search(problem(ring(8), "allgather", 256), 1, Budget(0.1, strict_deadline=True), schedule_violations)
    began = time.monotonic()
    greedy.improve(search)
    assert search.best is None and search.cut_short
    assert time.monotonic() - began < 15  # the first round has 20 s otherwise
