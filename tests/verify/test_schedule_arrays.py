"""The quick look at large schedules passes what the replay passes, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.graphs import Graph, dgx1, fig10, problem, ring, servers, star
from support.replay import accepts
from support.solving import solve

from hetesynth.judge.schedule.judge import schedule_violations, surely_clean
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem, Resource
from hetesynth.model.schedule import Schedule, Transfer

GRAPHS = {"ring5": ring(5), "star4": star(4), "fig10": fig10(), "dgx1": dgx1(), "2+3": servers([2, 3], 2, 3)}
COPIES: tuple[CollectiveName, ...] = ("allgather", "broadcast", "alltoall", "scatter")


def mutant(rng: random.Random, wanted: Problem, schedule: Schedule) -> Schedule:
    """One transfer lost, doubled, moved in time, of another chunk or over another link."""
    moved = list(schedule.transfers)
    i, start = rng.randrange(len(moved)), rng.randrange(schedule.makespan)
    t = moved.pop(i)
    chunk, link = rng.randrange(len(wanted.collective.chunks)), rng.randrange(len(wanted.arcs))
    moved += rng.choice(
        ([], [t, t], [replace(t, start=start, end=start + 1)], [replace(t, chunk=chunk)], [replace(t, link=link)])
    )
    return Schedule.of(moved, schedule.makespan)


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_it_judges_as_the_replay_does(graph: str, name: CollectiveName) -> None:
    wanted = problem(GRAPHS[graph], name, 2)
    good = solve(wanted, "greedy").schedule
    assert surely_clean(wanted, good)
    rng = random.Random(f"{graph} {name}")
    mutants = [mutant(rng, wanted, good) for _ in range(150)]
    verdicts = [accepts(wanted, m) for m in mutants]
    assert [surely_clean(wanted, m) for m in mutants] == verdicts
    assert not all(verdicts)


def test_laws_that_few_problems_have() -> None:
    wanted = problem(ring(4), "broadcast")
    good = solve(wanted, "greedy").schedule
    first = [t for t in good.transfers if t.start == 0]
    assert len(first) == 2  # both ways at once
    assert not surely_clean(replace(wanted, exclusive_reduction=True), good)
    assert surely_clean(replace(wanted, max_peers=2), good)
    assert not surely_clean(replace(wanted, max_peers=1), good)
    bus = Resource("bus", tuple(t.link for t in first), 1)
    assert not surely_clean(replace(wanted, groups=(bus,)), good)


def test_the_judge_says_what_is_wrong_with_a_large_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetesynth.judge.schedule.judge.ARRAY_TRANSFERS", 1)
    graph: Graph = ring(4)
    wanted = problem(graph, "allgather")
    good = solve(wanted, "greedy").schedule
    assert schedule_violations(wanted, good) == []
    lost = Schedule.of(good.transfers[1:], good.makespan)
    assert {v.kind for v in schedule_violations(wanted, lost)} >= {"not-delivered"}


def test_what_is_not_looked_at_is_not_clean() -> None:
    """More holders than one, a long transfer among short ones, links, chunks and steps that are not there."""
    wanted = problem(ring(3, both=False), "broadcast")
    good = Schedule.of([Transfer(0, 1, 0, 0), Transfer(1, 2, 0, 1)])
    assert surely_clean(wanted, good)
    late = Schedule.of([Transfer(0, 1, 0, 0), Transfer(1, 3, 0, 1)])
    early = Schedule.of(good.transfers)
    object.__setattr__(early, "makespan", 1)
    two = replace(wanted, collective=replace(wanted.collective, pre=(frozenset({0, 1}),)))
    for problem_, schedule in ((wanted, late), (wanted, early), (two, Schedule.of(good.transfers[1:], 2))):
        assert not surely_clean(problem_, schedule)
    for chunk, link in ((0, 3), (0, -1), (1, 0), (-1, 0)):
        assert not surely_clean(wanted, Schedule.of([*good.transfers, Transfer(1, 2, chunk, link)]))
