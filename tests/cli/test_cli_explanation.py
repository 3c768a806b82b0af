"""The sentence of ``--explain``: what was chosen, what it beat, what more effort would try, before the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def explained(capsys: pytest.CaptureFixture[str], folder: Path, cluster: str, *arguments: str) -> str:
    command = ["synth", str(EXAMPLES / cluster / "topo.dsl"), *arguments, "--explain", "-o", str(folder / "x")]
    assert run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    return lines[lines.index("decisions") - 1]


def test_a_choice_by_time_names_its_runner_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = explained(capsys, tmp_path, "fig10", "--coll", "allgather", "--size", "6MB")
    us = r"at [0-9.,]+ us"
    beat = rf"chosen was steady-state, c=1, {us}, which beat NCCL's rings, c=1, {us}"
    assert re.fullmatch(f"{beat}; more effort would try nothing else", said)


def test_a_search_by_steps_says_that_the_bound_is_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = explained(capsys, tmp_path, "fig10", "--coll", "allgather", "--objective", "steps")
    beat = "chosen was greedy, of 5 steps, which had nothing to beat"
    assert said == f"{beat}; more effort would find no fewer: the bound is met"
