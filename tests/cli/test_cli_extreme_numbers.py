"""Numbers that nobody would write, in files and options: a known exit code, no traceback, no hang."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.extreme_numbers import cluster

from hetesynth.cli.main import run
from hetesynth.search.packing.column_generation import Master

ROOT = Path(__file__).resolve().parents[2]
FIG10 = str(ROOT / "examples" / "fig10" / "topo.dsl")


def test_topologies_of_extreme_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = set()
    for seed in range(12):
        file = tmp_path / f"{seed}.dsl"
        file.write_text(cluster(random.Random(seed)), "utf-8")
        codes |= {run(["topo", word, str(file)]) for word in ("lint", "show", "ranks")}
    assert {0, 2} <= codes <= {0, 1, 2}, capsys.readouterr().err


def test_a_master_program_of_rates_far_apart_has_an_optimum() -> None:
    """HiGHS drops coefficients below 1e-9, and was left without the limit of the slow resource."""
    master = Master(np.array([1e27, 5e10]), np.array([1.0]), 0)
    master.add(0, np.array([1.0, 1.0]))
    solution = master.solve(10.0)
    assert solution is not None and solution.weights.tolist() == pytest.approx([1.0])
    assert solution.seconds > 0


@pytest.mark.parametrize("budget", ["9223372036854775808h", "10001h", "1e308", "inf", "nan", "0", "-1", "1e-400"])
def test_a_budget_that_no_timer_takes_is_refused(
    budget: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["synth", FIG10, "--coll", "allgather", f"--time-budget={budget}", "-o", str(tmp_path)]
    assert run(asked) == 2
    assert "--time-budget" in capsys.readouterr().err


@pytest.mark.slow
def test_no_command_breaks_on_extreme_numbers() -> None:
    """Each in a process of its own, with limits."""
    command = [sys.executable, "-m", "support.extreme_numbers", "0", "300"]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT / "tests", env=path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
