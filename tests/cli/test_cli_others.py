"""The commands ``verify``, ``bounds`` and ``topo show``, and what stays out of a quick ``--help``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")


def test_topo_show_prints_the_capacities_of_figure_10(capsys: pytest.CaptureFixture[str]) -> None:
    """25 x 2 against 8 GB/s: ceil(25 / 8) x 2 = 8; 16 against 8: 2."""
    assert run(["topo", "show", FIG10]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    links = [(row[0], row[1]) for row in rows if row and row[0] in ("direct", "switch", "net")]
    assert set(links) == {("direct", "8"), ("switch", "2"), ("net", "1")}
    assert run(["topo", "show", FIG10, "--all"]) == 0
    links = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert {"0->1", "1->0", "2->3", "4->5"} <= set(links)


def test_topo_show_as_json_is_the_multigraph(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topo", "show", FIG10, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ranks"] == len(result["gpus"]) == 6
    assert {link["capacity"] for link in result["links"]} == {8, 2, 1}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    assert run(["synth", FIG10, "--coll", "allgather", "--always", "-o", str(tmp_path / "ag.xml")]) == 0
    return tmp_path / "ag.xml"


def test_verify_refuses_a_connection_the_topology_lacks(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same program on a ring of as many GPUs."""
    ring = tmp_path / "ring.dsl"
    links = "".join(f"  link gpu{i} <-> gpu{(i + 1) % 6} {{ bandwidth 25 GB/s }}\n" for i in range(6))
    ring.write_text(f"node n {{\n  gpus 6\n{links}}}\ncluster ring6 {{ instance a = n }}\n")
    assert run(["verify", str(program), "--topo", str(ring)]) == 1
    assert "connection" in capsys.readouterr().out


def test_verify_refuses_a_topology_of_another_size(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(program), "--topo", str(EXAMPLES / "ring8" / "topo.dsl")]) == 2
    assert "for 6 ranks, ring8 has 8" in capsys.readouterr().err


def test_bounds_check_rechecks_every_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bounds", FIG10, "--coll", "reducescatter", "--check"]) == 0
    assert "rechecked" in capsys.readouterr().out
    assert run(["bounds", FIG10, "--coll", "alltoall", "--check", "--json"]) == 0
    assert all(bound["rechecked"] for bound in json.loads(capsys.readouterr().out)["bounds"])


def test_bounds_check_fails_on_a_wrong_bound(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from hetesynth.engine import bounds as problems
    from hetesynth.engine.request import Request

    def raised(wanted: Request) -> object:
        problem, found = honest(wanted)
        return problem, [replace(found[0], steps=found[0].steps + 1), *found[1:]]

    honest = problems.bounds
    monkeypatch.setattr(problems, "bounds", raised)
    assert run(["bounds", FIG10, "--coll", "allgather", "--check"]) == 1
    assert "does not hold" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--report", "x.xml", "does not end with .html"),
        ("--trace", "x.schedule.json", "HS570"),
        ("--trace", "x.mscclpp.json", "HS570"),
    ],
)
def test_a_report_is_not_named_like_a_program(
    option: str,
    name: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["--coll", "allgather", "--target", "portable,mscclpp", "-o", "x", option, name]
    assert run(["synth", FIG10, *arguments]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_large_error_of_rounding_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = ["synth", str(EXAMPLES / "v100_4p8" / "topo.dsl"), "--coll", "broadcast", "--strategy", "greedy"]
    assert run([*made, "--schedule-only", "--explain", "-o", str(tmp_path / "x")]) == 0
    told = capsys.readouterr().out
    assert "worst rounding error" in told and "LARGE" in told
