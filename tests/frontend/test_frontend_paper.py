"""The paper form: Figure 10, its tolerance of parentheses, and the extensions the appendix names."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology, parse_topology

ROOT = Path(__file__).resolve().parents[2]
FIGURE = ROOT / "examples" / "fig10" / "topo.dsl"
GB = 10**9


def rates(topology: Topology) -> dict[tuple[int, int], tuple[F, int]]:
    return {(k.src, k.dst): (k.bandwidth, k.lanes) for k in topology.links}


def test_figure_10() -> None:
    topology = load_topology(FIGURE)
    assert topology.ranks == 6
    assert [v.server for v in topology.vertices[:6]] == ["node1"] * 2 + ["node2"] * 4
    expected = dict.fromkeys([(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4)], (25 * GB, 2))
    expected |= {pair: (16 * GB, 1) for u in (2, 3) for v in (4, 5) for pair in [(u, v), (v, u)]}
    expected |= {pair: (8 * GB, 1) for u in (0, 1) for v in (2, 3, 4, 5) for pair in [(u, v), (v, u)]}
    assert rates(topology) == expected


def test_figure_10_pipes_are_one_in_each_direction() -> None:
    topology = load_topology(FIGURE)
    users: dict[str, set[tuple[int, int]]] = {}
    for link in topology.links:
        for wire in link.wires:
            if topology.wires[wire].bandwidth is not None and len(link.wires) > 1:
                users.setdefault(topology.wire_name(wire), set()).add((link.src, link.dst))
    assert {name: len(pairs) for name, pairs in users.items()} == {
        "node2.switch0.fwd.in->node2.switch0.fwd.out": 4,
        "node2.switch0.rev.in->node2.switch0.rev.out": 4,
        "internode0_0.fwd.in->internode0_0.fwd.out": 8,
        "internode0_0.rev.in->internode0_0.rev.out": 8,
    }


SWITCHES = [
    "(((0,1),(2,3)) >-> (16,1))",
    "((0,1),(2,3)) >-> (16,1)",
    "((((0,1)),((2,3)))) >-> ((16,1))",
    "( ( (0,1) , (2,3) >-> (16,1) ) )",
    "(0,1), (2,3) >-> (16 GB/s)",
]


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("direct", ["((0,1)->(25,2)), ((1,0)->(25,2))", "(0,1)->(25,2), (1,0)->(25,2)"])
def test_redundant_parentheses(switch: str, direct: str) -> None:
    text = f"""define nodenum = 1
    define node1 = 4
    define bandwidth = {{switch => [{switch}], direct => [{direct}, (((2,3) -> (25,2))), ((3,2) -> (25,2))]}}"""
    found = rates(parse_topology(text))
    assert len(found) == 12
    assert found[0, 2] == (16 * GB, 1) and found[1, 0] == (25 * GB, 2) and found[3, 2] == (25 * GB, 2)


def test_latency_chunk_and_computational_profile() -> None:
    text = FIGURE.read_text() + ("define interlatency = {switch => 1.3 us}\ndefine chunk = 4 MiB\n")
    text = text.replace(
        "define node2", "define latency = {direct => 0.7 us}\ndefine reduce = 270 GB/s\ndefine node2"
    )
    topology = parse_topology(text)
    latency = {(k.src, k.dst): k.latency for k in topology.links}
    assert latency[0, 1] == F(7, 10**7) and latency[2, 3] == 0 and latency[0, 5] == F(13, 10**7)
    assert topology.chunk_bytes == 4 << 20
    assert topology.reduce_bandwidth == (270 * GB, 270 * GB, None, None, None, None)


def test_several_pairs_of_nodes() -> None:
    text = """define nodenum = 3
    define node1 = 1
    define node2 = 1
    define node3 = 1
    define internode = (node1, node2)
    define interbandwidth = {switch => [((0),(0)) >-> (8,1)]}
    define internode = (node3, node2)
    define interbandwidth = {direct => [(0,0) -> (100 Gbps, 4)]}"""
    assert rates(parse_topology(text)) == {
        (0, 1): (8 * GB, 1),
        (1, 0): (8 * GB, 1),
        (2, 1): (F(25 * GB, 2), 4),
    }


def test_gpu_numbers_are_local() -> None:
    text = FIGURE.read_text().replace("(0,1,2,3) >->", "(0,1,2,4) >->")
    with pytest.raises(SourceError, match=r"no `node2\.gpu4`"):
        parse_topology(text)


def test_the_unbalanced_figure_is_refused_with_the_place() -> None:
    text = FIGURE.read_text().replace("(8,1)))]}", "(8,1))]}")
    with pytest.raises(SourceError) as caught:
        parse_topology(text, "fig10.dsl")
    (finding,) = caught.value.diagnostics
    assert finding.code == "HS105" and finding.span.line == len(text.splitlines())
