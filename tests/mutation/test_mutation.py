"""The runner of mutants names what no test notices, leaves out what changes nothing, and notices stale entries."""

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


def run(folder: Path, equivalent: str) -> tuple[int, str]:
    (folder / "toy.py").write_text(TOY)
    (folder / "test_toy.py").write_text(TESTS)
    (folder / "equivalent.txt").write_text(equivalent)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "mutation",
        folder / "toy.py",
        "--tests",
        folder / "test_toy.py",
        "--equivalent",
        folder / "equivalent.txt",
        "--jobs",
        "2",
    ]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    return ended.returncode, ended.stdout + ended.stderr


def test_survivors_and_stale_entries_are_named_and_listed_ones_are_not(tmp_path: Path) -> None:
    where = os.path.relpath(tmp_path, Path(__file__).parents[2])
    excused, stale = f"{where}/toy.py half_tested+1: done = False => done = True", f"{where}/toy.py gone+1: x => y"
    code, said = run(tmp_path, f"{excused}\n    Nobody asks.\n{stale}\n    It was there.\n")
    assert code == 1 and f"no such mutant any more: {stale}" in said and excused not in said
    survivors = [line for line in said.splitlines() if line.startswith("survived ")]
    assert f"survived {where}/toy.py half_tested+3: done = True => done = False" in survivors
    assert all("toy.py half_tested+" in name for name in survivors) and len(survivors) == 3
    assert "4 survived (1 of them listed)" in said


def test_entries_that_are_killed_are_named(tmp_path: Path) -> None:
    where = os.path.relpath(tmp_path, Path(__file__).parents[2])
    killed = f"{where}/toy.py tested+1: return x > 3 => return x >= 3"
    code, said = run(tmp_path, f"{killed}\n    A lie.\n")
    assert code == 1 and f"killed {killed}" in said
