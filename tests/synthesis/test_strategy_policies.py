"""Strategies decide by the policy of their search: another value there changes what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.graphs import problem, ring, servers

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import DEFAULT
from hetesynth.search.greedy import direct, greedy
from hetesynth.search.search import Search
from hetesynth.search.smt import cegis, monolithic, neighbourhood_search


def search_with(asked: Problem, **sections: Any) -> Search:
    return Search(asked, 1, Budget(), schedule_violations, policy=replace(DEFAULT, **sections))


def rounds_of(search: Search, monkeypatch: pytest.MonkeyPatch) -> int:
    rounds: list[int] = []
    run = greedy._round
    with monkeypatch.context() as patch:
        patch.setattr(greedy, "_round", lambda *arguments: rounds.append(1) or run(*arguments))
        greedy.improve(search)
    return len(rounds)


def test_greedy_rounds_are_limited_by_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem(ring(5), "alltoall")
    few = replace(DEFAULT.greedy, min_rounds=1, max_rounds=3)
    assert rounds_of(search_with(asked), monkeypatch) > 3
    assert rounds_of(search_with(asked, greedy=few), monkeypatch) == 3
    impatient = replace(DEFAULT.greedy, min_patience=1, max_patience=1)
    assert rounds_of(search_with(asked, greedy=impatient), monkeypatch) < rounds_of(
        search_with(asked), monkeypatch
    )


def test_direct_exchange_is_limited_by_the_policy() -> None:
    asked = problem(servers([4]), "alltoall")
    found, refused = search_with(asked), search_with(asked, greedy=replace(DEFAULT.greedy, direct_work=0))
    direct.improve(found)
    direct.improve(refused)
    assert found.best is not None and refused.best is None


@pytest.mark.parametrize(("module", "field"), [(cegis, "cegis_rlimit"), (monolithic, "monolithic_rlimit")])
def test_solver_units_come_from_the_policy(module: Any, field: str) -> None:
    asked = problem(servers([4, 4]), "allgather")
    search = search_with(asked, smt=replace(DEFAULT.smt, **{field: 1}))
    search.first_candidate = "nothing"  # all steps at once
    outcome, _ = module.synthesize(search, 2)
    assert "solver's budget" in getattr(outcome, "reason", str(outcome))


def test_neighbourhoods_are_limited_by_the_policy() -> None:
    """On two servers with a shared NIC alltoall takes 3 steps if a chunk is relayed, which only Z3 finds."""
    asked = problem(servers([2, 4], [2, 3], nic=[2, 1]), "alltoall")
    makespans = []
    for sends in (0, DEFAULT.smt.neighbourhood_sends):
        search = search_with(asked, smt=replace(DEFAULT.smt, neighbourhood_sends=sends))
        greedy.improve(search, rounds=1)
        assert search.best is not None
        search.best = Schedule.of(
            [Transfer(2 * i, 2 * i + 1, t.chunk, t.link) for i, t in enumerate(search.best.transfers)]
        )
        search.target = 3
        neighbourhood_search.improve(search)
        makespans.append(search.best.makespan)
    assert makespans == [4, 3]
