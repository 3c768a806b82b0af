"""Nodes joined by the paper form: one NIC for all pairs of a node, several nodes on one switch, contradictions."""

from __future__ import annotations

import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.solve import bounds_of
from hetesynth.topology.language import parse_topology

GB = 10**9


def one_gpu_nodes(count: int, *joined: str) -> str:
    nodes = "".join(f"define node{i} = 1\n" for i in range(1, count + 1))
    return f"define nodenum = {count}\n{nodes}" + "\n".join(joined)


def pair(left: int, right: int, rate: str) -> str:
    joined = f"define internode = (node{left}, node{right})\n"
    return joined + f"define interbandwidth = {{switch => [((0),(0) >-> {rate})]}}"


THREE = "define internode = (node3, node1, node2)"
ALL_OF_THREE = [
    one_gpu_nodes(3, pair(1, 2, "(8,1)"), pair(3, 1, "(8,1)"), pair(3, 2, "(8,1)")),
    one_gpu_nodes(3, THREE, "define interbandwidth = {switch => [(0),(0),(0) >-> (8,1)]}"),
    """
    define nodenum = 3
    define internode = (node3, node1, node2)
    define node1 = 1
    define bandwidth = {nic => [(0) >-> (8,1)]}
    define node2 = node1
    define node3 = node2""",
]


@pytest.mark.parametrize("text", ALL_OF_THREE, ids=["pairs", "one switch", "nic"])
def test_a_node_has_one_nic_for_all_its_pairs(text: str) -> None:
    topology = parse_topology(text)
    assert len(topology.links) == 6 and {link.bandwidth for link in topology.links} == {8 * GB}
    problem = chunk(topology).problem(collective("allgather", 3, 1, None))
    assert bounds_of(problem)[0].steps == 2


SHARED_BY_TWO = one_gpu_nodes(3, pair(1, 2, "(8,1)").replace("((0),", "((0,1),"), pair(1, 3, "(8,1)"))
TWO_RATES = one_gpu_nodes(3, pair(1, 2, "(8,1)), ((0),(0) >-> (9,1)"), pair(1, 3, "(8,1)"))
LATENCIES = "\ndefine interlatency = {switch => 1}\ndefine internode = (node1, node2)"

# name: text, code, part of the message
REFUSED = {
    "half of a NIC in another pair": (
        SHARED_BY_TWO.replace("node1 = 1", "node1 = 2"),
        "HS221",
        "shares its NIC with other GPUs elsewhere",
    ),
    "two bandwidths of one NIC": (TWO_RATES, "HS221", "one NIC has links of two bandwidths"),
    "NICs and a bandwidth between nodes": (
        one_gpu_nodes(2, "define bandwidth = {nic => [(0) >-> (8,1)]}", pair(1, 2, "(8,1)")),
        "HS221",
        "`node2` states its NICs",
    ),
    "NICs joined to one node only": (
        ALL_OF_THREE[2].replace("(node3, node1, node2)", "(node3, node1)\ndefine internode = (node3, node2)"),
        "HS221",
        "which joins each two",
    ),
    "one switch with two latencies": (ALL_OF_THREE[2] + LATENCIES, "HS221", "one latency"),
    "a node twice": (one_gpu_nodes(2, "define internode = (node1, node1)"), "HS221", "`internode` is not written"),
    "a node like itself": (one_gpu_nodes(1, "define node2 = node3", "define node3 = node2"), "HS221", "by itself"),
}


@pytest.mark.parametrize(("text", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_contradictions_get_a_message(text: str, code: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_topology(text)
    fitting = [d for d in caught.value.diagnostics if d.code == code and message in d.message]
    assert fitting and fitting[0].help
