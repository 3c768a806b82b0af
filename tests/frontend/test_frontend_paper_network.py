"""Nodes joined by the paper form: one NIC for all pairs of a node, several nodes on one switch, contradictions."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction as F

import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.solve import bounds_of
from hetesynth.topology.language import parse_topology

GB = 10**9


def rates(topology: Topology) -> dict[tuple[int, int], tuple[F, int]]:
    return {(k.src, k.dst): (k.bandwidth, k.lanes) for k in topology.links}


def resources(topology: Topology) -> Counter[tuple[frozenset[tuple[int, int]], F]]:
    """What several pairs of GPUs draw from: the pairs and the bytes per second."""
    pairs: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for link in topology.links:
        for wire in link.wires:
            pairs[wire].add((link.src, link.dst))
    shared: Counter[tuple[frozenset[tuple[int, int]], F]] = Counter()
    for index, users in pairs.items():
        wire = topology.wires[index]
        if wire.bandwidth is not None and len(users) > 1:
            shared[frozenset(users), wire.bandwidth * wire.lanes] += 1
    for group in topology.groups:
        users = {(topology.links[i].src, topology.links[i].dst) for i in group.links}
        shared[frozenset(users), group.bandwidth * group.lanes] += 1
    return shared


def one_gpu_nodes(count: int, *joined: str) -> str:
    nodes = "".join(f"define node{i} = 1\n" for i in range(1, count + 1))
    return f"define nodenum = {count}\n{nodes}" + "\n".join(joined)


def nics_of(*rates: float) -> Counter[tuple[frozenset[tuple[int, int]], F]]:
    """One GPU a node: what leaves a node and what enters it shares its NIC."""
    ranks = range(len(rates))
    shared: Counter[tuple[frozenset[tuple[int, int]], F]] = Counter()
    for u, rate in enumerate(rates):
        shared[frozenset((u, v) for v in ranks if v != u), F(str(rate)) * GB] += 1
        shared[frozenset((v, u) for v in ranks if v != u), F(str(rate)) * GB] += 1
    return shared


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
    assert {key: rate for key, (rate, _) in rates(topology).items()} == {
        (u, v): 8 * GB for u in range(3) for v in range(3) if u != v
    }
    assert resources(topology) == nics_of(8, 8, 8)
    problem = chunk(topology).problem(collective("allgather", 3, 1, None))
    assert bounds_of(problem)[0].steps == 2


def test_the_rate_of_a_nic_is_the_largest_that_a_pair_states() -> None:
    topology = parse_topology(one_gpu_nodes(3, pair(1, 2, "(8,1)"), pair(3, 1, "(12.5,1)"), pair(3, 2, "(8,1)")))
    assert {(link.src, link.dst): link.bandwidth for link in topology.links} == {
        (u, v): (F(25, 2) if 1 not in (u, v) else 8) * GB for u in range(3) for v in range(3) if u != v
    }
    assert resources(topology) == nics_of(12.5, 8, 12.5)


def test_entries_of_one_pair_lie_side_by_side_on_the_nic() -> None:
    text = one_gpu_nodes(3, pair(1, 2, "(8,1)), ((0),(1) >-> (8,1)"), pair(1, 3, "(8,1)"))
    topology = parse_topology(text.replace("node2 = 1", "node2 = 2"))
    (out,) = [group for group in topology.groups if group.name == "node1_nic0_out"]
    assert (out.bandwidth, out.lanes) == (8 * GB, 2)


def test_a_wire_between_nodes_is_beside_the_nic() -> None:
    more = pair(1, 2, "(8,1)").replace("{", "{direct => [(0,0) -> (50,1)], ")
    topology = parse_topology(one_gpu_nodes(3, more, pair(1, 3, "(8,1)"), pair(2, 3, "(8,1)")))
    ends = {
        group.name: {(topology.links[i].src, topology.links[i].dst) for i in group.links}
        for group in topology.groups
    }
    assert rates(topology)[0, 1] == (50 * GB, 1) and rates(topology)[1, 0] == (8 * GB, 1)
    assert ends["node1_nic0_out"] == {(0, 2)} and ends["node1_nic0_in"] == {(1, 0), (2, 0)}


def test_a_nic_whose_gpus_failed_limits_nothing() -> None:
    text = one_gpu_nodes(3, pair(1, 2, "(8,1)), ((1),(0) >-> (9,1)"), pair(1, 3, "(8,1)), ((1),(0) >-> (9,1)"))
    text = text.replace("node1 = 1", "node1 = 2\ndefine bandwidth = {mesh => [(0,1) -> (25,2)]}")
    names = {group.name for group in parse_topology(text).groups}
    assert names == {"node1_nic0_out", "node1_nic0_in", "node1_nic1_out", "node1_nic1_in"}
    failed = parse_topology(text.replace("define node2", "define failure = {gpu => (0)}\ndefine node2"))
    assert {group.name for group in failed.groups} == {"node1_nic1_out", "node1_nic1_in"}


SHARED_BY_TWO = one_gpu_nodes(3, pair(1, 2, "(8,1)").replace("((0),", "((0,1),"), pair(1, 3, "(8,1)"))
TWO_RATES = one_gpu_nodes(3, pair(1, 2, "(8,1)), ((0),(0) >-> (9,1)"), pair(1, 3, "(8,1)"))
LATENCIES = "\ndefine interlatency = {switch => 1}\ndefine internode = (node1, node2)"

# name: text, code, part of the message
REFUSED = {
    "half of a NIC in another pair": (
        SHARED_BY_TWO.replace("node1 = 1", "node1 = 2"),
        "HS221",
        "shares its NIC with other GPUs here than on line 6",
    ),
    "two bandwidths of one NIC": (TWO_RATES, "HS221", "one NIC has links of two bandwidths"),
    "a node without NICs": (
        one_gpu_nodes(2, "define internode = (node1, node2)"),
        "HS221",
        "`node1` states none",
    ),
    "NICs and a bandwidth between nodes": (
        one_gpu_nodes(2, "define bandwidth = {nic => [(0) >-> (8,1)]}", pair(1, 2, "(8,1)")),
        "HS221",
        "`node2` states its NICs",
    ),
    "NICs joined to one node only": (
        ALL_OF_THREE[2].replace("(node3, node1, node2)", "(node3, node1)\ndefine internode = (node3, node2)"),
        "HS221",
        "the NICs of `node1` and `node2` are on one switch",
    ),
    "one switch with two latencies": (ALL_OF_THREE[2] + LATENCIES, "HS221", "one latency"),
    "a link type beside NICs": (
        ALL_OF_THREE[2] + "\ndefine interlinktype = {switch => ib}",
        "HS221",
        "of the type of their NICs",
    ),
    "one node": (one_gpu_nodes(2, "define internode = (node1)"), "HS221", "two nodes or more"),
    "a node twice": (one_gpu_nodes(2, "define internode = (node1, node1)"), "HS218", "joined to itself"),
    "a node that is not there": (
        one_gpu_nodes(2, "define internode = (node1, node7)"),
        "HS201",
        "no node `node7`",
    ),
    "a word that is no node": (one_gpu_nodes(2, "define internode = (node1, nod2)"), "HS201", "no node `nod2`"),
    "a wire among three nodes": (
        one_gpu_nodes(3, THREE, "define interbandwidth = {direct => [(0,0) -> (8,1)]}"),
        "HS221",
        "`direct` joins GPUs of two nodes",
    ),
    "lists for two nodes of three": (
        one_gpu_nodes(3, THREE, "define interbandwidth = {switch => [(0),(0) >-> (8,1)]}"),
        "HS221",
        "3 lists of GPU numbers",
    ),
    "a node like itself": (one_gpu_nodes(1, "define node2 = node3", "define node3 = node2"), "HS221", "by itself"),
    "a node like none": (one_gpu_nodes(1, "define node2 = node9"), "HS201", "no node `node9`"),
}


@pytest.mark.parametrize(("text", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_contradictions_get_a_message(text: str, code: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_topology(text)
    fitting = [d for d in caught.value.diagnostics if d.code == code and message in d.message]
    assert fitting and fitting[0].help


def test_a_switch_of_many_nodes_ends_in_a_message_in_time() -> None:
    """A text of 256 KiB can name more pairs of nodes than can be gone through."""
    nodes = "".join(f"define node{i} = 1\n" for i in range(1, 1001))
    joined = f"define internode = ({', '.join(f'node{i}' for i in range(1, 1001))})\n"
    pipes = f"define interbandwidth = {{switch => [{', '.join(['(0)'] * 1000)} >-> (8,1)]}}\n"
    with pytest.raises(SourceError, match="too many names"):
        parse_topology(f"define nodenum = 1000\n{nodes}{joined}{pipes}")


def test_many_nodes_like_a_large_one_end_in_a_message_in_time() -> None:
    nics = f"define bandwidth = {{nic => [{', '.join(['(0) >-> (1,1)'] * 1000)}]}}\n"
    nodes = "".join(f"define node{i} = node1\n" for i in range(2, 101))
    with pytest.raises(SourceError, match="too many names"):
        parse_topology(f"define nodenum = 100\ndefine node1 = 1\n{nics}{nodes}")
