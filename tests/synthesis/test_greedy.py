"""Greedy rounds, direct exchange and list scheduling: within their rounds and their time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.graphs import fig10, problem, ring, servers, star
from support.solving import solve

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.search.auto import _many_checkpoints
from hetesynth.search.greedy import direct, greedy
from hetesynth.search.search import Search


def search_of(asked: Problem, budget: Budget | None = None, target: int = 1, **options: Any) -> Search:
    return Search(asked, target, budget or Budget(), schedule_violations, **options)


@pytest.mark.parametrize("strict", [False, True])
def test_a_round_ends_when_time_is_out(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first schedule of all gets time beyond a deadline that is not strict."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # interpreted, this round takes many seconds
    asked = problem(ring(8), "allgather", 256 if strict else 1)
    search = search_of(asked, Budget(0.1 if strict else 1e-6, strict_deadline=strict))
    began = time.process_time()
    greedy.improve(search)
    assert (search.best is None) == strict and search.cut_short
    assert time.process_time() - began < 15


@pytest.mark.slow
def test_compiled_and_interpreted_rounds_give_one_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked in (problem(servers([4, 4, 8]), "allgather"), problem(fig10(), "alltoall", 2)):
        schedules = []
        for compiled in (True, False):
            monkeypatch.setattr(greedy, "pays", lambda kernel, seconds, compiled=compiled: compiled)
            search = search_of(asked)
            greedy.improve(search, rounds=6)
            schedules.append(search.best)
        assert schedules[0] == schedules[1]


def test_a_direct_exchange_takes_one_link_a_chunk() -> None:
    search = search_of(problem(servers([4]), "alltoall"))
    direct.improve(search)
    assert search.best is not None and len(search.best.transfers) == 12
    assert "several targets" in str(direct.refuses(problem(ring(4), "allgather")))


# -- work does not grow with a number that a file or an option states: it is worked out, bounded or ended


def test_many_chunks_over_a_switch_are_not_looked_at_step_by_step() -> None:
    """4096 chunks from one of five GPUs take 4097 steps, and each step looks at all deliveries that are left."""
    many = search_of(problem(star(5), "broadcast", chunks=4096), target=4097)
    assert _many_checkpoints(many) is not None
    few = search_of(problem(star(5), "broadcast", chunks=16), target=17)
    assert _many_checkpoints(few) is None


def test_what_is_begun_ends_with_the_budget_where_there_is_a_schedule() -> None:
    asked = problem(star(5), "broadcast", chunks=64)
    best = solve(asked, "sph").schedule
    for seconds, so_far, leaves in (
        (1e-9, best, True),
        (1e-9, None, False),
        (None, best, False),
        (1e6, best, False),
    ):
        assert search_of(asked, Budget(seconds), best=so_far).may_leave() is leaves
