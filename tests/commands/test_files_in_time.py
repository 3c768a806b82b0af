"""What is begun, and whose files are made, is decided by what it takes and what is left; by a clock that stands
still or jumps, not by the machine."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hetesynth.autotune import ring_candidate
from hetesynth.autotune.candidates import CandidateSpecs
from hetesynth.autotune.choice import choose
from hetesynth.autotune.program_ranking import Ranked
from hetesynth.commands import synth
from hetesynth.commands.files_in_time import in_time
from hetesynth.commands.synth import synthesize
from hetesynth.compile.compilation import compilation
from hetesynth.compile.problem import ProblemFactory
from hetesynth.compile.request import Request
from hetesynth.compile.time_ahead import TimeAhead, operations_of
from hetesynth.frontend import load_topology
from hetesynth.model import deadline
from hetesynth.model.collective import CollectiveName
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.policy import DEFAULT
from hetesynth.policy.policy import Policy

RING = Path(__file__).parents[2] / "examples" / "ring8" / "topo.dsl"
MIB = 1 << 20


def asked(seconds: float | None, policy: Policy = DEFAULT, name: CollectiveName = "allgather") -> Request:
    return Request(RING, name, budget=Budget(seconds), policy=policy, objective="time")


def dear(**prices: float) -> Policy:
    """A policy by which work takes longer."""
    return replace(DEFAULT, least_time=replace(DEFAULT.least_time, **prices))


@pytest.fixture
def ranked() -> list[Ranked]:
    """Candidates with different numbers of operations, a large one first."""
    return choose(load_topology(RING), replace(asked(None), size=64 * MIB), 64 * MIB).ranked[::-1]


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 0.0)


def of(entry: Ranked) -> int:
    return operations_of(entry.candidate.solution.schedule, entry.steady)


def test_more_operations_take_longer_and_forms_add_up() -> None:
    ahead = TimeAhead.of(asked(None), 64)
    assert 0.0 < ahead.files(1_000) < ahead.files(2_000) < ahead.files(2_000, timed=True)
    assert ahead.trial(1_000) < ahead.variants(1_000)
    bare = TimeAhead.of(replace(asked(None), schedule_only=True), 64)
    assert bare.files(1_000) < ahead.files(1_000) / 2
    once = ahead.to_the_files(4032, kept=True)  # it is lowered out of place once
    assert once < ahead.trial(4032) + ahead.files(4032)
    adding = TimeAhead.of(asked(None, name="allreduce"), 64)
    assert adding.trial(1_000) > ahead.trial(1_000) and adding.time_bounds() > ahead.time_bounds()
    assert TimeAhead.of(asked(None, name="alltoall"), 64).library() > 10 * ahead.simulation(63)


def test_without_a_limit_nothing_is_put_off(ranked: list[Ranked]) -> None:
    run = compilation(asked(None, dear(judge=1e9)))
    assert in_time(ranked, run, Decisions()) == ranked
    assert math.isinf(run.deadline.left()) and not run.budget.clock_decisions


@pytest.mark.usefixtures("still")
def test_the_quickest_whose_files_are_in_time_comes_first(ranked: list[Ranked]) -> None:
    numbers = [of(entry) for entry in ranked]
    assert numbers[0] > min(numbers), "the example needs a candidate that is larger than another"
    price = 1.0 / (2 * min(numbers))  # two forms: the smallest takes a second
    run = compilation(asked(1.5, dear(judge=price, lower=0.0, replay=0.0, start=0.0)))
    record = Decisions()
    queue = in_time(ranked, run, record)
    early = [n for n in numbers if 2 * price * n <= 1.5]
    assert [of(entry) for entry in queue] == early + sorted(n for n in numbers if n not in early)
    assert run.budget.clock_decisions.told() == ("files of the quickest",)
    assert [(d.what, d.verdict) for d in record.entries] == [(ranked[0].candidate.label, "skipped")]


def test_nothing_is_chosen_by_time_where_only_the_files_are_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the fewest steps is written, and the report says what the clock decided."""
    monkeypatch.setattr(deadline, "source", lambda: 0.0)
    made = synthesize(asked(5.0, dear(judge=1.0)))
    assert made.choice is None and made.programs and made.cut_short
    assert "choice by time" in made.decided_by_clock


def test_candidates_whose_files_would_be_late_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 0.0)
    record, request = Decisions(), replace(asked(5.0, dear(lower=1.0)), size=64 * MIB)
    answer = choose(load_topology(RING), request, 64 * MIB, decisions=record)
    assert {r.candidate.name for r in answer.ranked}.isdisjoint({"steady-state"}) and answer.run.cut_short
    told = [d.why for d in record.entries if d.what.startswith("steady-state") and d.verdict == "skipped"]
    assert told and all("after the time budget" in why for why in told)


def test_other_work_on_the_cores_makes_work_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(deadline, "source", lambda: seconds[0])
    limit = Budget(100.0).deadline()
    assert limit.pace() == 1.0 and not limit.expired("x", ahead=60.0)
    seconds[0] = 9.0  # of which this process had next to nothing
    assert limit.pace() > 5.0 and limit.expired("x", ahead=60.0)
    assert not limit.expired("x", ahead=1.0) and not limit.expired("x", ahead=-60.0)


def test_the_search_leaves_the_time_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 0.0)
    run = compilation(asked(10.0, dear(judge=0.01)))
    last = TimeAhead.of(run.request, 8).files(56) + TimeAhead.of(run.request, 8).time_bounds()
    last += DEFAULT.least_time.start
    assert synth._for_search(run, 8, 1.0).seconds == pytest.approx(10.0 - last)
    assert synth._for_search(run, 8, 0.5).seconds == 5.0
    assert synth._for_search(compilation(asked(None)), 8, 0.5).seconds is None


def test_a_library_that_takes_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 0.0)

    def made(policy: Policy) -> Any:
        return synthesize(replace(asked(5.0, policy), objective="steps")).verdict

    assert "not beside NCCL: the time budget is over" in made(dear(rings=1.0)).line
    assert made(DEFAULT).factor_over_library


def test_machine_code_that_is_not_loaded_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = TimeAhead.of(asked(None), 64)
    monkeypatch.setitem(sys.modules, "numba", ModuleType("numba"))
    loaded, small = ahead.simulation(4032), ahead.simulation(10)
    monkeypatch.delitem(sys.modules, "numba")
    assert ahead.simulation(4032) == pytest.approx(loaded + DEFAULT.least_time.load)
    assert ahead.simulation(10) == small


@pytest.mark.parametrize("target", ["portable", "mscclpp"])
@pytest.mark.parametrize("judge", [0.0, 1e9])
def test_rings_whose_files_would_be_late_are_not_searched(
    target: str, judge: float, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []

    def no_library(*_: Any) -> str:
        searched.append(1)
        return "no rings"

    monkeypatch.setattr(ring_candidate, "ring_baseline", no_library)
    request = replace(asked(60.0, dear(judge=judge)), size=64 * MIB, targets=(TARGETS[target],))
    factory = ProblemFactory(load_topology(RING), request)
    specs = CandidateSpecs(factory.topology, request, 64 * MIB, ())
    decisions, until = Decisions(), request.budget.deadline()
    assert ring_candidate.ring_candidate(factory, specs, TARGETS[target], until, decisions) is None
    assert bool(searched) == (judge == 0.0)
    assert decisions.entries[-1].verdict == ("skipped" if judge else "refused")
    assert bool(until.clock_decisions) == (judge > 0.0)


def test_a_plan_of_rings_is_not_timed_where_its_file_would_be_late(
    still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rings themselves are found in time; a plan in many chunks is too long."""

    def timed(*_: Any) -> None:
        raise AssertionError("a plan is timed")

    monkeypatch.setattr(ring_candidate, "quickest_plan", timed)
    monkeypatch.setattr(ring_candidate, "_to_the_files", lambda ahead, chunks: 0.0 if chunks == 1 else 1e9)
    request = replace(asked(60.0), size=64 * MIB, targets=(TARGETS["mscclpp"],))
    factory = ProblemFactory(load_topology(RING), request)
    specs = CandidateSpecs(factory.topology, request, 64 * MIB, ())
    until = request.budget.deadline()
    assert ring_candidate.ring_candidate(factory, specs, TARGETS["mscclpp"], until, Decisions()) is None
    assert until.clock_decisions
