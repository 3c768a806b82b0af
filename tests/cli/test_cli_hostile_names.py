"""Names are data: whatever is in them, no command prints or writes a character that steers a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hetesynth.cli.main import cli, run
from hetesynth.model.diagnostics import HIDDEN

FIG10 = str(Path(__file__).resolve().parents[2] / "examples" / "fig10" / "topo.dsl")
ESCAPES = "\x1b[31m\x9b1m\x7f\u202e\u2028\u200f"
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
        yield ["run", files[key], "--backend", "inprocess"]
        yield ["install-hint", "mscclpp", files[key]]


def commands_on_topologies(files: dict[str, str]) -> Iterator[list[str]]:
    for key in ("topology", "nothing", "link"):
        given = [files[key], "--coll", "broadcast"]
        quick = [*given, "--effort", "0.1"]
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


def each_command(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[list[str], click.Command]]:
    """Every command with the words that name it and the collective where one is demanded."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from each_command(inner, (*words, name))
    else:
        demanded = [
            word for p in command.params if p.name == "name" and p.required for word in (p.opts[0], "gather")
        ]
        yield [*words, *demanded], command


@pytest.mark.parametrize("character", ["\0", "\n"], ids=["NUL", "line end"])
def test_no_argument_has_a_nul_or_a_line_end(
    character: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever it is, and whether there is such a file."""
    name = str(tmp_path / f"a{character}error: b.dsl")
    if character == "\n":
        Path(name).write_bytes(Path(FIG10).read_bytes())
    for words, command in each_command(cli):
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        options = [p.opts[0] for p in command.params if isinstance(p, click.Option) and not p.is_flag]
        for asked in ([name] * max(1, len(arguments)), *([*[FIG10] * len(arguments), o, name] for o in options)):
            assert run([*words, *asked]) == 2
            told = capsys.readouterr().err
            assert told.startswith("error[HS001]: the argument '") and "has a NUL or a line end in it" in told
            assert f"a\\u00{ord(character):02x}error: b.dsl" in told and "\nerror" not in told


def test_files_that_were_found_begin_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for content, kind in ((Path(FIG10).read_text(), ".dsl"), ("<algo/>", ".xml"), ("{", ".json"), ("x{", "x.dsl")):
        Path(f"a\nerror: b{kind}").write_text(content)
    for asked in (["verify", "."], ["install-hint"], ["init"], ["topo", "lint", "."], ["import", "."], ["build"]):
        run(asked)
        said = "".join(capsys.readouterr())
        assert said and "\nerror: b" not in said, asked


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
    assert "x\\u001b[31m\\u009b1m\\u007f\\u202e\\u2028\\u200fy.xml" in said
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
