"""Bounds against values worked out by hand, published tables, and their own witnesses."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.certificates import recheck
from support.graphs import Graph, dgx1, fig10, full, line, problem, ring, servers, star

from hetesynth.model.bound import CutWitness, LowerBound
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.search.bounds.lower import all_bounds, lower_bound
from hetesynth.search.solve import bounds_of

# servers of H20 GPUs, AllGather: bound for 1, 2 and 4 chunks
H20 = {
    "4+8": ([4, 8], (3, 5, 9)),
    "4x2+8": ([4, 4, 8], (4, 7, 13)),
    "4x3": ([4, 4, 4], (3, 5, 9)),
    "4x3+8": ([4, 4, 4, 8], (5, 9, 17)),
    "8x2+4": ([8, 8, 4], (5, 9, 17)),
    "4x2+8x2": ([4, 4, 8, 8], (6, 11, 21)),
}


def by_method(bounds: list[LowerBound]) -> dict[str, int]:
    return {b.method: b.steps for b in bounds}


@pytest.mark.parametrize("cluster", H20)
@pytest.mark.parametrize("i", [0, 1])
def test_h20_clusters(cluster: str, i: int) -> None:
    _h20(cluster, i)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", H20)
def test_h20_clusters_with_4_chunks(cluster: str) -> None:
    _h20(cluster, 2)


def _h20(cluster: str, i: int) -> None:
    sizes, steps = H20[cluster]
    p = problem(servers(sizes), "allgather", (1, 2, 4)[i])
    bound = lower_bound(p)
    assert bound.steps == steps[i]
    recheck(p, bound)


@pytest.mark.parametrize(
    ("graph", "name", "chunks", "method", "steps"),
    [
        (ring(8), "allgather", 1, "distance", 4),
        (ring(8, both=False), "allgather", 1, "distance", 7),
        (line(5), "broadcast", 1, "distance", 4),
        (dgx1(), "allgather", 1, "distance", 2),
        (dgx1(), "allgather", 6, "cut", 7),  # 42 chunks over 6 lanes
        (dgx1(), "alltoall", 1, "distance", 2),
        (star(5), "allgather", 1, "cut", 4),
        (star(5, 2), "gather", 3, "cut", 6),  # 12 chunks over a port of 2
        (full(4), "allgather", 3, "cut", 3),
        (fig10(), "allgather", 1, "cut", 4),  # 4 chunks into 2 ranks over 1
        (fig10(), "alltoall", 1, "cut", 8),
        (servers([4, 8]), "alltoall", 1, "cut", 8),  # 32 chunks over 4 NICs
        (line(2), "allreduce", 3, "volume", 6),  # 6 chunks cross twice, over two links
    ],
)
def test_values_by_hand(graph: Graph, name: CollectiveName, chunks: int, method: str, steps: int) -> None:
    assert by_method(bounds_of(problem(graph, name, chunks)))[method] == steps


def test_the_best_bound_comes_first() -> None:
    steps = [b.steps for b in all_bounds(problem(fig10(), "allgather", 3))]
    assert steps == sorted(steps, reverse=True)


def test_nothing_to_do_takes_no_step() -> None:
    assert lower_bound(problem(Graph(1), "allgather")).steps == 0


def test_eq_8_doubles_at_best() -> None:
    for n, steps in ((2, 1), (3, 2), (4, 2), (5, 3), (8, 3)):
        assert by_method(bounds_of(problem(full(n), "reduce", exclusive=True)))["doubling"] == steps
    assert "doubling" not in by_method(bounds_of(problem(full(8), "reduce")))


GRAPHS = {
    "ring5": lambda: ring(5),
    "oneway4": lambda: ring(4, 2, both=False), "line4": lambda: line(4), "full3": lambda: full(3),
    "star4": lambda: star(4), "dgx1": dgx1, "fig10": fig10, "4+8": lambda: servers([4, 8]),
    "odd": lambda: servers([1, 3, 2], [1, 2, 1], 5, [2, 1, 3]),
}  # fmt: skip


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_every_witness_proves_its_bound(graph: str, name: CollectiveName) -> None:
    for chunks in (1, 3):
        p = problem(GRAPHS[graph](), name, chunks, exclusive=name == "allreduce")
        for bound in bounds_of(p):
            recheck(p, bound)
            assert bound.proof


def test_the_recheck_notices_a_false_witness() -> None:
    from dataclasses import replace

    p = problem(servers([4, 8]), "allgather", 2)
    bounds = {b.method: b for b in bounds_of(p)}
    flow, cut = bounds["flow"], bounds["cut"]
    assert isinstance(cut.witness, CutWitness)
    false = [
        replace(flow, witness=replace(flow.witness, source_side=flow.witness.source_side[:-1])),  # type: ignore
        replace(flow, steps=flow.steps + 1),
        replace(cut, witness=replace(cut.witness, needed=cut.witness.needed + 1)),
        replace(cut, witness=replace(cut.witness, resources=cut.witness.resources[1:])),
        replace(bounds["distance"], witness=replace(bounds["distance"].witness, hops=9), steps=9),  # type: ignore
    ]
    for bound in false:
        with pytest.raises(AssertionError):
            recheck(p, bound)


@pytest.mark.parametrize("cluster", ["h20_4p8", "h20_4x2p8", "h20_4x3", "h20_4x3p8", "h20_8x2p4", "h20_4x2p8x2"])
def test_the_examples_have_the_bounds_of_the_hand_built_graphs(cluster: str) -> None:
    path = Path(__file__).resolve().parents[2] / "examples" / cluster / "topo.dsl"
    if not path.exists():
        pytest.skip("the examples are not next to the tests")
    from hetesynth.search.chunking import chunk
    from hetesynth.search.collectives import collective
    from hetesynth.topology.language import load_topology

    chunking = chunk(load_topology(path))
    instance = chunking.problem(collective("allgather", chunking.topology.ranks))
    sizes, steps = H20[cluster.removeprefix("h20_").replace("p", "+")]
    assert instance.ranks == sum(sizes) and {c.chunks for c in chunking.links} == {9, 1}
    bound = lower_bound(instance)
    assert bound.steps == steps[0]
    recheck(instance, bound)
