"""Random heterogeneous clusters: never a wrong schedule, never a bound above what was achieved."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.certificates import recheck
from support.graphs import Graph, problem, servers
from support.random_graphs import clusters
from support.replay import complaint

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.verdict import Infeasible
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution, Solver, bounds_of


def judge(graph: Graph, name: CollectiveName, chunks: int, method: str, root: int = 0) -> None:
    wanted = problem(graph, name, chunks, root % graph.ranks, exclusive=name == "allreduce")
    outcome = Solver(strategy(method), Budget(effort=1.0), schedule_violations).solve(wanted)
    if isinstance(outcome, Infeasible):
        assert _cut_off(graph), outcome
        return
    assert isinstance(outcome, Solution)
    assert complaint(wanted, outcome.schedule) is None
    for bound in [outcome.bound, *bounds_of(wanted)]:
        assert bound.steps <= outcome.schedule.makespan
        recheck(wanted, bound)
    if outcome.within is not None:
        assert outcome.bound.steps <= outcome.within <= outcome.schedule.makespan


def _cut_off(graph: Graph) -> bool:
    import networkx as nx

    made = nx.DiGraph([(a.src, a.dst) for a in graph.arcs])
    made.add_nodes_from(range(graph.ranks))
    return not nx.is_strongly_connected(made)


@given(clusters(), st.sampled_from(COLLECTIVE_NAMES), st.integers(1, 2), st.integers(0, 40))
@settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
def test_greedy_on_random_clusters(graph: Graph, name: CollectiveName, chunks: int, root: int) -> None:
    judge(graph, name, chunks, "greedy", root)


@given(clusters(3, 3), st.sampled_from(COLLECTIVE_NAMES), st.integers(0, 40))
@settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
def test_auto_on_random_clusters(graph: Graph, name: CollectiveName, root: int) -> None:
    judge(graph, name, 1, "auto", root)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_a_server_that_only_sends_is_noticed(name: CollectiveName) -> None:
    graph = servers([2, 2], oneway=True)
    wanted = problem(graph, name, root=0)
    outcome = Solver(strategy("auto"), Budget(), schedule_violations).solve(wanted)
    # what starts in the first server reaches the second, not the other way round
    assert isinstance(outcome, Solution if name in ("broadcast", "scatter") else Infeasible)
