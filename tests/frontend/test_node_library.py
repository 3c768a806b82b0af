"""The node library: what types there are, their graphs against published ones, their figures by hand."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from hetesynth.model.topology import Topology
from hetesynth.topology.language import library, parse_topology
from hetesynth.topology.language.library import LibraryType

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data")) / "topologies"
GIGA = 10**9

DGX1 = {  # SCCL's numbering: pairs and NVLinks
    (0, 1): 2, (0, 2): 1, (0, 3): 1, (0, 4): 2, (1, 2): 1, (1, 3): 2, (1, 5): 1, (2, 3): 2, (2, 6): 2, (3, 7): 1,
    (4, 5): 2, (4, 6): 1, (4, 7): 1, (5, 6): 1, (5, 7): 2, (6, 7): 2,
}  # fmt: skip
TO_DRIVER = (0, 3, 1, 2, 4, 7, 5, 6)
MI250 = {  # ForestColl and TE-CCL
    (0, 1): 4, (0, 4): 2, (0, 8): 1, (1, 5): 1, (1, 9): 1, (1, 10): 1, (2, 3): 4, (2, 6): 1, (2, 9): 1, (2, 10): 1,
    (3, 7): 2, (3, 11): 1, (4, 5): 4, (4, 6): 1, (5, 6): 1, (5, 7): 1, (6, 7): 4, (8, 9): 4, (8, 12): 2,
    (9, 13): 1, (10, 11): 4, (10, 14): 1, (11, 15): 2, (12, 13): 4, (12, 14): 1, (13, 14): 1, (13, 15): 1,
    (14, 15): 4,
}  # fmt: skip
MI250_RCCL = {
    (0, 1): 4, (0, 2): 1, (0, 4): 2, (1, 2): 1, (1, 3): 1, (1, 5): 1, (2, 3): 4, (2, 6): 1, (3, 7): 2, (4, 5): 4,
    (4, 12): 1, (5, 13): 1, (5, 14): 1, (6, 7): 4, (6, 13): 1, (6, 14): 1, (7, 15): 1, (8, 9): 4, (8, 10): 1,
    (8, 12): 2, (9, 10): 1, (9, 11): 1, (9, 13): 1, (10, 11): 4, (10, 14): 1, (11, 15): 2, (12, 13): 4,
    (14, 15): 4,
}  # fmt: skip


@cache
def library_types() -> tuple[LibraryType, ...]:
    return library.library_types()


def one(file: str, type_name: str) -> Topology:
    return parse_topology(f"import {file} cluster c {{ instance a = {type_name} }}")


def lanes(topology: Topology) -> dict[tuple[int, int], int]:
    """Lanes between every two GPUs that a direct wire joins; both directions have to be equal."""
    count: Counter[tuple[int, int]] = Counter()
    for wire in topology.wires:
        if wire.src < topology.ranks and wire.dst < topology.ranks:
            count[wire.src, wire.dst] += wire.lanes
    assert all(count[b, a] == number for (a, b), number in count.items())
    return {(a, b): number for (a, b), number in sorted(count.items()) if a < b}


def ports(topology: Topology, kind: str) -> Counter[int]:
    """How many wires from a GPU have which rate in GB/s."""
    out = [w for w in topology.wires if w.src < topology.ranks and w.kind == kind and w.bandwidth is not None]
    return Counter(int(w.bandwidth * w.lanes / GIGA) for w in out if w.bandwidth is not None)


@pytest.mark.parametrize("name", ["dgx1", "ndv2"])
def test_dgx1_is_numbered_as_the_driver_does(name: str) -> None:
    renumbered = {tuple(sorted((TO_DRIVER[a], TO_DRIVER[b]))): number for (a, b), number in DGX1.items()}
    assert lanes(one("dgx1", name)) == renumbered


@pytest.mark.parametrize(("name", "pairs"), [("mi250x16", MI250), ("mi250x16_rccl", MI250_RCCL)])
def test_mi250_has_the_links_of_its_source(name: str, pairs: dict[tuple[int, int], int]) -> None:
    topology = one("mi250", name)
    assert lanes(topology) == pairs
    sums: Counter[int] = Counter()
    for (a, b), number in pairs.items():
        sums.update({a: number, b: number})
    assert set(sums.values()) == {7}


def test_mi50_is_two_rings_or_one() -> None:
    """RCCL's 8p_rome: two xGMI links a GPU, in two rings of four. SCCL's optima: those of a ring of eight."""
    rome = [(0, 1), (0, 3), (1, 5), (3, 5), (2, 4), (2, 6), (4, 7), (6, 7)]
    assert lanes(one("mi50", "mi50x8")) == dict.fromkeys(sorted(rome), 1)
    ring = [(a, (a + 1) % 8) for a in range(8)]
    assert nx.is_isomorphic(graph(lanes(one("mi50", "mi50x8_z52"))), graph(dict.fromkeys(ring, 1)))


def test_the_two_numberings_of_mi250_are_those_of_its_header() -> None:
    fours = (1, 0, 3, 2)
    renumbered = {
        tuple(sorted(4 * fours[rank // 4] + rank % 4 for rank in pair)): number for pair, number in MI250.items()
    }
    assert renumbered == MI250_RCCL


def graph(pairs: dict[tuple[int, int], int]) -> nx.Graph:
    result = nx.Graph()
    result.add_edges_from((a, b, {"lanes": number}) for (a, b), number in pairs.items())
    return result


@pytest.mark.parametrize(
    ("file", "name", "reference"),
    [
        ("dgx1", "dgx1", "sccl_dgx1"), ("dgx1", "dgx1", "dgx1_v100_nvidia_smi"), ("dgx1", "dgx1", "teccl_dgx1"),
        ("dgx1", "ndv2", "teccl_ndv2_1chassis"), ("dgx1", "ndv2", "taccl_ndv2_1node_1MB"),
        ("mi250", "mi250x16", "forestcoll_mi250_1node"), ("mi250", "mi250x16", "teccl_amd_1node"),
        ("mi50", "mi50x8_z52", "sccl_amd_z52_ring8"),
    ],
)  # fmt: skip
def test_direct_links_are_those_published(file: str, name: str, reference: str) -> None:
    """Up to the numbers of the GPUs."""
    data = published(reference)
    expected = {(k["src"], k["dst"]): k["count"] for k in data["links"] if k["src"] < k["dst"]}
    ours = graph(lanes(one(file, name)))
    assert nx.is_isomorphic(ours, graph(expected), edge_match=lambda a, b: a == b)


@pytest.mark.parametrize(
    ("file", "name", "kind", "reference", "rate"),
    [
        ("dgx2", "dgx2", "nvlink", "teccl_dgx2_1chassis", 150),
        ("a100", "a100x8", "nvlink", "forestcoll_a100_1node", 300),
    ],
)
def test_switched_ports_are_those_published(file: str, name: str, kind: str, reference: str, rate: int) -> None:
    """As many NVLinks a GPU, of 25 GB/s; what others measured is their calibration."""
    data = published(reference)
    to_switch = [k for k in data["links"] if isinstance(k["dst"], str) and k["kind"].startswith("nvlink")]
    links = Counter(k["src"] for k in to_switch)
    counts = {k["count"] for k in to_switch}
    assert {number * 25 for number in counts} == {rate}
    assert ports(one(file, name), kind) == Counter({rate: len(links)})


def published(name: str) -> dict[str, Any]:
    path = DATA / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no conformance data at {path}")
    data: dict[str, Any] = json.loads(path.read_text())
    return data


FIGURES = {  # GPUs, GB/s that a GPU has inside, NICs, GB/s of them together: from data sheets, by hand
    "a100x4": (4, 12 * 25, 4, 100), "a100x8": (8, 12 * 25, 8, 200), "a800x8": (8, 8 * 25, 8, 200),
    "b200x8": (8, 18 * 50, 8, 400), "b300x8": (8, 18 * 50, 8, 800), "mi300ax4": (4, 3 * 64, 4, 100),
    "rtx5090x8": (8, 63, 4, 200), "dgx1": (8, 6 * 25, 4, 50), "ndv2": (8, 6 * 25, 1, 12.5),
    "dgx2": (16, 6 * 25, 8, 100), "gaudi3x8": (8, 21 * 25, 8, 600), "gb200x4": (4, 18 * 50, 4, 200),
    "gb200_tray": (4, 0, 4, 200), "gb200_nvl72": (72, 18 * 50, 72, 3600), "h100x8": (8, 18 * 25, 8, 400),
    "h20x4": (4, 18 * 25, 4, 200), "h20x8": (8, 18 * 25, 4, 200), "h200x8": (8, 18 * 25, 8, 400),
    "mi100x4": (4, 3 * 46, 4, 100), "mi100x8": (8, 3 * 46, 8, 200), "mi250x16": (16, 7 * 50, 8, 200),
    "mi250x16_rccl": (16, 7 * 50, 8, 200), "mi300x8": (8, 7 * 64, 8, 400), "mi50x8": (8, 2 * 33, 1, 25),
    "mi50x8_z52": (8, 2 * 27, 1, 25), "l40sx8": (8, 31.5, 4, 100), "rtxpro6000x8": (8, 63, 4, 200),
    "v100x4": (4, 6 * 25, 4, 50), "v100x8": (8, 6 * 25, 4, 50),
}  # fmt: skip


def test_every_type_of_the_library() -> None:
    listed = {t.name: (t.gpus, float(t.inside / GIGA), t.nics, float(t.outside / GIGA)) for t in library_types()}
    assert listed == FIGURES


def test_a_type_says_where_it_is_declared() -> None:
    for entry in library_types():
        line = entry.path.read_text().splitlines()[entry.line - 1]
        assert line.startswith(f"{entry.sort} {entry.name}") and entry.text.startswith(line)
        assert entry.title.endswith((".", ":")) and len(entry.header) > 4


def test_every_file_says_how_its_figures_were_measured() -> None:
    for entry in library_types():
        header = "\n".join(entry.header)
        assert [word for word in ("data sheet", "Latency", "Reduce", "NIC") if word not in header] == []
        if entry.library != "v100":  # the paper's figures as the paper has them
            assert "spec)" in header or "(raw)" in header


def test_the_reference_lists_every_type() -> None:
    section = (ROOT / "dsl" / "reference.md").read_text().split("### 2.2")[1].split("### 2.3")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))
    listed: dict[str, set[str]] = {}
    for entry in library_types():
        listed.setdefault(entry.library, set()).add(entry.name)
    assert set(rows) == set(listed)
    for file, names in listed.items():
        assert names <= set(re.findall(r"\w+", rows[file]))


@pytest.mark.parametrize(
    ("file", "type_name", "gpus_of_a_nic", "nics_of_a_gpu"),
    [
        ("h20", "h20x8", 2, 1), ("h20", "h20x8(nics = 8)", 1, 1), ("h20", "h20x4(nics = 2)", 2, 1),
        ("h100", "h100x8(nics = 32, rate = 100 Gbps)", 1, 4), ("dgx2", "dgx2", 2, 1),
        ("h20", "h20x8(nics = 1)", 8, 1),
    ],
)  # fmt: skip
def test_gpus_share_the_nics_beside_them(
    file: str, type_name: str, gpus_of_a_nic: int, nics_of_a_gpu: int
) -> None:
    text = f"import {file} cluster c {{ instance a[0-1] = {type_name} fabric net {{ join *.nic* }} }}"
    topology = parse_topology(text)
    names = [vertex.name for vertex in topology.vertices]
    pairs = {
        (int(names[w.src].removeprefix("a0.gpu")), int(names[w.dst].removeprefix("a0.nic")))
        for w in topology.wires
        if names[w.src].startswith("a0.gpu") and names[w.dst].startswith("a0.nic")
    }
    gpus = topology.ranks // 2
    expected = {
        (gpu, nic)
        for gpu in range(gpus)
        for nic in range(gpus * nics_of_a_gpu // gpus_of_a_nic)
        if gpu // gpus_of_a_nic == nic // nics_of_a_gpu
    }
    assert pairs == expected


def test_another_calibration_is_a_parameter() -> None:
    assert ports(one("h100", "h100x8(nvlink = 370.8 GB/s)"), "nvlink") == Counter({370: 8})


def test_a_rack_is_one_nvlink_domain() -> None:
    racks = "import gb200 cluster c { instance r = gb200_nvl72 }"
    topology = parse_topology(racks)
    assert topology.ranks == 72 and len(set(topology.servers)) == 18
    assert {link.kind for link in topology.links} == {"nvlink"} and len(topology.links) == 72 * 71
