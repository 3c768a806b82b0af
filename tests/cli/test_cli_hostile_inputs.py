"""Inputs that are legal or nearly so, but that nobody would write: each command says what it made of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.model.collective import COLLECTIVE_NAMES

FIXTURES = Path(__file__).parent / "fixtures"
FIG10 = str(Path(__file__).resolve().parents[2] / "examples" / "fig10" / "topo.dsl")
COMMANDS = (
    ("synth",),
    ("synth", "--size", "1MB"),
    ("bounds", "--check"),
    ("compare", "--sizes", "1MB"),
    ("atlas", "--sizes", "1MB"),
)
ONE_WAY = {
    "chain": """
        node n { gpus 2
          mesh gpu* { bandwidth 50 GB/s } }
        cluster c { chunk 1 MB
          instance a = n
          instance b = n
          link a.gpu1 -> b.gpu0 { bandwidth 10 GB/s }
          shared s 5 GB/s { a.gpu1 -> b.gpu0 } }
    """,
    "out": "node n { gpus 3; link gpu0 -> gpu[1-2] { bandwidth 9 GB/s } } cluster c { instance a = n }",
    "in": "node n { gpus 3; link gpu[1-2] -> gpu0 { bandwidth 9 GB/s } } cluster c { instance a = n }",
}
SPREADING, COLLECTING = ("broadcast", "scatter"), ("gather", "reduce")


def outcome(command: tuple[str, ...], topology: Path, name: str, tmp_path: Path) -> int:
    tmp_path.mkdir(exist_ok=True)
    budget = [] if command[0] == "bounds" else ["--effort", "0.1"]
    output = ["-o", str(tmp_path / "made")] if command[0] in ("synth", "atlas") else []
    return run([command[0], str(topology), "--coll", name, *command[1:], *budget, *output])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("graph", ONE_WAY)
def test_links_of_one_direction_lead_where_they_lead(
    graph: str, command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 reaches every other, or every other reaches it: the collectives that need no more have schedules."""
    topology = tmp_path / "one_way.dsl"
    topology.write_text(ONE_WAY[graph])
    possible = COLLECTING if graph == "in" else SPREADING
    for name in COLLECTIVE_NAMES:
        code = outcome(command, topology, name, tmp_path / name)
        said = capsys.readouterr().err
        assert code == (0 if name in possible else 1), (name, said)
        assert code == 0 or "no path leads" in said


def test_alltoall_where_gpus_share_a_nic(tmp_path: Path) -> None:
    assert outcome(("synth",), FIXTURES / "nics_without_peers.dsl", "alltoall", tmp_path) == 0


@pytest.mark.parametrize("name", ["schedule_long_transfers.json", "schedule_long_makespan.json"])
@pytest.mark.parametrize(
    "arguments",
    [("simulate", FIG10), ("simulate", FIG10, "--trace", "t.json"), ("import",), ("import", "--topo", FIG10)],
    ids=" ".join,
)
def test_a_schedule_of_endless_ticks_is_refused(
    arguments: tuple[str, ...],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([arguments[0], str(FIXTURES / name), *arguments[1:]]) == 2
    assert "HS520" in capsys.readouterr().err
    assert not os.listdir(tmp_path)


UNREADABLE = {"no.json": b"x{", "binary.xml": bytes(range(256)), "missing.xml": None, "large.json": 65 * 2**20}


def unreadable(name: str, folder: Path) -> str:
    """The file ``name`` of ``UNREADABLE``; large ones take no room on the disk."""
    path, content = folder / name, UNREADABLE[name]
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, int):
        with path.open("wb") as stream:
            stream.truncate(content)
    return str(path)


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_told_in_sarif(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", unreadable(name, tmp_path), "--sarif"]) == 2
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    failures = [n for i in told.get("invocations", []) for n in i["toolExecutionNotifications"]]
    assert [x for x in (*told["results"], *failures) if x["level"] == "error" and x["message"]["text"]]


def test_a_wrong_topology_is_told_in_sarif_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, topology = tmp_path / "a.xml", tmp_path / "bad.dsl"
    plan.write_text("<algo/>")
    topology.write_text("cluster c {\n  instance a = nothing\n}\n")
    assert run(["verify", str(plan), "--topo", str(topology), "--sarif"]) == 2
    (failed,) = json.loads(capsys.readouterr().out)["runs"][0]["invocations"]
    (told,) = failed["toolExecutionNotifications"]
    assert told["descriptor"] == {"id": "HS201"}
    assert told["locations"][0]["physicalLocation"]["region"] == {"startLine": 2, "startColumn": 16}


@pytest.mark.parametrize(
    "command", [("verify",), ("import",), ("simulate", FIG10), ("run", "--backend", "inprocess")]
)
@pytest.mark.parametrize("name", ["binary.xml", "large.json"])
def test_what_cannot_be_read_is_told_in_json(
    name: str, command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([command[0], unreadable(name, tmp_path), *command[1:], "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == 2
    assert told["violations"] if command[0] == "verify" and "error" not in told else told["error"]["code"]


LARGE = """
node n { gpus 6
  switch s { ports gpu*; bandwidth 450 GB/s }
  nic nic0 { bandwidth 100 GB/s }
  attach gpu* -> nic0 }
cluster c { instance b = n x 100
  fabric f { join *.nic* } }
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["--json", "--all"])
def test_the_links_of_a_large_cluster_are_printed_one_by_one(form: str, tmp_path: Path) -> None:
    """360,000 links: as nodes and edges of a graph they took 1.1 GB."""
    topology = tmp_path / "large.dsl"
    topology.write_text(LARGE)
    with (tmp_path / "shown").open("w") as shown:
        command = [sys.executable, "-m", "hetesynth", "topo", "show", str(topology), form]
        process = subprocess.Popen(command, stdout=shown)
        _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    assert used.ru_maxrss < 400 * 1024
    said = (tmp_path / "shown").read_text()
    if form == "--json":
        links = json.loads(said)["links"]
        assert len(links) == 600 * 599
        assert links[-1]["src"] == 599 and links[-1]["kind"] == "switch"
    else:
        assert said.count("->") > 600 * 599
