"""Programs are timed: throttling is taken where it helps, and candidates stand by what their programs take."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.engine.choice.program_ranking import ProgramRanking, Ranked
from hetesynth.engine.choice.tuning import Candidate, Effort
from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.predictors import ProgramPredictor, SchedulePredictor
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.deadline import ClockDecisions, Deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.policy import DEFAULT, Policy
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.greedy import greedy
from hetesynth.search.registry import strategy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver

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
    again = ranking(candidates[0], size)
    plain = [again.seconds(r.candidate, OPTIONS) or math.inf for r in ranked]
    assert [r.seconds for r in ranked if r.throttling is None] == [
        p if r.steady is None else in_steady_state(r, size)
        for r, p in zip(ranked, plain, strict=True)
        if r.throttling is None
    ]
    assert all(s <= p for s, p in zip(seconds, plain, strict=True))
    assert any(s < p for s, p in zip(seconds, plain, strict=True))


def in_steady_state(ranked: Ranked, size: int) -> float:
    c = ranked.candidate
    assert ranked.steady is not None
    lowered = ranked.steady.lowered(c.problem, c.solution.schedule, OPTIONS)
    return ProgramPredictor(c.chunking.topology, lowered.program, target=OPTIONS.target).timeline(size).makespan


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


def test_programs_keep_the_time_of_schedules_with_many_peers_in_steady_state_alone() -> None:
    """24 GPUs, 1 GiB, 4 chunks a rank: server rings nearly keep it in any case."""
    size = 1 << 30
    rings, greedy = [candidate("h20_4x2p8x2", 4, name, size) for name in ("server-rings", "greedy")]
    plain = [(ranking(c, size).seconds(c, OPTIONS) or math.inf) / c.seconds for c in (rings, greedy)]
    assert plain[0] < 1.08 < 1.15 < plain[1]
    (best,) = ranking(greedy, size).of([greedy])
    assert best.steady is not None and (best.seconds or math.inf) < 1.03 * greedy.seconds


def test_programs_that_need_more_effort_are_not_made_in_steady_state() -> None:
    c, size = candidate("h20_4p8", 4, "greedy", 64 << 20), 64 << 20
    decisions = Decisions()
    transfers = len(c.solution.schedule.transfers)
    effort = Effort(1.5 * DEFAULT.effort.program * transfers)
    (best,) = replace(ranking(c, size), effort=effort, decisions=decisions).of([c])
    assert best.steady is None
    noted = {d.what: d.verdict for d in decisions.entries}
    assert noted[f"{c.label}, in steady state"] == "skipped"


@pytest.mark.parametrize(
    ("share", "allotted", "first"), [(0.98, 0.02, "two"), (0.98, 9.0, "four"), (0.9, 0.02, "four")]
)
def test_where_one_program_can_be_timed_it_is_the_shortest_of_those_alike(
    share: float, allotted: float, first: str
) -> None:
    size = 64 << 20
    two, longer = (candidate("h20_4p8", chunks, "server-rings", size) for chunks in (2, 4))
    four = replace(longer, label="four", seconds=share * two.seconds)
    record = Decisions()
    replace(ranking(two, size), effort=Effort(allotted), decisions=record).of([four, replace(two, label="two")])
    timed = [d.what for d in record.entries if d.verdict == "tried" and "steady" not in d.what]
    assert timed[0] == first and (len(timed) == 1) == (allotted < 1)
