"""The command ``compare``: its figures are those of ``simulate``, who refuses says why, the plot is an SVG."""

from __future__ import annotations

import json
import re
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
    made = said(
        capsys,
        "synth",
        FIG10,
        *arguments,
        "--size",
        "600KB",
        "--strategy",
        "ring",
        "-o",
        str(stem),
        "--schedule-only",
    )
    simulated = said(capsys, "simulate", f"{stem}.schedule.json", FIG10, "--size", "600KB")["results"][0]
    for key in ("predicted_us", "algbw_GBps", "busbw_GBps"):
        assert entry[key] == pytest.approx(simulated[key], rel=1e-12)
        assert made[key] == pytest.approx(simulated[key], rel=1e-12)
    assert entry["percent_of_bound"] == pytest.approx(100 * entry["bound_us"] / entry["predicted_us"])
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


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce"])
def test_the_ring_goes_in_the_order_of_the_dump(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every transfer joins neighbours of the stated ring, in one direction."""
    dump = tmp_path / "graph.xml"
    gpus = "".join(f'<gpu dev="{d}"/>' for d in (0, 2, 1, 3))
    dump.write_text(f'<graphs><graph pattern="4"><channel>{gpus}</channel></graph></graphs>')
    stem = tmp_path / "r"
    topology = str(EXAMPLES / "h20_4x3" / "topo.dsl")
    said(
        capsys,
        "synth",
        topology,
        "--coll",
        name,
        "--strategy",
        "ring",
        "--rings",
        str(dump),
        "-o",
        str(stem),
        "--schedule-only",
    )
    from hetesynth.files.schedule_json import read_schedule_json

    document = read_schedule_json(Path(f"{stem}.schedule.json").read_bytes(), "r")
    ring = [4 * server + gpu for server in range(3) for gpu in (0, 2, 1, 3)]
    after = dict(zip(ring, [*ring[1:], ring[0]], strict=True))
    ends = {i: (src, dst) for i, src, dst in document.links}
    assert all(after[ends[t.link][0]] == ends[t.link][1] for t in document.schedule.transfers)


def test_too_small_a_size_is_told_what_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["synth", FIG10, "--coll", "allgather", "--schedule-only", "-o", str(tmp_path / "x")]
    assert run([*wanted, "--size", "1B"]) == 2
    least = re.search(r"use --size ([0-9]+B) or more", capsys.readouterr().err)
    assert least is not None and run([*wanted, "--size", least[1], "--strategy", "ring"]) == 0
