"""Capacities that the hardware keeps: no step promises more than fits into its time.

In: a topology, a collective, the paper's capacities. Out: capacities rounded down, at a reference time that loses
little of the bandwidth. Latencies count for nothing: they pass while others send. A schedule on these capacities
takes hardly longer than its steps: whatever shares a resource in a step is done within the step. Rounding up (the
paper's choice) instead promises 25 GB/s of a NIC of 12.5 where the step is one of 8 GB/s.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Rank, SharedGroup, Topology, Wire
from hetesynth.policy import Policy
from hetesynth.search.bounds.throughput import cut_bounds
from hetesynth.search.chunking import Capacity, Chunking, chunk


def safe_chunking(
    topology: Topology, paper: Chunking, name: CollectiveName, root: Rank | None, ideal: float,
    policy: Policy,
) -> Chunking:  # fmt: skip
    """Capacities rounded down, of the shortest step that loses little, or else of the one that loses least.

    ``ideal``: seconds for each byte that the collective takes at least on the topology as it is, by cuts and
    volume.
    """
    step = max(paper.chunk_bytes / link.bandwidth for link in topology.links)
    best: tuple[float, Chunking] | None = None
    for multiple in range(1, policy.compile.max_step_multiple + 1):
        stated = replace(paper.options, reference=step * multiple, rounding="floor", latencies=False)
        rounded = chunk(topology, stated)
        if topology.ranks > policy.compile.max_compared_ranks:
            return rounded
        bounds = cut_bounds(_as_promised(topology, rounded), name, root, policy.bounds)
        loss = max(float(b.seconds_per_byte) for b in bounds) / ideal - 1
        if best is None or loss < best[0] - policy.compile.little_bandwidth:
            best = loss, rounded
        if loss <= policy.compile.little_bandwidth:
            break
    return best[1] if best else paper


def _as_promised(topology: Topology, rounded: Chunking) -> Topology:
    """The topology with the rates that the capacities stand for, where a step lasts until all bytes are there."""
    limits: list[Wire | SharedGroup] = [*topology.wires, *topology.groups]
    lasts = [
        Fraction(capacity.chunks * rounded.chunk_bytes, capacity.lanes) / limit.bandwidth
        for limit, capacity in zip(limits, [*rounded.wires, *rounded.groups], strict=True)
        if capacity is not None and limit.bandwidth is not None
    ]
    step = max(lasts, default=rounded.tau_ref)

    def rate(capacity: Capacity) -> Fraction:
        return Fraction(capacity.chunks * rounded.chunk_bytes, capacity.lanes) / step

    wires = tuple(
        wire if capacity is None else replace(wire, bandwidth=rate(capacity))
        for wire, capacity in zip(topology.wires, rounded.wires, strict=True)
    )
    groups = tuple(
        replace(group, bandwidth=rate(capacity))
        for group, capacity in zip(topology.groups, rounded.groups, strict=True)
    )
    return replace(topology, wires=wires, groups=groups)
