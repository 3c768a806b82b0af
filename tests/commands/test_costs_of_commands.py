"""What runtimes cost, in everything that chooses and tells times: tuning, bounds, atlas, compare, reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import time_tables

from hetesynth.cli.main import run
from hetesynth.engine.choice.tuning import tune
from hetesynth.engine.page.report import report_of_synthesis
from hetesynth.engine.predictors import CostOptions, ProgramPredictor, SchedulePredictor, first_predictor
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.engine.time_verdict import bounds_of
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import TARGETS
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = EXAMPLES / "fig10" / "topo.dsl"
REQUEST = Request(FIG10, "allgather", strategy="greedy", budget=Budget(5), chunks_stated=True)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_bounds_gain_a_launch_and_nothing_else() -> None:
    topology = load_topology(FIG10)
    plain = bounds_of(topology, "allgather", None, CostOptions())
    costed = bounds_of(topology, "allgather", None, CostOptions("spec", runtime=NCCL_TABLES))
    assert (plain.launch, plain.start) == (0, 0) and costed.bounds == plain.bounds
    for size in (1, 10**6, 10**9):
        assert costed.seconds(size) == pytest.approx(plain.seconds(size) + 6.6e-6)
        assert costed.least_predicted(size) == pytest.approx(plain.seconds(size) + 8.4e-6)
    optimality = costed.optimality(10**6, 1.0)
    assert optimality.bound_seconds == costed.seconds(10**6)
    assert optimality.proof is not None and optimality.proof.endswith("once the kernel has started (6.6 us)")
    raw = bounds_of(topology, "allgather", None, CostOptions("raw", runtime=NCCL_TABLES))
    assert (raw.launch, raw.start) == (0, 0)


@pytest.mark.parametrize("size", [1_000, 10_000_000])
def test_tuning_chooses_by_the_same_times(size: int) -> None:
    """Every candidate takes its start longer, and still no less than the bound."""
    topology = load_topology(FIG10)
    topology = replace(topology, measured=tuple({wire.kind for wire in topology.wires}))  # nothing is derated
    plain = tune(topology, replace(REQUEST, size=size), size)
    costed = tune(topology, replace(REQUEST, size=size, runtime=NCCL_TABLES), size)
    before, after = dict(plain.tried), dict(costed.tried)
    shared = before.keys() & after.keys()
    assert shared
    for label in shared:
        assert after[label] == pytest.approx(before[label] + 8.4e-6, rel=1e-9)
    assert costed.candidates[0].seconds >= costed.bounds.least_predicted(size) * (1 - 1e-9)


def test_a_synthesis_tells_the_time_of_its_program_with_runtime_costs() -> None:
    synthesis = synthesize(replace(REQUEST, runtime=NCCL_TABLES))
    program = read_program(synthesis.files[".xml"], "x").program
    assert program is not None
    size = synthesis.time_optimality.size
    costs = CostOptions(runtime=NCCL_TABLES)
    seconds = ProgramPredictor(synthesis.topology, program, costs).timeline(size).makespan
    assert synthesis.program_seconds == pytest.approx(seconds, rel=1e-9)
    report = report_of_synthesis(synthesis)
    assert any("runtime costs counted" in line for line in report.certificate)
    assert report.program is not None
    names = {use.name for use in report.program.timeline.uses()}
    assert "thread block 0 of gpu 0" in names
    assert any("runtime costs left out" in line for line in report_of_synthesis(synthesize(REQUEST)).certificate)


@pytest.mark.parametrize("command", ["synth", "compare", "atlas"])
def test_commands_count_them_unless_told_not_to(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {
        "synth": ["--strategy", "greedy", "-o"],
        "compare": ["--strategies", "ring", "--sizes", "1MB", "--plot"],
        "atlas": ["--strategy", "greedy", "--sizes", "1MB", "-o"],
    }[command]
    answers = []
    for more in ([], ["--runtime-costs"], ["--no-runtime-costs"]):
        out = tmp_path / f"{len(answers)}.svg" if command == "compare" else tmp_path / str(len(answers))
        arguments = [command, str(FIG10), "--coll", "allgather", *options, str(out), "--time-budget", "5", *more]
        answers.append(said(capsys, *arguments))
    assert [answer["runtime_costs"] for answer in answers] == [True, True, False]
    rows = [_first_row(answer) for answer in answers]
    assert rows[0]["predicted_us"] == rows[1]["predicted_us"] > rows[2]["predicted_us"] + 8.4  # and derated links
    assert rows[0]["bound_us"] > rows[2]["bound_us"] + 6.6


def _first_row(answer: dict[str, Any]) -> dict[str, Any]:
    if "ranges" in answer:
        row: dict[str, Any] = answer["ranges"][0]["sizes"][0]
        return row
    return answer["results"][0] if "results" in answer else answer  # type: ignore[no-any-return]


def test_the_benchmark_leaves_them_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its tables stand beside sources that do."""
    commands: list[list[str]] = []

    def refused(arguments: Any) -> tuple[dict[str, Any], str, float]:
        commands.append(list(arguments))
        return {"transfers": 0, "seconds_by_phase": {"simulate": 0.0}}, "", 0.0

    monkeypatch.setattr(time_tables, "_said", refused)
    time_tables.time_rows(EXAMPLES, ["a100_x2"])
    time_tables.speed_rows(EXAMPLES, ["torus_16x16 allgather"])
    predicting = [c for c in commands if c[0] != "synth" or "--size" in c]
    assert {c[0] for c in predicting} == {"synth", "simulate"}
    assert all("--no-runtime-costs" in c for c in predicting)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("target", ["portable", "msccl-executor", "mscclpp"])
def test_no_program_is_predicted_below_the_bound_and_the_launch(name: CollectiveName, target: str) -> None:
    """With every cost counted, for sizes from a byte a chunk on."""
    if name not in TARGETS[target].collectives:
        pytest.skip("no such files")
    asked = replace(REQUEST, collective=name, targets=(TARGETS[target],), runtime=NCCL_TABLES, single_root=True)
    synthesis = synthesize(replace(asked, root=0 if name in ROOTED else None))
    costs = CostOptions.of(synthesis.request)
    bounds = bounds_of(synthesis.topology, name, synthesis.problem.collective.root, costs)
    program = first_predictor(synthesis.topology, synthesis.programs, costs)
    schedule = SchedulePredictor(synthesis.topology, synthesis.problem, synthesis.solution.schedule, costs)
    assert program is not None
    for size in (1_000, 1_000_000, 1_000_000_000):
        assert program.predict(size).seconds >= bounds.seconds(size) * (1 - 1e-9)
        assert schedule.predict(size).seconds >= bounds.least_predicted(size) * (1 - 1e-9)
