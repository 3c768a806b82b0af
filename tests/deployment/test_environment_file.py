"""environment.sh: read by each shell that is here, from a place with spaces, and with room for four files only."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.deployments import program, two_cells, written

from hetesynth.deploy.folder.environment import environment
from hetesynth.model.target import target

SHELLS = [name for name in ("sh", "dash", "bash", "zsh", "ksh") if shutil.which(name)]
XML = ("rccl-6", "rccl-5", "msccl-executor", "msccl")


def variables(shell: str, script: str, **stated: str) -> dict[str, str]:
    """The environment after ``script``."""
    clean = {"PATH": os.environ["PATH"], **stated}
    done = subprocess.run([shell, "-c", f"{script}\nenv -0"], env=clean, capture_output=True, check=True, cwd="/")
    assert done.stderr == b""
    return dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if "=" in line)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("runtime", ["rccl-6", "msccl"])
def test_each_shell_gets_the_variables_from_where_the_file_is(runtime: str, shell: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "a folder with 'quotes' & $HOME" / runtime, runtime)
    other = written(tmp_path / "other", runtime)  # of an earlier file nothing stays; strict shells read it too
    script = 'set -eu; . "$OTHER/environment.sh"; (. "$FOLDER/environment.sh"); . "$FOLDER/environment.sh"'
    told = variables(shell, script, FOLDER=str(folder), OTHER=str(other))
    assert told["HETESYNTH_DEPLOYMENT"] == str(folder)
    programs = [p for c in two_cells(runtime) for p in c.programs]
    for name, value in environment(target(runtime), programs).values(f"{folder}/algorithms").items():
        assert told[name] == value
    paths = told.get("MSCCL_XML_FILES", told.get("MSCCL_ALGO_DIR", "")).split(":")
    assert all(Path(path).exists() for path in paths)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_file_away_from_its_folder_says_what_to_do(shell: str, tmp_path: Path) -> None:
    written(tmp_path / "folder", "rccl-6")
    (tmp_path / "alone").mkdir()
    shutil.copy(tmp_path / "folder" / "environment.sh", tmp_path / "alone")
    done = subprocess.run(
        [shell, "-c", ". ./environment.sh || exit 7"], cwd=tmp_path / "alone", capture_output=True, check=False,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 7 and b"set HETESYNTH_DEPLOYMENT" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_colon_in_the_path_is_refused_where_files_are_listed(shell: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "a:b", "msccl")
    done = subprocess.run(
        [shell, "-c", '. "$F/environment.sh" || exit 7'], capture_output=True, check=False,
        env={"PATH": os.environ["PATH"], "F": str(folder)},
    )  # fmt: skip
    assert done.returncode == 7 and b"colon" in done.stderr


def test_the_research_runtime_gets_four_files_and_the_others_are_named() -> None:
    programs = [program(f"{n}.xml", "allgather", n, n, plan=False) for n in range(1, 7)]
    stated = environment(target("msccl"), programs)
    assert stated.values("/x")["MSCCL_XML_FILES"] == "/x/1.xml:/x/2.xml:/x/3.xml:/x/4.xml"
    assert list(stated.left_out) == ["5.xml", "6.xml"]


def test_the_research_runtime_is_not_told_of_files_that_take_its_memory() -> None:
    """It allocates maxBytes x s_chunks / nchunksperloop of scratch memory with the communicator."""
    fits = program("fits.xml", "allreduce", 0, 1 << 30, plan=False, scratch=32)
    is_open = program("open.xml", "allgather", 0, 0, plan=False, scratch=1)
    without = program("without.xml", "alltoall", 0, 0, plan=False)
    stated = environment(target("msccl"), [fits, is_open, without])
    assert stated.values("/x")["MSCCL_XML_FILES"] == "/x/fits.xml:/x/without.xml"
    assert list(stated.left_out) == ["open.xml"]
    assert not environment(target("rccl-6"), [is_open]).left_out
