"""The drawing: nothing overlaps, everything is inside, wires meet what they join; the picture is well-formed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from runpy import run_path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.reports import cluster, made

from hetesynth.model.topology import Topology
from hetesynth.report.drawing import LETTER, Box, drawing, label
from hetesynth.report.svg import FILLS, MAX_PANELS, schedule_svg, topology_svg
from hetesynth.topology.language import parse_topology

CLUSTERS = ["h20_4p8", "dgx1", "v100_4p8_sharednic", "ndv2_x4", "two_dc_50km", "dgx2_x2", "mi250_x1", "a100_x2"]
LARGE = ["h20_64", "mesh_8x8", "torus_8x8"]
HGX = """
node hgx {
  gpus 8
  switch nvswitch { ports gpu[0-7]; bandwidth 450 GB/s; kind nvlink }
  nic nic[0-7] { bandwidth 400 Gbps }
  switch pcie0 { ports gpu[0-1], nic[0-1]; bandwidth 48 GB/s; kind pcie }
  switch pcie1 { ports gpu[2-3], nic[2-3]; bandwidth 48 GB/s; kind pcie }
  switch pcie2 { ports gpu[4-5], nic[4-5]; bandwidth 48 GB/s; kind pcie }
  switch pcie3 { ports gpu[6-7], nic[6-7]; bandwidth 48 GB/s; kind pcie }
  switch cpu0 { ports pcie0, pcie1; bandwidth 48 GB/s; kind pcie }
  switch cpu1 { ports pcie2, pcie3; bandwidth 48 GB/s; kind pcie }
  link cpu0 <-> cpu1 { bandwidth 20 GB/s; kind upi }
}
"""
RAILS = "\n".join(f"fabric rail{i} {{ join *.nic{i} }}" for i in range(8))
LEAVES = """
fabric leaf0 { join a[0-1].nic* }
fabric leaf1 { join a[2-3].nic* }
switch spine0 { ports leaf0, leaf1; bandwidth 200 GB/s; kind uplink }
switch spine1 { ports leaf0, leaf1; bandwidth 200 GB/s; kind uplink }
"""
BY_KIND = """
node s {
  gpus 8
  nic nic[0-1] { bandwidth 100 Gbps }
  for i in 0-3 { pcie pcie[i] { ports gpu[(2*i)-(2*i+1)]; bandwidth 25 GB/s } }
  numa numa0 { ports pcie0, pcie1; bandwidth 25 GB/s }
  numa numa1 { ports pcie2, pcie3; bandwidth 25 GB/s }
  cpu cpu0 { ports numa0, nic0; bandwidth 25 GB/s }
  cpu cpu1 { ports numa1, nic1; bandwidth 25 GB/s }
  upi cpu0 <-> cpu1 { bandwidth 20 GB/s }
}
"""
TRAYS = """
node tray { gpus 4; nic nic[0-3] { bandwidth 400 Gbps }; attach gpu[0-3] -> nic[0-3] }
pod rack {
  instance t[0-2] = tray
  switch nvswitch { ports t*.gpu*; bandwidth 900 GB/s; kind nvlink }
}
"""
WRITTEN = {
    "rails": f"{HGX} cluster c {{ instance a[0-3] = hgx\n {RAILS} }}",
    "leaves and spines": f"{HGX} cluster c {{ instance a[0-3] = hgx\n {LEAVES} }}",
    "by kind": f"{BY_KIND} cluster c {{ instance a = s\n fabric ib {{ join *.nic* }} }}",
    "racks": f"{TRAYS} cluster c {{ instance r[0-1] = rack\n fabric ib {{ join *.*.nic* }} }}",
    "a rack": f"{TRAYS} cluster c {{ instance r = rack }}",
    "one server": f"{HGX} cluster c {{ instance a = hgx\n disable a.nic* }}",
}
EVERY = [*CLUSTERS, *WRITTEN, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)]


def drawn_cluster(name: str) -> Topology:
    return parse_topology(WRITTEN[name]) if name in WRITTEN else cluster(name)


SVG = "{http://www.w3.org/2000/svg}"


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def inside(a: Box, b: Box) -> bool:
    return b.x <= a.x and b.y <= a.y and a.x + a.width <= b.x + b.width and a.y + a.height <= b.y + b.height


@pytest.mark.parametrize("example", EVERY)
def test_boxes_are_apart_and_inside_captions_beside_them_and_labels_fit(example: str) -> None:
    topology = drawn_cluster(example)
    drawn = drawing(topology)
    page = Box(0, 0, drawn.width, drawn.height)
    frames = {s.name: s.box for s in drawn.servers}
    assert [(a, b) for a, b in combinations(drawn.vertices, 2) if overlap(a, b)] == []
    assert [(a, b) for a, b in combinations(frames.values(), 2) if overlap(a, b)] == []
    assert all(inside(box, page) for box in (*drawn.vertices, *frames.values()))
    for i, (vertex, box) in enumerate(zip(topology.vertices, drawn.vertices, strict=True)):
        frame = frames.get(vertex.server)
        assert frame is None or inside(box, frame), vertex.name
        assert 0 < len(label(topology, i, box)) * LETTER <= box.width, vertex.name
    for server in drawn.servers:
        assert server.box.y + 8 <= server.caption_y <= server.box.y + server.box.height - 3
        mine = [b for v, b in zip(topology.vertices, drawn.vertices, strict=True) if v.server == server.name]
        line = server.caption_y
        assert not any(b.y < line and line - 9 < b.y + b.height for b in mine if inside(b, server.box))


@pytest.mark.parametrize("example", EVERY)
def test_wires_end_at_what_they_join_and_pass_through_no_other_box(example: str) -> None:
    topology = drawn_cluster(example)
    drawn = drawing(topology)
    left = np.array([[b.x, b.y] for b in drawn.vertices])
    right = left + [[b.width, b.height] for b in drawn.vertices]
    t = np.linspace(0, 1, 101)[:, None]
    for number, (wire, c) in enumerate(zip(topology.wires, drawn.wires, strict=True)):
        name = topology.wire_name(number)
        points = (1 - t) ** 2 * [c.x1, c.y1] + 2 * t * (1 - t) * [c.cx, c.cy] + t**2 * [c.x2, c.y2]
        assert (points[50, 1] >= 0) and (points[50, 1] <= drawn.height), name
        for vertex, end in ((wire.src, points[0]), (wire.dst, points[-1])):
            assert (left[vertex] - 6 <= end).all() and (end <= right[vertex] + 6).all(), name
        crossed = ((left < points[:, None]) & (points[:, None] < right)).all(axis=2).any(axis=0)
        crossed[[wire.src, wire.dst]] = False
        assert not crossed.any(), (name, [topology.vertices[i].name for i in np.flatnonzero(crossed)])


def tops(name: str) -> dict[str, Box]:
    topology = drawn_cluster(name)
    return dict(zip((v.name for v in topology.vertices), drawing(topology).vertices, strict=True))


def test_a_cpu_stands_over_what_it_joins_even_beside_a_nic() -> None:
    """CPU over NUMA domain over PCIe switch over GPU, although the CPUs join the NICs."""
    boxes = tops("by kind")
    heights = [boxes[name].y for name in ("ib", "a.nic0", "a.cpu0", "a.numa0", "a.pcie0", "a.gpu0")]
    assert heights == sorted(set(heights))
    assert boxes["a.cpu0"].x < boxes["a.cpu1"].x - 100


def test_a_rack_has_its_switch_on_the_far_side_of_the_network() -> None:
    """Two racks: network, NICs, GPUs, switches; each switch below its rack."""
    boxes = tops("racks")
    heights = [boxes[name].y for name in ("ib", "r0.t0.nic0", "r0.t0.gpu0", "r0.nvswitch")]
    assert heights == sorted(set(heights))
    for rack in ("r0", "r1"):
        bar = boxes[f"{rack}.nvswitch"]
        assert all(bar.x < b.x < bar.x + bar.width for name, b in boxes.items() if name.startswith(f"{rack}.t"))


def test_kinds_of_hardware_have_their_colours() -> None:
    svg = topology_svg(drawn_cluster("by kind"))
    for kind, count in {"cpu": 2, "numa": 2, "pcie": 4, "gpu": 8}.items():
        assert svg.count(f'rx="3" fill="{FILLS[kind]}"') == count
    assert len(set(FILLS.values())) == len(FILLS)


def test_a_long_name_fits_the_picture() -> None:
    topology = replace(cluster("dgx1"), name="x" * 200)
    root = ElementTree.fromstring(topology_svg(topology))
    title = next(e for e in root.iter(f"{SVG}text") if e.text and e.text.startswith("x"))
    assert title.text is not None and "…" in title.text and len(title.text) * 8 < float(root.attrib["width"])


def test_a_torus_is_a_grid() -> None:
    places = drawing(cluster("torus_8x8")).vertices
    for k, box in enumerate(places):
        assert box.x == places[k % 8].x and box.y == places[k - k % 8].y


@pytest.mark.parametrize("example", ["v100_4p8_sharednic", "by kind"])
def test_the_picture_of_a_cluster_names_every_kind_of_wire(example: str) -> None:
    topology = drawn_cluster(example)
    svg = topology_svg(topology)
    said = " ".join(texts(svg))
    assert all(wire.kind in said for wire in topology.wires) and f"{topology.ranks} GPUs" in said
    assert svg == topology_svg(drawn_cluster(example))


def texts(svg: str) -> Iterator[str]:
    for element in ElementTree.fromstring(svg).iter():
        if element.text and element.tag in (f"{SVG}text", f"{SVG}tspan", f"{SVG}title", f"{SVG}desc"):
            yield element.text


def test_the_picture_shows_every_step_with_its_transfers() -> None:
    found = made("h20_4p8")
    schedule = found.solution.schedule
    said = " ".join(texts(schedule_svg(found.topology, found.problem, schedule, "a title")))
    assert "a title" in said
    for number, step in enumerate(schedule.steps()):
        assert f"Step {number + 1}" in said and f"step {number + 1}: {len(step)}" in said


def test_a_wire_is_drawn_as_often_as_servers_send_over_it() -> None:
    found = made("h20_4p8")
    svg = schedule_svg(found.topology, found.problem, found.solution.schedule, "t")
    expected = 0
    for step in found.solution.schedule.steps():
        pairs = set()
        for t in step:
            origin = found.problem.collective.chunks[t.chunk].block[0]
            server = found.topology.vertices[origin].server
            pairs |= {(wire, server) for wire in found.topology.links[t.link].wires}
        expected += len(pairs)
    assert svg.count('opacity="0.85"') == expected


def test_a_hostile_title_is_text() -> None:
    found = made("h20_4p8")
    title = "</text><script>alert(1)</script>\x00\x1b\ud800&"
    svg = schedule_svg(replace(found.topology, name="<b>"), found.problem, found.solution.schedule, title)
    root = ElementTree.fromstring(svg)
    assert not list(root.iter(f"{SVG}script"))
    shown = "</text><script>alert(1)</script>\\u0000\\u001b\\ud800&"
    assert root.find(f"{SVG}title").text == shown  # type: ignore[union-attr]


def test_a_long_schedule_says_that_steps_are_left_out() -> None:
    found = made("h20_4p8", "allgather", "ring")
    steps = found.solution.schedule.makespan
    svg = schedule_svg(found.topology, found.problem, found.solution.schedule, "t")
    panels = min(steps, MAX_PANELS)
    assert svg.count('href="#wires"') == panels
    assert (f"the first {MAX_PANELS} of {steps} steps" in svg) == (steps > MAX_PANELS)


@pytest.mark.slow
def test_the_pictures_of_the_documentation_are_up_to_date(tmp_path: Path) -> None:
    pictures = Path(__file__).resolve().parents[2] / "docs" / "pictures"
    run_path(str(pictures / "make.py"))["make"](tmp_path)
    new = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert new and new == {name: (pictures / name).read_bytes() for name in new}
