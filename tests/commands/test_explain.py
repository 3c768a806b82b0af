"""What ``--explain`` tells: every rule and candidate, with its result or with the reason for leaving it out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.engine.choice import rules
from hetesynth.engine.choice.tuning import tune
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.decisions import Decision, Decisions
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.search import auto
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Search, Strategy
from hetesynth.search.solve import Solver
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FEW_COUNTS = replace(DEFAULT, autotune=replace(DEFAULT.autotune, chunk_counts=(1, 2)))
CLUSTERS = pytest.mark.parametrize(
    ("cluster", "name"), [("fig10", "allgather"), ("ring8", "allreduce"), ("dgx1", "alltoall")]
)


def asked(cluster: str, name: CollectiveName, size: int | None = None) -> Request:
    path = EXAMPLES / cluster / "topo.dsl"
    return Request(path, name, budget=Budget(600.0), size=size, policy=FEW_COUNTS)


def verdicts(decisions: tuple[Decision, ...] | list[Decision]) -> set[tuple[str, str]]:
    return {(d.what, d.verdict) for d in decisions}


@CLUSTERS
def test_a_tuning_run_tells_all_it_tried(cluster: str, name: CollectiveName) -> None:
    """All candidates with their times; all others, and all rules, with a reason; twice the same."""
    request = asked(cluster, name, 1 << 20)
    records = [Decisions(), Decisions()]
    runs = [tune(load_topology(request.topology), request, 1 << 20, decisions=record) for record in records]
    entries = records[0].entries
    times = {d.what: d.why for d in entries if d.verdict == "tried"}
    assert {label: f"{seconds * 1e6:,.4g} us" for label, seconds in runs[0].tried}.items() <= times.items()
    assert all(d.why and d.stage for d in entries)
    considered = {d.what for d in entries}
    assert {rule.name for rule in rules.OPENING} <= considered
    assert {rule.name for rule in rules.EVERY_COUNT} <= considered or runs[0].ending == "bound"
    assert entries == records[1].entries


@CLUSTERS
def test_a_search_by_steps_tells_every_rule(cluster: str, name: CollectiveName) -> None:
    made = synthesize(asked(cluster, name))
    first, second = made.decisions, synthesize(asked(cluster, name)).decisions
    told = {d.what for d in first}
    assert {rule.name for rule in auto.RULES} <= told
    assert ("greedy", "applied") in verdicts(first) or ("direct", "applied") in verdicts(first)
    assert all(d.why for d in first) and first == second
    last = [d for d in first if d.stage == "steps"][-1]
    assert last.verdict == "chosen" and str(made.solution.schedule.makespan) in last.why
    assert first[-1].stage == "files" and first[-1].verdict == "chosen"


def test_a_rule_by_steps_is_told_once_it_is_in_the_table() -> None:
    def novel(search: Search) -> None:
        greedy.improve(search, rounds=1)

    refusing = auto.Rule("refusing", (lambda search: "left out in this test",), lambda search: None)
    chain = (auto.Rule("novel", (), novel), refusing)
    record = Decisions("steps")
    request = asked("fig10", "allgather")
    from hetesynth.engine.compilation import PhaseTimer
    from hetesynth.engine.problem import load_problem

    problem = load_problem(request, PhaseTimer())[1]
    Solver(Strategy("auto", auto.applying(chain)), Budget(), schedule_violations, decisions=record).solve(problem)
    assert [(d.what, d.verdict) for d in record.entries] == [("novel", "applied"), ("refusing", "skipped")]
    assert record.entries[0].why.startswith("steps: ") and record.entries[1].why == "left out in this test"


@pytest.mark.slow
def test_reasons_name_the_thresholds_of_the_policy() -> None:
    """A threshold that is replaced in the request changes what is tried, and the reason."""
    small = replace(DEFAULT.autotune, chunk_counts=(1,), max_transfers_fixed_routes=10, ratio_trees_first=1e9)
    request = replace(asked("dgx1", "allgather", 1 << 20), policy=replace(DEFAULT, autotune=small))
    record = Decisions()
    tune(load_topology(request.topology), request, 1 << 20, decisions=record)
    told = {(d.stage, d.what): d for d in record.entries}
    assert told["opening", "few peers"].verdict == "applied"
    assert told["chunks 1", "baselines"].why == "56 transfers are more than 10"
    assert told["opening", "tree packing first"].why.endswith("is not above 1e+09")
    steps = replace(DEFAULT, steps=replace(DEFAULT.steps, max_sends=0, few_sends=10**9))
    without_bound = replace(asked("dgx1", "allreduce"), chunks=2, policy=steps)
    by_rule = {d.what: d.why for d in synthesize(without_bound).decisions}
    assert by_rule["cegis"].endswith("are more than 0") or "is met" in by_rule["cegis"]
    assert "not more than 1,000,000,000" in by_rule["lns"] or "is met" in by_rule["lns"]


def test_the_command_prints_it_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fixed = ["--coll", "allgather", "--chunks", "1"]
    synth = ["synth", str(EXAMPLES / "ring8" / "topo.dsl"), *fixed, "-o", "out"]
    assert run([*synth, "--size", "1MB", "--explain"]) == 0
    text = capsys.readouterr().out
    assert "\ndecisions\n" in text and "\n  opening\n" in text and ": skipped: " in text and ": tried: " in text
    assert run([*synth, "--json"]) == 0
    assert "decisions" not in json.loads(capsys.readouterr().out)
    assert run([*synth, "--json", "--explain"]) == 0
    assert {"stage", "what", "verdict", "why"} == set(json.loads(capsys.readouterr().out)["decisions"][0])
    atlas = ["atlas", str(EXAMPLES / "ring8" / "topo.dsl"), "--coll", "allgather", "--sizes", "1KB,1MB"]
    assert run([*atlas, "--strategy", "ring", "-o", "atlas", "--json", "--explain"]) == 0
    stages = {d["stage"] for d in json.loads(capsys.readouterr().out)["decisions"]}
    assert "ranges" in stages and any(stage.startswith("1000000 bytes, chunks ") for stage in stages)
