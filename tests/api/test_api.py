"""The tool as functions: what they return, write and refuse, and that the README's example runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hetesynth import api
from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError

ROOT = Path(__file__).resolve().parents[2]
FIG10 = ROOT / "examples" / "fig10" / "topo.dsl"


def test_a_program_is_made_written_judged_and_simulated(tmp_path: Path) -> None:
    cluster = api.load(FIG10)
    made = api.synthesize(cluster, "allgather", size="1MB", target="rccl-6", always=True)
    program, *_ = api.write(made, tmp_path / "fig10")
    assert api.verify(program, cluster, target="rccl-6").count("error") == 0
    (prediction,) = api.simulate(program, cluster, "1MB", target="rccl-6").predictions
    assert made.program_seconds == pytest.approx(prediction.seconds)
    assert api.limits(cluster, "allgather").seconds(api.size_of("1MB")) <= prediction.seconds


def test_limits_take_what_a_request_takes() -> None:
    first, second = (api.limits(FIG10, name) for name in ("broadcast", "Broadcast"))  # type: ignore[arg-type]
    assert first.seconds(10**6) == second.seconds(10**6) == api.limits(FIG10, "broadcast", root=0).seconds(10**6)
    with pytest.raises(HetesynthError):
        api.limits(FIG10, "allgather", root=0)


def test_the_command_line_writes_the_same_bytes(tmp_path: Path) -> None:
    made = api.synthesize(str(FIG10), "broadcast", root=2, schedule_only=True)
    paths = api.write(made, tmp_path / "a")
    words = f"synth {FIG10} --coll broadcast --root 2 --schedule-only -o {tmp_path / 'b'}"
    assert run(words.split()) == 0
    assert [path.read_bytes() for path in paths] == [(tmp_path / "b.schedule.json").read_bytes()]


def test_steps_have_a_bound_and_a_loss_is_repaired(tmp_path: Path) -> None:
    made = api.synthesize(FIG10, "allgather", schedule_only=True)
    steps = made.by_steps.solution.certificate.steps
    assert max(bound.steps for bound in api.bounds(FIG10, "allgather")) <= steps
    (schedule,) = api.write(made, tmp_path / "fig10")
    repaired = api.repair(schedule, FIG10, api.load(FIG10), schedule_only=True)
    assert repaired.synthesis.by_steps.solution.certificate.steps == steps


def test_what_a_user_can_do_wrong_has_a_code() -> None:
    with pytest.raises(HetesynthError, match="is not a size"):
        api.size_of("2000TB")
    with pytest.raises(HetesynthError, match="does not exist"):
        api.load("nowhere.dsl")
    with pytest.raises(HetesynthError, match="ends before it begins"):
        api.sizes_of("1MB..1KB")
    with pytest.raises(HetesynthError):
        api.synthesize(FIG10, "allgather", target="no such runtime")


@pytest.mark.slow
def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert {path.suffix for path in tmp_path.glob("h20_4p8-allreduce*")} == {".xml", ".json"}
