"""Programs are timed: throttling is taken where it helps, and candidates stand by what their programs take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.autotune.program_ranking import Ranked, by_program, quickest, seconds
from hetesynth.autotune.tuning import Candidate
from hetesynth.compile.phases import PhaseTimer
from hetesynth.compile.predictors import SchedulePredictor
from hetesynth.compile.problem import load_problem
from hetesynth.compile.request import Request
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.model.deadline import Cuts, Deadline
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.synthesis.greedy import greedy
from hetesynth.synthesis.registry import strategy
from hetesynth.synthesis.solve import Solution, Solver
from hetesynth.synthesis.strategy import Strategy
from hetesynth.verify.schedule.judge import schedule_violations

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OPTIONS = LoweringOptions("x", profile=TARGETS["msccl-executor"])


ONE_ROUND = Strategy("greedy", lambda search: greedy.improve(search, rounds=1))


def candidate(cluster: str, chunks: int, name: str, size: int) -> Candidate:
    request = Request(EXAMPLES / cluster / "topo.dsl", "allgather", chunks)
    chunking, problem = load_problem(request, PhaseTimer())
    found = Solver(ONE_ROUND if name == "greedy" else strategy(name), Budget(), schedule_violations).solve(problem)
    assert isinstance(found, Solution)
    clock = SchedulePredictor(chunking.topology, problem, found.schedule)
    taken = clock.timeline(size).makespan
    return Candidate(name, name, chunks, chunking, problem, found, clock, taken)


def parts(c: Candidate) -> tuple[Topology, Problem, Schedule]:
    return c.chunking.topology, c.problem, c.solution.schedule


def test_pacing_helps_where_relays_wait_for_a_crowded_switch() -> None:
    c, size = candidate("h20_4p8", 4, "greedy", 64 << 20), 64 << 20
    plain = seconds(*parts(c), size, OPTIONS)
    assert plain is not None
    throttling, taken = quickest(*parts(c), size, OPTIONS, plain)
    assert throttling is not None
    assert c.seconds < taken < 0.93 * plain


def test_pacing_is_left_out_where_nothing_is_quicker() -> None:
    c, size = candidate("h20_4p8", 1, "greedy", 4 << 20), 4 << 20
    assert quickest(*parts(c), size, OPTIONS, 0.0) == (None, 0.0)


def test_contenders_stand_by_their_programs() -> None:
    size = 64 << 20
    given = [
        candidate("h20_4p8", chunks, name, size) for chunks, name in ((1, "ring"), (1, "greedy"), (4, "ring"))
    ]
    ranked = by_program(given[0].chunking.topology, given, size, OPTIONS)
    assert sorted(id(r.candidate) for r in ranked) == sorted(map(id, given))
    taken = [r.seconds or 0.0 for r in ranked]
    assert taken == sorted(taken)
    assert taken[1:] == [seconds(*parts(r.candidate), size, OPTIONS) for r in ranked[1:] if r.throttling is None]
    assert ranked[0].candidate is given[1]


@pytest.mark.parametrize("limit", ["MAX_TRANSFERS", "MAX_ALL"])
def test_what_is_not_timed_keeps_its_order(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 64 << 20
    given = [candidate("h20_4p8", chunks, "ring", size) for chunks in (1, 4)]
    monkeypatch.setattr(f"hetesynth.autotune.program_ranking.{limit}", 0)
    assert by_program(given[0].chunking.topology, given, size, OPTIONS) == [Ranked(c) for c in given]


def test_a_program_too_large_to_be_timed_may_still_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schedule is quicker than the one that was timed, and it is taken to lose as much."""
    size = 64 << 20
    given = [candidate("h20_4p8", 4, "ring", size), candidate("h20_4p8", 1, "ring", size)]
    few = len(given[1].solution.schedule.transfers)
    monkeypatch.setattr("hetesynth.autotune.program_ranking.MAX_TRANSFERS", few)
    ranked = by_program(given[0].chunking.topology, given, size, OPTIONS)
    assert [r.candidate for r in ranked] == given
    assert ranked[0].seconds is None and ranked[1].seconds is not None


def test_a_program_that_was_not_timed_does_not_win_by_a_little() -> None:
    """The deadline has passed, so the first alone is timed; the other's schedule is hardly quicker."""
    size = 64 << 20
    ring = candidate("h20_4p8", 4, "ring", size)
    given = [ring, replace(ring, seconds=0.9 * ring.seconds)]
    cuts = Cuts()
    ranked = by_program(ring.chunking.topology, given, size, OPTIONS, deadline=Deadline(0.0, cuts))
    assert [r.candidate for r in ranked] == given
    assert [r.seconds is None for r in ranked] == [False, True]


def test_rails_keep_their_time_as_programs_and_schedules_with_many_partners_do_not() -> None:
    """24 GPUs, 1 GiB, 4 chunks a rank."""
    size = 1 << 30
    given = [candidate("h20_4x2p8x2", 4, name, size) for name in ("greedy", "server-rings")]
    ranked = by_program(given[0].chunking.topology, given, size, OPTIONS)
    assert [r.candidate.name for r in ranked] == ["server-rings", "greedy"]
    lost = [(r.seconds or 0.0) / r.candidate.seconds for r in ranked]
    assert lost[0] < 1.03 < 1.15 < lost[1]
