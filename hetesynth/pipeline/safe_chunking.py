"""Capacities that the hardware keeps: no step promises more than fits into its time.

In: a topology, a collective, the paper's capacities. Out: capacities rounded down, at a reference time that loses
little of the bandwidth. A schedule on them takes no longer than its steps: whatever shares a resource in a step is
done within the step. Rounding up (the paper's choice) instead promises 25 GB/s of a NIC of 12.5 where the step is
one of 8 GB/s.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hetesynth.bounds.throughput import time_bounds
from hetesynth.chunking import Capacity, Chunking, chunk
from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Rank, Topology

LATENCY = Fraction(21, 20)  # of the reference time: room for latencies, which are a part of tau
MAX_MULTIPLE = 4  # of the reference time
LITTLE = 0.01  # loss of bandwidth that is not worth a longer step
MAX_RANKS = 64  # up to here multiples are compared


def safe_chunking(
    topology: Topology, paper: Chunking, name: CollectiveName, root: Rank | None, ideal: float
) -> Chunking:
    """Capacities rounded down, of the shortest step that loses little, or else of the one that loses least.

    ``ideal``: seconds for each byte that the collective takes at least on the topology as it is.
    """
    found: list[tuple[float, Chunking]] = []
    for multiple in range(1, MAX_MULTIPLE + 1):
        reference = paper.tau_ref * multiple
        options = replace(paper.options, reference=reference * LATENCY, rounding="floor")
        made = chunk(topology, options)
        if topology.ranks > MAX_RANKS:
            return made
        loss = _seconds(_as_promised(topology, made, reference), name, root) / ideal - 1
        found.append((loss, made))
        if loss <= LITTLE:
            break
    return min(found, key=lambda pair: pair[0])[1]


def _seconds(topology: Topology, name: CollectiveName, root: Rank | None) -> float:
    """For each byte, at least."""
    return max(float(b.seconds_per_byte) for b in time_bounds(topology, name, root))


def _as_promised(topology: Topology, made: Chunking, reference: Fraction) -> Topology:
    """The topology with the rates that the capacities stand for."""

    def rate(capacity: Capacity) -> Fraction:
        return Fraction(capacity.chunks * made.chunk_bytes, capacity.lanes) / reference

    wires = tuple(
        wire if known is None else replace(wire, bandwidth=rate(known))
        for wire, known in zip(topology.wires, made.wires, strict=True)
    )
    groups = tuple(
        replace(group, bandwidth=rate(known)) for group, known in zip(topology.groups, made.groups, strict=True)
    )
    return replace(topology, wires=wires, groups=groups)
