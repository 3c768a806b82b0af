"""Networks in one line, compared with the graphs that networkx makes and with formulas worked out here."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction as F
from itertools import combinations

import networkx as nx
import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import parse_topology

GB = 10**9
SERVER = """
node n(nics = 2, rate = 400 Gbps) {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 100 GB/s }
  nic nic[0-(nics-1)] { bandwidth (rate) }
  attach gpu0 -> nic*
}
"""


def inside(statement: str, gpus: int) -> Topology:
    return parse_topology(f"node n {{ gpus {gpus}\n{statement} }}\ncluster c {{ instance a = n }}")


def cluster(statements: str) -> Topology:
    return parse_topology(f"{SERVER}\ncluster c {{\n{statements}\n}}")


def wires(topology: Topology) -> dict[tuple[str, str], F]:
    """The rate of each limiting wire in GB/s, by the names of its ends."""
    name = [vertex.name for vertex in topology.vertices]
    ends = [(name[w.src], name[w.dst]) for w in topology.wires if w.bandwidth is not None]
    assert len(set(ends)) == len(ends)
    return {
        (name[w.src], name[w.dst]): w.bandwidth * w.lanes / GB for w in topology.wires if w.bandwidth is not None
    }


def edges(topology: Topology) -> set[frozenset[int]]:
    """The pairs of GPUs with a link; each has one in both directions."""
    count = Counter((link.src, link.dst) for link in topology.links)
    assert set(count.values()) == {1}
    assert all((v, u) in count for u, v in count)
    return {frozenset(pair) for pair in count}


def numbered(graph: nx.Graph[object]) -> set[frozenset[int]]:
    """The edges of ``graph``, its nodes numbered in their own order."""
    number = {node: i for i, node in enumerate(sorted(graph.nodes))}  # type: ignore[type-var]
    return {frozenset((number[u], number[v])) for u, v in graph.edges}


@pytest.mark.parametrize("size", [2, 3, 4, 7, 16])
def test_a_ring(size: int) -> None:
    assert edges(inside("ring gpu* { bandwidth 25 GB/s }", size)) == numbered(nx.cycle_graph(size))


@pytest.mark.parametrize("sizes", [(4, 4), (2, 3), (3, 2, 2), (1, 5), (2, 2, 2, 2), (3, 4, 5)])
@pytest.mark.parametrize("kind", ["grid", "torus"])
def test_a_grid_and_a_torus(kind: str, sizes: tuple[int, ...]) -> None:
    total, shown = 1, "x".join(map(str, sizes))
    for size in sizes:
        total *= size
    graph = nx.grid_graph(list(reversed(sizes)), periodic=kind == "torus")
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    assert edges(inside(f"{kind} gpu* {shown} {{ bandwidth 25 GB/s; kind ici }}", total)) == numbered(graph)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5])
def test_a_hypercube(dimensions: int) -> None:
    topology = inside("hypercube gpu* { bandwidth 25 GB/s x 2; latency 0.7 us }", 2**dimensions)
    assert edges(topology) == numbered(nx.hypercube_graph(dimensions))
    assert {(k.bandwidth, k.lanes, k.latency) for k in topology.links} == {(F(25 * GB), 2, F(7, 10**7))}


def test_rails_without_a_spine_are_apart_and_equal_ranges_of_fabrics() -> None:
    rails = cluster("instance a[0-3] = n\nrails R { join a*.nic*; latency 1 us }")
    fabrics = cluster("instance a[0-3] = n\nfabric R[0-1] { join a*.nic[0-1]; latency 1 us }")
    assert rails == fabrics
    assert not [pair for pair in wires(rails) if pair[0].startswith("R") and pair[1].startswith("R")]


@pytest.mark.parametrize("over", ["1", "2", "1.5", "(7/3)"])
def test_leaves_and_spines(over: str) -> None:
    text = f"instance a[0-4] = n\nleafspine L {{ join *.nic*; servers 2; spines 3; oversubscription {over} }}"
    laid = wires(cluster(text))
    factor = F(7, 3) if over.startswith("(") else F(over)
    for leaf, servers in enumerate(((0, 1), (2, 3), (4,))):
        assert {s for s in range(5) if (f"a{s}.nic1", f"L_leaf{leaf}") in laid} == set(servers)
        rates = [laid[f"L_leaf{leaf}", f"L_spine{s}"] for s in range(3)]
        assert rates == [laid[f"L_spine{s}", f"L_leaf{leaf}"] for s in range(3)]
        assert sum(rates) * factor == len(servers) * 2 * 50
    assert not [pair for pair in laid if pair[0].startswith("L_spine") and pair[1].startswith("L_spine")]


@pytest.mark.parametrize(("groups", "routers", "each"), [(2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 3, 1), (9, 4, 1)])
def test_a_dragonfly(groups: int, routers: int, each: int) -> None:
    text = f"instance a[0-{groups * routers * each - 1}] = n\ndragonfly D {{ join *.nic*; groups {groups}; "
    laid = wires(cluster(text + f"routers {routers}; bandwidth 90 GB/s; global 30 GB/s }}"))
    graph = nx.Graph([pair for pair in laid if all(end.startswith("D_") for end in pair)])
    assert len(graph) == groups * routers
    group = {name: int(re.findall(r"\d+", name)[0]) for name in graph}
    inner = {frozenset(edge) for edge in graph.edges if group[edge[0]] == group[edge[1]]}
    assert inner == {frozenset(p) for p in combinations(graph, 2) if group[p[0]] == group[p[1]]}
    outer = Counter(frozenset((group[u], group[v])) for u, v in graph.edges if group[u] != group[v])
    assert outer == dict.fromkeys([frozenset(p) for p in combinations(range(groups), 2)], 1)
    assert all(laid[u, v] == (90 if group[u] == group[v] else 30) for u, v in graph.edges)
    ends = Counter(end for u, v in graph.edges if group[u] != group[v] for end in (u, v))
    assert max(ends.values()) - min(ends[name] for name in graph) <= 1
    servers = Counter(b for a, b in laid if a.endswith("nic0"))
    assert set(servers.values()) == {each}


@pytest.mark.parametrize(
    ("statements", "code", "shown"),
    [
        ("grid a*.gpu0 2x3 { bandwidth 9 GB/s }", "HS212", "these are 4"),
        ("torus a*.gpu0 0x4 { bandwidth 9 GB/s }", "HS212", "these are 4"),
        ("hypercube a[0-2].gpu0 { bandwidth 9 GB/s }", "HS212", "these are 3"),
        ("ring a0.gpu0 { bandwidth 9 GB/s }", "HS212", "these are 1"),
        ("ring a*.gpu0 { latency 1 us }", "HS209", "bandwidth"),
        ("rails R { join a*.nic*, b.nic0 }", "HS212", "`b` has 1"),
        ("rails R { join a*.gpu* }", "HS211", "no NIC"),
        ("rails R { latency 1 us }", "HS209", "needs `join`"),
        ("fabric f[0-2] { join a*.nic* }", "HS212", "`a0` has 2"),
        ("leafspine L { join a*.nic*; servers 2; spines 2 }", "HS209", "one of them"),
        ("leafspine L { join a*.nic*; servers 2; oversubscription 1 }", "HS209", "`spines`"),
        ("leafspine L { join a*.nic*; servers 2; spines 99999; uplink 9 GB/s }", "HS208", "`spines`"),
        ("leafspine L { join a*.nic*; servers 2; spines 2; oversubscription 0 }", "HS208", "more than zero"),
        (
            "dragonfly D { join a*.nic*; groups 3; routers 1; bandwidth 9 GB/s; global 9 GB/s }",
            "HS212",
            "3 groups",
        ),
        ("dragonfly D { join a*.nic*; groups 2; routers 2; bandwidth 9 GB/s }", "HS209", "`global`"),
    ],
)
def test_what_does_not_fit(statements: str, code: str, shown: str) -> None:
    with pytest.raises(SourceError) as caught:
        cluster(f"instance a[0-3] = n\ninstance b = n\n{statements}")
    found_codes = [(d.code, shown in d.message) for d in caught.value.diagnostics]
    assert (code, True) in found_codes, caught.value.render()
