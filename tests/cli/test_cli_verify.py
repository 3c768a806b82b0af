"""``hetesynth verify`` on files that no other command made: targets, JSON, SARIF, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run

STEP = (
    '<step s="{}" type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
)


def _text(root: str = 'maxBytes="1000000"', second: str = "") -> str:
    """Two GPUs exchange one chunk each (allgather)."""
    lines = [
        f'<algo name="t" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0" '
        f'outofplace="1" minBytes="0" {root}>'
    ]
    for r in range(2):
        lines += [
            f'<gpu id="{r}" i_chunks="1" o_chunks="2" s_chunks="0">',
            f'<tb id="0" send="{1 - r}" recv="{1 - r}" chan="0">',
            STEP.format(0, "s", r),
            STEP.format(1, "r", 1 - r),
            "</tb>",
            '<tb id="1" send="-1" recv="-1" chan="0">',
            STEP.format(0, "cpy", r),
            f"</tb>{second}",
            "</gpu>",
        ]
    return "\n".join([*lines, "</algo>", ""])


@pytest.fixture
def good(tmp_path: Path) -> str:
    (tmp_path / "good.xml").write_text(_text())
    return str(tmp_path / "good.xml")


@pytest.fixture
def bad(tmp_path: Path) -> str:
    """A third thread block shares a connection; and the size range is empty for one runtime."""
    (tmp_path / "bad.xml").write_text(_text('maxBytes="0"', '<tb id="2" send="-1" recv="-1" chan="200"></tb>'))
    return str(tmp_path / "bad.xml")


def test_a_good_file_is_good_for_every_target(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", good, "--target", "rccl-6,rccl-5,msccl-executor", "--target", "msccl,portable"]) == 0
    assert capsys.readouterr().out.count(": ok\n") == 6


def test_a_file_of_no_collective_is_never_just_ok(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``coll="custom"`` nothing says what the data must be: its wrong bytes would go unnoticed."""
    text = Path(good).read_text().replace('coll="allgather"', 'coll="custom"')
    custom = tmp_path / "many" / "custom.xml"
    custom.parent.mkdir()
    custom.write_text(text)
    run(["verify", str(custom)])
    line = capsys.readouterr().out.splitlines()[-1]
    assert "NOT CHECKED" in line and ": ok" not in line
    junit = tmp_path / "verify.xml"
    run(["verify", str(custom.parent), "--junit", str(junit)])
    of_file, summary = capsys.readouterr().out.splitlines()
    assert "NOT CHECKED" in of_file and "data of 1 NOT CHECKED" in summary
    assert "<system-out>" in junit.read_text() and "NOT CHECKED" in junit.read_text()
    run(["verify", str(custom), "--json"])
    assert json.loads(capsys.readouterr().out)["data_checked"] is False
    run(["verify", good, "--json"])
    assert json.loads(capsys.readouterr().out)["data_checked"] is True


def test_text_names_rule_help_line_and_targets(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", bad, "--target", "rccl-6,msccl"]) == 1
    out = capsys.readouterr().out
    assert f"{bad}:9: error: limit: gpu 0 thread block 2: channel 200 exceeds 127 [HX306] (rccl-6)" in out
    assert "help: Use fewer channels." in out
    assert f"{bad}: rccl-6: the reader refuses the file; 2 violations" in out
    assert "maxBytes=0" in out


def test_sarif(bad: str, good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", bad, "--target", "msccl", "--sarif"]) == 1
    log = json.loads(capsys.readouterr().out)
    results = log["runs"][0]["results"]
    assert log["version"] == "2.1.0"
    assert {r["ruleId"] for r in results} == {"HX219", "HX306"}
    assert {r["properties"]["targets"][0] for r in results} == {"msccl"}
    assert {r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in results} == {1, 9, 18}
    assert run(["verify", good, "--sarif"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []


def test_fewer_multiprocessors_than_thread_blocks(good: str) -> None:
    assert run(["verify", good, "--sms", "2", "--target", "rccl-6"]) == 0
    assert run(["verify", good, "--sms", "1", "--target", "rccl-6"]) == 1
    assert run(["verify", good, "--sms", "1"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "rccl-9"], "rccl-9"),
        (["--target", "mscclpp"], "does not read"),
        (["--json", "--sarif"], "exclude"),
    ],
)
def test_usage(good: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", good, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_what_hangs_over_nics_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Simple broadcast: a note where nodes are not known, a warning where there are two, nothing with LL."""
    examples = Path(__file__).resolve().parents[2] / "examples"
    apart, inside = (str(examples / name / "topo.dsl") for name in ("a100_x2", "dgx1"))
    made = tmp_path / "two.xml"
    options = ["--coll", "broadcast", "--target", "msccl-executor", "--single-root", "--no-runtime-costs"]
    assert run(["synth", apart, *options, "-o", str(tmp_path / "two")]) == 0
    assert "over a NIC the proxy is told" in capsys.readouterr().out
    assert run(["synth", inside, *options, "-o", str(tmp_path / "one")]) == 0
    assert "NIC" not in capsys.readouterr().out
    for given, level in ((["--portable"], "note"), (["--topo", apart, "--target", "rccl-5"], "warning")):
        assert run(["verify", str(made), *given]) == 0
        assert f"{made}: {level}: deadlock: Simple broadcast: over a NIC" in capsys.readouterr().out
    assert run(["verify", str(tmp_path / "one.xml"), "--topo", inside]) == 0
    assert "NIC" not in capsys.readouterr().out
    made.write_text(made.read_text().replace('proto="Simple"', 'proto="LL"'))
    assert run(["verify", str(made), "--topo", apart, "--target", "rccl-6"]) == 0
    assert "NIC" not in capsys.readouterr().out
