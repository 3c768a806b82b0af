"""Files of real clusters, counted independently, where the folder with them is there."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from importers.test_importers_edges import edges_of, links_of

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.edge_list import edge_document
from hetesynth.topology.importers.machine import gpus_of_nics

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data"))
DUMPS = sorted((DATA / "nccl_topo").glob("*.xml"))
LISTS = sorted((DATA / "topologies").glob("*.json"))

# file -> the words of the warning that it deserves
SUSPICIOUS = {
    "azure__topology_ncv4-topo": "links to itself",
    "rccl__topo_4p3l": "enp96s0f0: 10 Gbps in a slot of 0.25 GB/s x1",
    "rccl__topo_4p_940": "which no NIC has",
    "rccl__topo_4p4h": "PCI addresses are there twice",
    "web__dgx1_v100_reconstructed": "contradict each other",
    "web__gb300_2tray_mnnvl_missing_nvlink_reconstructed": "was NVLink not readable there?",
    "web__hgx_h200_baremetal_completed": "contradict each other",
    "web__ibm_gx3d_8xh100_vm": "taken for virtual",
}


def import_of(path: Path) -> ImportedTopology:
    return import_topology(ImportTopologyRequest((str(path),)))


def counted(path: Path) -> tuple[list[int], int]:
    """Links of each GPU, by hosts and numbers, and how many network interfaces: with ElementTree alone."""
    root = ElementTree.parse(path).getroot()
    hosts: dict[str, list[tuple[int, int]]] = {}
    nets = 0
    for cpu in root.iter("cpu"):
        gpus = hosts.setdefault(cpu.get("host_hash", ""), [])
        nets += sum(net.get("dev") is not None for net in cpu.iter("net"))
        for pci in cpu.iter("pci"):
            for gpu in pci.findall("gpu"):
                links = [*gpu.findall("nvlink"), *gpu.findall("xgmi")]
                total = sum(int(k.get("count", "0")) for k in links if k.get("target") != pci.get("busid"))
                gpus.append((int(gpu.get("dev", "0")), total))
    return [links for gpus in hosts.values() for _, links in sorted(gpus)], nets


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_a_dump_is_imported_as_counted_or_refused_for_a_reason(path: Path) -> None:
    links, nets = counted(path)
    if ElementTree.parse(path).getroot().tag == "graphs" or not links:
        with pytest.raises(HetesynthError) as caught:
            import_of(path)
        assert caught.value.code in ("HS732", "HS733") and path.stem not in SUSPICIOUS
        return
    result = import_of(path)
    assert [m.links_of(i) for m in result.machines for i in range(len(m.gpus))] == links
    assert result.topology.ranks == len(links)
    assert sum(len(m.nics) for m in result.machines) == nets
    written = sum(vertex.kind == "nic" for vertex in result.topology.vertices)
    assert written == sum(len(gpus_of_nics(m)) for m in result.machines)
    # known defects are flagged and nothing else
    texts = [remark.text for remark in result.remarks if remark.severity == "warning"]
    assert any(SUSPICIOUS.get(path.stem, "") in text for text in texts) == (path.stem in SUSPICIOUS), texts


def nodes_of(document: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    return Counter((n["id"], n["type"], n["server"]) for n in document["nodes"])


def by_rank(document: dict[str, Any]) -> dict[str, Any]:
    """GPUs numbered without gaps."""
    gpus = [node["id"] for node in document["nodes"] if node["type"] == "gpu"]
    rank = {old: new for new, old in enumerate(gpus)}
    return {
        "nodes": [n | {"id": rank.get(n["id"], n["id"])} for n in document["nodes"]],
        "links": [
            k | {"src": rank.get(k["src"], k["src"]), "dst": rank.get(k["dst"], k["dst"])}
            for k in document["links"]
        ],
        "groups": [g | {"edges": [[rank[u], rank[v]] for u, v in g["edges"]]} for g in document["groups"]],
    }


def large(path: Path) -> bool:
    return path.stat().st_size > 250_000


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if large(p) else ()) for p in LISTS],
    ids=lambda path: path.stem,
)
def test_an_edge_list_comes_back_as_it_was(path: Path) -> None:
    before = by_rank(json.loads(path.read_text()))
    after = json.loads(json.dumps(edge_document(import_of(path).topology)))
    assert links_of(after) == links_of(before)
    assert edges_of(after) == edges_of(before)
    assert nodes_of(after) == nodes_of(before)
