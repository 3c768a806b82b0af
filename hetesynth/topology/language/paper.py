"""The paper form (HeteCCL, Appendix A, Figure 10), lowered to the block form.

In: a ``File`` of ``define`` statements. Out: a ``File`` of node types and one cluster, with the original spans.
Bandwidths without a unit are GB/s a lane and one direction, as in the figure, latencies without one microseconds.
GPU numbers are local to a node.
"""

from __future__ import annotations

import re
from pathlib import Path

from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.paper_definitions import Definitions, amount_of, gathered
from hetesynth.topology.language.paper_network import Network
from hetesynth.topology.language.paper_node import groups, node_of
from hetesynth.topology.language.syntax import Cluster, ClusterItem, Define, File, NodeType, Property, Word
from hetesynth.topology.language.units import count

MAX_NODES = 1024
MAX_NAME = 60


def lowered(file: File, findings: Findings) -> File:
    """``file`` with its ``define`` statements replaced by node types and a cluster; else unchanged."""
    defines = [item for item in file.items if isinstance(item, Define)]
    if not defines:
        return file
    others = [item for item in file.items if not isinstance(item, Define)]
    if others:
        help_ = "keep either the `define` statements or the `node` and `cluster` blocks"
        findings.add("HS222", defines[0].span, "a file is in the paper form or in the block form, not both", help_)
        findings.raise_any()
    return File(file.name, _items(gathered(defines, findings), defines[0], findings))


def _items(definitions: Definitions, first: Define, findings: Findings) -> tuple[NodeType | Cluster, ...]:
    """The node types and the cluster."""
    _check_nodenum(definitions, first, findings)
    if len(definitions.nodes) > MAX_NODES:
        findings.add("HS208", first.span, f"the cluster has more than {MAX_NODES} nodes", "define fewer")
        findings.raise_any()
    nodes = {name: node_of(definition, findings) for name, definition in definitions.nodes.items()}
    network = Network(nodes, findings)
    inside: list[ClusterItem] = [*_chunk(definitions.of_cluster.get("chunk"), findings)]
    inside += [node.instance for node in nodes.values()]
    inside += network.items(definitions.internodes)
    inside += groups(definitions.of_cluster.get("intergroup"), network.gpus_named, findings)
    cluster = Cluster(Word(_named_after(first.span.file), first.span), tuple(inside), first.span)
    return (*(node.type for node in nodes.values()), cluster)


def _chunk(define: Define | None, findings: Findings) -> list[Property]:
    if define is None:
        return []
    return [Property("chunk", define.name.span, amount=amount_of(define.name, define.value, findings))]


def _check_nodenum(definitions: Definitions, first: Define, findings: Findings) -> None:
    define = definitions.of_cluster.get("nodenum")
    nodes = len(definitions.nodes)
    if define is None:
        findings.add("HS221", first.span, "`nodenum` is missing", f"add `define nodenum = {nodes}`")
        return
    amount = amount_of(define.name, define.value, findings)
    stated = None if amount is None else count(amount, "nodenum", MAX_NODES, findings)
    if amount is not None and stated is not None and stated != nodes:
        message = f"nodenum is {stated}, but {nodes} nodes are defined"
        findings.add("HS221", amount.span, message, f"define node1 to node{stated}, or change nodenum")


def _named_after(file: str) -> str:
    """The paper's form names no cluster: take the file's name, or its folder's where that says no more."""
    if file.startswith("<"):
        return "cluster"
    path = Path(file).absolute()
    name = path.parent.name if path.stem in ("topo", "topology", "paper") else path.stem
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_NAME]
    return re.sub(r"^(?=\d)", "_", plain) or "cluster"
