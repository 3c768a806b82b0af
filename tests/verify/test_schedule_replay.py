"""The judge passes what a plain replay passes, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.graphs import dgx1, fig10, problem, ring, servers, star
from support.replay import accepts
from support.solving import solve

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem, Resource
from hetesynth.model.schedule import Schedule

GRAPHS = {"ring5": ring(5), "star4": star(4), "fig10": fig10(), "dgx1": dgx1(), "2+3": servers([2, 3], 2, 3)}
COPIES: tuple[CollectiveName, ...] = ("allgather", "broadcast", "alltoall", "scatter")


def clean(wanted: Problem, schedule: Schedule) -> bool:
    return not schedule_violations(wanted, schedule)


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
    assert clean(wanted, good)
    rng = random.Random(f"{graph} {name}")
    mutants = [mutant(rng, wanted, good) for _ in range(150)]
    verdicts = [accepts(wanted, m) for m in mutants]
    assert [clean(wanted, m) for m in mutants] == verdicts
    assert not all(verdicts)


def test_laws_that_few_problems_have() -> None:
    wanted = problem(ring(4), "broadcast")
    good = solve(wanted, "greedy").schedule
    first = [t for t in good.transfers if t.start == 0]
    assert len(first) == 2  # both ways at once
    assert not clean(replace(wanted, exclusive_reduction=True), good)
    assert clean(replace(wanted, max_peers=2), good)
    assert not clean(replace(wanted, max_peers=1), good)
    bus = Resource("bus", tuple(t.link for t in first), 1)
    assert not clean(replace(wanted, groups=(bus,)), good)
