"""Programs back to schedules: what is moved is kept, the first judge agrees, and no step is lost."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest
from support.lowering_cases import GRAPHS, case, problem_on, random_schedule
from verify.program_builders import good_programs

from hetesynth.judge.msccl.judge import program_violations
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.programs.layout import in_place_supported
from hetesynth.programs.lifting.dataflow import shape
from hetesynth.programs.lifting.lift import Lifted, lift, lift_schedule
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.search.collectives import collective

GOOD = good_programs()


def moved(problem: Problem, schedule: Schedule) -> Counter[tuple[int, int, int, bool]]:
    """What crosses between which ranks, without when and over which of parallel links."""
    return Counter(
        (problem.arcs[t.link].src, problem.arcs[t.link].dst, t.chunk, t.reduce) for t in schedule.transfers
    )


@cache
def own(graph: str, name: CollectiveName, chunks: int, in_place: bool) -> tuple[Problem, Schedule, Program]:
    problem, schedule = case(graph, name, chunks)
    return problem, schedule, lower(problem, schedule, LoweringOptions("x", in_place))


SMALL = [*((g, 1) for g in GRAPHS if g not in ("dgx1", "h4p8")), ("line3", 3), ("star5", 2), ("oneway4", 2)]
LARGE: list[tuple[str, CollectiveName]] = [("dgx1", "alltoall"), ("dgx1", "allreduce"), ("h4p8", "allgather")]
OWN = [
    (graph, name, chunks, in_place)
    for graph, name, chunks in [
        *((graph, name, chunks) for graph, chunks in SMALL for name in COLLECTIVE_NAMES),
        *((graph, name, 1) for graph, name in LARGE),
    ]
    for in_place in (False, True)[: 1 + in_place_supported(name)]
]


@pytest.mark.parametrize(("graph", "name", "chunks", "in_place"), OWN)
def test_our_programs_come_back(graph: str, name: CollectiveName, chunks: int, in_place: bool) -> None:
    """The same chunks cross the same pairs. On the links as used, never later than in the original: a program
    orders only what its schedule put in different steps. On the original links, at most one step later."""
    problem, schedule, program = own(graph, name, chunks, in_place)
    free = lift(program, problem.collective)
    assert schedule_violations(free.problem, free.schedule) == []
    assert moved(free.problem, free.schedule) == moved(problem, schedule)
    assert free.schedule.makespan <= schedule.makespan and free.dropped == 0
    lifted = lift(program, problem.collective, on=problem)
    assert lifted.problem == problem and schedule_violations(problem, lifted.schedule) == []
    assert moved(problem, lifted.schedule) == moved(problem, schedule)
    assert lifted.schedule.makespan <= schedule.makespan + bool(problem.groups)


@pytest.mark.parametrize("seed", range(40))
def test_a_schedule_lifted_to_its_own_links_is_never_longer(seed: int) -> None:
    """Serial generation in the order of a schedule's own starts; transfers that nobody needs are left out."""
    rng = random.Random(seed)
    name = COLLECTIVE_NAMES[seed % 8]
    problem = problem_on(rng.choice(["pair", "line3", "full3", "full4", "oneway4"]), name, rng.randint(1, 2))
    schedule = random_schedule(problem, rng, longest=1)
    if schedule is None or schedule_violations(problem, schedule):
        return
    lifted = lift_schedule(problem, schedule, problem)
    assert schedule_violations(problem, lifted.schedule) == []
    assert lifted.schedule.makespan <= schedule.makespan
    assert moved(problem, lifted.schedule) <= moved(problem, schedule)


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_survive_the_round_trip(seed: int) -> None:
    """Schedule -> program -> schedule: what comes back moves no chunk that was not moved."""
    rng = random.Random(seed)
    name = COLLECTIVE_NAMES[seed % 8]
    problem = problem_on(rng.choice(["pair", "line3", "full3", "full4"]), name, rng.randint(1, 2))
    schedule = random_schedule(problem, rng, longest=2)
    if schedule is None or schedule_violations(problem, schedule):
        return
    lifted = lift(lower(problem, schedule, LoweringOptions("x")), problem.collective)
    assert schedule_violations(lifted.problem, lifted.schedule) == []
    assert moved(lifted.problem, lifted.schedule) <= moved(problem, schedule)


def imported(program: Program) -> Lifted:
    size = shape(program)
    root = next(
        (r for r in range(program.ranks) if not program_violations(program, root=r)), program.root
    )  # of programs that do not say
    asked = collective(
        program.collective, program.ranks, size.chunks_per_rank, root if program.collective in ROOTED else None
    )
    return lift(program, asked, size.pieces)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_programs_written_by_hand(name: str) -> None:
    """Lifted, judged, lowered again and judged by the other judge."""
    lifted = imported(GOOD[name])
    assert schedule_violations(lifted.problem, lifted.schedule) == []
    again = lower(lifted.problem, lifted.schedule, LoweringOptions("x"))
    assert program_violations(again, root=lifted.problem.collective.root) == []
