"""``synth --strategy composition`` and ``verify`` of what it writes; clusters too large to be solved flat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.pods import SMALL

from hetesynth.cli.main import run
from hetesynth.engine.places import is_composed
from hetesynth.engine.request import Request
from hetesynth.policy import DEFAULT, PodsPolicy, Policy

EXAMPLE = Path(__file__).parents[2] / "examples" / "h20_pods"


Said = pytest.CaptureFixture[str]


def synth(said: Said, topology: Path, output: Path, *options: str) -> dict[str, object]:
    command = ["synth", str(topology), "--strategy", "composition", "--json", "-o", str(output), *options]
    assert run(command) == 0
    values: dict[str, object] = json.loads(said.readouterr().out)
    return values


def test_the_file_is_written_and_judged(tmp_path: Path, capsys: Said) -> None:
    topology = EXAMPLE / "topo.dsl"
    values = synth(capsys, topology, tmp_path / "out", "--coll", "allreduce", "--schedule-only")
    assert values["outputs"] == [str(tmp_path / "out.composition.json")]
    assert values["ranks"] == 32 and values["no_program"] == "--schedule-only"
    figures = values["composition"]
    assert isinstance(figures, dict)
    assert figures["pods"] == 4 and figures["pod_types"] == [{"gpus": 8, "pods": 4}]
    assert figures["predicted_us"] >= figures["bound_us"] > 0
    assert figures["deliveries_checked"] == 2 * 32 * 31
    file = tmp_path / "out.composition.json"
    assert run(["verify", str(file), "--topo", str(topology)]) == 0
    assert run(["verify", str(file)]) == 0
    assert "loads of wires are not checked" in capsys.readouterr().out
    text = file.read_text()
    boastful = json.loads(text)
    boastful["header"]["bound_picoseconds"] += 1  # less than the time, and more than is proved
    assert boastful["header"]["bound_picoseconds"] <= boastful["header"]["picoseconds"]
    file.write_text(json.dumps(boastful))
    assert run(["verify", str(file), "--topo", str(topology)]) == 1
    assert "are proved" in capsys.readouterr().out
    broken = json.loads(text)
    broken["phases"][0]["moves"][0].pop()
    file.write_text(json.dumps(broken))
    assert run(["verify", str(file), "--topo", str(topology)]) == 1
    assert "error: " in capsys.readouterr().out
    file.write_text('{"format": "hetesynth-composition"}')
    assert run(["verify", str(file)]) == 2


def test_a_small_cluster_gets_programs_too(tmp_path: Path, capsys: Said) -> None:
    topology = tmp_path / "topo.dsl"
    topology.write_text(SMALL["2x2"])
    values = synth(capsys, topology, tmp_path / "out", "--coll", "allgather")
    names = {Path(str(path)).name for path in values["outputs"]}  # type: ignore[attr-defined]
    assert names == {"out.xml", "out.inplace.xml", "out.schedule.json", "out.composition.json"}
    assert values["strategy"] == "composition" and values["proven_optimal"] is True
    assert all((tmp_path / name).stat().st_size for name in names)


ONE = SMALL["2x2"].replace("a[0-1]", "a").replace("fabric ib { join *.nic*; latency 1.3 us }", "")


@pytest.mark.parametrize(
    ("topology", "collective", "code"),
    [
        (SMALL["2x2"], "alltoall", "HS413"),
        (ONE, "allgather", "HS412"),
        (SMALL["rails"].replace("join *.nic1", "join a[2-3].nic1"), "allgather", "HS410"),
    ],
)
def test_what_is_not_composed_is_refused(
    tmp_path: Path, topology: str, collective: str, code: str, capsys: Said
) -> None:
    path = tmp_path / "topo.dsl"
    path.write_text(topology.replace("fabric r0 { join *.nic0 }", "fabric r0 { join a[0-1].nic* }"))
    command = ["synth", str(path), "--strategy", "composition", "--coll", collective, "-o", str(tmp_path / "out")]
    assert run(command) == 2
    assert f"error[{code}]" in capsys.readouterr().err and not list(tmp_path.glob("out*"))


def test_more_than_the_judge_follows_is_refused_at_once(tmp_path: Path, capsys: Said) -> None:
    command = ["synth", str(EXAMPLE / "512x8.dsl"), "--coll", "allgather", "-o", str(tmp_path / "out")]
    assert run([*command, "--chunks", "64"]) == 2
    assert "error[HS414]" in capsys.readouterr().err


def test_auto_composes_past_the_threshold_alone(tmp_path: Path) -> None:
    path = tmp_path / "topo.dsl"
    path.write_text(SMALL["4x2"])
    assert not is_composed(Request(path, "allgather"))
    low = Policy(pods=PodsPolicy(flat_ranks=7))
    assert is_composed(Request(path, "allgather", policy=low))
    assert not is_composed(Request(path, "allgather", policy=Policy(pods=PodsPolicy(flat_ranks=8))))
    assert not is_composed(Request(path, "alltoall", policy=low))
    assert not is_composed(Request(path, "allgather", policy=low, strategy="greedy"))
    assert is_composed(Request(EXAMPLE / "512x8.dsl", "allgather", policy=DEFAULT))


@pytest.mark.slow
def test_4096_gpus(tmp_path: Path, capsys: Said) -> None:
    command = ["synth", str(EXAMPLE / "512x8.dsl"), "--coll", "allgather", "--json", "-o", str(tmp_path / "out")]
    assert run(command) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["ranks"] == 4096 and values["composition"]["deliveries_checked"] == 4096 * 4095
    assert values["composition"]["gap"] < 0.01


def test_eq_8_by_steps_is_refused_as_there_are_none(tmp_path: Path, capsys: Said) -> None:
    command = ["synth", str(EXAMPLE / "topo.dsl"), "--strategy", "composition", "--exclusion", "step"]
    assert run([*command, "--coll", "reducescatter", "-o", str(tmp_path / "out")]) == 2
    assert "HS413" in capsys.readouterr().err
