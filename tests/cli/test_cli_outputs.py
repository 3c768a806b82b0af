"""Where a command may write, and what it says of files that a killed run left."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.calls import at_every_call

from hetesynth.cli.main import run
from hetesynth.engine.page import report as reporting

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")
SYNTH = ["synth", FIG10, "--coll", "allgather", "--strategy", "greedy", "--always"]
NAMES = ["ar.inplace.xml", "ar.schedule.json", "ar.xml"]

KILLED = """
import os, signal, sys

renamed = 0

def audit(event, arguments):
    global renamed
    if event == "os.rename" and os.path.basename(str(arguments[1])).startswith("ar."):
        renamed += 1
        if renamed == 2:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(audit)
from hetesynth.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of two runs: the second, for two chunks, was killed after it renamed the first of its files."""
    folder = tmp_path_factory.mktemp("cut")
    assert run([*SYNTH, "-o", str(folder / "ar")]) == 0
    arguments = [*SYNTH, "--chunks", "2", "-o", str(folder / "ar")]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, check=False)
    assert done.returncode == -9
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "ar.xml"],
        ["install-hint", "portable", "ar.xml"],
        ["run", "ar.inplace.xml", "--backend", "inprocess"],
        ["simulate", "ar.schedule.json", FIG10],
        ["import", "ar.xml", "-o", "other"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_readers_say_that_files_are_not_of_one_run(
    cut: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cut)
    assert run(arguments) == 1
    shown = capsys.readouterr().err
    assert "HS543" in shown and "are not of one run" in shown and "changed since" in shown
    assert all(name in shown for name in NAMES) and ".writing" in shown and "run the command" in shown


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", ["synth", "atlas"])
def test_commands_that_are_ended_at_any_call(
    command: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Path("made")
    made.mkdir()
    few = ["--strategy", "greedy", "--sizes", "1KB,1MB"]
    if command == "synth":
        old, new = [*SYNTH, "-o", "made/ar"], [*SYNTH, "--chunks", "2", "-o", "made/ar"]
    else:
        old, new = (["atlas", FIG10, "--coll", name, *few, "-o", "made/ar"] for name in ("gather", "scatter"))

    def there() -> dict[str, bytes]:
        return {str(p.relative_to(made)): p.read_bytes() for p in sorted(made.rglob("*")) if p.is_file()}

    assert run(new) == 0
    last = there()
    shutil.rmtree(made)
    made.mkdir()
    assert run(old) == 0
    first = there()

    def before() -> None:
        shutil.rmtree(made)
        for name, data in first.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)

    ends = set()
    for _, status in at_every_call(lambda: run(new), number, before):
        now = there()
        if number == signal.SIGKILL:
            now = {name: data for name, data in now.items() if not name.startswith(".")}
        known = command != "atlas" and run(["verify", "made/ar.xml"]) == 1
        assert known or now in (first, last)
        assert not known or number == signal.SIGKILL
        if number == signal.SIGINT:
            assert os.WEXITSTATUS(status) == (0 if now == last else 3)
        ends.add("mixed" if known else now == last)
    assert {True, False} <= ends and ("mixed" in ends) == (number == signal.SIGKILL and command != "atlas")


def _refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert shown and "bug" not in shown
    return shown


@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("loop", "symbolic links"),
        ("nowhere.xml", "there is no folder"),
        ("pipe", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("", "at least one character"),
        ("a\0b", "NUL"),
        ("new/", "not a directory"),
        ("é" * 130, "too long"),
        ("..xml", "not a file that this makes"),
        ("/proc/x", "cannot write"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused(
    output: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("loop", "loop.xml", "loop.schedule.json"):
        Path(name).symlink_to(name)
    for name in ("nowhere.xml", "nowhere.schedule.json"):
        Path(name).symlink_to("/no/such/folder/x")
    for name in ("pipe", "pipe.xml", "pipe.schedule.json"):
        os.mkfifo(name)
    before = sorted(os.listdir())
    assert word in _refused([*SYNTH, "-o", output], capsys)
    assert sorted(os.listdir()) == before and Path("/dev/null").is_char_device()


@pytest.mark.parametrize("output", ["dangling.xml", "link", "link/", ".", "folder/", "a b"])
def test_outputs_that_can_be_written(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("link").symlink_to("folder")
    Path("dangling.xml").symlink_to("folder/there.xml")
    assert run([*SYNTH, "-o", output]) == 0
    made = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(made) == 3 and all(path.stat().st_size for path in made)
    assert Path("dangling.xml").is_symlink() and Path("link").is_symlink()


def test_a_full_disk_leaves_the_older_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*SYNTH, "-o", "ar"]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        shown = _refused([*SYNTH, "--chunks", "2", "-o", "ar"], capsys)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "HS510" in shown and "too large" in shown
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_interrupt_during_the_report_says_what_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(made: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reporting, "report_of_synthesis", interrupted)
    assert run([*SYNTH, "-o", "ar", "--report", "page.html"]) == 3
    shown = capsys.readouterr().err
    assert "HS002" in shown and all(name in shown for name in NAMES) and "report is not" in shown
    assert sorted(os.listdir()) == NAMES
