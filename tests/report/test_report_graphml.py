"""GraphML, parsed back by networkx: vertices and wires of the topology with their attributes."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import networkx as nx
import pytest
from support.reports import cluster

from hetesynth.report.svg import graphml


@pytest.mark.parametrize("example", ["h20_4p8", "v100_4p8", "mi250_x1", "two_dc_50km"])
def test_graphml_holds_every_vertex_and_wire(example: str) -> None:
    topology = cluster(example)
    graph = nx.read_graphml(BytesIO(graphml(topology)), force_multigraph=True)
    assert list(graph.nodes) == [v.name for v in topology.vertices]
    for rank in range(topology.ranks):
        node = graph.nodes[topology.vertices[rank].name]
        assert (node["rank"], node["server"], node["kind"]) == (rank, topology.servers[rank], "gpu")
    edges = [
        (topology.vertices[w.src].name, topology.vertices[w.dst].name, w.kind, w.lanes,
         None if w.bandwidth is None else float(w.bandwidth * w.lanes) / 1e9, float(w.latency) * 1e6)
        for w in topology.wires
    ]  # fmt: skip
    read = [
        (u, v, d["kind"], d["lanes"], d.get("gbytes_per_second"), pytest.approx(d["latency_us"]))
        for u, v, d in graph.edges(data=True)
    ]
    assert len(read) == len(edges)
    for edge in edges:
        assert edge in read


def test_names_that_xml_cannot_hold_are_written_as_text() -> None:
    topology = cluster("dgx1")
    odd = replace(topology.vertices[0], model='<b> & "\ufffe\x00')
    text = graphml(replace(topology, vertices=(odd, *topology.vertices[1:])))
    graph = nx.read_graphml(BytesIO(text), force_multigraph=True)
    assert graph.nodes["a.gpu0"]["model"] == '<b> & "?\\u0000'


def test_the_same_topology_gives_the_same_bytes() -> None:
    assert graphml(cluster("v100_4p8")) == graphml(cluster("v100_4p8"))
