"""Balanced trees: every schedule keeps the laws, and with many chunks few steps are lost."""

from __future__ import annotations

from dataclasses import replace

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
from hetesynth.search.trees import balanced_trees as trees


def searched(instance: Problem, rounds: int = 3, seed: int = 0) -> Search:
    search = Search(instance, lower_bound(instance).steps, Budget(seed=seed), schedule_violations)
    trees.improve(search, rounds)
    return search


@pytest.mark.parametrize(
    ("graph", "chunks", "above"),
    [
        (dgx1(), 4, 1),
        (ring(8), 8, 1),
        (servers([8, 8, 4]), 4, 1),
        (servers([4, 8]), 8, 1),
        (servers([4, 4]), 16, 2),
    ],
)
def test_many_chunks_lose_few_steps(graph: Graph, chunks: int, above: int) -> None:
    search = searched(problem(graph, "allgather", chunks), 6)
    assert search.best is not None
    assert search.best.makespan <= search.target + above
    assert complaint(search.problem, search.best) is None


@settings(max_examples=40, deadline=None)
@given(clusters(3, 4))
def test_random_clusters(graph: Graph) -> None:
    search = searched(problem(graph, "allgather", 2), 1)
    assert search.best is not None
    assert complaint(search.problem, search.best) is None
    assert search.best.makespan >= search.target


def test_the_laws_few_problems_have() -> None:
    instance = problem(servers([3, 4]), "allgather", 2)
    for law in (replace(instance, exclusive_reduction=True), replace(instance, max_peers=3)):
        search = searched(law)
        assert search.best is not None  # the oracle knows both laws
        assert search.best.makespan >= search.target


def test_the_same_seed_gives_the_same_schedule() -> None:
    instance = problem(servers([4, 4, 8]), "allgather", 2)
    assert searched(instance, seed=3).best == searched(instance, seed=3).best
    assert searched(instance, seed=3).best != searched(instance, seed=4).best


def test_what_does_not_go_to_everybody_is_refused() -> None:
    assert trees.refuses(problem(ring(4), "alltoall")) is not None
    assert trees.refuses(problem(ring(4), "allgather")) is None


def test_rounds_and_limits_are_policy() -> None:
    instance = problem(servers([4, 8]), "allgather", 8)
    for trees_policy in (replace(DEFAULT.trees, rounds=0), replace(DEFAULT.trees, max_ranks=11)):
        policy = replace(DEFAULT, trees=trees_policy)
        search = Search(instance, lower_bound(instance).steps, Budget(), schedule_violations, policy=policy)
        trees.improve(search)
        assert search.best is None
