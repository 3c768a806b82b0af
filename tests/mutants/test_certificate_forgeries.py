"""Forged certificates: what the judge of bounds accepts is at most the true optimum."""

from __future__ import annotations

from functools import cache

import pytest
from support.forgeries import forgeries
from support.graphs import Graph, full, line, problem, ring, servers, star
from support.optimum import copying_optimum, reducing_optimum
from support.verdicts import certificate_violations

from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem, Resource
from hetesynth.search.solve import bounds_of


def bus() -> Graph:
    graph = full(3)
    graph.groups.append(Resource("bus", (0, 1, 2), 1))
    return graph


GRAPHS = {
    "line3": lambda: line(3), "line4": lambda: line(4), "oneway3": lambda: ring(3, both=False), "bus": bus,
    "star3": lambda: star(3), "1+2": lambda: servers([1, 2]), "2+2": lambda: servers([2, 2]),
    "two": lambda: full(2),
    "2+2+2": lambda: servers([2, 2, 2]), "wide": lambda: ring(3, 2),
}  # fmt: skip
CASES: list[tuple[str, CollectiveName, int, bool]] = [
    *((graph, "broadcast", 1, False) for graph in ("line4", "star3", "2+2", "2+2+2", "bus", "wide")),
    ("2+2", "broadcast", 1, True), ("1+2", "broadcast", 2, False), ("line3", "broadcast", 3, False),
    *((graph, "allgather", 1, False) for graph in ("line3", "oneway3", "bus", "star3", "1+2", "wide")),
    ("line3", "gather", 2, False), ("line3", "scatter", 2, False), ("oneway3", "gather", 1, False),
    ("line3", "reduce", 1, False), ("star3", "reduce", 1, True), ("two", "reducescatter", 1, False),
    ("two", "allreduce", 1, False), ("two", "allreduce", 1, True),
]  # fmt: skip


@cache
def case(graph: str, name: CollectiveName, chunks: int, exclusive: bool) -> tuple[Problem, list[LowerBound], int]:
    """A tiny problem, its bounds, and the fewest steps of all its schedules."""
    wanted = problem(GRAPHS[graph](), name, chunks, exclusive=exclusive)
    best = (reducing_optimum if wanted.collective.reduces else copying_optimum)(wanted)
    assert best is not None
    return wanted, list(bounds_of(wanted)), best


def test_every_kind_is_forged() -> None:
    kinds = {bound.method for given in CASES for bound in case(*given)[1]}
    assert kinds >= {"trivial", "doubling", "distance", "cut", "last-step", "volume", "price", "growth"}


@pytest.mark.parametrize("given", CASES, ids=[" ".join(map(str, given)) for given in CASES])
def test_no_forgery_that_is_accepted_claims_more_than_the_truth(
    given: tuple[str, CollectiveName, int, bool],
) -> None:
    wanted, bounds, best = case(*given)
    for bound in bounds:
        assert bound.steps <= best and not certificate_violations(wanted, bound)
        for forged in forgeries(wanted, bound):
            if not certificate_violations(wanted, forged):
                assert forged.steps <= best, forged
