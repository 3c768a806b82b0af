"""What people write is taken or the nearest name is told; the first and the last thing that a report says."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.model.collective import COLLECTIVE_NAMES, collective_name

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")
SPELLINGS = "AllGather all_gather ALL-GATHER ReduceScatter reduce-scatter AllReduce ALL_REDUCE AllToAll all_to_all"


def test_collectives_as_people_write_them() -> None:
    for text in (*SPELLINGS.split(), *COLLECTIVE_NAMES, *map(str.upper, COLLECTIVE_NAMES)):
        assert collective_name(text) == re.sub("[-_]", "", text).lower()


def test_a_letter_alone_is_binary_and_its_bytes_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["synth", FIG10, "--coll", "allgather", "--strategy", "ring", "--size", "1M", "-o", str(tmp_path)]
    assert run(asked) == 0
    assert capsys.readouterr().out.startswith("1 MiB: est. ")


@pytest.mark.parametrize("option", ["--size", "--chunk-size"])
def test_a_size_beyond_the_limits_names_them(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["synth", FIG10, "--coll", "allgather", option, "2PB", "-o", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"error[HS307]: {option}: '2PB' is not a size from 1 byte to 1 PiB" in told and "16MB" in told


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["sinth"], "did you mean `synth`?"),
        (["topo", "shwo"], "did you mean `show`?"),
        (["topo", "xyzzy"], "known here: calibrate, convert, "),
        (["xyzzy"], "hetesynth --help lists the commands"),
        (["synth", FIG10, "--cool", "allgather"], "--coll"),
        (["synth", FIG10, "--coll", "Bcast"], "did you mean `broadcast`?"),
        (["synth", FIG10, "--coll", "allgather", "--strategy", "rign"], "did you mean `ring`?"),
        (["synth", FIG10, "--coll", "allgather", "--target", "rcl6"], "did you mean `rccl-6`?"),
        (["install-hint", "MSCCL++"], "did you mean `mscclpp`?"),
        (["topo", "library", "h100x9"], "did you mean `h100x8`?"),
    ],
)
def test_the_nearest_name_is_offered(arguments: list[str], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert near in capsys.readouterr().err


def explained(capsys: pytest.CaptureFixture[str], folder: Path, cluster: str, *arguments: str) -> str:
    command = ["synth", str(EXAMPLES / cluster / "topo.dsl"), *arguments, "--explain", "-o", str(folder / "x")]
    assert run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    return lines[lines.index("decisions") - 1]


def test_a_choice_by_time_names_its_runner_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = explained(capsys, tmp_path, "fig10", "--coll", "allgather", "--size", "6MB")
    us = r"at [0-9.,]+ us"
    alone = rf"chosen was server-rings, c=1, {us}, which had nothing to beat; more effort would try nothing else"
    assert re.fullmatch(alone, said)
    said = explained(capsys, tmp_path, "fig10", "--coll", "allreduce", "--size", "64KB")
    beat = rf"chosen was .+, {us}, which beat .+, {us}, and [0-9]+ more; more effort would try .+"
    assert re.fullmatch(beat, said)


def test_a_search_by_steps_says_that_the_bound_is_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = explained(capsys, tmp_path, "fig10", "--coll", "allgather", "--objective", "steps")
    beat = "chosen was greedy, of 5 steps, which had nothing to beat"
    assert said == f"{beat}; more effort would find no fewer: the bound is met"


@pytest.mark.parametrize("options", [["--size", "64MB"], ["--objective", "steps"]])
def test_the_page_begins_with_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    page = tmp_path / "page.html"
    words = [
        "synth",
        str(EXAMPLES / "h20_4p8" / "topo.dsl"),
        "--coll",
        "allgather",
        *options,
        "-o",
        str(tmp_path / "x"),
    ]
    assert run([*words, "--report", str(page)]) == 0
    text = capsys.readouterr().out
    verdict = text.splitlines()[0]
    assert " x NCCL (" in verdict
    header = unescape(page.read_text()).split("</header>")[0]
    assert f'<p class="verdict">{verdict}</p>' in header
    assert header.index(verdict) < header.index("Program, predicted")
    assert "Schedule step by step" not in header  # whose time is not that of the verdict
