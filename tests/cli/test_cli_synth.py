"""The command ``synth`` as a user runs it: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAPER_CLUSTERS = [("h20_4p8", 3), ("h20_4x3p8", 5), ("h20_4x2p8x2", 6)]


def synth(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    code = run(["synth", *arguments, "--json"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    result: dict[str, object] = json.loads(shown.out)
    return result


@pytest.mark.parametrize(("name", "steps"), PAPER_CLUSTERS)
def test_allgather_on_the_papers_clusters_is_proven_optimal(
    name: str, steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = synth(capsys, str(EXAMPLES / name / "topo.dsl"), "--coll", "allgather", "-o", str(tmp_path))
    fewest = result["fewest_steps"] or result  # None where what is written has them
    assert isinstance(fewest, dict) and fewest["proven_optimal"] is True
    assert fewest["steps"] == fewest["lower_bound"] == steps


def test_same_seed_same_bytes_in_processes_with_different_hash_seeds(tmp_path: Path) -> None:
    words = ["synth", str(EXAMPLES / "fig10" / "topo.dsl"), "--coll", "allreduce", "--seed", "5", "--always", "-o"]
    made = []
    for hash_seed in ("1", "77"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-m", "hetesynth", *words, str(folder)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        )
        made.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert made[0] == made[1]
    assert len(made[0]) == 3


BAD_COMMANDS = [
    (["synth", str(EXAMPLES), "--coll", "allgather"], "examples"),
    (["synth", str(EXAMPLES / "fig10/topo.dsl"), "--coll", "gossip"], "gossip"),
    (["synth", str(EXAMPLES / "fig10/topo.dsl")], "--coll"),
    (["synth", str(EXAMPLES / "fig10/topo.dsl"), "--coll", "allgather", "--chunks", "0"], "--chunks"),
    (["synth", str(EXAMPLES / "fig10/topo.dsl"), "--coll", "broadcast", "--root", "99"], "root 99"),
    (["synth", str(EXAMPLES / "fig10/topo.dsl"), "--coll", "allgather", "--root", "1"], "root"),
    (["synth", str(EXAMPLES / "fig10/topo.dsl"), "--coll", "allgather", "--tau-ref", "pigeon"], "pigeon"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD_COMMANDS)
def test_bad_input_is_a_message_and_exit_code_2(
    arguments: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert named in shown.err
    assert "Traceback" not in shown.err
    assert list(tmp_path.iterdir()) == []


def test_unreachable_ranks_are_named_and_the_answer_is_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = tmp_path / "oneway.dsl"
    topology.write_text(
        "define nodenum = 1\ndefine node1 = 2\ndefine bandwidth = {direct => [((0,1) -> (25,2))]}\n"
    )
    assert run(["synth", str(topology), "--coll", "allgather", "-o", str(tmp_path)]) == 1
    assert "rank 0" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["oneway.dsl"]


def test_ctrl_c_inside_the_solver_returns_quickly(tmp_path: Path) -> None:
    """Once the solver is asked, not after some seconds: how far it is by then depends on the load."""
    script = (
        "import sys, signal, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background jobs ignore it
        "import z3\n"
        "check = z3.Solver.check\n"
        "def announced(self, *a):\n"
        "    print('solving', file=sys.stderr, flush=True)\n"
        "    return check(self, *a)\n"
        "z3.Solver.check = announced\n"
        "from hetesynth.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    asked = ["synth", str(EXAMPLES / "ring8" / "topo.dsl"), "--coll", "alltoall", "--strategy", "cegis", "--json"]
    command = [sys.executable, "-c", script, *asked, "-o", str(tmp_path)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    assert "solving\n" in iter(worker.stderr.readline, "")
    worker.send_signal(signal.SIGINT)
    out, err = worker.communicate()
    assert worker.returncode == 0, err
    result = json.loads(out)
    assert result["steps"] >= 8 and result["cut_short"] is True


def test_a_budget_that_is_over_before_anything_is_found_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hetesynth.engine.synth._by_steps", lambda *_: time.sleep(600.0))
    monkeypatch.setattr("hetesynth.engine.synth.GRACE", 1.0)
    topology = str(EXAMPLES / "ring8" / "topo.dsl")
    assert run(["synth", topology, "--coll", "alltoall", "--time-budget", "10ms", "-o", str(tmp_path)]) == 3
    assert "error[HS602]: nothing was found, judged and timed in 0.01 s" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
