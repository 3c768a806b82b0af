"""Packed trees: exact loads, every law kept, as few steps as the busiest resource needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.graphs import Graph, dgx1, problem, ring, servers
from support.random_graphs import clusters
from support.replay import complaint

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.lower import lower_bound
from hetesynth.search.search import Search
from hetesynth.search.trees import packed_trees as packed
from hetesynth.search.trees.packed_trees import Packing
from hetesynth.search.trees.packed_trees import packed as packing_of


def never() -> bool:
    return False


def searched(instance: Problem, seed: int = 0, seconds: float | None = None) -> Search:
    search = Search(
        instance, lower_bound(instance).steps, Budget(seconds, seed, strict_deadline=True), schedule_violations
    )
    packed.improve(search)
    return search


def loads(instance: Problem, packing: Packing) -> list[float]:
    crossed = Counter(a for tree in packing.trees for _, _, a in tree)
    return [sum(crossed[a] for a in r.arcs) / r.capacity for r in instance.resources]


@pytest.mark.parametrize(
    ("graph", "chunks", "above"),
    [
        (dgx1(), 8, 1),
        (ring(8), 16, 0),
        (servers([8, 8, 4]), 8, 0),
        (servers([8, 8, 4]), 32, 0),
        (servers([4, 8]), 8, 1),
        (servers([4, 4]), 16, 1),
    ],
)
def test_many_chunks_lose_no_steps(graph: Graph, chunks: int, above: int) -> None:
    search = searched(problem(graph, "allgather", chunks))
    assert search.best is not None
    assert search.best.makespan <= search.target + above
    assert complaint(search.problem, search.best) is None


def test_trees_span_and_fill_the_scarcest_resources_to_the_last_chunk() -> None:
    instance = problem(servers([4, 4, 8]), "allgather", 16)
    packing = packing_of(instance, lower_bound(instance).steps, np.random.default_rng(0), never, DEFAULT)
    assert packing is not None
    for k, tree in enumerate(packing.trees):
        reached = set(instance.collective.pre[k])
        for u, v, a in tree:
            assert (instance.arcs[a].src, instance.arcs[a].dst) == (u, v)
            assert u in reached and v not in reached
            reached.add(v)
        assert reached == set(range(instance.ranks))
    assert max(loads(instance, packing)) == packing.fullest < lower_bound(instance).steps
    # 16 chunks a rank, 8 of them routed: every tree serves two chunks of the same rank
    assert Counter(packing.copy) == {0: 8 * instance.ranks, 1: 8 * instance.ranks}


@settings(max_examples=25, deadline=None)
@given(clusters(3, 4))
def test_random_clusters(graph: Graph) -> None:
    search = searched(problem(graph, "allgather", 2))
    assert search.best is not None
    assert complaint(search.problem, search.best) is None
    assert search.best.makespan >= search.target


@pytest.mark.parametrize("chunks", [1, 5, 12, 13])
def test_any_number_of_chunks(chunks: int) -> None:
    search = searched(problem(servers([4, 4]), "allgather", chunks))
    assert search.best is not None and search.best.makespan <= search.target + 2
    assert complaint(search.problem, search.best) is None


def test_a_broadcast_is_packed_too() -> None:
    search = searched(problem(ring(6), "broadcast", 16))
    assert search.best is not None
    assert complaint(search.problem, search.best) is None


def test_the_laws_few_problems_have() -> None:
    instance = problem(servers([3, 4]), "allgather", 4)
    for law in (replace(instance, exclusive_reduction=True), replace(instance, max_peers=5)):
        search = searched(law)
        assert search.best is not None  # the oracle knows both laws
        assert search.best.makespan >= search.target


def test_the_same_seed_gives_the_same_schedule() -> None:
    instance = problem(servers([4, 4, 8]), "allgather", 4)
    assert searched(instance, seed=3).best == searched(instance, seed=3).best
    assert searched(instance, seed=3).best != searched(instance, seed=4).best


def test_no_time_is_no_schedule_and_what_does_not_go_to_everybody_is_refused() -> None:
    late = searched(problem(servers([4, 4]), "allgather", 2), seconds=0.0)
    assert late.best is None and late.cut_short
    assert packed.refuses(problem(ring(4), "alltoall")) is not None
    assert searched(problem(ring(4), "alltoall")).best is None


def test_a_forwarding_delay_is_kept_and_costs_few_steps() -> None:
    instance = problem(servers([4, 4, 8]), "allgather", 16)
    search = Search(instance, lower_bound(instance).steps, Budget(None, 0), schedule_violations)
    packed.forwarding_delay_strategy().improve(search)
    assert search.best is not None and search.best.makespan <= search.target + 2
    arrived = {(t.chunk, instance.arcs[t.link].dst): t.end for t in search.best.transfers}
    for t in search.best.transfers:
        came = arrived.get((t.chunk, instance.arcs[t.link].src))
        assert came is None or t.start >= came + 1
    assert complaint(instance, search.best) is None


@pytest.mark.parametrize("graph", [ring(6), dgx1(), servers([3, 4])])
def test_steps_in_which_every_delivery_is_delayed(graph: Graph) -> None:
    instance = problem(graph, "allgather", 1)
    search = Search(instance, lower_bound(instance).steps, Budget(None, 0), schedule_violations)
    packed.forwarding_delay_strategy().improve(search)
    assert search.best is not None
    assert complaint(instance, search.best) is None


def test_how_many_chunks_are_routed_is_policy() -> None:
    instance = problem(servers([4, 4]), "allgather", 26)
    rng, bound = np.random.default_rng(0), lower_bound(instance).steps
    for few in (13, 2):
        policy = replace(DEFAULT, trees=replace(DEFAULT.trees, routed_of_kind=few))
        packing = packing_of(instance, bound, rng, lambda: False, policy)
        assert packing is not None and max(packing.copy) == 26 // few - 1
