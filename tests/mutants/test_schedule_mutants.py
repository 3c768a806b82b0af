"""Mutants of good schedules: the judge and the second replay agree on every one, and none that changes the result
passes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from support.graphs import Graph, fig10, line, problem, ring, servers, star
from support.replay import accepts, complaint
from support.solving import solve

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer

GRAPHS = {
    "ring4": lambda: ring(4), "oneway3": lambda: ring(3, both=False), "line3": lambda: line(3),
    "star4": lambda: star(4), "fig10": fig10, "2+3": lambda: servers([2, 3], 2, 3),
}  # fmt: skip


@cache
def good(graph: str, name: CollectiveName) -> tuple[Problem, Schedule]:
    built: Graph = GRAPHS[graph]()
    wanted = problem(built, name, exclusive=name == "allreduce")
    schedule = solve(wanted, "greedy").schedule
    return wanted, schedule


def dropped(schedule: Schedule) -> Iterator[list[Transfer]]:
    for i in range(len(schedule.transfers)):
        yield [t for j, t in enumerate(schedule.transfers) if j != i]


def changed(schedule: Schedule, problem: Problem) -> Iterator[list[Transfer]]:
    """Delayed, advanced, another chunk, another link, doubled, copy for addition: one transfer at a time."""
    chunks, links = len(problem.collective.chunks), len(problem.arcs)
    for i, t in enumerate(schedule.transfers):
        rest = [u for j, u in enumerate(schedule.transfers) if j != i]
        yield [*rest, replace(t, start=t.start + 1, end=t.end + 1)]
        if t.start:
            yield [*rest, replace(t, start=t.start - 1, end=t.end - 1)]
        yield [*rest, replace(t, chunk=(t.chunk + 1) % chunks)]
        yield [*rest, replace(t, link=(t.link + 1) % links)]
        yield [*rest, t, t]
        yield [*rest, t, replace(t, start=t.start + 1, end=t.end + 1)]
        yield [*rest, replace(t, reduce=not t.reduce)]
        yield [*rest, replace(t, end=t.end + 1)]


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_dropped_transfer_is_noticed(graph: str, name: CollectiveName) -> None:
    """Schedules carry nothing useless, so no transfer can be spared."""
    wanted, schedule = good(graph, name)
    assert not schedule_violations(wanted, schedule)
    for moves in dropped(schedule):
        mutant = Schedule.of(moves, schedule.makespan)
        found = {v.kind for v in schedule_violations(wanted, mutant)}
        assert found & {"not-held", "not-delivered"}, moves
        assert not accepts(wanted, mutant)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_single_mutants_are_judged_alike_by_both_replays(graph: str, name: CollectiveName) -> None:
    wanted, schedule = good(graph, name)
    mutants = [Schedule.of(moves) for moves in changed(schedule, wanted)]
    refused = 0
    for mutant in random.Random(7).sample(mutants, min(len(mutants), 60)):
        found = schedule_violations(wanted, mutant)
        assert bool(found) == (complaint(wanted, mutant) is not None), (found, complaint(wanted, mutant))
        refused += bool(found)
    assert refused
