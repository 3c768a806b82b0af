"""The commands ``verify``, ``bounds`` and ``topo show``, and what stays out of a quick ``--help``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = str(EXAMPLES / "fig10" / "topo.dsl")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["synth", "--help"], ["verify", "--help"], ["--version"], ["strategies"]]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys; from hetesynth.cli.main import run; run(sys.argv[1:]); "
        "heavy = {'z3', 'numpy', 'scipy', 'numba', 'lark', 'networkx', 'lxml', 'rich'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_bounds_as_json_carries_the_witness(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bounds", FIG10, "--coll", "alltoall", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["lower_bound"] == max(bound["steps"] for bound in result["bounds"])
    cut = next(bound for bound in result["bounds"] if bound["method"] == "cut")
    assert cut["witness"]["needed"] > 0


def test_topo_show_prints_the_capacities_of_figure_10(capsys: pytest.CaptureFixture[str]) -> None:
    """25 x 2 against 8 GB/s: ceil(25 / 8) x 2 = 8; 16 against 8: 2."""
    assert run(["topo", "show", FIG10]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    links = [(row[0], row[1]) for row in rows if row and row[0] in ("direct", "switch", "net")]
    assert set(links) == {("direct", "8"), ("switch", "2"), ("net", "1")}


def test_topo_show_of_every_link_counts_no_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    """A line a link, in the columns that the table of kinds has but for how many there are of a kind."""
    assert run(["topo", "show", FIG10, "--all"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert not any("count" in line for line in shown)
    assert [line.split()[-1] for line in shown if line.split()[:1] == ["direct"]] == [
        f"{u}->{v}" for pair in ((0, 1), (2, 3), (4, 5)) for u, v in (pair, pair[::-1])
    ]
    assert run(["topo", "show", FIG10]) == 0
    kinds = [line.split() for line in capsys.readouterr().out.splitlines()]
    heads = [row for row in kinds if "count" in row]
    assert heads and all(row[-2:] == ["count", "which"] for row in heads)
    assert next(row for row in kinds if row[:1] == ["direct"])[6] == "6"


def test_topo_show_as_json_is_the_multigraph(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topo", "show", FIG10, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ranks"] == len(result["gpus"]) == 6
    assert {link["capacity"] for link in result["links"]} == {8, 2, 1}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    assert run(["synth", FIG10, "--coll", "allgather", "-o", str(tmp_path / "ag.xml")]) == 0
    return tmp_path / "ag.xml"


def test_verify_passes_our_program_on_its_topology(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(program), "--topo", FIG10, "--portable"]) == 0
    assert "ok" in capsys.readouterr().out


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


def test_verify_names_the_place_of_a_defect(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = program.read_text()
    first_receive = next(line for line in text.splitlines() if ' type="r"' in line)
    program.write_text(text.replace(first_receive + "\n", "", 1))
    capsys.readouterr()
    assert run(["verify", str(program), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False
    assert any("rank" in v and "line" in v for v in result["violations"])


def test_bounds_check_rechecks_every_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bounds", FIG10, "--coll", "reducescatter", "--check"]) == 0
    assert "rechecked" in capsys.readouterr().out
    assert run(["bounds", FIG10, "--coll", "alltoall", "--check", "--json"]) == 0
    assert all(bound["rechecked"] for bound in json.loads(capsys.readouterr().out)["bounds"])


def test_bounds_check_fails_on_a_wrong_bound(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from hetesynth.engine import problem as problems
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
    for name, large in (("v100_4p8", True),):
        topology = str(EXAMPLES / name / "topo.dsl")
        made = ["synth", topology, "--coll", "broadcast", "--strategy", "greedy", "--schedule-only"]
        assert run([*made, "-o", str(tmp_path / name)]) == 0
        told = capsys.readouterr().out
        assert "worst rounding error" in told and ("LARGE" in told) == large
