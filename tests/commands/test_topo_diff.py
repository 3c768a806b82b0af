"""``topo diff``: every kind of change is named, nothing else is; schedules are judged on the second topology."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.reports import EXAMPLES

from hetesynth.cli.main import run
from hetesynth.deploy.topo_diff import topology_difference
from hetesynth.report.topology_changes import topology_changes
from hetesynth.topology.language import parse_topology

BASE = """
import h20
cluster c {
  chunk 16 MB
  instance a = h20x4
  instance b = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
"""
RING = "node n { gpus 4; %s }\ncluster c { chunk 1 MB; instance a = n }"
LINK = "link gpu%d <-> gpu%d { bandwidth %s }\n"


def changes(old: str, new: str, text: str = BASE) -> list[tuple[str, str, str, str, str]]:
    assert old in text
    all_ = topology_changes(parse_topology(text), parse_topology(text.replace(old, new)))
    return [(c.kind, c.what, c.name, c.before, c.after) for c in all_]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("b = h20x8", "b = h20x8 { set nic3 { bandwidth 18 Gbps } }",
         [("changed", "link", "b.nic3 <-> ib", "50 GB/s", "2.25 GB/s")]),
        ("1.3 us", "2 us",
         [("changed", "link", f"ib -> {s}.nic{i}", "1.3 us", "2 us") for s in "ab" for i in range(4)]),
        ("chunk 16 MB", "chunk 8 MB", [("changed", "chunk", "", "16000000 B", "8000000 B")]),
        ("instance b = h20x8", "instance b = h20x8\ninstance d = h20x4",
         [("added", "server", "d", "", "")]),
        ("b = h20x8", 'b = h20x8 { model "H800" }',
         [("changed", "model of GPU", f"b.gpu{i}", "H20", "H800") for i in range(8)]),
        ("b = h20x8", "b = h20x8 { reduce 600 GB/s }",
         [("changed", "reduce of GPU", f"b.gpu{i}", "1200 GB/s", "600 GB/s") for i in range(8)]),
        ("b = h20x8", "b = h20x8 { disable gpu7 }", [("removed", "GPU", "b.gpu7", "", "")]),
        ("b = h20x8", "b = h20x8 { disable gpu6 }",
         [("removed", "GPU", "b.gpu6", "", ""), ("changed", "rank of GPU", "b.gpu7", "11", "10")]),
        ("b = h20x8", "b = h20x8 { disable nic0 }", [("removed", "NIC", "b.nic0", "", "")]),
        ("fabric ib", "shared out 10 GB/s { a.gpu0 -> b.gpu0 }\nfabric ib",
         [("added", "group", "out", "", "10 GB/s, a.gpu0 -> b.gpu0")]),
        ("b = h20x8", "b = h20x8 { set gpu0 { copy 10 GB/s } }",
         [("changed", "copy of GPU", "b.gpu0", "not stated", "10 GB/s")]),
    ],
)  # fmt: skip
def test_a_change_is_named(old: str, new: str, expected: list[tuple[str, str, str, str, str]]) -> None:
    assert sorted(changes(old, new)) == sorted(expected)


def ring(rates: list[str]) -> str:
    return RING % "".join(LINK % (i, (i + 1) % 4, rate) for i, rate in enumerate(rates) if rate)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ring of links of 2 GB/s in two lanes, its schedule, its programs and a file that is none."""
    folder = tmp_path_factory.mktemp("around")
    topology = written(folder, "ring.dsl", ring(["1 GB/s x 2"] * 4))
    (folder / "made").mkdir()
    arguments = ["synth", str(topology), "--coll", "allgather", "--strategy", "greedy", "--chunks", "2"]
    arguments += ["--target", "portable", "--target", "mscclpp"]
    assert run([*arguments, "-o", str(folder / "made" / "ag")]) == 0
    written(folder, "other.json", "{}")
    return folder


@pytest.mark.parametrize(
    ("rates", "verdict", "reason"),
    [
        (["1 GB/s x 2"] * 4, "valid", ""),
        (["1 GB/s x 2"] * 3 + ["0.5 GB/s x 2"], "slower", "2 -> 1 GB/s"),
        (["1 GB/s x 2"] * 3 + ["1 GB/s"], "over capacity", "its capacity is 1"),
        (["1 GB/s x 2"] * 3 + [""], "lost link", "a.gpu3"),
    ],
)
def test_a_schedule_is_judged_on_the_second_topology(
    around: Path, tmp_path: Path, rates: list[str], verdict: str, reason: str
) -> None:
    after = written(tmp_path, "after.dsl", ring(rates))
    difference = topology_difference(around / "ring.dsl", after, [around])
    (standing,) = (s for s in difference.schedules if s.path.name == "ag.schedule.json")
    assert (standing.verdict, standing.runs) == (verdict, verdict in ("valid", "slower"))
    assert reason in standing.reason
    programs = [s for s in difference.schedules if s is not standing]
    assert {s.path.suffix for s in programs} == {".xml", ".json"} and len(programs) == 4
    if verdict != "over capacity":  # of a step, which programs and plans do not have
        assert {s.verdict for s in programs} == {verdict}


def test_schedules_of_other_ranks_and_files_that_are_none(around: Path, tmp_path: Path) -> None:
    after = written(tmp_path, "after.dsl", ring(["1 GB/s x 2"] * 4).replace("gpus 4", "gpus 4 except 3"))
    paths = [around, around / "other.json", around / "none.json"]
    verdicts = [s.verdict for s in topology_difference(around / "ring.dsl", after, paths).schedules]
    assert verdicts == ["other ranks"] * 5 + ["unreadable", "unreadable"]
    standings = topology_difference(EXAMPLES / "fig10" / "topo.dsl", after, [around]).schedules
    assert [s.verdict for s in standings] == ["not of the first"] * 5


def test_a_program_that_is_wrong_by_itself_is_told_apart(around: Path, tmp_path: Path) -> None:
    text = (around / "made" / "ag.portable.xml").read_text()
    broken = written(tmp_path, "broken.xml", text.replace('nchunksperloop="8"', 'nchunksperloop="16"'))
    assert broken.read_text() != text
    (standing,) = topology_difference(around / "ring.dsl", around / "ring.dsl", [broken]).schedules
    assert standing.verdict == "wrong" and standing.reason


def test_losses_on_the_command_line_are_of_the_second(around: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(around / "ring.dsl")
    arguments = ["topo", "diff", file, file, "--without", "a.gpu3<->a.gpu0", "--schedules", str(around)]
    assert run(arguments) == 1
    shown = capsys.readouterr().out
    assert "- link a.gpu3 <-> a.gpu0" in shown and "5 lost link" in shown
    assert run(["topo", "diff", file, file, "--degrade", "a.gpu0<->a.gpu1=50%"]) == 1
    assert "~ link a.gpu0 <-> a.gpu1" in capsys.readouterr().out


def test_exit_codes_and_json(around: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = str(around / "ring.dsl")
    after = str(written(tmp_path, "after.dsl", ring(["1 GB/s x 2"] * 3 + ["1 GB/s"])))
    assert run(["topo", "diff", before, before]) == 0
    assert "the same hardware" in capsys.readouterr().out
    assert run(["topo", "diff", before, after, "--schedules", str(around), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in document["changes"]] == ["a.gpu3 <-> a.gpu0"] and not document["same"]
    runs = {Path(s["file"]).name: s["runs"] for s in document["schedules"]}
    assert runs.pop("ag.schedule.json") is False and len(runs) == 4
    assert run(["topo", "diff", before, after]) == 1
    assert "~ link a.gpu3 <-> a.gpu0: 1 GB/s x 2 -> 1 GB/s" in capsys.readouterr().out
    assert run(["topo", "diff", before, str(tmp_path / "none.dsl")]) == 2
