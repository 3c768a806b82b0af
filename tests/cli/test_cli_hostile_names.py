"""Names are data: whatever is in them, no command prints or writes a character that steers a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.diagnostics import HIDDEN

FIG10 = str(Path(__file__).resolve().parents[2] / "examples" / "fig10" / "topo.dsl")
ESCAPES = "\x1b[31m\x9b1m\x7f\u202e\u2028"
STEM = f"x{ESCAPES}y"


def named_files(folder: Path) -> dict[str, str]:
    """Right files under hostile names, and files with hostile names in them."""
    made = folder / "made"
    assert run(["synth", FIG10, "--coll", "allgather", "--target", "portable,mscclpp", "-o", str(made)]) == 0
    program, plan, schedule = (
        (folder / f"made.{kind}").read_text() for kind in ("portable.xml", "mscclpp.json", "schedule.json")
    )
    named = json.dumps(ESCAPES).replace("\\", r"\\")
    hostile = {
        "topology": (f"{STEM}.dsl", Path(FIG10).read_text()),
        "program": (f"{STEM}.xml", program),
        "plan": (f"{STEM}.json", plan),
        "schedule": (f"{STEM}.schedule.json", schedule),
        "named program": ("named.xml", re.sub(r'name="[^"]*"', f'name="{ESCAPES}"', program)),
        "named plan": ("named.json", re.sub(r'"name": "[^"]*"', f'"name": {named}', plan, count=1)),
        "named schedule": ("named.schedule.json", re.sub(r'"cluster": "[^"]*"', f'"cluster": {named}', schedule)),
        "nothing": (f"{STEM}.txt", "\x1b[31m\n"),
        "link": ("link.dsl", "cluster \x1b { }"),
    }
    for name, content in hostile.values():
        (folder / name).write_text(content)
    return {key: str(folder / name) for key, (name, _) in hostile.items()}


def commands_on_files(files: dict[str, str]) -> Iterator[list[str]]:
    topology = files["topology"]
    for i, key in enumerate(
        ("program", "plan", "schedule", "named program", "named plan", "named schedule", "nothing")
    ):
        yield ["verify", files[key]]
        yield ["verify", files[key], "--topo", topology, "--target", "mscclpp"]
        yield ["import", files[key], "-o", f"{STEM}{i}"]
        yield ["simulate", files[key], topology, "--size", "1MB", "--report", f"{STEM}{i}.html"]
        yield ["simulate", files[key], topology, "--size", "1MB", "--trace", f"{STEM}{i}.trace"]
        yield ["run", files[key], "--in-process"]
        yield ["install-hint", "mscclpp", files[key]]


def commands_on_topologies(files: dict[str, str]) -> Iterator[list[str]]:
    for key in ("topology", "nothing", "link"):
        given = [files[key], "--coll", "broadcast"]
        quick = [*given, "--time-budget", "5"]
        yield ["topo", "show", files[key]]
        yield ["bounds", *given]
        yield ["compare", *quick, "--sizes", "1MB", "--plot", f"{STEM}.svg"]
        yield ["atlas", *quick, "--sizes", "1MB", "-o", f"{STEM}-atlas"]
        yield ["synth", *quick, "--report", f"{STEM}.html", "-o", STEM]
        yield ["synth", *quick, "--report", f"{STEM}r.svg", "-o", "plain"]
        yield ["synth", *quick, "--rings", files["nothing"]]
        yield ["synth", *given, f"--{ESCAPES}"]
        yield ["synth", *given, "--target", ESCAPES]
        yield ["synth", *given, "--strategy", ESCAPES]
        yield ["synth", files[key], "--coll", ESCAPES]
    yield [ESCAPES]


@pytest.mark.slow
def test_names_are_shown_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command, as text and as JSON; then everything on both streams and in every file it wrote."""
    monkeypatch.chdir(tmp_path)
    files = named_files(tmp_path)
    before = set(os.listdir(tmp_path))
    codes = set()
    for arguments in (*commands_on_files(files), *commands_on_topologies(files)):
        forms = ([], ["--json"], ["--sarif"]) if arguments[0] == "verify" else ([], ["--json"])
        codes |= {run([*arguments, *form]) for form in forms}
    said = "".join(capsys.readouterr())
    assert {0, 2} <= codes <= {0, 1, 2}
    assert not HIDDEN.findall(said)
    assert "x\\u001b[31m\\u009b1m\\u007f\\u202e\\u2028y.xml" in said
    made = [p for name in set(os.listdir(tmp_path)) - before for p in (Path(name), *Path(name).rglob("*"))]
    kinds = {path.suffix for path in made if path.is_file()}
    assert {".xml", ".json", ".html", ".svg", ".trace"} <= kinds
    assert [path for path in made if path.is_file() and HIDDEN.search(path.read_text("utf-8"))] == []


def test_a_stream_that_cannot_encode_a_name_shows_it_escaped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hetesynth", "topo", "show", str(tmp_path / "µ.dsl")]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(command, capture_output=True, env=ascii_only, check=False)
    assert done.returncode == 2
    assert rb"\xb5.dsl does not exist" in done.stderr


@pytest.mark.parametrize("form", ["--json", "--sarif", "--portable"])
def test_a_name_that_is_no_text_is_shown(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.xml")
    Path(name).write_bytes(b"x")
    assert run(["verify", name, form]) == 2
    assert ("%FF%FE.xml" if form == "--sarif" else "\\udcff\\udcfe.xml") in capsys.readouterr().out


def test_a_line_end_in_a_name_makes_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x\nright.xml: ok").write_bytes(b"<algo/>")
    assert run(["verify", str(tmp_path / "x\nright.xml: ok")]) == 1
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("right.xml")]


NAMED = (
    ["topo", "show"], ["topo", "fmt"], ["verify"], ["build"], ["build", "--cache"], ["simulate"], ["repair"],
    ["topo", "calibrate"], ["atlas"], ["import"], ["run"], ["install-hint"],
)  # fmt: skip


@pytest.mark.parametrize("command", NAMED, ids=" ".join)
def test_a_nul_in_an_argument_is_refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "a\0b"]) == 2
    assert "NUL" in capsys.readouterr().err


def test_a_newline_in_a_name_is_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topo", "show", "a\nerror[HS999]: b.dsl"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error[HS101]: a\\nerror[HS999]: b.dsl does not exist\n")
