"""The runner of mutants names what no test notices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOY = """
def tested(x):
    return x > 3


def half_tested(x):
    done = False
    if x:
        done = True
    return x or done
"""
TESTS = """
import toy


def test_it():
    assert [toy.tested(x) for x in (3, 4)] == [False, True]
    assert toy.half_tested(5) == 5
"""


def test_survivors_are_named_and_any_is_a_failure(tmp_path: Path) -> None:
    toy, tests = tmp_path / "toy.py", tmp_path / "test_toy.py"
    toy.write_text(TOY)
    tests.write_text(TESTS)
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "mutation", str(toy), "--tests", str(tests), "--jobs", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    survivors = [line for line in ended.stderr.splitlines() if line.startswith("survived ")]
    assert any(line.endswith("toy.py half_tested+3: done = True => done = False") for line in survivors)
    assert all("toy.py half_tested+" in line for line in survivors) and len(survivors) == 4
    assert ended.returncode == 1 and "4 survived" in ended.stdout
    told = subprocess.run(
        [*command, "--told"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert told.returncode == 0 and "4 survived" in told.stdout
