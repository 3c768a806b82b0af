"""Programs are timed: throttling is taken where it helps, and candidates stand by what their programs take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.autotune.program_ranking import ProgramRanking, Ranked
from hetesynth.autotune.tuning import Candidate
from hetesynth.compile.phases import PhaseTimer
from hetesynth.compile.predictors import SchedulePredictor
from hetesynth.compile.problem import load_problem
from hetesynth.compile.request import Request
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.model.deadline import ClockDecisions, Deadline
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.policy import DEFAULT, Policy
from hetesynth.synthesis.greedy import greedy
from hetesynth.synthesis.registry import strategy
from hetesynth.synthesis.solve import Solution, Solver
from hetesynth.synthesis.strategy import Strategy
from hetesynth.verify.schedule.judge import schedule_violations

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OPTIONS = LoweringOptions("x", target=TARGETS["msccl-executor"])


ONE_ROUND = Strategy("greedy", lambda search: greedy.improve(search, rounds=1))


def candidate(cluster: str, chunks: int, name: str, size: int) -> Candidate:
    request = Request(EXAMPLES / cluster / "topo.dsl", "allgather", chunks)
    chunking, problem = load_problem(request, PhaseTimer())
    solution = Solver(ONE_ROUND if name == "greedy" else strategy(name), Budget(), schedule_violations).solve(
        problem
    )
    assert isinstance(solution, Solution)
    predictor = SchedulePredictor(chunking.topology, problem, solution.schedule)
    seconds = predictor.timeline(size).makespan
    return Candidate(name, name, chunks, chunking, problem, solution, predictor, seconds)


def ranking(c: Candidate, size: int, deadline: Deadline | None = None, **limits: int) -> ProgramRanking:
    policy: Policy = replace(DEFAULT, autotune=replace(DEFAULT.autotune, **limits))
    return ProgramRanking(c.chunking.topology, size, OPTIONS, deadline, policy)


def test_throttling_helps_where_relays_wait_for_a_crowded_switch() -> None:
    c, size = candidate("h20_4p8", 4, "greedy", 64 << 20), 64 << 20
    plain = ranking(c, size).seconds(c, OPTIONS)
    assert plain is not None
    throttling, seconds = ranking(c, size).quickest(c, plain)
    assert throttling is not None
    assert c.seconds < seconds < 0.93 * plain


def test_throttling_is_left_out_where_nothing_is_quicker() -> None:
    c, size = candidate("h20_4p8", 1, "greedy", 4 << 20), 4 << 20
    assert ranking(c, size).quickest(c, 0.0) == (None, 0.0)


def test_candidates_are_ranked_by_their_programs() -> None:
    size = 64 << 20
    candidates = [
        candidate("h20_4p8", chunks, name, size) for chunks, name in ((1, "ring"), (1, "greedy"), (4, "ring"))
    ]
    ranked = ranking(candidates[0], size).of(candidates)
    assert sorted(id(r.candidate) for r in ranked) == sorted(map(id, candidates))
    seconds = [r.seconds or 0.0 for r in ranked]
    assert seconds == sorted(seconds)
    plain = ranking(candidates[0], size)
    assert seconds[1:] == [plain.seconds(r.candidate, OPTIONS) for r in ranked[1:] if r.throttling is None]
    assert ranked[0].candidate is candidates[1]


@pytest.mark.parametrize("limit", ["max_program_transfers", "max_programs_transfers"])
def test_what_is_not_timed_keeps_its_order(limit: str) -> None:
    size = 64 << 20
    candidates = [candidate("h20_4p8", chunks, "ring", size) for chunks in (1, 4)]
    assert ranking(candidates[0], size, **{limit: 0}).of(candidates) == [Ranked(c) for c in candidates]


def test_a_program_too_large_to_be_timed_may_still_win() -> None:
    """Its schedule is quicker than the one that was timed, and it is taken to lose as much."""
    size = 64 << 20
    candidates = [candidate("h20_4p8", 4, "ring", size), candidate("h20_4p8", 1, "ring", size)]
    few = len(candidates[1].solution.schedule.transfers)
    ranked = ranking(candidates[0], size, max_program_transfers=few).of(candidates)
    assert [r.candidate for r in ranked] == candidates
    assert ranked[0].seconds is None and ranked[1].seconds is not None


def test_a_program_that_was_not_timed_does_not_win_by_a_little() -> None:
    """The deadline has passed, so the first alone is timed; the other's schedule is hardly quicker."""
    size = 64 << 20
    ring = candidate("h20_4p8", 4, "ring", size)
    candidates = [ring, replace(ring, seconds=0.9 * ring.seconds)]
    clock_decisions = ClockDecisions()
    ranked = ranking(ring, size, Deadline(0.0, clock_decisions)).of(candidates)
    assert [r.candidate for r in ranked] == candidates
    assert [r.seconds is None for r in ranked] == [False, True]


def test_server_rings_keep_their_time_as_programs_and_schedules_with_many_peers_do_not() -> None:
    """24 GPUs, 1 GiB, 4 chunks a rank."""
    size = 1 << 30
    candidates = [candidate("h20_4x2p8x2", 4, name, size) for name in ("greedy", "server-rings")]
    ranked = ranking(candidates[0], size).of(candidates)
    assert [r.candidate.name for r in ranked] == ["server-rings", "greedy"]
    lost = [(r.seconds or 0.0) / r.candidate.seconds for r in ranked]
    assert lost[0] < 1.03 < 1.15 < lost[1]
