"""The effort decides what is tried: the same bytes whatever the hash seed or the clock, and more never loses."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hetesynth.cli.options import TimeBudget
from hetesynth.engine.choice.choice import choose
from hetesynth.engine.choice.tuning import Effort, efforts
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model import deadline
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE = 1 << 18


def cluster(name: str) -> Path:
    return EXAMPLES / name / "topo.dsl"


def files_of_process(folder: Path, hash_seed: str) -> dict[str, bytes]:
    folder.mkdir()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "hetesynth",
            "synth",
            str(cluster("v100_4p8")),
            "--coll",
            "allgather",
            "--size",
            "256KB",
            "-o",
            str(folder),
        ],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_the_hash_seed_changes_no_byte(tmp_path: Path) -> None:
    first, second = (files_of_process(tmp_path / seed, seed) for seed in ("1", "77"))
    assert first == second and len(first) == 3


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_a_slow_clock_changes_no_byte(monkeypatch: pytest.MonkeyPatch, collective: str) -> None:
    asked = Request(cluster("fig10"), collective, budget=Budget(effort=1.0), size=SIZE)  # type: ignore[arg-type]
    usual = synthesize(asked)
    ticks = itertools.count()
    monkeypatch.setattr(deadline, "source", lambda: next(ticks) * 100.0)
    slowed = synthesize(asked)
    assert usual.files == slowed.files
    assert not usual.decided_by_clock and not slowed.decided_by_clock and not slowed.cut_short


@pytest.mark.parametrize("name", ["fig10", "v100_4p8"])
def test_more_effort_never_loses(name: str) -> None:
    topology = load_topology(cluster(name))

    def chosen(effort: float) -> tuple[float, int]:
        asked = Request(cluster(name), "allgather", budget=Budget(effort=effort), size=SIZE)
        choice = choose(topology, asked, SIZE)
        return choice.ranked[0].seconds or 0.0, len(choice.run.tried)

    (little, few), (much, many) = chosen(1.0), chosen(4.0)
    assert 0 < much <= little and many > few


def test_an_effort_refuses_what_exceeds_it_but_the_first() -> None:
    effort = Effort(1.0)
    assert effort.exceeded_by(5.0) is None
    effort.spend(0.75)
    assert effort.exceeded_by(0.25) is None
    assert effort.exceeded_by(0.5) == "0.5 work units are more than the 0.25 that are left"
    stages = efforts(Budget(effort=2.0), 12, DEFAULT.effort)
    assert stages.schedules.allotted == 2 * efforts(Budget(effort=1.0), 12, DEFAULT.effort).schedules.allotted


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30.0), ("2m", 120.0), ("500ms", 0.5), ("7", 7.0), ("0.25", 0.25), ("1h", 3600.0)]
)
def test_time_budgets_have_units(text: str, seconds: float) -> None:
    assert TimeBudget().convert(text, None, None) == seconds
