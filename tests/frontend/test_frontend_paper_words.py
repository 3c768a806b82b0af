"""Words of the paper form beyond Figure 10: ports, NICs, PCIe switches, groups, failures, and messages."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology, parse_topology

FIGURE = Path(__file__).resolve().parents[2] / "examples" / "fig10" / "topo.dsl"
GB = 10**9


def rates(topology: Topology) -> dict[tuple[int, int], tuple[F, int]]:
    return {(k.src, k.dst): (k.bandwidth, k.lanes) for k in topology.links}


def node(*statements: str, gpus: int = 4) -> Topology:
    return parse_topology(f"define nodenum = 1\ndefine node1 = {gpus}\n" + "\n".join(statements))


PORTS = "define bandwidth = {port => [(0,1,2,3) -> (450,1)]}"


def test_latency_of_an_entry() -> None:
    wires = "direct => [(0,1) -> (25,2,0.9 us), (1,0) -> (25,2,0.4)], mesh => [(1,2,3) -> (25,1)]"
    topology = node(f"define bandwidth = {{{wires}}}", "define latency = {direct => 5 us, mesh => 0.7}", gpus=4)
    latency = {(link.src, link.dst): link.latency * 10**7 for link in topology.links}
    assert (latency[0, 1], latency[1, 0], latency[1, 2]) == (9, 4, 7)


def test_groups_limit_edges_together() -> None:
    topology = node(
        PORTS, "define group = {upi => ([(0,1) -> (2,3), (2) -> (0)], (48,1)), one => ((3) -> (0), (64 Gbps))}"
    )
    ends = [{(topology.links[i].src, topology.links[i].dst) for i in group.links} for group in topology.groups]
    assert ends == [{(0, 2), (0, 3), (1, 2), (1, 3), (2, 0)}, {(3, 0)}]
    limits = [(group.name, group.bandwidth) for group in topology.groups]
    assert limits == [("node1.upi", 48 * GB), ("node1.one", 8 * GB)]


def test_groups_between_nodes() -> None:
    text = """define nodenum = 3
    define node1 = 1
    define node2 = 1
    define node3 = 1
    define internode = (node1, node2, node3)
    define interbandwidth = {switch => [(0),(0),(0) >-> (8,1)]}
    define intergroup = {core => ([(node1) -> (node2, node3.gpu0)], (10,1))}"""
    topology = parse_topology(text)
    (core,) = [group for group in topology.groups if group.name == "core"]
    assert {(topology.links[i].src, topology.links[i].dst) for i in core.links} == {(0, 1), (0, 2)}


def test_failures_and_slowdowns() -> None:
    nics = PORTS.replace("}", ", nic => [(0,1) >-> (50,1), (2,3) >-> (50,1)]}")
    text = (
        f"define nodenum = 2\ndefine node1 = 4\n{nics}\ndefine failure = {{gpu => (1), nic => (1)}}\n"
        "define node2 = node1\ndefine slowdown = {nic => [((1) -> 18 Gbps)]}\ndefine internode = (node2, node1)"
    )
    topology = parse_topology(text)
    assert topology.ranks == 7 and set(topology.notes) == {"node1.gpu1 is disabled", "node1.nic1 is disabled"}
    assert rates(topology)[0, 3] == (50 * GB, 1) and rates(topology)[0, 6] == (F(9, 4) * GB, 1)
    assert (1, 3) not in rates(topology)
    slow = parse_topology(text.replace("[((1) -> 18 Gbps)]", "(2.25, 1)"))
    assert rates(slow)[0, 3] == rates(slow)[0, 6] == (F(9, 4) * GB, 1)


def test_pcie_switches_without_nics_lead_to_what_joins_nodes() -> None:
    """Two GPUs behind a PCIe switch share it towards the other module and towards the other node."""
    text = """define nodenum = 2
    define node1 = 4
    define bandwidth = {pcie => [(0,1) >-> (16,1), (2,3) >-> (16,1)], switch => [(0,1),(2,3) >-> (48,1)],
                        mesh => [(0,1) -> (25,1), (2,3) -> (25,1)]}
    define node2 = 1
    define internode = (node1, node2)
    define interbandwidth = {switch => [(0,1,2,3),(0) >-> (100,1)]}"""
    topology = parse_topology(text)
    names = [topology.wire_name(i) for i in range(len(topology.wires))]
    out = names.index("node1.pcie0.fwd.in->node1.pcie0.fwd.out")
    leaving = {(link.src, link.dst) for link in topology.links if out in link.wires}
    assert leaving == {(u, v) for u in (0, 1) for v in (2, 3, 4)}
    assert rates(topology)[0, 4] == rates(topology)[0, 2] == (16 * GB, 1) and rates(topology)[0, 1] == (25 * GB, 1)


@pytest.mark.parametrize(
    ("statements", "code", "message"),
    [
        ("define bandwidth = {prot => [(0,1) -> (25,1)]}", "HS220", "did you mean `port`"),
        ("define slowdwn = {nic => 8}", "HS220", "did you mean `slowdown`"),
        ("define failure = {gpu => node1}", "HS221", "a failure names numbers"),
        ("define failure = {gpu => (7)}", "HS201", "has no `gpu7`"),
        ("define slowdown = {nic => 8}", "HS202", "matches nothing"),
        ("define latency = {direct => (1,2)}", "HS221", "a latency is a time"),
        ("define latency = {direct => 1, direct => 2}", "HS203", "given twice"),
        ("define linktype = {port => 3}", "HS221", "a link type is a word"),
        ("define model = 3", "HS221", "`model` takes a word"),
        ("define group = 3", "HS221", "takes a mapping"),
        ("define group = {upi => [(0,1) -> (48,1)]}", "HS221", "a group is its edges"),
        ("define group = {upi => ((0) -> (node1), (48,1))}", "HS221", "lists of GPU numbers"),
        ("define intergroup = {upi => ((0) -> (node1), (48,1))}", "HS221", "lists of nodes"),
        ("define intergroup = {upi => ((node3) -> (node1), (48,1))}", "HS201", "no node `node3`"),
        ("define bandwidth = {pcie => [(0,1) >-> (16,1), (1,2) >-> (16,1)]}", "HS218", "two PCIe switches"),
        (
            "define bandwidth = {pcie => [(0,1) >-> (16,1)], nic => [(0) >-> (8,1)]}",
            "HS221",
            "GPUs that are not named here: 1",
        ),
        (
            "define bandwidth = {pcie => [(0,1) >-> (16,1)], nic => [(0,1) >-> (8,1), (0,1) >-> (8,1)]}",
            "HS221",
            "a second one",
        ),
        ("define interlatency = {switch => 1}", "HS221", "none is defined yet"),
        ("define reduce = 1 GB/s\ndefine reduce = 2 GB/s", "HS203", "defined twice"),
    ],
)
def test_wrong_words_get_a_message(statements: str, code: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        node(statements)
    assert any(d.code == code and message in d.message + d.help for d in caught.value.diagnostics)


def test_a_folder_of_any_name_names_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "3-nodes.dsl"
    path.write_text(FIGURE.read_text())
    assert load_topology(path).name == "_3_nodes"
