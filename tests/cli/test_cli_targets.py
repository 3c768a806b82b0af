"""``synth --target`` and ``install-hint`` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.engine.places import stem_of
from hetesynth.model.target import TARGETS

FIG10 = str(Path(__file__).resolve().parents[2] / "examples" / "fig10" / "topo.dsl")
SYNTH = ["synth", FIG10, "--coll", "allgather", "--strategy", "greedy"]
ONE = [".xml", ".inplace.xml", ".schedule.json"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_targets_repeated_and_by_comma_are_written_once_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ["--target", "rccl-6, msccl", "--target", "rccl-6"]
    assert run([*SYNTH, *targets, "-o", str(tmp_path / "a.xml"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    expected = ["a.msccl.inplace.xml", "a.msccl.xml", "a.rccl-6.inplace.xml", "a.rccl-6.xml", "a.schedule.json"]
    assert names(tmp_path) == sorted(Path(p).name for p in result["outputs"]) == expected
    assert sorted(result["programs"]) == ["msccl", "msccl.inplace", "rccl-6", "rccl-6.inplace"]
    figures = result["programs"]["msccl"]
    assert figures["target"] == "msccl" and figures["in_place"] is False
    assert figures["thread_blocks"] and figures["channels_per_link"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--target", "nccl"], "HS500"),
        (["--target", "portable", "-o", "x.json"], "HS512"),
        (["--target", "mscclpp", "-o", "x.xml"], "HS512"),
        (["-o", "missing/x"], "HS511"),
    ],
)
def test_refusals_come_before_the_search(
    arguments: list[str],
    code: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*SYNTH, *arguments]) == 2
    shown = capsys.readouterr()
    assert code in shown.err and "help:" in shown.err and not names(tmp_path)


@pytest.mark.parametrize(
    ("output", "suffixes", "stem"),
    [
        ("a", ONE, "a"),
        ("a.xml", ONE, "a"),
        ("a.inplace.xml", ONE, "a"),
        ("a.v1.xml", ONE, "a.v1"),
        (".xml", ONE, ".xml"),
        ("a.xml", [".rccl-6.xml", ".msccl.xml", ".schedule.json"], "a"),
        ("a.json", [".mscclpp.json", ".schedule.json"], "a"),
        ("a.xml", [".schedule.json"], "a"),
    ],
)
def test_the_common_part_of_names(output: str, suffixes: list[str], stem: str) -> None:
    assert stem_of(Path("d") / output, suffixes) == Path("d") / stem


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_target_has_a_hint(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install-hint", name]) == 0
    assert name in capsys.readouterr().out
    shape = TARGETS[name].format
    file = tmp_path / f"x.{shape.extension}"
    file.write_text("{}" if shape.plan else '{"format": "hetesynth-table"}' if shape.table else "<algo/>")
    assert run(["install-hint", name, str(file), "--json"]) == 0
    hint = json.loads(capsys.readouterr().out)
    words = " ".join([*hint["environment"].values(), *hint["steps"]])
    assert hint["steps"] and "DIRECTORY" not in words
    assert name in ("portable",) or str(tmp_path) in words
