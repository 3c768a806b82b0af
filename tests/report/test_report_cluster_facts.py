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
    places = [(g.rank, s.name, g.device) for s in facts.servers for g in s.gpus]
    assert places == [(0, "a0", 0), (1, "a0", 2), (2, "a0", 3), (3, "a1", 0), (4, "a1", 2), (5, "a1", 3)]


def test_links_by_class_of_the_h20_cluster_and_its_shared_nics() -> None:
    """4 x 3 and 8 x 7 links over NVSwitches, 4 x 8 pairs over NICs, two ways; in b one NIC for two GPUs."""
    facts = cluster_facts(cluster("h20_4p8"))
    figures = {(c.kind, c.inside, float(c.rate / GB), float(c.latency * 10**6), c.count) for c in facts.links}
    assert figures == {("nvlink", True, 450.0, 0.7, 68), ("net", False, 50.0, 1.3, 64)}
    ends = [(f"b.nic{i}->ib", f"ib->b.nic{i}") for i in range(4)]
    assert {b.name for b in facts.bottlenecks} == {name for pair in ends for name in pair}
    assert {(b.rate, b.sharers, b.offered) for b in facts.bottlenecks} == {(50 * GB, 2, None)}


def test_an_uplink_binds_with_its_oversubscription_and_not_as_fast_as_its_nics() -> None:
    """Eight NICs of 50 GB/s and sixteen GPUs below an uplink of 200 GB/s: 2 : 1."""
    slow, fast = (
        [b for b in cluster_facts(parse_topology(text)).bottlenecks if b.kind == "uplink"]
        for text in (TWO_TIERS, TWO_TIERS.replace("200 GB/s", "400 GB/s"))
    )
    assert len(slow) == 4 and not fast
    assert {(b.rate, b.sharers, b.offered) for b in slow} == {(200 * GB, 16, Fraction(400 * GB))}


def test_the_text_says_who_is_where(capsys: pytest.CaptureFixture[str]) -> None:
    topology = str(EXAMPLES / "h20_4p8" / "topo.dsl")
    assert run(["topo", "show", topology]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "b - 8 x H20 4-11 0-7 4 x 50 GB/s" in shown
    assert "between servers net 50 1 1.3 64 0->4, 0->5, 0->6, 0->7, ..." in shown
    assert run(["topo", "show", topology, "--without", "b.nic3"]) == 0
    assert "3 x 50 GB/s" in capsys.readouterr().out
    assert run(["topo", "lint", topology, "--without", "b.nic*"]) == 2
    assert "HS217" in capsys.readouterr().out


def test_a_picture_is_written_where_there_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = str(EXAMPLES / "dgx1" / "topo.dsl")
    assert run(["topo", "show", topology, "--svg", str(tmp_path / "none" / "a.svg")]) == 2
    assert "HS571" in capsys.readouterr().err
    picture = tmp_path / "a.svg"
    assert run(["topo", "show", topology, "--svg", str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"][0]["ranks"] == list(range(8))
    assert picture.read_text().startswith("<svg")


def test_show_says_what_switches_can_do_and_what_is_doubtful(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An NVSwitch of 450 Gb/s is one whose unit is probably wrong."""
    path = tmp_path / "c.dsl"
    path.write_text(
        'node n { model "H100"; gpus 8; switch nvswitch { ports gpu*; bandwidth 450 Gb/s; kind nvlink; '
        'multicast; reduction } }\ncluster c { instance a = n { host "node7" } }\n'
    )
    assert run(["topo", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "multicast, reduction: a.nvswitch" in shown and "node7" in shown
    assert "warning: " in shown and "56.25 GB/s" in shown
    assert run(["topo", "show", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["capabilities"] == [{"name": "a.nvswitch", "capabilities": ["multicast", "reduction"]}]
    assert document["servers"][0]["host"] == "node7" and document["warnings"]
