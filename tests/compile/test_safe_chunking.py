"""Capacities that the hardware keeps: never more bytes in a step than fit, and little bandwidth lost."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.engine.choice.candidates import safe_chunking
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.search.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LARGE = ChunkingOptions(chunk_bytes=10**7)


def safe(topology: Topology) -> Chunking:
    ideal = max(float(b.seconds_per_byte) for b in time_bounds(topology, "allgather"))
    return safe_chunking(topology, chunk(topology, LARGE), "allgather", None, ideal, DEFAULT)


def longest_step(made: Chunking) -> Fraction:
    """Seconds until all that the capacities promise for a step has passed its wires and groups."""
    topology = made.topology
    limits = [
        *((w.bandwidth, w.lanes, known) for w, known in zip(topology.wires, made.wires, strict=True)),
        *((g.bandwidth, g.lanes, known) for g, known in zip(topology.groups, made.groups, strict=True)),
    ]
    return max(
        Fraction(known.chunks * made.chunk_bytes, lanes) / bandwidth
        for bandwidth, lanes, known in limits
        if known is not None and bandwidth is not None
    )


@pytest.mark.parametrize("name", ["v100_4p8", "v100_8x2p4", "h20_4x3", "a100_x2", "mi250_x1", "ndv2_x4"])
def test_a_step_holds_what_it_promises(name: str) -> None:
    made = safe(load_topology(EXAMPLES / name / "topo.dsl"))
    assert longest_step(made) <= made.tau_ref
    assert made.options.rounding == "floor"


def test_the_paper_s_rounding_promises_more_than_a_nic_gives() -> None:
    topology = load_topology(EXAMPLES / "v100_4p8" / "topo.dsl")
    paper = chunk(topology, LARGE)
    assert longest_step(paper) > Fraction(5, 4) * paper.tau_ref  # NICs of 12.5 GB/s, two chunks a step of 8 GB/s
    assert longest_step(safe(topology)) <= paper.tau_ref
