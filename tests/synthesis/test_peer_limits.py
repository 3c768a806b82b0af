"""Connection limits: no rank talks to more others than it may, and few where that costs nothing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from support.graphs import full, servers
from support.graphs import problem as problem_on

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution, Solver


def most_peers(problem: Problem, schedule: Schedule) -> int:
    to, of = defaultdict(set), defaultdict(set)
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        to[arc.src].add(arc.dst)
        of[arc.dst].add(arc.src)
    return max(len(peers) for side in (to, of) for peers in side.values())


def solved(problem: Problem, name: str = "auto") -> Schedule:
    found = Solver(strategy(name), Budget(30.0), schedule_violations).solve(problem)
    assert isinstance(found, Solution)
    assert schedule_violations(problem, found.schedule) == []
    return found.schedule


@pytest.mark.parametrize("name", ["greedy", "cegis", "monolithic"])
@pytest.mark.parametrize("most", [1, 2])
def test_every_strategy_keeps_the_limit(name: str, most: int) -> None:
    problem = replace(problem_on(full(4), "allgather"), max_peers=most)
    assert most_peers(problem, solved(problem, name)) <= most


def test_one_peer_makes_a_ring() -> None:
    """With one peer to send to and one to receive from, four ranks need three steps."""
    problem = replace(problem_on(full(4), "allgather"), max_peers=1)
    assert solved(problem, "monolithic").makespan == 3


@pytest.mark.parametrize("name", ["allreduce", "reducescatter"])
def test_a_limit_holds_over_both_phases(name: str) -> None:
    problem = replace(problem_on(full(6), name), max_peers=4)
    assert most_peers(problem, solved(problem)) <= 4


def test_the_judge_refuses_too_many_peers() -> None:
    problem = problem_on(full(4), "allgather")
    schedule = solved(problem)
    limited = replace(problem, max_peers=1)
    assert {v.kind for v in schedule_violations(limited, schedule)} == {"too-many-peers"}


def test_servers_talk_over_few_rails_without_losing_a_step() -> None:
    """Two servers of eight with a NIC per pair of GPUs: nobody needs all fifteen others."""
    problem = problem_on(servers([8, 8]), "allgather")
    free = solved(problem)
    limited = solved(replace(problem, max_peers=11))
    assert most_peers(problem, limited) <= 11
    assert limited.makespan == free.makespan
