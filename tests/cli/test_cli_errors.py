"""With ``--json`` a failure is JSON on standard output too; the text on standard error and the exit code stay."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from hetesynth.cli import main as cli_main
from hetesynth.cli.main import COMMANDS, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")

MISSING = {
    "synth": ["synth", "missing.dsl", "--coll", "allgather"],
    "verify": ["verify", "missing.xml"],
    "install-hint": ["install-hint", "no-such-target"],
    "run": ["run", "missing.xml", "--backend", "inprocess"],
    "import": ["import", "missing.xml"],
    "simulate": ["simulate", "missing.xml", FIG10],
    "bounds": ["bounds", "missing.dsl", "--coll", "allgather"],
    "topo": ["topo", "show", "missing.dsl"],
    "init": ["init", "new.dsl", "--node-type", "h20x9"],
    "atlas": ["atlas", "missing.dsl", "--coll", "allgather", "-o", "made"],
    "compare": ["compare", "missing.dsl", "--coll", "allgather"],
}


def _both(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, dict[str, Any]]:
    """Exit code, standard error and the error object, which says the same as a run without ``--json``."""
    plain = run(arguments)
    text = capsys.readouterr()
    code = run([*arguments, "--json"])
    shown = capsys.readouterr()
    assert (code, text.out) == (plain, "")
    assert shown.err == text.err != ""
    document = json.loads(shown.out)
    assert list(document) == ["error"]
    error = document["error"]
    assert {"code", "message", "help", "exit_code"} <= set(error)
    assert error["exit_code"] == code
    return code, shown.err, error


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_a_failure_as_json(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, shown, error = _both(MISSING.get(command, [command, "--no-such-option"]), capsys)
    assert code == 2
    if command not in MISSING:
        assert error["code"] == "HS001" and "--help" in error["help"]
        return
    assert f"error[{error['code']}]: {error['message']}" in shown
    assert error["help"] in shown and error["help"]


def test_findings_about_a_topology_have_their_places(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "cluster bad {\n  instance a = nosuch\n  chunk 16 parsecs\n}\n"
    (tmp_path / "bad.dsl").write_text(text)
    _, shown, error = _both(["topo", "show", str(tmp_path / "bad.dsl")], capsys)
    found = error["diagnostics"]
    assert len(found) == 2
    for one in found:
        assert f"{one['file']}:{one['line']}:{one['column']}: {one['code']}: {one['message']}" in shown
        marked = text.splitlines()[one["line"] - 1][one["column"] - 1 :][: one["length"]]
        assert marked in ("nosuch", "16 parsecs")
    assert (error["code"], error["message"]) == (found[0]["code"], found[0]["message"])


@pytest.mark.parametrize(
    ("failure", "code", "exit_code", "word"),
    [
        (KeyboardInterrupt(), "HS002", 3, "interrupted"),
        (click.Abort(), "HS002", 3, "interrupted"),
        (OSError(28, "No space left on device", "x.xml"), "HS003", 2, "No space left on device (x.xml)"),
        (ZeroDivisionError("by zero"), "HS070", 70, "ZeroDivisionError: by zero"),
    ],
)
def test_other_failures_as_json(
    failure: BaseException,
    code: str,
    exit_code: int,
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(**_: object) -> None:
        raise failure

    monkeypatch.setattr(cli_main.cli, "main", fails)
    left, shown, error = _both(["synth"], capsys)
    assert (left, error["code"]) == (exit_code, code)
    assert word in error["message"] and word in shown


def test_an_interrupt_while_the_command_is_loaded_leaves_no_traceback() -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background jobs ignore it
        "import hetesynth.cli, os, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("context", ["deferred", "finishing"])
def test_a_job_that_was_started_with_the_interrupt_ignored_goes_on_ignoring_it(context: str) -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"from hetesynth.search.interrupts import {context}\n"
        f"with {context}() as asked: os.kill(os.getpid(), signal.SIGINT)\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
        "print(asked.is_set())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
