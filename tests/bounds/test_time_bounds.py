"""Bounds in seconds: known optima, all cuts of small clusters, and a judge that shares nothing with them."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.bound import DelayedPrices, PartCrossings, ResourcePrices, SlowestPath, TimeBound, VertexCut
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.topology import Link, SharedGroup, Topology, Vertex, Wire
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "topo.dsl")


def bandwidth(topology: Topology, name: CollectiveName, root: int | None = None) -> float:
    """Algorithm bandwidth in GB/s that the tightest bound leaves for an endless buffer."""
    return float(1 / time_bounds(topology, name, root)[0].seconds_per_byte) / 1e9


@pytest.mark.parametrize(
    ("cluster", "optimum"),
    [
        ("a100_x2", 346.667), ("mi250_x1", 342.857), ("h20_4p8", 300.0), ("v100_4p8", 48.0), ("ndv2_x4", 16.667),
    ],
)  # fmt: skip
def test_the_optimum_of_allgather_is_the_published_one(cluster: str, optimum: float) -> None:
    """ForestColl's exact optima; 31/32 of a DGX-2 port; three quarters of the buffer through an NDv2 port."""
    assert bandwidth(example(cluster), "allgather") == pytest.approx(optimum, abs=5e-4)


def test_other_collectives_by_hand() -> None:
    ring = directed_ring(4)
    assert bandwidth(ring, "allgather") == pytest.approx(4 / 3)
    assert bandwidth(ring, "reducescatter") == pytest.approx(4 / 3)
    assert bandwidth(ring, "broadcast", 0) == pytest.approx(1.0)
    assert bandwidth(ring, "reduce", 2) == pytest.approx(1.0)
    assert bandwidth(ring, "allreduce") == pytest.approx(2 / 3)
    assert bandwidth(ring, "gather", 1) == pytest.approx(4 / 3)
    assert bandwidth(ring, "scatter", 1) == pytest.approx(4 / 3)
    assert bandwidth(ring, "alltoall") == pytest.approx(4 / (1 + 2 + 3))


def directed_ring(n: int) -> Topology:
    wires = tuple(Wire(i, (i + 1) % n, "wire", Fraction(10**9)) for i in range(n))
    links = tuple(Link.over(w.src, w.dst, [i], wires) for i, w in enumerate(wires))
    return Topology("ring", tuple(Vertex(f"g{i}", "gpu", "s") for i in range(n)), n, wires, links)


def random_topology(rng: random.Random, *, groups: bool = False) -> Topology:
    """GPUs with direct wires, some through a switch; strongly connected by a ring."""
    n, switches = rng.randint(2, 4), rng.randint(0, 1)
    vertices = [Vertex(f"g{i}", "gpu", f"s{i % 2}") for i in range(n)]
    vertices += [Vertex(f"x{i}", "switch", "s0") for i in range(switches)]
    wires = [
        Wire(i, (i + 1) % n, "wire", Fraction(rng.randint(1, 9)), 1, Fraction(rng.randint(0, 5), 7))
        for i in range(n)
    ]
    for u, v in itertools.permutations(range(n), 2):
        if rng.random() < 0.3:
            wires.append(Wire(u, v, "wire", Fraction(rng.randint(1, 9), rng.randint(1, 3)), rng.randint(1, 2)))
    direct = len(wires)
    links = [Link.over(w.src, w.dst, [i], wires) for i, w in enumerate(wires)]
    for x in range(n, n + switches):
        up = {g: len(wires) + 2 * g for g in range(n)}
        for g in range(n):
            wires.append(Wire(g, x, "port", Fraction(rng.randint(1, 9))))
            wires.append(Wire(x, g, "port", None if rng.random() < 0.3 else Fraction(rng.randint(1, 9))))
        links += [Link.over(u, v, [up[u], up[v] + 1], wires) for u, v in itertools.permutations(range(n), 2)]
    stated = ()
    if groups:
        stated = (
            SharedGroup(
                "g", "shared", Fraction(1, 2), tuple(sorted(rng.sample(range(direct), rng.randint(1, n))))
            ),
        )
    return Topology("random", tuple(vertices), n, tuple(wires), tuple(links), stated)


def every_bound(topology: Topology) -> list[tuple[CollectiveName, int | None, TimeBound]]:
    roots = {name: topology.ranks - 1 if name in ROOTED else None for name in COLLECTIVE_NAMES}
    return [(name, root, b) for name, root in roots.items() for b in time_bounds(topology, name, root)]


@pytest.mark.parametrize("seed", range(8))
def test_the_judge_accepts_every_bound_and_none_that_claims_more(seed: int) -> None:
    topology = random_topology(random.Random(seed), groups=seed % 2 == 1)
    for name, root, bound in every_bound(topology):
        assert not time_bound_violations(topology, name, root, bound)
        more = replace(bound, seconds_per_byte=bound.seconds_per_byte * Fraction(1001, 1000) + Fraction(1, 10**9))
        assert time_bound_violations(topology, name, root, more)
        assert time_bound_violations(topology, name, root, replace(bound, latency=bound.latency + Fraction(1, 9)))


@pytest.mark.parametrize("seed", range(4))
def test_the_judge_refuses_wrong_witnesses(seed: int) -> None:
    topology = random_topology(random.Random(seed), groups=True)
    for name, root, bound in every_bound(topology):
        wrong = mutant(bound)
        assert time_bound_violations(topology, name, root, wrong), (name, bound)


def mutant(bound: TimeBound) -> TimeBound:
    """The same claim from a witness that does not carry it."""
    match bound.witness:
        case VertexCut() as cut:
            return replace(
                bound,
                witness=replace(cut, bandwidth=cut.bandwidth / 2),
                seconds_per_byte=bound.seconds_per_byte * 2,
            )
        case PartCrossings() as parts:
            return replace(bound, witness=replace(parts, parts=parts.parts[1:], sides=parts.sides[1:]))
        case ResourcePrices() as prices:
            return replace(bound, witness=replace(prices, wires=tuple(-x for x in prices.wires), groups=()))
        case DelayedPrices() as delays:
            sets = tuple(replace(each, weight=each.weight * 2**20) for each in delays.sets)
            return replace(bound, witness=replace(delays, sets=sets))
        case SlowestPath() as path:
            return replace(
                bound, witness=replace(path, share=path.share * 2), seconds_per_byte=bound.seconds_per_byte * 2
            )


def test_a_cut_of_a_stated_group_counts_the_group() -> None:
    bound = next(b for b in time_bounds(example("ndv2_x4"), "allgather") if b.kind == "cut")
    assert isinstance(bound.witness, VertexCut) and bound.witness.groups
    assert bound.seconds(10**9) == bound.latency + Fraction(3, 4) / Fraction(25, 2)


@pytest.mark.parametrize(("cluster", "parts"), [("v100_4p8", 3), ("v100_8x2p4", 5)])
def test_modules_of_a_server_count_as_parts(cluster: str, parts: int) -> None:
    """Groups of four GPUs that 32 GB/s lead into each: NICs of 8 GB/s, or two PCIe switches of 16 GB/s."""
    topology = example(cluster)
    volume = max(
        (b for b in time_bounds(topology, "allreduce") if b.kind == "volume"), key=lambda b: b.seconds_per_byte
    )
    assert isinstance(volume.witness, PartCrossings) and len(volume.witness.parts) == parts
    assert volume.seconds_per_byte == Fraction(2 * (parts - 1), parts * 32 * 10**9)
    assert time_bound_violations(topology, "allreduce", None, volume) == []
