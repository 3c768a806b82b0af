"""The command ``compare``: its figures are those of ``simulate``, who refuses says why, the plot is an SVG."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_figures_equal_those_of_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--coll", "allgather", "--chunks", "2"]
    table = said(capsys, "compare", FIG10, *arguments, "--sizes", "600KB", "--strategies", "ring")
    (entry,) = table["results"]
    assert table["simulated"] is True and entry["strategy"] == "ring" and entry["chunks"] == 2
    stem = tmp_path / "ring"
    more = ["--size", "600KB", "--strategy", "ring", "-o", str(stem), "--target", "portable", "--always"]
    made = said(capsys, "synth", FIG10, *arguments, *more)
    simulated = said(capsys, "simulate", f"{stem}.xml", FIG10, "--size", "600KB")["results"][0]
    for key in ("predicted_us", "algbw_GBps", "busbw_GBps"):
        assert entry[key] == pytest.approx(simulated[key], rel=1e-12)
    assert made["program_us"] == pytest.approx(simulated["predicted_us"], rel=1e-12)
    at_line_rate = made["program_us_at_line_rate"]
    assert entry["percent_of_bound"] == pytest.approx(100 * entry["bound_us"] / at_line_rate)
    assert 0 < entry["percent_of_bound"] <= 100


def test_a_table_with_a_refusal_and_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "plot.svg"
    arguments = ["--coll", "allgather", "--sizes", "1KB,1MB", "--strategies", "ring,doubling", "--plot", str(plot)]
    assert run(["compare", FIG10, *arguments]) == 0
    out = capsys.readouterr().out
    assert "simulated, not measured" in out and "6 ranks are no power of two" in out and str(plot) in out
    root = ElementTree.fromstring(plot.read_text())
    assert root.tag.endswith("svg") and "doubling" not in plot.read_text() and ">ring<" in plot.read_text()


def test_wrong_names_and_sizes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", FIG10, "--coll", "allgather", "--strategies", "rings"]) == 2
    assert "HS305" in capsys.readouterr().err
    assert run(["compare", FIG10, "--coll", "allgather", "--strategies", ","]) == 2
    assert run(["compare", FIG10, "--coll", "allgather", "--sizes", "big"]) == 2
    assert "HS307" in capsys.readouterr().err
