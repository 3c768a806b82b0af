"""All encodings of the step model have the same answers, and all ways to count the same solutions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cardinality import CARDINALITY_ENCODINGS
from support.graphs import Graph, dgx1, fig10, line, problem, ring, servers
from support.optimum import copying_optimum
from support.random_graphs import tiny_graphs
from support.replay import accepts
from support.time_model import TimeModel

from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.clauses import Clauses
from hetesynth.search.smt.monolithic import every_law
from hetesynth.search.smt.step_model import StepModel

ENOUGH = 50_000_000  # solver resource units
COPYING: list[CollectiveName] = ["allgather", "broadcast", "gather", "scatter", "alltoall"]


@pytest.mark.parametrize("way", sorted(CARDINALITY_ENCODINGS))
def test_a_count_allows_exactly_what_it_says(way: str) -> None:
    for many, limit in ((1, 0), (2, 1), (3, 0), (4, 2), (5, 1), (5, 4), (6, 3)):
        clauses = Clauses()
        variables = [clauses.variable(f"x{i}") for i in range(many)]
        CARDINALITY_ENCODINGS[way](clauses, variables, limit)
        for values in product((False, True), repeat=many):
            signed = [v if value else -v for v, value in zip(variables, values, strict=True)]
            expected = "sat" if sum(values) <= limit else "unsat"
            assert clauses.check(signed, ENOUGH, None) == expected, (many, limit, values)


def test_what_is_stated_does_not_depend_on_how_it_is_told() -> None:
    texts = set()
    for way in sorted(CARDINALITY_ENCODINGS):
        tables = CopyProblem(problem(fig10(), "allgather"))
        model = StepModel(tables, 3, encoding=CARDINALITY_ENCODINGS[way])
        for law in every_law(tables):
            model.add(law)
        texts.add(model.smt2())
    assert len(texts) == 1 and "help" not in texts.pop()


def answers(wanted: Problem, steps: int) -> set[str]:
    tables = CopyProblem(wanted)
    found = set()
    for way in sorted(CARDINALITY_ENCODINGS):
        model = StepModel(tables, steps, encoding=CARDINALITY_ENCODINGS[way])
        for law in every_law(tables):
            model.add(law)
        answer = model.check((), ENOUGH, None)
        if answer == "sat":
            assert accepts(wanted, Schedule.of(model.transfers(), steps)), way
        found.add(answer)
    timed = TimeModel(tables, steps)
    answer = timed.check(ENOUGH)
    if answer == "sat":
        assert accepts(wanted, Schedule.of(timed.transfers(), steps))
    return {*found, answer}


@pytest.mark.parametrize(
    ("graph", "name", "optimum"),
    [
        (dgx1(), "allgather", 2), (fig10(), "allgather", 5), (ring(5), "alltoall", 3), (line(4), "allgather", 3),
        (servers([2, 3], [1, 1]), "allgather", 4),
    ],
)  # fmt: skip
def test_encodings_agree_on_known_optima(graph: Graph, name: CollectiveName, optimum: int) -> None:
    wanted = problem(graph, name)
    assert answers(wanted, optimum) == {"sat"}
    assert answers(wanted, optimum - 1) == {"unsat"}


@given(st.sampled_from(COPYING), tiny_graphs(most=3), st.booleans(), st.integers(0, 2))
@settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
def test_encodings_agree_with_exhaustive_search(
    name: CollectiveName, graph: Graph, exclusive: bool, peers: int
) -> None:
    from dataclasses import replace

    wanted = problem(graph, name, exclusive=exclusive and name in ("broadcast", "allgather"))
    best = copying_optimum(wanted)
    assert best is not None
    assert answers(wanted, best) == {"sat"}
    if best > 1:
        assert answers(wanted, best - 1) == {"unsat"}
    if peers:
        assert len(answers(replace(wanted, max_peers=peers), best)) == 1
