"""Steps of several rounds (SCCL 3): the points of its tables, what the judge refuses, and the files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.graphs import dgx1, line, problem, ring, servers

from hetesynth import api
from hetesynth.engine.verify import Question, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import read_schedule_json, write_schedule_json
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import ClockDecisions, Deadline
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.registry import strategy
from hetesynth.search.rounds import Rounds, frontier, shares
from hetesynth.search.solve import Solver

EXAMPLES = Path(__file__).parents[2] / "examples"
ROUNDS = Rounds(Solver(strategy("auto"), Budget(), schedule_violations))
TABLES: list[tuple[str, CollectiveName, int, int, int]] = [
    ("DGX-1", "allgather", 2, 2, 3), ("DGX-1", "alltoall", 1, 2, 3), ("DGX-1", "alltoall", 3, 2, 8),
    ("DGX-1", "allreduce", 2, 4, 6), ("Z52", "allgather", 2, 4, 7), ("Z52", "alltoall", 1, 4, 8),
    ("Z52", "allreduce", 2, 8, 14), ("Z52", "scatter", 2, 4, 7),
]  # fmt: skip


def of_machine(machine: str, name: CollectiveName, chunks: int) -> Problem:
    return problem(dgx1() if machine == "DGX-1" else ring(8), name, chunks)


def judged(given: Problem, steps: int, rounds: int) -> Schedule:
    schedule = ROUNDS.schedule(given, steps, rounds)
    assert isinstance(schedule, Schedule)
    assert (len(schedule.rounds), sum(schedule.rounds)) == (steps, rounds)
    assert schedule_violations(given, schedule) == []
    assert schedule_violations(given, replace(schedule, rounds=())) == []  # a schedule of so many steps as well
    return schedule


@pytest.mark.parametrize(("machine", "name", "chunks", "steps", "rounds"), TABLES)
def test_points_of_sccl(machine: str, name: CollectiveName, chunks: int, steps: int, rounds: int) -> None:
    judged(of_machine(machine, name, chunks), steps, rounds)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps", "rounds"), [("allgather", 3, 7), ("allreduce", 6, 14)])
def test_bandwidth_optimal_points_of_sccl(name: CollectiveName, steps: int, rounds: int) -> None:
    judged(of_machine("DGX-1", name, 6), steps, rounds)


@pytest.mark.parametrize(
    ("name", "chunks", "steps", "rounds"), [("allgather", 1, 2, 3), ("alltoall", 1, 3, 6), ("scatter", 2, 2, 4)]
)
def test_fewer_steps_than_the_diameter_are_proved_impossible(
    name: CollectiveName, chunks: int, steps: int, rounds: int
) -> None:
    assert ROUNDS.schedule(of_machine("Z52", name, chunks), steps, rounds) == "none"


def relayed(rounds: tuple[int, ...]) -> tuple[Problem, Schedule]:
    """Rank 0 to 1 to 2, in two ticks."""
    given = problem(line(3), "broadcast", 1)
    forwards = {(arc.src, arc.dst): a for a, arc in enumerate(given.arcs)}
    sent = [Transfer(t, t + 1, 0, forwards[t, t + 1]) for t in range(2)]
    return given, Schedule.of(sent, 2, rounds)


def test_what_arrives_in_a_step_is_not_sent_on_in_it() -> None:
    assert schedule_violations(*relayed((1, 1))) == []
    assert schedule_violations(*relayed((2,)))[0].kind == "not-held"


@pytest.mark.parametrize("rounds", [(1,), (3,), (2, 0), (1, 1, 1)])
def test_rounds_that_are_not_the_ticks_are_refused(rounds: tuple[int, ...]) -> None:
    assert [v.kind for v in schedule_violations(*relayed(rounds))] == ["wrong-tick"]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, rounds=(s.rounds[0] + 1, *s.rounds[1:-1], s.rounds[-1] - 1)),
        lambda s: Schedule.of(s.transfers[1:], s.makespan, s.rounds),
        lambda s: Schedule.of([replace(t, start=0, end=1) for t in s.transfers], s.makespan, s.rounds),
    ],
)
def test_changed_points_are_refused(change: Callable[[Schedule], Schedule]) -> None:
    given = of_machine("Z52", "allgather", 2)
    assert schedule_violations(given, change(judged(given, 4, 7)))


def test_a_schedule_with_rounds_is_read_back() -> None:
    given = of_machine("Z52", "allgather", 2)
    schedule = judged(given, 4, 7)
    data = write_schedule_json(given, schedule, {})
    assert read_schedule_json(data).schedule == schedule
    with pytest.raises(HetesynthError, match="rounds"):
        read_schedule_json(data.replace(b'"rounds": [', b'"rounds": [1, '))


def test_the_frontier_ascends_in_steps_and_falls_in_rounds_a_chunk() -> None:
    points = list(frontier(lambda chunks: of_machine("DGX-1", "scatter", chunks), 6, 4, ROUNDS))
    assert [(p.chunks, p.steps, p.rounds) for p in points] == [(4, 2, 5), (6, 3, 7)]
    assert all(not p.open for p in points)


def test_ways_to_share_rounds() -> None:
    assert shares(4, 2) == [(2, 2), (1, 3), (3, 1)]


def test_files_of_the_frontier_are_judged_again(tmp_path: Path) -> None:
    cluster = EXAMPLES / "ring8" / "topo.dsl"
    points, files = api.pareto(cluster, "allreduce", most=2, sizes="1KB")
    assert [point.name for point in points] == ["c16-s8-r14"]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        if not name.endswith(".svg"):
            verdict = judge_file(tmp_path / name, Question(topology=cluster))
            assert verdict.count("error") == 0


def test_rounds_of_a_step_are_filled_whatever_the_order() -> None:
    """NICs are shared: what comes first must not take the room of what has no other."""
    given = problem(servers([2, 2], nics=1), "alltoall", 1)
    schedule = ROUNDS.schedule(given, 1, 8)
    assert isinstance(schedule, Schedule)
    assert schedule_violations(given, schedule) == []


def test_a_deadline_that_is_over_proves_nothing() -> None:
    late = replace(ROUNDS, deadline=Deadline(0.0, ClockDecisions()))
    assert late.schedule(of_machine("Z52", "allgather", 2), 4, 7) == "unknown"
    assert list(frontier(lambda chunks: of_machine("Z52", "allgather", chunks), 2, 4, late)) == []
