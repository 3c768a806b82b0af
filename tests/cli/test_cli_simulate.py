"""The command ``simulate``: both kinds of file, sizes, figures for scripts, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = EXAMPLES / "fig10" / "topo.dsl"
DGX1 = EXAMPLES / "dgx1" / "topo.dsl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program and a schedule of an allgather on Figure 10's cluster."""
    folder = tmp_path_factory.mktemp("simulate")
    arguments = ["--coll", "allgather", "--strategy", "greedy", "--effort", "1", "-o", str(folder / "ag.xml")]
    assert run(["synth", str(FIG10), *arguments, "--json"]) == 0
    return folder


def predicted(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["simulate", *arguments, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("name", ["ag.xml", "ag.schedule.json"])
def test_figures_for_scripts(made: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = predicted(capsys, str(made / name), str(FIG10), "--size", "60MB")
    assert (result["collective"], result["ranks"], result["calibration"]) == ("allgather", 6, "measured")
    (row,) = result["results"]
    assert row["size"] == 60_000_000
    assert row["algbw_GBps"] == pytest.approx(60_000 / row["predicted_us"], rel=1e-9)
    assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * 5 / 6, rel=1e-9)
    # four blocks of 10 MB must come over 8 GB/s to one node, two to the other
    assert row["predicted_us"] >= 5000 and 0 < row["utilization"] <= 1


def test_wrong_input_is_told(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.xml"
    broken.write_text((made / "ag.xml").read_text().replace('type="s"', 'type="r"', 1))
    (tmp_path / "empty.schedule.json").write_bytes(b"")
    shutil.copy(made / "ag.xml", tmp_path / "ag.xml")
    early = tmp_path / "early.schedule.json"
    text = json.loads((made / "ag.schedule.json").read_text())
    for row in text["transfers"]:
        row[:2] = [0, 1]  # all at once: chunks are sent on before they are there
    early.write_text(json.dumps(text))
    wrong = [
        ([str(early), str(FIG10)], "HS562"),
        ([str(made / "ag.schedule.json"), str(DGX1)], "HS561"),
        ([str(made / "ag.xml"), str(DGX1)], "HS56"),
        ([str(broken), str(FIG10)], "HS562"),
        ([str(tmp_path / "empty.schedule.json"), str(FIG10)], "HS520"),
        ([str(tmp_path), str(FIG10)], "error"),
        ([str(made / "ag.xml"), str(FIG10), "--size", "12 furlongs"], "HS307"),
        ([str(made / "ag.xml"), str(FIG10), "--size", "9000TB"], "from 1 byte to 1 PiB"),
        ([str(made / "ag.xml"), str(FIG10), "--size", ",".join(["1KB"] * 300)], "at most 256"),
    ]
    for arguments, code in wrong:
        capsys.readouterr()
        assert run(["simulate", *arguments]) == (1 if code == "HS562" else 2), arguments
        shown = capsys.readouterr().err
        assert code in shown and "internal error" not in shown, (arguments, shown)


def test_what_a_runtime_costs_is_counted_unless_it_is_left_out(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default a kernel starts in 6.6 us, with LL, and thread blocks copy; raw is a ceiling in any case."""
    file = str(made / "ag.schedule.json")
    counted = predicted(capsys, file, str(FIG10), "--size", "60MB", "--calibration", "spec")
    without = predicted(capsys, file, str(FIG10), "--size", "60MB", "--no-runtime-costs")
    assert (counted["runtime_costs"], without["runtime_costs"]) == (True, False)
    start = counted["results"][0]["predicted_us"] - without["results"][0]["predicted_us"]
    assert start == pytest.approx(6.6, rel=1e-6)
    for option in ("--runtime-costs", "--no-runtime-costs"):
        raw = predicted(capsys, file, str(FIG10), "--size", "60MB", "--calibration", "raw", option)
        assert raw["runtime_costs"] is False
        assert raw["results"][0]["predicted_us"] <= without["results"][0]["predicted_us"]


def test_the_table_names_a_thread_block_that_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of 38.7 GB/s forwards over an NVLink port of 450 what came over NICs."""
    topology, out = EXAMPLES / "h20_4p8" / "topo.dsl", str(tmp_path / "ag")
    arguments = ["--coll", "allgather", "--chunks", "4", "--strategy", "greedy", "--no-runtime-costs", "-o", out]
    assert run(["synth", str(topology), *arguments, "--json"]) == 0
    row = predicted(capsys, f"{out}.xml", str(topology), "--size", "1GB")["results"][0]
    assert row["bottleneck"].startswith("thread block ") and " of gpu " in row["bottleneck"]
    plain = predicted(capsys, f"{out}.xml", str(topology), "--size", "1GB", "--no-runtime-costs")["results"][0]
    assert not plain["bottleneck"].startswith("thread block ")
