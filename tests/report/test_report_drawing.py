"""The drawing: nothing overlaps, everything is inside, wires meet what they join; the picture is well-formed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from runpy import run_path
from xml.etree import ElementTree

import pytest
from support.reports import cluster, made

from hetesynth.report.boxes import Box
from hetesynth.report.drawing import drawing
from hetesynth.report.svg import MAX_PANELS, schedule_svg

CLUSTERS = [
    "h20_4p8",
    "dgx1",
    "v100_4p8_sharednic",
    "ndv2_x4",
    "mesh_8x8",
    "h20_64",
    "two_dc_50km",
    "dgx2_x2",
    "mi250_x1",
]
SVG = "{http://www.w3.org/2000/svg}"


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def inside(a: Box, b: Box) -> bool:
    return b.x <= a.x and b.y <= a.y and a.x + a.width <= b.x + b.width and a.y + a.height <= b.y + b.height


@pytest.mark.parametrize("example", CLUSTERS)
def test_nothing_overlaps_and_all_is_inside(example: str) -> None:
    topology = cluster(example)
    drawn = drawing(topology)
    page = Box(0, 0, drawn.width, drawn.height)
    assert [(a, b) for a, b in combinations(drawn.vertices, 2) if overlap(a, b)] == []
    assert [(a, b) for a, b in combinations([s.box for s in drawn.servers], 2) if overlap(a, b)] == []
    assert all(inside(box, page) for box in (*drawn.vertices, *(s.box for s in drawn.servers)))
    frames = {s.name: s.box for s in drawn.servers}
    for vertex, box in zip(topology.vertices, drawn.vertices, strict=True):
        frame = frames.get(vertex.server)
        assert frame is None or inside(box, frame), vertex.name


@pytest.mark.parametrize("example", CLUSTERS)
def test_captions_are_inside_and_beside_the_hardware(example: str) -> None:
    topology = cluster(example)
    drawn = drawing(topology)
    for server in drawn.servers:
        lines = [server.caption_y + 13 * k for k in range(len(server.captions))]
        assert server.box.y + 8 <= lines[0] and lines[-1] + 3 <= server.box.y + server.box.height
        mine = [b for v, b in zip(topology.vertices, drawn.vertices, strict=True) if v.server == server.name]
        for line in lines:
            assert not any(b.y < line and line - 9 < b.y + b.height for b in mine if inside(b, server.box))


@pytest.mark.parametrize("example", CLUSTERS)
def test_wires_end_at_what_they_join(example: str) -> None:
    topology = cluster(example)
    drawn = drawing(topology)
    for wire, curve in zip(topology.wires, drawn.wires, strict=True):
        for vertex, x, y in ((wire.src, curve.x1, curve.y1), (wire.dst, curve.x2, curve.y2)):
            box = drawn.vertices[vertex]
            wide = Box(box.x - 6, box.y - 6, box.width + 12, box.height + 12)
            assert inside(Box(x, y, 0, 0), wide), topology.wire_name(topology.wires.index(wire))


@pytest.mark.parametrize("example", CLUSTERS)
def test_bent_wires_stay_on_the_page(example: str) -> None:
    drawn = drawing(cluster(example))
    middles = [0.25 * (w.y1 + 2 * w.cy + w.y2) for w in drawn.wires]
    assert min(middles) >= 0 and max(middles) <= drawn.height


def test_the_two_directions_of_a_connection_are_apart() -> None:
    topology = cluster("h20_4p8")
    drawn = drawing(topology)
    by_ends = {(w.src, w.dst): c for w, c in zip(topology.wires, drawn.wires, strict=True)}
    for (a, b), curve in by_ends.items():
        back = by_ends[b, a]
        assert abs(curve.x1 - back.x2) + abs(curve.y1 - back.y2) > 2


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


def test_the_pictures_of_the_documentation_are_up_to_date(tmp_path: Path) -> None:
    pictures = Path(__file__).resolve().parents[2] / "docs" / "pictures"
    run_path(str(pictures / "make.py"))["make"](tmp_path)
    new = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert new and new == {name: (pictures / name).read_bytes() for name in new}
