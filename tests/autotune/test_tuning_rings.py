"""NCCL's graph dump as the order of rings: what is read, how servers are joined, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.nccl_graph import RingFile, read_rings, server_rings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DUMP = (
    Path(__file__).resolve().parents[3] / "shared" / "data" / "nccl_topo" / "azure__topology_ncv4-graph_dump.xml"
)


def dump(folder: Path, *rings: str, name: str = "ring.xml") -> Path:
    channels = "".join(
        "<channel>" + "".join(f'<gpu dev="{dev}"/>' for dev in ring.split()) + "</channel>" for ring in rings
    )
    path = folder / name
    path.write_text(f'<graphs version="1"><graph id="0" pattern="4">{channels}</graph></graphs>')
    return path


def test_devices_become_places(tmp_path: Path) -> None:
    assert read_rings(dump(tmp_path, "0 2 1 3", "0 3 2 1")) == ((0, 2, 1, 3), (0, 3, 2, 1))
    assert read_rings(dump(tmp_path, "4 0 6")) == ((1, 0, 2),)


def test_servers_follow_each_other_and_have_dumps_of_their_own(tmp_path: Path) -> None:
    topology = load_topology(EXAMPLES / "h20_4p8" / "topo.dsl")
    four, eight = dump(tmp_path, "0 2 1 3"), dump(tmp_path, "7 6 5 4 3 2 1 0", "0 1 2 3 4 5 6 7", name="eight.xml")
    rings = server_rings(topology, [RingFile(four), RingFile(eight, "b")])
    assert rings == ((0, 2, 1, 3, 11, 10, 9, 8, 7, 6, 5, 4), (0, 2, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11))
    for files in ([RingFile(four)], [RingFile(four, "b"), RingFile(four)], [RingFile(four, "z")]):
        with pytest.raises(HetesynthError) as refused:
            server_rings(topology, files)
        assert refused.value.code == "HS623" and refused.value.help


@pytest.mark.skipif(not DUMP.is_file(), reason="no conformance data beside the checkout")
def test_a_dump_of_nccl_itself() -> None:
    assert read_rings(DUMP) == ((0, 1, 2, 3), (0, 3, 2, 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ring 0 1 2",
        "<graphs/>",
        "<other/>",
        '<graphs><graph pattern="1"><channel><gpu dev="0"/></channel></graph></graphs>',
        '<graphs><graph pattern="4"><channel><gpu dev="0"/><gpu dev="0"/></channel></graph></graphs>',
        '<graphs><graph pattern="4"><channel><gpu dev="x"/></channel></graph></graphs>',
        '<graphs><graph pattern="4"><channel><gpu/></channel></graph></graphs>',
        '<graphs><graph pattern="4"><channel/></graph></graphs>',
        '<graphs><graph pattern="4">' + '<channel><gpu dev="0"/></channel>' * 65 + "</graph></graphs>",
        '<!DOCTYPE graphs [<!ENTITY a "0">]>'
        '<graphs><graph pattern="4"><channel><gpu dev="&a;"/></channel></graph></graphs>',
        '<graphs><graph pattern="4"><channel><gpu dev="0"/></channel>'
        '<channel><gpu dev="1"/></channel></graph></graphs>',
    ],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.xml"
    path.write_text(text)
    with pytest.raises(HetesynthError) as refused:
        read_rings(path)
    assert refused.value.code == "HS622"
