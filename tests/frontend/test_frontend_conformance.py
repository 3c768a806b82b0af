"""The example clusters against independent edge lists: same ranks, pairs, rates, latencies and shared pipes."""

from __future__ import annotations

import json
import os
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data")) / "topologies"
MICRO = 10**6
GIGA = 10**9

PAIRS = [
    *((f"h20_{name}", f"heteccl_h20_{name}") for name in ("4p8", "4x2p8", "4x3", "4x3p8", "8x2p4", "4x2p8x2")),
    *((f"h20_{n}", f"heteccl_table1_{n}gpu_h20") for n in (16, 32, 48, 64)),
    ("v100_4p8", "heteccl_v100_4p8"),
    ("fig10", "heteccl_fig10_example"),
    ("dgx1", "dgx1_v100_nvidia_smi"),
]


def expected(name: str) -> dict[str, Any]:
    path = DATA / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no conformance data at {path}")
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def exact(number: float | int, scale: int) -> Fraction:
    return Fraction(str(number)) * scale


def pipes(topology: Topology) -> Counter[tuple[frozenset[tuple[int, int]], Fraction]]:
    """Every wire with a bandwidth that several pairs of ranks share, as (pairs, bytes per second)."""
    users: dict[int, set[tuple[int, int]]] = {}
    for link in topology.links:
        for wire in link.wires:
            users.setdefault(wire, set()).add((link.src, link.dst))
    found: Counter[tuple[frozenset[tuple[int, int]], Fraction]] = Counter()
    for index, pairs in users.items():
        wire = topology.wires[index]
        if wire.bandwidth is not None and len(pairs) > 1:
            found[frozenset(pairs), wire.bandwidth * wire.lanes] += 1
    return found


@pytest.mark.parametrize(("example", "reference"), PAIRS)
def test_example_equals_the_reference_edge_list(example: str, reference: str) -> None:
    data = expected(reference)
    topology = load_topology(ROOT / "examples" / example / "topo.dsl")
    assert topology.ranks == len(data["nodes"])
    links = Counter((k.src, k.dst, k.bandwidth * k.lanes, k.latency) for k in topology.links)
    wanted = Counter(
        (k["src"], k["dst"], exact(k["GBps"], GIGA), exact(k["alpha_us"] or 0, 1) / MICRO) for k in data["links"]
    )
    assert links == wanted
    shared: Counter[tuple[frozenset[tuple[int, int]], Fraction]] = Counter()
    for group in data["groups"]:
        pairs = frozenset((u, v) for u, v in group["edges"])
        if len(pairs) > 1:
            shared[pairs, exact(group["GBps"], GIGA)] += 1
    assert pipes(topology) == shared
