"""What ``--explain`` tells: every rule and candidate, with its result or with the reason for leaving it out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.engine.choice import candidates
from hetesynth.engine.choice.tuning import CandidateSpecs, tune
from hetesynth.engine.request import Request
from hetesynth.model.collective import CollectiveName
from hetesynth.model.decisions import Decision, Decisions
from hetesynth.model.problem import Budget
from hetesynth.search import auto
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def few_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "CHUNK_COUNTS", (1, 2))


CLUSTERS = pytest.mark.parametrize(
    ("cluster", "name"), [("fig10", "allgather"), ("ring8", "allreduce"), ("dgx1", "alltoall")]
)


def asked(cluster: str, name: CollectiveName, size: int | None = None) -> Request:
    path = EXAMPLES / cluster / "topo.dsl"
    return Request(path, name, budget=Budget(effort=1.0), size=size)


def verdicts(decisions: tuple[Decision, ...] | list[Decision]) -> set[tuple[str, str]]:
    return {(d.what, d.verdict) for d in decisions}


@CLUSTERS
def test_a_tuning_run_tells_all_it_tried(cluster: str, name: CollectiveName) -> None:
    """All candidates with their times; all others, and all rules, with a reason; twice the same."""
    request = asked(cluster, name, 1 << 20)
    records = [Decisions(), Decisions()]
    specs = CandidateSpecs(load_topology(request.topology), request, 1 << 20)
    runs = [tune(specs, decisions=record) for record in records]
    entries = records[0].entries
    times = {d.what: d.why for d in entries if d.verdict == "tried"}
    assert {label: f"{seconds * 1e6:,.4g} us" for label, seconds in runs[0].tried}.items() <= times.items()
    assert all(d.why and d.stage for d in entries)
    considered = {d.what for d in entries}
    strategies = {label.partition(",")[0] for label in considered}
    skipped = {attempt.strategy for attempt in auto.FOR_A_SIZE if name not in attempt.only}
    assert (skipped <= considered and {"greedy", "hierarchical"} <= strategies) or runs[0].ending == "bound"
    assert entries == records[1].entries


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
    assert any(stage.startswith("1000000 bytes, chunks ") for stage in stages)
