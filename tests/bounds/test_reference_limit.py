"""The reference for limits: hand answers, all trees listed, and the compiler's own bounds beside it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.generated_clusters import generated_cluster
from support.clusters import cluster, ring
from support.reference_limit import limit_by_trees, reference_limit
from support.ring_rate import ring_seconds, ring_wiring

from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import costs
from hetesynth.model.topology import Topology
from hetesynth.search.baselines.ring_search import ring_sets
from hetesynth.search.bounds.throughput import time_bounds
from hetesynth.topology.language import load_topology, parse_topology

ALL: tuple[tuple[CollectiveName, int | None], ...] = (
    ("allgather", None), ("reducescatter", None), ("allreduce", None), ("alltoall", None),
    ("broadcast", 0), ("reduce", 0), ("scatter", 0), ("gather", 0),
)  # fmt: skip
COPIES: tuple[tuple[CollectiveName, int | None], ...] = (
    ("allgather", None), ("reducescatter", None), ("broadcast", 1), ("reduce", 1),
)  # fmt: skip
WHOLE = 1e-9  # seconds a byte at 1 GB/s


def random_topology(seed: int, most: int) -> Topology:
    """A ring one way and some more links, rates of 1 to 5 GB/s, up to two stated groups."""
    rng = random.Random(seed)
    n = rng.randint(2, most)
    links = [(i, (i + 1) % n, float(rng.randint(1, 5)), 0.0) for i in range(n)]
    for _ in range(rng.randint(0, 2 * n)):
        a, b = rng.sample(range(n), 2)
        links.append((a, b, float(rng.randint(1, 5)), 0.0))
    groups = [
        (float(rng.randint(1, 4)), tuple(sorted(rng.sample(range(len(links)), rng.randint(2, len(links))))))
        for _ in range(rng.randint(0, 2))
    ]
    return cluster(n, links, groups)


def mesh(ranks: int, rate: float) -> list[tuple[int, int, float, float]]:
    return [(a, b, rate, 0.0) for a in range(ranks) for b in range(ranks) if a != b]


@pytest.mark.parametrize(
    ("name", "root", "seconds"),
    [
        ("allgather", None, 3 / 4),  # three quarters enter over the only link
        ("reducescatter", None, 3 / 4),
        ("broadcast", 0, 1),
        ("reduce", 0, 1),
        ("allreduce", None, 6 / 4),  # each byte of a tree's two phases passes three of four links
        ("scatter", 0, 3 / 4),
        ("gather", 0, 3 / 4),
        ("alltoall", None, (1 + 2 + 3) / 4),  # hops of a source's blocks, one link a source
    ],
)
def test_a_ring_one_way(name: CollectiveName, root: int | None, seconds: float) -> None:
    topology = cluster(4, ring(4, 1.0, 0.0))
    assert reference_limit(topology, name, root) == pytest.approx(seconds * WHOLE)


def test_a_stated_group_limits_what_cuts_do_not_see() -> None:
    """All 12 links of a mesh draw from 2 GB/s: an allgather moves 3 copies of everything through it."""
    links = mesh(4, 1.0)
    topology = cluster(4, links, [(2.0, tuple(range(len(links))))])
    assert reference_limit(topology, "allgather") == pytest.approx(3 / 2 * WHOLE)
    assert reference_limit(topology, "alltoall") == pytest.approx(3 / 2 * WHOLE)
    assert reference_limit(topology, "broadcast", 0) == pytest.approx(3 / 2 * WHOLE)
    assert reference_limit(topology, "allreduce") == pytest.approx(6 / 2 * WHOLE)


def test_both_references_agree_on_tiny_graphs() -> None:
    """Flows below what a root uses, against all trees listed: groups included."""
    with_groups = 0
    for seed in range(24):
        topology = random_topology(seed, 4 if seed % 4 else 5)
        with_groups += bool(topology.groups)
        for name, root in COPIES:
            flows, trees = reference_limit(topology, name, root), limit_by_trees(topology, name, root)
            assert flows == pytest.approx(trees, rel=1e-7), (seed, name)
    assert with_groups > 8


@pytest.mark.parametrize("seed", [6, 15])
def test_no_bound_is_above_the_reference(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "topo.dsl"
    path.write_text(generated_cluster(seed).text)
    topology = load_topology(path)
    assert topology.ranks <= 8
    for name, root in ALL:
        limit = reference_limit(topology, name, root)
        bound = max(float(b.seconds_per_byte) for b in time_bounds(topology, name, root))
        assert bound <= limit * (1 + 1e-6), name
        if not topology.groups and name in ("allgather", "reducescatter"):
            assert bound == pytest.approx(limit, rel=1e-6), name  # cuts are exact where only wires limit


EXAMPLES = Path(__file__).parents[2] / "examples"
HALVES = """node n {
  gpus 8
  mesh gpu[0-7] { bandwidth 25 GB/s; latency 1 us }
  shared halves 50 GB/s { gpu[0-3] <-> gpu[4-7] }
}
cluster c { chunk 1 MB; instance a = n }"""


def found(on: Topology) -> float:
    """Seconds a byte around the best rings found."""
    wiring = ring_wiring(on, costs(on))
    return min(rings.cost for rings in ring_sets(wiring))


def limit(on: Topology) -> float:
    return ring_seconds(costs(on), ring_wiring(on, costs(on)).servers)


def test_a_ring_leaves_every_set_of_ranks() -> None:
    """Without a cut the two halves would each have rings of their own, at 75 GB/s."""
    on = parse_topology(HALVES)
    assert limit(on) == pytest.approx(1 / 50e9, rel=2e-6) == pytest.approx(found(on), rel=2e-6)


def test_where_there_is_no_ring() -> None:
    line = "node n { gpus 3; link gpu0 -> gpu1 { bandwidth 1 GB/s } link gpu1 -> gpu2 { bandwidth 1 GB/s } }"
    on = parse_topology(line + " cluster c { chunk 1 MB; instance a = n }")
    assert ring_seconds(costs(on), ((0, 1, 2),)) == float("inf")


@pytest.mark.parametrize("name", ["dgx1", "h20_4p8", "ring8", "two_dc_50km"])
def test_rings_that_are_found_are_the_best(name: str) -> None:
    on = load_topology(EXAMPLES / name / "topo.dsl")
    assert limit(on) <= found(on) <= limit(on) * (1 + 2e-6)
