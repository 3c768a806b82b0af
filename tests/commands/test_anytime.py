"""A time budget is kept whatever the search does: the best result that was handed over by then is written."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.synth_report import synthesis_report, synthesis_summary
from hetesynth.engine import synth
from hetesynth.engine.choice import choice
from hetesynth.engine.choice.program_ranking import ProgramRanking, Ranked
from hetesynth.engine.choice.steady import SteadyCandidates
from hetesynth.engine.choice.tuning import Candidate
from hetesynth.engine.request import Request
from hetesynth.engine.rival import Rival
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES

EXAMPLES = Path(__file__).parents[2] / "examples"
RING, FIG10 = (EXAMPLES / name / "topo.dsl" for name in ("ring8", "fig10"))
LONG, SHORT = 600.0, 0.01  # with the seconds of grace there is time for the first result alone
SIZE = 64_000_000
BY_TIME = Request(FIG10, "allgather", budget=Budget(SHORT), objective="time", runtime=NCCL_TABLES)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(synth, "GRACE", LONG)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def endless(*_: Any, **__: Any) -> None:
    """Native code that is not done for long."""
    time.sleep(LONG)


@pytest.mark.parametrize("size", [None, SIZE])
def test_a_budget_that_is_not_used_up_changes_nothing(size: int | None) -> None:
    asked = replace(BY_TIME, size=size, budget=Budget(effort=1.0))
    free, record, steps = synthesize(asked), Decisions(), CegisTrace()
    told: list[str] = []
    within = synthesize(
        replace(asked, budget=Budget(LONG, effort=1.0)),
        lambda what, best: told.append(what),
        decisions=record,
        trace=steps,
    )
    assert within.files == free.files and within.verdict == free.verdict
    assert not within.cut_short and not within.decided_by_clock and within.ending == free.ending
    assert tuple(record.entries) == within.decisions == free.decisions and any("rings" in what for what in told)
    shown = synthesis_summary(within, [])
    assert shown["cut_short"] is False and shown["seconds"] > 0


@pytest.mark.parametrize("size", [None, SIZE])
def test_the_first_result_takes_no_search(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SteadyCandidates, "try_all", endless)
    made = synthesize(replace(BY_TIME, size=size))
    assert made.cut_short and made.ending == "time" and made.decided_by_clock == ("search",)
    assert made.choice is not None and "rings" in made.choice.label and made.choice.cut_short
    assert made.programs and made.verdict is not None and isinstance(made.verdict.rival, Rival)
    assert made.program_seconds == made.verdict.seconds
    assert "warnings" in vars(made), "they may take seconds once the time is over"
    report = "\n".join(synthesis_report(synthesis_summary(made, [])))
    assert "cut short" in report and "not simulated" not in report.splitlines()[0]


def test_of_a_strategy_for_a_size_a_candidate_with_its_program_is_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Endless(ProgramRanking):
        def of(self, candidates: Sequence[Candidate]) -> list[Ranked]:
            endless()
            return super().of(candidates)

    monkeypatch.setattr(choice, "ProgramRanking", Endless)
    made = synthesize(replace(BY_TIME, topology=RING, size=1 << 20, strategy="greedy"))
    assert made.cut_short and made.programs and made.program_seconds and made.strategy == "greedy"


def test_ctrl_c_ends_it_like_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressing(*_: Any, **__: Any) -> None:
        os.kill(os.getppid(), signal.SIGINT)
        endless()

    monkeypatch.setattr(SteadyCandidates, "try_all", pressing)
    made = synthesize(replace(BY_TIME, size=SIZE, budget=Budget(LONG)))
    assert made.cut_short and made.ending == "interrupt" and not made.decided_by_clock and made.programs


def test_ctrl_c_while_a_program_of_fewest_steps_is_chosen_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressing(*_: Any) -> None:
        os.kill(os.getppid(), signal.SIGINT)
        endless()

    monkeypatch.setattr(synth, "step_program", pressing)
    made = synthesize(replace(BY_TIME, topology=RING, objective="steps", budget=Budget(LONG)))
    assert made.cut_short and made.ending == "interrupt" and made.programs


def test_what_cegis_did_until_then_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends the search comes after the first result was handed over."""
    verdict, calls = synth.verdict_of, count()
    monkeypatch.setattr(synth, "verdict_of", lambda made: verdict(made) if next(calls) == 0 else endless())
    steps = CegisTrace()
    asked = replace(BY_TIME, topology=RING, strategy="cegis", objective="steps", budget=Budget(3.0))
    made = synthesize(asked, trace=steps)
    assert made.cut_short and steps.entries and tuple(steps.entries) == made.cegis


def test_ctrl_c_before_there_is_anything_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressing(*_: Any) -> None:
        while True:  # two that come at once count as one
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.3)

    monkeypatch.setattr(synth, "_by_steps", pressing)
    with pytest.raises(KeyboardInterrupt):
        synthesize(replace(BY_TIME, budget=Budget(LONG)))


def test_errors_and_decisions_come_from_the_process() -> None:
    record = Decisions()
    asked = replace(BY_TIME, strategy="hierarchical", collective="alltoall", topology=RING, size=SIZE)
    with pytest.raises(HetesynthError) as free:
        synthesize(replace(asked, budget=Budget()))
    with pytest.raises(HetesynthError) as within:
        synthesize(replace(asked, budget=Budget(LONG)), decisions=record)
    assert (within.value.code, within.value.message) == (free.value.code, free.value.message)
    assert record.entries


def test_where_nothing_is_found_in_time_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synth, "GRACE", 0.0)
    with pytest.raises(HetesynthError, match="nothing was found, judged and timed") as found:
        synthesize(BY_TIME)
    assert (found.value.code, found.value.exit_code) == ("HS602", 3) and "--time-budget" in found.value.help
