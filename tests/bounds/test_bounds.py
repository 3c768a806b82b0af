"""Bounds against values worked out by hand, published tables, and their own witnesses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.certificates import recheck
from support.graphs import Graph, dgx1, fig10, full, line, problem, ring, servers, star
from support.optimum import copying_optimum
from support.random_graphs import tiny_graphs
from support.verdicts import certificate_violations

from hetesynth.model.bound import LastStepWitness, LowerBound
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.search.bounds.lower import all_bounds, cut_bounds, growth_bound, lower_bound
from hetesynth.search.collectives import invert
from hetesynth.search.solve import bounds_of

# servers of H20 GPUs, AllGather: bound for 1 and 2 chunks
H20 = {"4+8": ([4, 8], (3, 5)), "4x3": ([4, 4, 4], (3, 5)), "8x2+4": ([8, 8, 4], (5, 9))}


def by_method(bounds: list[LowerBound]) -> dict[str, int]:
    return {b.method: b.steps for b in bounds}


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


@pytest.mark.parametrize("cluster", ["4+8", "4x3", "8x2+4"])
@pytest.mark.parametrize("i", [0, 1])
def test_h20_clusters(cluster: str, i: int) -> None:
    sizes, steps = H20[cluster]
    p = problem(servers(sizes), "allgather", (1, 2)[i])
    bound, *others = all_bounds(p)
    assert bound.steps == steps[i] >= max(b.steps for b in others)
    recheck(p, bound)


def test_nothing_to_do_takes_no_step() -> None:
    assert lower_bound(problem(Graph(1), "allgather")).steps == 0


def test_eq_8_doubles_at_best() -> None:
    for n, steps in ((2, 1), (3, 2), (4, 2), (5, 3), (8, 3)):
        assert by_method(bounds_of(problem(full(n), "reduce", exclusive=True)))["doubling"] == steps
    assert "doubling" not in by_method(bounds_of(problem(full(8), "reduce")))


GRAPHS = {
    "oneway4": lambda: ring(4, 2, both=False), "star4": lambda: star(4), "dgx1": dgx1, "fig10": fig10,
    "odd": lambda: servers([1, 3, 2], [1, 2, 1], 5, [2, 1, 3]),
}  # fmt: skip


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_every_witness_proves_its_bound(graph: str, name: CollectiveName) -> None:
    p = problem(GRAPHS[graph](), name, 2, exclusive=name == "allreduce")
    for bound in bounds_of(p):
        recheck(p, bound)
        assert bound.proof


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [
        ([4, 8], 2),  # across and along at once, then the rest
        ([4] * 8 + [8] * 4, 4),  # 1, 2, 7 reached; five servers of four cannot all be served in step 3
        ([4] * 2, 2),
    ],
)
def test_servers_reached_in_time(sizes: list[int], steps: int) -> None:
    instance = problem(servers(sizes), "broadcast")
    bound = growth_bound(instance)
    assert bound is not None and bound.steps == steps
    recheck(instance, bound)


def test_it_is_silent_where_no_chunk_goes_to_everybody() -> None:
    assert growth_bound(problem(full(4), "alltoall")) is None


def last_step(p: Problem) -> tuple[LowerBound, LastStepWitness]:
    _, bound = cut_bounds(p)
    assert bound is not None and isinstance(bound.witness, LastStepWitness)
    return bound, bound.witness


@pytest.fixture
def proved() -> tuple[Problem, LowerBound, LastStepWitness]:
    p = problem(servers([4, 8], [1, 1]), "allgather")  # one NIC each
    return (p, *last_step(p))


def test_one_nic_for_four_gpus_needs_a_step_after_the_last_arrival(
    proved: tuple[Problem, LowerBound, LastStepWitness],
) -> None:
    p, bound, witness = proved
    assert (bound.steps, witness.needed, witness.capacity, witness.wanted) == (9, 8, 1, 4)
    assert witness.copies == 3
    assert certificate_violations(p, bound) == []
    recheck(p, bound)


def test_false_claims_are_refused(proved: tuple[Problem, LowerBound, LastStepWitness]) -> None:
    p, bound, w = proved
    wrong = [
        replace(bound, steps=bound.steps + 1),
        replace(bound, steps=bound.steps - 1),
        *(replace(bound, witness=replace(w, wanted=n)) for n in (0, -1, 5)),
        *(replace(bound, witness=replace(w, copies=n)) for n in (2, 1, 0, -1)),
        replace(bound, witness=replace(w, needed=9)),
        replace(bound, witness=replace(w, capacity=2)),
        replace(bound, witness=replace(w, resources=w.resources[1:])),
        replace(bound, witness=replace(w, region=w.region[1:])),
        replace(bound, witness=replace(w, direction="out")),
        replace(bound, method="cut"),
    ]
    assert [b for b in wrong if not certificate_violations(p, b)] == []


@pytest.mark.parametrize(("sizes", "steps"), [([4, 4, 4], 4), ([4, 4, 8], 5)])
def test_sums_that_are_added_one_at_a_time_arrive_earlier(sizes: list[int], steps: int) -> None:
    """HeteCCL eq. 8: with 4 NICs into a server of 4, a chunk more than 4 (T - 2) + 3 takes a step more."""
    p, _ = invert(problem(servers(sizes), "reducescatter", exclusive=True))
    bound, witness = last_step(p)
    assert (bound.steps, witness.copies) == (steps, 1)
    assert certificate_violations(p, bound) == []
    recheck(p, bound)
    assert certificate_violations(replace(p, exclusive_reduction=False), bound)


@settings(max_examples=30, deadline=None)
@given(tiny_graphs(3), st.booleans())
def test_it_never_exceeds_the_optimum(graph: object, exclusive: bool) -> None:
    p = replace(problem(graph, "allgather"), exclusive_reduction=exclusive)  # type: ignore[arg-type]
    _, bound = cut_bounds(p)
    best = copying_optimum(p)
    if bound is not None and best is not None:
        assert bound.steps <= best
        assert certificate_violations(p, bound) == []
        recheck(p, bound)
