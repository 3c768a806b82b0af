"""The one choice for a size: steady state first, all others unless it is near the limit, the quickest first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.library_programs import ring_program

from hetesynth.engine.choice import candidates, choice, program_ranking, steady
from hetesynth.engine.choice.choice import CandidateSpecs, Chosen, choose
from hetesynth.engine.choice.pool import seconds_at
from hetesynth.engine.choice.program_ranking import Ranked
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.predictors import CostOptions, PlanPredictor, ProgramPredictor
from hetesynth.engine.request import Request
from hetesynth.engine.steady_programs import DispatchedPlan
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import TARGETS
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.auto import NO_SEARCH
from hetesynth.search.packing.column_generation import PACKING
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution
from hetesynth.search.steady_state import EXPANSIONS
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MIB = 1 << 20
NEAR, NEVER = 0.5, 2.0  # shares of the limit: any steady-state program is near, none is


PATCH = pytest.MonkeyPatch()


@pytest.fixture(autouse=True)
def few_candidates() -> Iterator[None]:
    """With one number of chunks and few trees, of which all are tried."""
    PATCH.setattr(candidates, "CHUNK_COUNTS", (1,))
    PATCH.setattr(steady, "COUNTS", (1, 2))
    yield
    PATCH.undo()


def asked(
    name: CollectiveName = "allgather", strategy: str = "auto", near: float = NEVER, cluster: str = "ring8"
) -> Request:
    path = EXAMPLES / cluster / "topo.dsl"
    for module in (choice, program_ranking):
        PATCH.setattr(module, "NEAR_THE_LIMIT", near)
    return Request(path, name, strategy=strategy, budget=Budget(), targets=(TARGETS["portable"],))


def chosen(request: Request, size: int = 64 * MIB, decisions: Decisions | None = None) -> Chosen:
    return choose(CandidateSpecs(load_topology(request.topology), request, size), decisions=decisions)


def names(answer: Chosen) -> set[str]:
    return {r.candidate.name for r in answer.ranked}


def no_other(*_: Any, **__: Any) -> None:
    raise AssertionError("other candidates are tried")


def test_a_program_near_the_limit_ends_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "tune", no_other)
    answer = chosen(asked(near=NEAR))
    best = answer.ranked[0]
    assert names(answer) == {"ring"}
    assert best.steady is not None and best.seconds is not None
    assert answer.run.candidates[0] is best.candidate and answer.run.ending == "tried" and not answer.run.cut_short
    assert (
        answer.run.bounds.seconds(64 * MIB) * (1 - 1e-9)
        <= best.seconds
        <= answer.run.bounds.seconds(64 * MIB) / NEAR
    )


def test_a_program_that_is_not_near_does_not() -> None:
    answer = chosen(asked(cluster="v100_fail_one4"))
    assert "steady-state" in names(answer) and len(names(answer)) > 1
    seconds = [r.seconds for r in answer.ranked if r.seconds is not None]
    assert seconds == sorted(seconds) and answer.ranked[0].seconds == seconds[0]


def test_large_calls_on_many_gpus_end_with_the_trees_of_earliest_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fourteen GPUs count as many here."""
    monkeypatch.setattr(steady, "FEW", 100)
    monkeypatch.setattr(choice, "tune", no_other)
    decisions = Decisions()
    request = replace(asked("allgather", cluster="v100_fail_each4"), budget=Budget(effort=1.0))
    assert "steady-state" in names(chosen(request, 4096 * MIB, decisions))
    tried = [entry.what for entry in decisions.entries]
    assert [label.split(",")[0] for label in tried if not label.startswith("steady")][-1] == "earliest arrival"


def test_rings_of_servers_are_tried_first_on_192_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else packings alone were: on 256 an allgather of 1 GB took 6.41 ms in place of 5.23."""
    path = tmp_path / "c.dsl"
    path.write_text("import h20\ncluster c { instance a[0-23] = h20x8 fabric f { join *.nic* } }")
    solved: list[str] = []

    def nothing(self: steady.SteadyCandidates, problem: Problem, strategy: Strategy) -> Solution:
        solved.append(strategy.name)
        raise HetesynthError("none", code="HS602", help="")

    monkeypatch.setattr(steady.SteadyCandidates, "solved_by", nothing)
    specs = CandidateSpecs(load_topology(path), replace(asked(), topology=path), 1000 * MIB)
    effort = program_ranking.Effort(0.0)
    ranking = program_ranking.ProgramRanking(specs, TARGETS["portable"], no_deadline(), Decisions(), effort)
    assert list(steady.SteadyCandidates(ranking)._rings()) == [] and solved == ["server-rings"]


def test_steady_state_alone_where_it_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "tune", no_other)
    assert names(chosen(asked(strategy="steady-state"))) == {"steady-state"}


def test_plans_are_dispatched_too() -> None:
    """Candidates are timed as plans, where nothing else is made."""
    request = replace(asked(cluster="v100_fail_one4"), targets=(TARGETS["mscclpp"],))
    best = next(r for r in chosen(request).ranked if r.candidate.name == "steady-state")
    assert isinstance(best.steady, DispatchedPlan)
    c, options = (
        best.candidate,
        LoweringOptions("timed", target=TARGETS["mscclpp"], servers=load_topology(request.topology).servers),
    )
    plan = best.steady.plan(c.problem, c.solution.schedule, options)
    timeline = PlanPredictor(load_topology(request.topology), plan, CostOptions()).timeline(64 * MIB)
    assert timeline.makespan == best.seconds


@pytest.mark.parametrize("strategy", ["auto", steady.NAME])
def test_a_choice_without_time_has_a_program_and_says_what_was_cut_short(strategy: str) -> None:
    """Trees are packed only where nothing else is asked for, and as far as one round goes."""
    EXPANSIONS.clear()
    budget = Budget(seconds=0.0)
    answer = chosen(replace(asked("allreduce", strategy, cluster="v100_fail_one4"), budget=budget))
    assert answer.ranked[0].seconds is not None and answer.run.cut_short and answer.run.ending == "time"
    assert (steady.NAME in names(answer)) == (strategy == steady.NAME)
    assert budget.clock_decisions.places.get(PACKING, 0) == (strategy == steady.NAME)


def test_ctrl_c_among_the_others_keeps_steady_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(choice, "tune", interrupted)
    run = chosen(asked()).run
    assert run.candidates and run.interrupted and run.cut_short and run.ending == "interrupt"
    with pytest.raises(KeyboardInterrupt):
        chosen(asked(strategy="greedy"), MIB)


@pytest.mark.parametrize("number", [1, 2])
def test_ctrl_c_in_steady_state_keeps_what_was_tried(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first program has been timed where the second is interrupted; before it there is its schedule."""
    calls = 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise KeyboardInterrupt
        return real(*arguments)

    real = Lowering.predictor
    monkeypatch.setattr(Lowering, "predictor", interrupted)
    monkeypatch.setattr(choice, "tune", no_other)
    monkeypatch.setattr(
        program_ranking.ProgramRanking, "best_seconds", math.inf
    )  # a second one is tried in any case
    answer = chosen(asked(strategy=steady.NAME))
    kept = answer.ranked[0]
    assert len(answer.ranked) == 1 and answer.run.interrupted and answer.run.ending == "interrupt"
    assert (kept.seconds is None) == (number == 1) and kept.steady is not None
    problem, schedule = kept.candidate.problem, kept.candidate.solution.schedule
    assert schedule_violations(problem, schedule) == []


def test_with_a_budget_what_takes_no_search_is_tried_first_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(steady.SteadyCandidates, "try_all", interrupted)
    told: list[Ranked] = []
    request = asked("allreduce")
    topology = load_topology(request.topology)
    specs = CandidateSpecs(topology, request, 64 * MIB)
    answer = choose(specs, keep=lambda bounds, number, ranked: told.append(ranked), soon=True)
    assert told == answer.ranked and names(answer) <= {*NO_SEARCH} and answer.run.interrupted


def test_a_schedule_in_steady_state_starts_as_programs_do() -> None:
    """Else, at small sizes, nothing else would seem near it, and be timed."""
    request = replace(asked(near=NEAR), runtime=NCCL_TABLES)
    topology = load_topology(request.topology)
    start = CostOptions.of(request).start(topology)
    answer = chosen(request)
    for ranked in answer.ranked:
        assert seconds_at(ranked.candidate, 64 * MIB) >= answer.run.bounds.seconds(64 * MIB) * 0.999
        assert seconds_at(ranked.candidate, MIB) > start > 0
        assert math.isinf(seconds_at(ranked.candidate, 8)) == (ranked.candidate.chunks > 1)


def test_of_a_small_schedule_the_program_step_by_step_is_timed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dispatch expects more of programs than small ones keep."""
    request = asked("reducescatter", steady.NAME, cluster="dgx1")
    best = chosen(request, 64_000).ranked[0]
    monkeypatch.setattr(program_ranking, "FEW", 0)
    dispatched = chosen(request, 64_000).ranked[0]
    assert best.way == program_ranking.STEP_BY_STEP != dispatched.way
    assert best.seconds is not None and dispatched.seconds is not None and best.seconds < dispatched.seconds


@pytest.mark.parametrize(("times", "first"), [(1.04, True), (1.06, False), (None, False)])
def test_the_fewest_steps_come_first_where_they_are_nearly_as_quick(
    times: float | None, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(near=NEAR)
    answer = chosen(request)
    candidate, best = answer.ranked[0].candidate, answer.ranked[0].seconds
    assert best is not None
    program = Ranked(replace(candidate, label="fewest"), None if times is None else times * best)
    monkeypatch.setattr(choice, "step_candidate", lambda *_: replace(candidate, seconds=best))
    monkeypatch.setattr(choice, "step_program", lambda *_: program)
    ranked = choice.with_schedule(answer, request, None, no_deadline()).ranked  # type: ignore[arg-type]
    assert (ranked[0] == program) is first and program in ranked


def test_the_same_choice_again() -> None:
    one, other = chosen(asked(cluster="fig10")), chosen(asked(cluster="fig10"))
    assert [(r.candidate.label, r.seconds) for r in one.ranked] == [
        (r.candidate.label, r.seconds) for r in other.ranked
    ]
    assert one.ranked[0].candidate.solution.schedule == other.ranked[0].candidate.solution.schedule


TWO_MESHES = """
node fast {
  gpus 4
  mesh gpu* { bandwidth 120 GB/s }
  nic nic0 { bandwidth 20 GB/s }
  attach gpu[0-3] -> nic0
}
node slow {
  gpus 4
  mesh gpu* { bandwidth 40 GB/s }
  nic nic0 { bandwidth 20 GB/s }
  attach gpu[0-3] -> nic0
}
cluster two_meshes {
  instance a = fast
  instance b = slow
  fabric ib { join *.nic*; latency 3 us }
}
"""


@pytest.mark.parametrize("collective", ["scatter", "gather"])
def test_near_the_limit_is_not_enough_where_plain_sends_are_quicker(
    collective: CollectiveName, tmp_path: Path
) -> None:
    path = tmp_path / "topo.dsl"
    path.write_text(TWO_MESHES)
    on = load_topology(path)
    request = Request(path, collective, root=0, single_root=True, budget=Budget(effort=1.0))
    best = choose(CandidateSpecs(on, request, 16_000_000)).ranked[0]
    sends = ProgramPredictor(on, ring_program(on, collective, 0, 1)).predict(16_000_000)
    assert best.seconds is not None and best.seconds <= sends.seconds * 1.01
