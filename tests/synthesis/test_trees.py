"""Packed trees: every schedule keeps the laws, and with many chunks few steps are lost."""

from __future__ import annotations

from collections import Counter

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
from hetesynth.search.trees import packed_trees


def searched(instance: Problem, seed: int = 0, seconds: float | None = None) -> Search:
    budget = Budget(seconds, seed, strict_deadline=True)
    search = Search(instance, lower_bound(instance).steps, budget, schedule_violations)
    packed_trees.improve(search)
    assert search.best is None or complaint(instance, search.best) is None
    return search


@pytest.mark.parametrize(
    ("graph", "chunks", "above"),
    [
        (dgx1(), 4, 1),
        (ring(8), 8, 0),
        (servers([8, 8, 4]), 4, 0),
        (servers([4, 8]), 8, 1),
        (servers([4, 4]), 13, 2),
    ],
)
def test_many_chunks_lose_few_steps(graph: Graph, chunks: int, above: int) -> None:
    search = searched(problem(graph, "allgather", chunks))
    assert search.best is not None and search.best.makespan <= search.target + above


@settings(max_examples=20, deadline=None)
@given(graph=clusters(3, 4))
def test_random_clusters(graph: Graph) -> None:
    search = searched(problem(graph, "allgather", 2))
    assert search.best is not None and search.best.makespan >= search.target


def test_the_same_seed_gives_the_same_schedule() -> None:
    instance = problem(servers([4, 4, 8]), "allgather", 2)
    first, again, other = (searched(instance, seed).best for seed in (3, 3, 4))
    assert first == again != other


def test_no_time_is_no_schedule_and_what_does_not_go_to_everybody_is_refused() -> None:
    late = searched(problem(servers([4, 4]), "allgather", 2), seconds=0.0)
    assert late.best is None and late.cut_short
    assert packed_trees.refuses(problem(ring(4), "alltoall")) is not None
    assert packed_trees.refuses(problem(ring(4), "allgather")) is None


def test_trees_span_and_fill_the_scarcest_resources_to_the_last_chunk() -> None:
    instance = problem(servers([4, 4, 8]), "allgather", 16)
    steps = lower_bound(instance).steps
    packing = packed_trees.packed(instance, steps, np.random.default_rng(0), lambda: False, DEFAULT)
    assert packing is not None
    trees, copy = packing
    for k, tree in enumerate(trees):
        reached = set(instance.collective.pre[k])
        for u, v, a in tree:
            assert (instance.arcs[a].src, instance.arcs[a].dst) == (u, v)
            assert u in reached and v not in reached
            reached.add(v)
        assert reached == set(range(instance.ranks))
    crossed = Counter(a for tree in trees for _, _, a in tree)
    assert max(sum(crossed[a] for a in r.arcs) / r.capacity for r in instance.resources) < steps
    # 16 chunks a rank, 8 of them routed: every tree serves two chunks of the same rank
    assert Counter(copy) == {0: 8 * instance.ranks, 1: 8 * instance.ranks}
