"""What ``topo show`` says of clusters, against figures worked out by hand from their files."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from support.reports import EXAMPLES, cluster

from hetesynth.cli.main import run
from hetesynth.report.cluster_facts import cluster_facts
from hetesynth.topology.language import parse_topology

GB = 10**9

TWO_TIERS = """
import h20
cluster two_tiers {
  instance a[0-3] = h20x8
  fabric leaf0 { join a[0-1].nic*; latency 0.6 us }
  fabric leaf1 { join a[2-3].nic*; latency 0.6 us }
  switch spine { ports leaf0, leaf1; bandwidth 200 GB/s; latency 0.7 us; kind uplink }
}
"""


def test_ranks_have_their_server_and_number() -> None:
    text = "node n { gpus 4 except 1; mesh gpu* { bandwidth 1 GB/s } }\ncluster c { instance a[0-1] = n\n"
    facts = cluster_facts(parse_topology(text + "link a0.gpu0 <-> a1.gpu0 { bandwidth 1 GB/s } }"))
    assert [(g.rank, g.server, g.number) for g in facts.gpus] == [
        (0, "a0", 0), (1, "a0", 2), (2, "a0", 3), (3, "a1", 0), (4, "a1", 2), (5, "a1", 3),
    ]  # fmt: skip


def test_links_by_class_of_the_h20_cluster() -> None:
    """4 x 3 and 8 x 7 links over NVSwitches; 4 x 8 pairs over NICs, two ways."""
    classes = cluster_facts(cluster("h20_4p8")).links
    figures = {(c.kind, c.inside, float(c.rate / GB), float(c.latency * 10**6), c.count) for c in classes}
    assert figures == {("nvlink", True, 450.0, 0.7, 68), ("net", False, 50.0, 1.3, 64)}


def test_counts_of_classes_add_up() -> None:
    for example in ("v100_4p8", "two_dc_50km", "mi250_x1"):
        topology = cluster(example)
        assert sum(c.count for c in cluster_facts(topology).links) == len(topology.links)


def test_a_nic_of_two_gpus_binds_and_a_nic_of_one_does_not() -> None:
    """Server a has a NIC for each GPU, server b one for two."""
    binding = cluster_facts(cluster("h20_4p8")).bottlenecks
    ends = [(f"b.nic{i}->ib", f"ib->b.nic{i}") for i in range(4)]
    assert {b.name for b in binding} == {name for pair in ends for name in pair}
    assert {(b.rate, b.sharers, b.offered) for b in binding} == {(50 * GB, 2, None)}


def test_an_uplink_binds_with_its_oversubscription() -> None:
    """Eight NICs of 50 GB/s and sixteen GPUs below an uplink of 200 GB/s: 2 : 1."""
    binding = [b for b in cluster_facts(parse_topology(TWO_TIERS)).bottlenecks if b.kind == "uplink"]
    assert len(binding) == 4
    assert {(b.rate, b.sharers, b.offered) for b in binding} == {(200 * GB, 16, Fraction(400 * GB))}


def test_an_uplink_as_fast_as_its_nics_does_not_bind() -> None:
    binding = cluster_facts(parse_topology(TWO_TIERS.replace("200 GB/s", "400 GB/s"))).bottlenecks
    assert not [b for b in binding if b.kind == "uplink"]


def test_the_text_says_who_is_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topo", "show", str(EXAMPLES / "h20_4p8" / "topo.dsl")]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "b 8 x H20 4-11 0-7 4 x 50 GB/s" in shown
    assert "between servers net 50 1 1.3 64 0->4, 0->5, 0->6, 0->7, ..." in shown


def test_pictures_are_written_together_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = str(EXAMPLES / "dgx1" / "topo.dsl")
    picture, graph = tmp_path / "a.svg", tmp_path / "none" / "a.graphml"
    assert run(["topo", "show", topology, "--svg", str(picture), "--graphml", str(graph)]) == 2
    assert not picture.exists() and "HS571" in capsys.readouterr().err
    assert run(["topo", "show", topology, "--svg", str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"][0]["ranks"] == list(range(8))
    assert picture.read_text().startswith("<svg")


def test_show_says_what_switches_can_do_and_what_is_doubtful(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An NVSwitch of 450 Gb/s is one whose unit is probably wrong."""
    text = (
        'node n { model "H100"; gpus 8; switch nvswitch { ports gpu*; bandwidth 450 Gb/s; kind nvlink; '
        'multicast; reduction } }\ncluster c { instance a = n { host "node7" } }\n'
    )
    path = tmp_path / "c.dsl"
    path.write_text(text)
    assert run(["topo", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "multicast, reduction: a.nvswitch" in shown and "node7" in shown
    assert "warning: " in shown and "450 Gb/s" in shown
    assert run(["topo", "show", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["capabilities"] == [{"name": "a.nvswitch", "capabilities": ["multicast", "reduction"]}]
    assert document["servers"][0]["host"] == "node7" and document["warnings"]


def test_show_works_the_links_of_a_file_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetesynth.topology.language import assembly

    calls = []
    original = assembly.links_over
    monkeypatch.setattr(assembly, "links_over", lambda *a: calls.append(1) or original(*a))
    assert run(["topo", "show", str(EXAMPLES / "h20_4p8" / "topo.dsl")]) == 0
    assert len(calls) == 1


def test_lint_and_show_look_at_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = str(EXAMPLES / "h20_4p8" / "topo.dsl")
    assert run(["topo", "lint", topology, "--without", "b.nic*"]) == 2
    assert "HS217" in capsys.readouterr().out
    assert run(["topo", "lint", topology]) == 0
    assert "HS245" not in capsys.readouterr().out
    assert run(["topo", "show", topology, "--without", "b.nic3"]) == 0
    assert "3 x 50 GB/s" in capsys.readouterr().out
    assert run(["topo", "lint", topology, "--without", "b.gpu99"]) == 2
