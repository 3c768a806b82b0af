"""A round of the greedy search ends when time is out."""

from __future__ import annotations

import time
from dataclasses import replace

from support.graphs import problem, ring

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import WorkLimits
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Search

NEVER = WorkLimits.by_disk(absent=10**12, on_disk=10**12)
INTERPRETED = replace(DEFAULT, machine_code=replace(DEFAULT.machine_code, greedy_work=NEVER, greedy_seconds=NEVER))


def test_the_first_round_is_stopped_too() -> None:
    policy = replace(INTERPRETED, greedy=replace(DEFAULT.greedy, extension_seconds=0.2))
    search = Search(problem(ring(8), "allgather", 256), 1, Budget(0.1), schedule_violations, policy=policy)
    began = time.monotonic()
    greedy.improve(search)
    assert search.best is None  # this round takes many seconds
    assert search.cut_short
    assert time.monotonic() - began < 30


def test_the_first_schedule_is_given_time_beyond_the_deadline() -> None:
    search = Search(problem(ring(6), "allgather"), 1, Budget(1e-6), schedule_violations)
    greedy.improve(search)
    assert search.best is not None


def test_a_strict_deadline_ends_the_first_round() -> None:
    budget = Budget(0.1, strict_deadline=True)
    search = Search(problem(ring(8), "allgather", 256), 1, budget, schedule_violations, policy=INTERPRETED)
    began = time.monotonic()
    greedy.improve(search)
    assert search.best is None and search.cut_short
    assert time.monotonic() - began < 15  # the first round has 20 s otherwise
