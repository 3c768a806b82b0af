"""Any command on any files and numbers: a known exit code, no traceback, no hang, no raw escape characters."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.command_fuzz import FIG10, cluster

from hetesynth.cli.main import run
from hetesynth.search.packing.column_generation import Master


@pytest.mark.slow
def test_no_command_breaks(tmp_path: Path) -> None:
    """In a process of its own: it forks for each case."""
    script = (
        "import sys; from collections import Counter; from pathlib import Path\n"
        "from support.command_fuzz import outcomes\n"
        "cases = list(outcomes(1000, 1300, Path(sys.argv[1])))\n"
        "print([case[:3] for case in cases if case[2]], sorted({case[3] for case in cases}), sep='\\n')"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() in (["[]", "[0, 1, 2]"], ["[]", "[0, 1, 2, 3]"]), done.stdout + done.stderr


def test_topologies_of_extreme_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes: Counter[int] = Counter()
    for seed in range(12):
        file = tmp_path / f"{seed}.dsl"
        file.write_text(cluster(random.Random(seed)), "utf-8")
        codes.update(run(["topo", word, str(file)]) for word in ("lint", "show", "ranks"))
    assert {0, 2} <= set(codes) <= {0, 1, 2}, capsys.readouterr().err


def test_a_master_program_of_rates_far_apart_has_an_optimum() -> None:
    """HiGHS drops coefficients below 1e-9, and was left without the limit of the slow resource."""
    master = Master(np.array([1e27, 5e10]), np.array([1.0]), 0)
    master.add(0, np.array([1.0, 1.0]))
    solution = master.solve(10.0)
    assert solution is not None and solution.weights.tolist() == pytest.approx([1.0])
    assert solution.seconds > 0


@pytest.mark.parametrize("budget", ["10001h", "1e308", "nan", "0", "-1", "1e-400", "soon"])
def test_a_budget_that_no_timer_takes_is_refused(
    budget: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["synth", FIG10, "--coll", "allgather", f"--time-budget={budget}", "-o", str(tmp_path)]) == 2
    assert "--time-budget" in capsys.readouterr().err
