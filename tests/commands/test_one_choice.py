"""One question, one answer: synth with and without a size, compare and atlas name the same choice, and say first
how it stands beside the limit and NCCL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUESTIONS = [("ring8", "allgather", "16MB", 8), ("h20_4p8", "allgather", "16MB", 12)]
"""Cluster, collective, chunk size, chunks of a buffer; the first choice is near the limit, and ends the search."""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    """What a command prints as JSON, and the first line that it prints as text."""
    assert run([*arguments, "--json"]) == 0, capsys.readouterr().err
    figures = json.loads(capsys.readouterr().out)
    assert run(list(arguments)) == 0
    return figures, capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(("cluster", "collective", "chunk", "pieces"), QUESTIONS)
def test_four_commands_agree(
    cluster: str,
    collective: str,
    chunk: str,
    pieces: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    topology = str(EXAMPLES / cluster / "topo.dsl")
    size = int(chunk.removesuffix("MB")) * 1_000_000 * pieces
    asked = [topology, "--coll", collective]
    implied, first = printed(capsys, "synth", *asked, "--chunk-size", chunk)
    stated, second = printed(capsys, "synth", *asked, "--size", f"{size}B")
    compared, third = printed(capsys, "compare", *asked, "--sizes", f"{size}B", "--strategies", "auto,ring")
    ranged, fourth = printed(capsys, "atlas", *asked, "--sizes", f"{size}B", "-o", "atlas")
    verdicts = [implied, stated, *compared["verdicts"], *ranged["verdicts"]]
    assert [v["size"] for v in verdicts] == [size] * 4
    labels = [implied["choice"]["candidate"], stated["choice"]["candidate"]]
    labels += [compared["verdicts"][0]["candidate"], ranged["verdicts"][0]["candidate"]]
    assert labels == [labels[0]] * 4
    for figure in ("program_us", "limit_us", "library_us", "percent_of_limit", "factor_over_library"):
        expected = implied[figure] and pytest.approx(implied[figure], rel=1e-9)  # None without a library
        assert [v[figure] for v in verdicts] == [expected] * 4, figure
    assert first == second == fourth == implied["verdict"] == ranged["verdict"] == stated["verdict"]
    assert third == compared["verdict"] and first.startswith(third)
    assert implied["limit_us"] <= implied["program_us_at_line_rate"]
    by_strategy = {row["strategy"]: row["predicted_us"] for row in compared["results"]}
    assert by_strategy["auto"] <= min(by_strategy.values()) * 1.002
