"""A cluster as GraphML: its vertices and its wires with what they can carry, for graph tools.

In: a topology. Out: GraphML bytes, the same for the same input. Rates are GB/s, latencies microseconds.
"""

from __future__ import annotations

from hetesynth.model.topology import Topology
from hetesynth.report.svg_parts import printable


def graphml(topology: Topology) -> bytes:
    """The physical multigraph: a node for each vertex by name, an edge for each direction of a wire."""
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=printable(topology.name))
    names = [printable(vertex.name) for vertex in topology.vertices]
    for index, vertex in enumerate(topology.vertices):
        rank = {"rank": index} if index < topology.ranks else {}
        values = {"server": vertex.server, "host": str(getattr(vertex, "host", "")), "model": vertex.model}
        graph.add_node(
            names[index], kind=vertex.kind, **rank, **{key: printable(text) for key, text in values.items()}
        )
    for index, wire in enumerate(topology.wires):
        rate = {} if wire.bandwidth is None else {"gbytes_per_second": float(wire.bandwidth * wire.lanes / 10**9)}
        graph.add_edge(
            names[wire.src], names[wire.dst], key=index, kind=printable(wire.kind), lanes=wire.lanes,
            latency_us=float(wire.latency * 1_000_000), **rate,
        )  # fmt: skip
    return ("\n".join(nx.generate_graphml(graph)) + "\n").encode()
