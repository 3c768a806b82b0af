"""The text of a topology after a calibration: the links have the figures, all else is as it was."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.calibrate.calibrate_topology import CalibrationRequest, calibrate
from hetesynth.topology.calibrate.update import Figures, link_classes, named_class, updated
from hetesynth.topology.language import parse_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOCAL = """# a box of our own
node box {
  gpus 4  # four
  mesh gpu* { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic0; attach gpu[2-3] -> nic1
}
cluster two { instance a[0-1] = box; fabric ib { join *.nic*; latency 1.3 us } }
"""


def _after(text: str, name: str, figures: Figures) -> tuple[str, Topology]:
    topology = parse_topology(text)
    links = named_class(topology, name)
    changed, _ = updated(text, "<text>", topology, links, figures, "3 points of x.csv")
    return changed, parse_topology(changed)


def _class_figures(topology: Topology, kind: str) -> set[tuple[F, F]]:
    return {(link.bandwidth * link.lanes, link.latency) for link in topology.links if link.kind == kind}


def test_a_mesh_in_the_file_keeps_its_lanes_and_comments() -> None:
    text, topology = _after(LOCAL, "nvlink", Figures(alpha=0.9e-6, rate=43.4e9))
    assert "mesh gpu* { bandwidth 21.7 GB/s x 2; latency 0.9 us; kind nvlink }" in text
    assert "# calibrated nvlink: 3 points of x.csv" in text and "gpus 4  # four" in text
    assert topology.measured == ("nvlink",)  # NICs are as stated, so predicted times derate them
    assert _class_figures(topology, "nvlink") == {(F(43_400_000_000), F(9, 10**7))}
    assert _class_figures(topology, "net") == {(F(12_500_000_000), F(13, 10**7))}
    twice, _ = _after(text, "nvlink", Figures(alpha=0.9e-6, rate=43e9))
    assert twice.count("# calibrated nvlink:") == 1 and len(twice.splitlines()) == len(text.splitlines())


def test_the_latency_of_a_network_is_its_fabric_s() -> None:
    text, topology = _after(LOCAL, "net", Figures(alpha=4.2e-6, rate=11.8e9))
    assert "latency 4.2 us" in text and "nic nic[0-1] { bandwidth 11.8 GB/s }" in text
    assert _class_figures(topology, "net") == {(F(11_800_000_000), F(42, 10**7))}


def test_figures_of_a_library_type_are_set_in_the_cluster() -> None:
    text = (EXAMPLES / "h20_4p8" / "topo.dsl").read_text()
    figures = Figures(alpha=1e-6, rate=371e9, reduce=900e9, copy=30e9)
    changed, topology = _after(text, "nvlink", figures)
    assert "set *.nvswitch { bandwidth 371 GB/s }" in changed and "set *.gpu* { copy 30 GB/s }" in changed
    assert _class_figures(topology, "nvlink") == {(F(371 * 10**9), F(1, 10**6))}
    assert set(topology.reduce_bandwidth) == {F(900 * 10**9)}
    again, _ = _after(changed, "nvlink", figures)
    assert again.count("set *.nvswitch") == changed.count("set *.nvswitch") == 2


@pytest.mark.parametrize(
    ("library", "server", "name"), [("dgx1", "dgx1", "nvlink@50GB/s"), ("mi250", "mi250x16", "xgmi@200GB/s")]
)
def test_direct_links_of_a_library_type_are_changed_in_a_copy(library: str, server: str, name: str) -> None:
    text = f"import h20\nimport {library}\ncluster c {{\n  instance a[0-1] = {server}\n  instance b = h20x8\n"
    text += "  fabric f { join *.nic* }\n}\n"
    topology = parse_topology(text)
    links = named_class(topology, name)
    rate = float(links.rate) * 0.8
    changed, after = _after(text, name, Figures(alpha=0.9e-6, rate=rate))
    assert ": 3 points of x.csv" in changed and f"import {library}" not in changed
    for number, (old, new) in enumerate(zip(topology.links, after.links, strict=True)):
        if number in links.links:
            assert float(new.bandwidth * new.lanes) == pytest.approx(rate, rel=1e-3)
            assert new.latency == F(9, 10**7)
        else:
            assert new == old
    again, twice = _after(changed, f"{links.kind}@{float(F(rate) / 10**9):g}GB/s", Figures(rate=rate * 1.05))
    assert again.count("node ") == changed.count("node ") and len(again.splitlines()) == len(changed.splitlines())
    assert float(twice.links[links.links[0]].bandwidth * twice.links[links.links[0]].lanes) == pytest.approx(
        rate * 1.05, rel=1e-3
    )


def test_direct_links_of_another_file_of_the_user_s_are_refused(tmp_path: Path) -> None:
    (tmp_path / "box.dsl").write_text(LOCAL.partition("cluster")[0])
    text = 'import "box.dsl"\ncluster c { instance a = box }\n'
    name = str(tmp_path / "c.dsl")
    topology = parse_topology(text, name)
    with pytest.raises(HetesynthError) as caught:
        updated(text, name, topology, named_class(topology, "nvlink"), Figures(rate=21e9), "x")
    assert caught.value.code == "HS847" and "copy the node type" in caught.value.help


def test_classes_are_named_and_told_apart() -> None:
    topology = parse_topology(LOCAL)
    assert [c.title for c in link_classes(topology)] == ["net@12.5GB/s", "nvlink@50GB/s"]
    assert [c.width for c in link_classes(topology)] == [2, 3]
    for name in (None, "pcie"):
        with pytest.raises(HetesynthError, match="class") as caught:
            named_class(topology, name)
        assert "nvlink@50GB/s" in caught.value.help


def test_a_class_of_two_latencies_is_told(tmp_path: Path) -> None:
    path, table = tmp_path / "c.dsl", tmp_path / "t.csv"
    servers = "instance a = h100x8; instance b = h20x8"
    path.write_text(f"import h100\nimport h20\ncluster c {{ {servers}; fabric f {{ join *.nic* }} }}\n")
    table.write_text("size,us\n" + "".join(f"{1 << e},{2 + (1 << e) / 400e3}\n" for e in range(10, 28)))
    result = calibrate(CalibrationRequest(path, (table,), "nvlink"))
    assert "links of the class had 0.7 and 0.936 us: the fit is given to all of them" in result.remarks
    assert "before: 450 GB/s, 0.7 and 0.936 us" in result.text


SHARED = """node fast(r = 25 GB/s, l = 0.9 us) {
  gpus 2
  switch s { ports gpu*; bandwidth (r); latency (l); kind nvlink }
  nic nic0 { bandwidth 10 GB/s }
  attach gpu* -> nic0
}
cluster c { instance b = fast; instance d = fast(r = 30 GB/s, l = 5 us); fabric ib { join *.nic0; latency 1 us } }
"""


def test_an_expression_is_left_and_other_servers_keep_their_figures() -> None:
    text, topology = _after(SHARED, "nvlink@25GB/s", Figures(alpha=1.1e-6, rate=45e9))
    assert "bandwidth (r); latency (l)" in text and "set b.s { latency 1.1 us }" in text
    assert _class_figures(topology, "nvlink") == {(F(45 * 10**9), F(11, 10**7)), (F(30 * 10**9), F(5, 10**6))}


def test_what_else_changes_is_told() -> None:
    other = LOCAL.replace(
        "cluster two {", "cluster two { instance b[0-1] = box { set nic* { bandwidth 200 Gbps } };"
    )
    topology = parse_topology(other)
    links = named_class(topology, "net@12.5GB/s")
    _, effects = updated(other, "<text>", topology, links, Figures(alpha=2e-6), "x")
    assert effects == (
        "net of 25 GB/s and 1.3 us becomes net of 25 GB/s and 2 us: its way crosses what was changed",
    )


def test_a_latency_that_the_rest_of_the_way_exceeds_is_refused() -> None:
    boxes = """node n { gpus 2
      switch s { ports gpu0; bandwidth 16 GB/s; latency 0.1 us; kind pcie }
      switch u { ports gpu1; bandwidth 48 GB/s; latency 1.5 us; kind upi }
      link s <-> u { bandwidth 48 GB/s; kind upi }
    }
    cluster c { instance a = n }"""
    with pytest.raises(HetesynthError, match="other parts of the way") as caught:
        _after(boxes, "pcie", Figures(alpha=1.1e-6))
    assert caught.value.code == "HS847"
