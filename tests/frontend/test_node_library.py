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
