"""Any command on any files: a known exit code, no traceback, no hang, no gigabytes, no raw escape characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_fuzz import command, outcomes, write_seeds

ROOT = Path(__file__).resolve().parents[2]
FIRST, LAST = 1000, 1200


@pytest.mark.slow
def test_no_command_breaks(tmp_path: Path) -> None:
    found = dict(outcomes(FIRST, LAST, tmp_path))
    assert {seed: o.complaint for seed, o in found.items() if o.complaint} == {}
    assert {0, 1, 2} <= {o.code for o in found.values()}, "the inputs are not as different as they should be"


@pytest.mark.slow
def test_no_process_breaks(tmp_path: Path) -> None:
    """The same as processes of their own: what ends the interpreter would end these tests otherwise."""
    seeds = write_seeds(tmp_path)
    for seed in range(12):
        own = tmp_path / str(seed)
        own.mkdir()
        arguments = [sys.executable, "-m", "hetesynth", *command(seed, own, seeds)]
        path = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(arguments, capture_output=True, text=True, env=path, timeout=120, check=False)
        assert done.returncode in (0, 1, 2, 3), (arguments, done.stderr)
        assert "Traceback" not in done.stderr
