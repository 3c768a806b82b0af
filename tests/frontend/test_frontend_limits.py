"""Short texts with a great many NICs, links or wires end soon, with links or a message."""

from __future__ import annotations

import time
from collections import Counter

import networkx as nx
import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import parse_topology, paths

NICS = "node n { gpus 1\nnic nic[0-%d] { bandwidth 1 GB/s }\nattach gpu0 -> nic* }\n"
UNEVEN = """
node h { gpus 2
  nic nic[0-6] { bandwidth 25 GB/s }
  attach gpu0 -> nic[0-4]; attach gpu1 -> nic[3-6] }
node k { gpus 3
  nic nic[0-2] { bandwidth 5 GB/s }
  for i in 0-2 { attach gpu[i] -> nic* }
  mesh gpu* { bandwidth 1 GB/s } }
cluster c {
  instance a[0-2] = h
  instance b[0-1] = k
  for i in 0-2 { fabric f[i] { join *.nic[i] } }
  fabric g { join a*.nic[3-6] }
  switch s { ports f*, g; bandwidth 3 GB/s } }
"""
SERVER = "node n { gpus 2\nmesh gpu* { bandwidth 9 GB/s }\nnic nic0 { bandwidth 1 GB/s }\nattach gpu* -> nic0 }\n"


def refused(text: str) -> tuple[str, str]:
    """The code of the only finding, and all that is said."""
    with pytest.raises(SourceError) as caught:
        parse_topology(text)
    (finding,) = caught.value.diagnostics
    return finding.code, f"{finding.message} {finding.help}"


def nics_of(topology: Topology) -> dict[tuple[int, int], list[tuple[str, ...]]]:
    """The NICs that each link crosses, by pair of ranks."""
    result: dict[tuple[int, int], list[tuple[str, ...]]] = {}
    for link in topology.links:
        between = [topology.vertices[topology.wires[wire].dst] for wire in link.wires[:-1]]
        nics = tuple(vertex.name for vertex in between if vertex.kind == "nic")
        result.setdefault((link.src, link.dst), []).append(nics)
    return result


def test_thousands_of_nics_of_a_pair_are_paired_in_seconds() -> None:
    start = time.process_time()
    topology = parse_topology(NICS % 4095 + "cluster c { instance a[0-1] = n\nfabric f { join *.nic* } }")
    assert time.process_time() - start < 60, "it took minutes, and ten gigabytes"
    pairs = nics_of(topology)
    assert pairs[0, 1] == [(f"a0.nic{i}", f"a1.nic{i}") for i in range(4096)]
    assert pairs[1, 0] == [(f"a1.nic{i}", f"a0.nic{i}") for i in range(4096)]


def test_pairs_with_uneven_nics_use_every_nic_on_a_shortest_path() -> None:
    """Against shortest paths of networkx; NICs of the slower side are used in turn."""
    topology = parse_topology(UNEVEN)
    graph = nx.DiGraph()
    for wire in topology.wires:
        if wire.src >= topology.ranks and wire.dst >= topology.ranks:
            graph.add_edge(wire.src, wire.dst)
    around: dict[int, list[int]] = {}
    for wire in topology.wires:
        if wire.src < topology.ranks <= wire.dst:
            around.setdefault(wire.src, []).append(wire.dst)
    for (u, v), crossed in nics_of(topology).items():
        if crossed == [()]:
            continue
        far = {(a, b): nx.shortest_path_length(graph, a, b) for a in around[u] for b in around[v] if a != b}
        good = [pair for pair, length in far.items() if length == min(far.values())]
        name = [vertex.name for vertex in topology.vertices]
        assert {nics[0] for nics in crossed} == {name[a] for a, _ in good} or len({a for a, _ in good}) == 1
        assert {nics[-1] for nics in crossed} == {name[b] for _, b in good} or len({b for _, b in good}) == 1
        assert max(Counter(crossed).values()) <= paths.MAX_WAYS


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MAX_LINKS", "more than 50 links"),
        ("MAX_PATH_WIRES", "cross more than 50 wires"),
        ("MAX_STEPS", "50 steps"),
    ],
)
def test_past_a_limit_of_links_a_finding_ends_the_work(
    limit: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, limit, 50)
    code, text = refused(NICS % 3 + "cluster c { instance a[0-7] = n\nfabric f { join *.nic* } }")
    assert code == "HS208" and words in text


def test_searching_again_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    links = parse_topology(UNEVEN).links
    monkeypatch.setattr(paths, "KEPT_STATES", 0)
    assert parse_topology(UNEVEN).links == links


@pytest.mark.parametrize("size", ["2" + "x1" * 80_000, "9" + "x9999999" * 20_000])
def test_a_grid_has_few_sizes(size: str) -> None:
    code, text = refused(
        f"node n {{ gpus 2\ntorus gpu* {size} {{ bandwidth 1 GB/s }} }}\ncluster c {{ instance a = n }}"
    )
    assert code == "HS208" and "at most 16 sizes" in text and len(text) < 200


@pytest.mark.parametrize(
    "statement",
    [
        "switch s { ports *.nic*; bandwidth 1 GB/s }",
        "switch s { port a0.nic0 1 GB/s; port a1.nic0 2 GB/s }",
        "pcie s { ports a0.nic0, a1.nic0, a0.gpu0; bandwidth 1 GB/s }",
        "bus s { members a0.nic0, a1.nic0; bandwidth 1 GB/s }",
        "switch s { }\nlink *.nic0 <-> s { bandwidth 1 GB/s }",
    ],
)
def test_nics_below_what_is_no_network_are_refused(statement: str) -> None:
    """No data would leave the servers."""
    code, text = refused(f"{SERVER}cluster c {{ instance a[0-1] = n\n{statement} }}")
    assert code == "HS211" and "leads nowhere" in text and "fabric s { join *.nic* }" in text


def test_the_networks_of_the_way_out_join_nics() -> None:
    for network in ("fabric s { join *.nic* }", "router s { ports *.nic*; bandwidth 1 GB/s }"):
        assert len(parse_topology(f"{SERVER}cluster c {{ instance a[0-1] = n\n{network} }}").links) == 12


def test_a_switch_of_one_server_may_be_stated_in_the_cluster() -> None:
    text = "node n { gpus 2\nnic nic0 { bandwidth 1 GB/s } }\n"
    text += "cluster c { instance a[0-1] = n\nfor s in a0, a1 { switch p_[s] { ports [s].*; bandwidth 2 GB/s } }\n"
    assert len(parse_topology(text + "fabric f { join *.nic* } }").links) == 12
    ports = "port [s].gpu* 2 GB/s; port [s].nic0 1 GB/s"
    text = text.replace("ports [s].*; bandwidth 2 GB/s", ports)
    assert len(parse_topology(text + "fabric f { join *.nic* } }").links) == 12


def test_a_name_that_loops_look_for_in_vain_is_told_once() -> None:
    """Guessing what was meant for each of thirty thousand took minutes."""
    servers = f"{SERVER}cluster c {{ instance a[0-255] = n\nfabric f {{ join *.nic* }}\n"
    loops = "for i in 0-249 { for j in (i+1)-249 { link r[i] <-> f { bandwidth 1 GB/s } } } }"
    start = time.process_time()
    code, text = refused(servers + loops)
    assert code == "HS201" and "has no `r0`" in text and time.process_time() - start < 30
