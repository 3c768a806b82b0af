"""``without``, ``down``, ``degrade`` and their options: the cluster that is left, compared with one written so."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology, parse_topology
from hetesynth.topology.language.overridden import overridden

GB = 10**9
NODE = """
node n {
  gpus 4
  link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2 }
  switch sw { ports gpu[0-3]; bandwidth 100 GB/s }
  nic nic[0-1] { bandwidth 400 Gbps }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
}
"""
HEAD = "instance a[0-1] = n\nfabric ib { join a*.nic* }\nswitch up { ports ib; bandwidth 1 GB/s }\n"


def cluster(statements: str, head: str = HEAD) -> Topology:
    return parse_topology(f"{NODE}\ncluster c {{\n{head}\n{statements}\n}}")


def bare(topology: Topology) -> Topology:
    return replace(topology, notes=())


def rates(topology: Topology) -> dict[tuple[str, str], list[tuple[F, int]]]:
    """The lanes of all limiting wires, by the names of their ends."""
    name = [vertex.name for vertex in topology.vertices]
    table: dict[tuple[str, str], list[tuple[F, int]]] = {}
    for wire in topology.wires:
        if wire.bandwidth is not None:
            table.setdefault((name[wire.src], name[wire.dst]), []).append((wire.bandwidth / GB, wire.lanes))
    return table


def changed(statements: str) -> dict[tuple[str, str], list[tuple[F, int]]]:
    """What the wires are that ``statements`` changes; empty lists for those that are gone."""
    before, after = rates(cluster("")), rates(cluster(statements))
    return {ends: after.get(ends, []) for ends in before if after.get(ends) != before[ends]}


def test_a_lost_gpu_is_a_disabled_one() -> None:
    assert bare(cluster("without a1.gpu[2-3]")) == bare(cluster("disable a1.gpu[2-3]"))
    assert cluster("without a1.gpu[2-3]").notes == ("a1.gpu[2-3] lost",)


def test_a_link_that_is_down_leaves_the_other_way() -> None:
    assert changed("down a0.gpu0 <-> a0.gpu1") == {("a0.gpu0", "a0.gpu1"): [], ("a0.gpu1", "a0.gpu0"): []}
    assert changed("down a0.gpu1 -> a0.gpu0") == {("a0.gpu1", "a0.gpu0"): []}
    left = cluster("down a0.gpu0 <-> a0.gpu1")
    assert {k.bandwidth for k in left.links if (k.src, k.dst) == (0, 1)} == {F(100 * GB)}


@pytest.mark.parametrize(
    ("statement", "ends", "rate"),
    [
        ("degrade a0.nic0 to 18 Gbps", [("a0.nic0", "ib"), ("ib", "a0.nic0")], [(F(9, 4), 1)]),
        ("degrade a0.nic0 to 50 %", [("a0.nic0", "ib"), ("ib", "a0.nic0")], [(F(25), 1)]),
        ("degrade a0.nic0 -> ib to 12.5 %", [("a0.nic0", "ib")], [(F(25, 4), 1)]),
        ("degrade a0.gpu0 <-> a0.gpu1 to 50 %", [("a0.gpu0", "a0.gpu1"), ("a0.gpu1", "a0.gpu0")], [(F(25, 2), 2)]),
        ("degrade a0.gpu0 -> a0.gpu1 to 5 GB/s x 2", [("a0.gpu0", "a0.gpu1")], [(F(5), 2)]),
        ("degrade a1.gpu2 to 50 %", [("a1.gpu2", "a1.sw"), ("a1.sw", "a1.gpu2")], [(F(50), 1)]),
    ],
)  # fmt: skip
def test_what_is_degraded(statement: str, ends: list[tuple[str, str]], rate: list[tuple[F, int]]) -> None:
    assert changed(statement) == dict.fromkeys(ends, rate)


def test_a_switch_is_degraded_at_all_its_ports_and_twice_is_twice() -> None:
    ports = [(f"a0.gpu{i}", "a0.sw") for i in range(4)] + [("a0.sw", f"a0.gpu{i}") for i in range(4)]
    assert changed("degrade a0.sw to 50 %") == {ends: [(F(50), 1)] for ends in ports}
    assert changed("degrade a0.sw to 50 %\ndegrade a0.sw to 50 %") == {ends: [(F(25), 1)] for ends in ports}


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("without a9", "HS201"),
        ("without z*", "HS202"),
        ("without a*", "HS200"),
        ("down a0.gpu2 <-> a0.gpu3", "HS224"),
        ("down a0.gpu[0-1] <-> a0.gpu[0-2]", "HS212"),
        ("degrade a0.nic0 to 800 Gbps", "HS208"),
        ("degrade a0.nic0 to 120 %", "HS208"),
        ("degrade a0.nic0 to 0 %", "HS208"),
        ("degrade a0.nic0 to 18", "HS204"),
        ("degrade a0.nic0 to 18 GB", "HS206"),
        ("degrade ib to 50 %", "HS211"),
        ("degrade a0.gpu0 <-> a0.nic0 to 50 %", "HS211"),
        ("down a0.gpu0", "HS111"),
    ],
)
def test_findings(statement: str, code: str) -> None:
    with pytest.raises(SourceError) as caught:
        cluster(statement)
    assert [d.code for d in caught.value.diagnostics] == [code]


def written(tmp_path: Path, statements: str = "") -> Path:
    path = tmp_path / "t.dsl"
    path.write_text(f"{NODE}\ncluster c {{\n{HEAD}\n{statements}\n}}")
    return path


def test_options_mean_what_the_statements_mean(tmp_path: Path) -> None:
    without, degrade = ["a1.gpu3, a1.nic0", "a0.gpu0<->a0.gpu1"], ["a0.nic[0,1] = 18Gbps", "a1.gpu0->a1.gpu1=50%"]
    beside = overridden(written(tmp_path), without, degrade)
    inside = cluster(
        "without a1.gpu3, a1.nic0\ndown a0.gpu0<->a0.gpu1\ndegrade a0.nic[0,1] to 18 Gbps\n"
        "degrade a1.gpu0 -> a1.gpu1 to 50 %"
    )
    assert load_topology(beside) == inside


@pytest.mark.parametrize(
    ("option", "value", "code", "column"),
    [
        ("without", "a0.gpu9", "HS201", 1),
        ("without", "a0.gpu0 <-> a0.gpu9", "HS201", 13),
        ("without", "gpu1, gpu[0", "HS111", 1),
        ("without", "a0.gpu0; disable a0.gpu1", "HS111", 1),
        ("without", "a0.gpu0 } cluster d { disable a0.gpu1", "HS111", 1),
        ("degrade", "a0.nic0", "HS111", 1),
        ("degrade", "a0.nic0=fast", "HS111", 9),
        ("degrade", "a0.nic0=900%", "HS208", 9),
        ("degrade", "a0.nic0=1" + "0" * 30 + "GB/s", "HS208", 9),
    ],
)
def test_findings_name_the_option(tmp_path: Path, option: str, value: str, code: str, column: int) -> None:
    with pytest.raises(SourceError) as caught:
        load_topology(overridden(written(tmp_path), **{option: [value]}))
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.span.file, finding.span.line) == (code, f"--{option}", 1)
    assert finding.span.column == column


def test_the_commands_take_losses_and_show_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, losses = str(written(tmp_path)), ["--without", "a1.gpu3", "--degrade", "a0.nic*=18Gbps"]
    notes = ["a1.gpu3 lost", "a0.nic* degraded to 18 Gbps"]
    assert run(["topo", "show", path, *losses, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == notes
    out = tmp_path / "s"
    question = ["--coll", "broadcast", "--strategy", "greedy", "--schedule-only", "-o", str(out)]
    assert run(["synth", path, *question, *losses]) == 0
    schedule = tmp_path / "s.schedule.json"
    assert json.loads(schedule.read_text())["header"]["losses"] == notes
    assert f"  note         {'; '.join(notes)}\n" in capsys.readouterr().out
    assert run(["verify", str(schedule), "--without", "a1.gpu3"]) == 2
