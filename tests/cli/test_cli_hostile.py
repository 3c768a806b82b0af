"""What users and systems do to a command: strange numbers, full disks, caches that are missing or damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")


def test_a_name_the_system_refuses_is_the_users_to_mend(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["synth", FIG10, "--coll", "allgather", "-o", str(tmp_path / ("a" * 300 + ".xml"))]) == 2
    assert "bug" not in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_behind_standard_output_is_not_our_bug() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "hetesynth", "topo", "show", FIG10]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "No space left" in done.stderr and "bug" not in done.stderr


@pytest.mark.slow
def test_no_place_for_the_kernels_cache_costs_only_time(tmp_path: Path) -> None:
    example = str(EXAMPLES / "h20_32" / "topo.dsl")
    command = [sys.executable, "-m", "hetesynth", "synth", example, "--coll", "allgather", "-o", str(tmp_path)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": "/proc/nowhere"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
