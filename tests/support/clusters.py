"""Topologies and schedules built by hand: GPUs, one wire a link, stated groups; rates in GB/s, latencies in us."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Link, SharedGroup, Topology, Vertex, Wire
from hetesynth.search.collectives import collective


def cluster(
    ranks: int,
    links: Sequence[tuple[int, int, float, float]],
    groups: Sequence[tuple[float, tuple[int, ...]]] = (),
    reduce: float | None = None,
    kind: str = "direct",
    model: str = "",
) -> Topology:
    """Links as (source, destination, GB/s, us); groups as (GB/s, links); ``reduce``: GB/s of every GPU."""
    wires = tuple(Wire(a, b, kind, Fraction(rate) * 10**9, 1, Fraction(us) / 10**6) for a, b, rate, us in links)
    return Topology(
        "hand",
        tuple(Vertex(f"gpu{i}", "gpu", model=model) for i in range(ranks)),
        ranks,
        wires,
        tuple(Link.over(w.src, w.dst, (i,), wires) for i, w in enumerate(wires)),
        tuple(SharedGroup(f"group{g}", kind, Fraction(rate) * 10**9, on) for g, (rate, on) in enumerate(groups)),
        () if reduce is None else (Fraction(reduce) * 10**9,) * ranks,
    )


def problem_on(topology: Topology, name: CollectiveName, chunks: int = 1, root: int | None = None) -> Problem:
    """``name`` on the links of ``topology``, without capacities that matter."""
    arcs = tuple(Arc(link.src, link.dst, 1) for link in topology.links)
    return Problem(topology.ranks, topology.ranks, (), arcs, (), collective(name, topology.ranks, chunks, root))


def ring(ranks: int, rate: float, us: float) -> list[tuple[int, int, float, float]]:
    """Links i -> i + 1; link i leaves rank i."""
    return [(i, (i + 1) % ranks, rate, us) for i in range(ranks)]


def ring_allgather(ranks: int) -> Schedule:
    """On the links of ``ring``: at step t rank i passes on what came t hops."""
    return Schedule.of(Transfer(t, t + 1, (i - t) % ranks, i) for t in range(ranks - 1) for i in range(ranks))


def ring_reducescatter(ranks: int) -> Schedule:
    """On the links of ``ring``: chunk k starts at rank k + 1 and grows on its way to rank k."""
    return Schedule.of(
        Transfer(t, t + 1, (i - 1 - t) % ranks, i, True) for t in range(ranks - 1) for i in range(ranks)
    )
