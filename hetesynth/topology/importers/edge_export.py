"""A topology -> the JSON list of nodes, directed links and groups that ``edge_list.py`` reads.

Nothing is left out: every wire is a link. GPUs are numbered by rank; what forwards has its own name, with that of
its server in front only where two would be the same. A wire that never limits has ``GBps`` null.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from hetesynth.model.topology import Topology

_TYPES = {"fabric": "switch", "router": "border_router"}


def edge_document(topology: Topology) -> dict[str, Any]:
    """Return the document, ready for JSON."""
    short = [vertex.name.rpartition(".")[2] for vertex in topology.vertices]
    counts = Counter(short)
    ids: list[int | str] = [*range(topology.ranks)]
    for vertex, name in zip(topology.vertices[topology.ranks :], short[topology.ranks :], strict=True):
        ids.append(name if counts[name] == 1 else vertex.name)
    servers: dict[str, int] = {}
    for vertex in topology.vertices[: topology.ranks]:
        servers.setdefault(vertex.server, len(servers))
    return {
        "name": topology.name,
        "units": {"GBps": "1e9 bytes/s, one direction", "alpha_us": "microseconds per transfer"},
        "nodes": [
            {
                "id": ids[i],
                "type": _TYPES.get(vertex.kind, vertex.kind),
                "server": servers.get(vertex.server, -1),
                "model": vertex.model,
                **({"host": vertex.host} if vertex.host else {}),
            }
            for i, vertex in enumerate(topology.vertices)
        ],
        "links": [
            {
                "src": ids[wire.src],
                "dst": ids[wire.dst],
                "GBps": None if wire.bandwidth is None else _number(wire.bandwidth * wire.lanes / 10**9),
                "alpha_us": _number(wire.latency * 10**6),
                "kind": wire.kind,
                "count": wire.lanes,
            }
            for wire in topology.wires
        ],
        "groups": [
            {
                "name": group.name,
                "kind": group.kind,
                "GBps": _number(group.bandwidth * group.lanes / 10**9),
                **({"count": group.lanes} if group.lanes > 1 else {}),
                # the ends of links, each pair once
                "edges": [
                    list(pair)
                    for pair in dict.fromkeys((topology.links[i].src, topology.links[i].dst) for i in group.links)
                ],
            }
            for group in topology.groups
        ],
    }


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
