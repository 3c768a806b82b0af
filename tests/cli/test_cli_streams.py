"""Standard streams that are closed, full, or left by their reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")
SYNTH = ["synth", FIG10, "--coll", "allgather", "--strategy", "greedy", "-o", "ar"]
CLOSINGS = ["<&-", ">&-", "2>&-"]
SUBSETS = [*CLOSINGS, " ".join(CLOSINGS)]


def shell(line: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """``line`` with hetesynth as ``"$@"``."""
    command = ["bash", "-c", line, "bash", sys.executable, "-m", "hetesynth", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=120)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("made")
    assert run([*SYNTH[:-1], str(folder / "ar")]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("closed", SUBSETS)
def test_closed_streams_change_no_file_and_no_exit_code(
    closed: str, made: dict[str, bytes], tmp_path: Path
) -> None:
    for more in ([], ["--json"]):
        assert shell(f'"$@" {closed}', [*SYNTH, *more], tmp_path).returncode == 0
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == made
    for arguments, code in [
        (["--help"], 0),
        (["--version"], 0),
        (["verify", "ar.xml"], 0),
        (["verify", "ar.xml", "--json"], 0),
        (["verify", "none.xml"], 2),
        (["synth", "--no-such-option"], 2),
    ]:
        done = shell(f'"$@" {closed}', arguments, tmp_path)
        assert done.returncode == code, (arguments, done.stderr)
        if ">&-" not in closed.replace("2>&-", "") and code == 0:
            assert done.stdout
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == made


def test_a_reader_that_leaves_early_does_not_change_the_verdict(tmp_path: Path, made: dict[str, bytes]) -> None:
    lines = made["ar.xml"].splitlines(keepends=True)
    receive = next(i for i, line in enumerate(lines) if b'type="r"' in line)
    (tmp_path / "bad.xml").write_bytes(b"".join(lines[:receive] + lines[receive + 1 :]))
    (tmp_path / "good.xml").write_bytes(made["ar.xml"])
    leaves = '"$@" | true; exit ${PIPESTATUS[0]}'
    for name, code in (("bad.xml", 1), ("good.xml", 0)):
        for more in ([], ["--json"]):
            done = shell(leaves, ["verify", name, *more], tmp_path)
            assert (done.returncode, done.stderr) == (code, "")
    done = shell('"$@" 2>&1 | true; exit ${PIPESTATUS[0]}', ["verify", "none.xml"], tmp_path)
    assert done.returncode == 2
    done = shell('"$@" | head -1; exit ${PIPESTATUS[0]}', ["--help"], tmp_path)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_standard_output_is_named_and_the_files_are_there(made: dict[str, bytes], tmp_path: Path) -> None:
    done = shell('"$@" >/dev/full', SYNTH, tmp_path)
    assert done.returncode == 2 and "No space left on device (standard output)" in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == made
    done = shell('"$@" 2>/dev/full', ["verify", "none.xml", "--json"], tmp_path)
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["code"] == "HS540"
    assert shell('"$@" 2>/dev/full', ["--version"], tmp_path).returncode == 0
    assert shell('"$@" >/dev/full 2>&1', ["--help"], tmp_path).returncode == 2
