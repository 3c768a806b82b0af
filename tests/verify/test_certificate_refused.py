"""Falsified witnesses of every kind are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.graphs import Graph, fig10, full, line, problem, servers
from support.verdicts import certificate_violations

from hetesynth.judge.bounds.laws import AtMost, Clause
from hetesynth.judge.bounds.query import assertions
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound, UnsatWitness
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.search.bounds.lower import cut_bounds, lower_bound
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution, Solver, bounds_of

Change = Callable[[Any], Any]


def produced(graph: Graph, name: CollectiveName, method: str, **options: Any) -> tuple[Problem, LowerBound]:
    wanted = problem(graph, name, **options)
    return wanted, next(b for b in bounds_of(wanted) if b.method == method)


def swapped(pairs: Any, index: int, change: Change) -> Any:
    return (*pairs[:index], change(pairs[index]), *pairs[index + 1 :])


BOUNDS: dict[str, tuple[Problem, LowerBound]] = {
    "distance": produced(line(4), "broadcast", "distance"),
    "distance backwards": produced(line(4), "reduce", "distance"),
    "cut": produced(servers([4, 8]), "allgather", "cut", chunks=2),
    "volume": produced(servers([2, 2]), "allreduce", "volume", chunks=2),
    "flow": produced(servers([4, 8]), "allgather", "flow", chunks=2),
    "flow backwards": produced(servers([4, 8]), "reducescatter", "flow", chunks=2),
    "price": produced(fig10(), "alltoall", "price"),
    "doubling": produced(full(5), "reduce", "doubling", exclusive=True),
    "trivial": produced(full(3), "allgather", "trivial"),
}

CHANGES: list[tuple[str, str, Change]] = [
    ("distance", "hops", lambda w: replace(w, hops=w.hops + 1)),
    ("distance", "chunk", lambda w: replace(w, chunk=77)),
    ("distance", "rank", lambda w: replace(w, rank=1)),
    ("distance backwards", "hops", lambda w: replace(w, hops=w.hops + 1)),
    ("cut", "no region", lambda w: replace(w, region=())),
    ("cut", "a rank twice", lambda w: replace(w, region=(*w.region, w.region[0]))),
    ("cut", "capacity nothing", lambda w: replace(w, capacity=0)),
    ("cut", "a resource twice", lambda w: replace(w, resources=(*w.resources, w.resources[0]))),
    ("cut", "a resource unknown", lambda w: replace(w, resources=("magic", *w.resources[1:]))),
    ("cut", "no resource", lambda w: replace(w, resources=(), capacity=0)),
    ("flow", "steps raised", lambda w: replace(w, steps=w.steps + 1)),
    ("flow", "steps without end", lambda w: replace(w, steps=10**12)),
    ("flow backwards", "flow lowered", lambda w: replace(w, flow=w.flow - 1)),
    ("price", "a price zeroed", lambda w: replace(w, prices=swapped(w.prices, 3, lambda p: (p[0], 0)))),
    ("price", "a price negative", lambda w: replace(w, prices=swapped(w.prices, 0, lambda p: (p[0], -5)))),
    ("price", "a price doubled", lambda w: replace(w, prices=swapped(w.prices, 3, lambda p: (p[0], 2 * p[1])))),
    ("price", "two prices", lambda w: replace(w, prices=(*w.prices, w.prices[0]))),
    ("price", "a name unknown", lambda w: replace(w, prices=(("magic", 5), *w.prices))),
    ("price", "no prices", lambda w: replace(w, prices=(), earned=0)),
    ("price", "paid raised", lambda w: replace(w, paid=w.paid + 1)),
    ("price", "earned lowered", lambda w: replace(w, earned=w.earned - 1)),
    ("price", "earned nothing", lambda w: replace(w, earned=0)),
]


@pytest.mark.parametrize("kind", BOUNDS)
def test_the_bounds_are_good_before_they_are_falsified(kind: str) -> None:
    assert not certificate_violations(*BOUNDS[kind])


@pytest.mark.parametrize("kind", BOUNDS)
def test_one_step_more_is_refused(kind: str) -> None:
    wanted, bound = BOUNDS[kind]
    found = certificate_violations(wanted, replace(bound, steps=bound.steps + 1))
    assert [v.kind for v in found] == ["certificate"] and str(bound.steps + 1) in found[0].message


@pytest.mark.parametrize(("kind", "what", "change"), CHANGES, ids=[f"{k}: {w}" for k, w, _ in CHANGES])
def test_a_falsified_witness_is_refused(kind: str, what: str, change: Change) -> None:
    wanted, bound = BOUNDS[kind]
    false = change(bound.witness)
    assert false != bound.witness
    assert certificate_violations(wanted, replace(bound, witness=false))


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_witness_of_another_kind_is_refused(kind: str) -> None:
    wanted, bound = BOUNDS[kind]
    other = BOUNDS["cut" if bound.method != "cut" else "flow"][1].witness
    assert certificate_violations(wanted, replace(bound, witness=other))


def test_a_wire_of_one_link_limits_only_as_its_link_does() -> None:
    """The judge of schedules knows the link's capacity; a narrower wire that nobody shares is no law."""
    from hetesynth.model.bound import FlowWitness

    graph = line(2)
    graph.segments[0] = replace(graph.segments[0], capacity=1)
    graph.arcs[0] = replace(graph.arcs[0], capacity=2)
    wanted = problem(graph, "allgather", 2)
    claim = FlowWitness(1, 1, 1, 2, ((0, 0), (1, 0)))
    assert certificate_violations(wanted, LowerBound(2, "flow", "one a step", claim))


@pytest.fixture
def unaided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the last-step bound, which would spare the solver, and without bounds of tests before."""
    monkeypatch.setattr("hetesynth.search.solve.lower_bound", lower_bound.__wrapped__)
    monkeypatch.setattr("hetesynth.search.bounds.lower.cut_bounds", lambda p: (cut_bounds(p)[0], None))


@pytest.mark.usefixtures("unaided")
def test_no_assertion_can_be_strengthened() -> None:
    """A clause without one of its literals, a count lowered by one: refused without asking a solver."""
    wanted = problem(servers([1, 3], 2), "broadcast", 2, exclusive=True)
    outcome = Solver(strategy("monolithic"), Budget(), schedule_violations).solve(wanted)
    assert isinstance(outcome, Solution) and isinstance(outcome.bound.witness, UnsatWitness)
    text, bound = outcome.bound.witness.query, outcome.bound
    stated = list(assertions(text))
    assert not certificate_violations(wanted, bound) and len(stated) > 50
    head = text.split("(assert")[0]
    for assertion in stated:
        for stronger in _stronger(assertion):
            witness = replace(bound.witness, query=f"{head}(assert {stronger})")
            assert certificate_violations(wanted, replace(bound, witness=witness)), (assertion, stronger)


def _stronger(assertion: Clause | AtMost) -> Iterator[str]:
    if isinstance(assertion, AtMost):
        yield f"((_ at-most {assertion.limit - 1}) {' '.join(assertion.names)})"
        return
    last = {f"has_{k}_{r}_2" for k in (0, 1) for r in range(4)}  # holds at the end, with or without a reason
    literals = [name if positive else f"(not {name})" for name, positive in assertion]
    for i in range(len(literals)):
        if not last & {*literals[:i], *literals[i + 1 :]}:
            yield f"(or {' '.join(literals[:i] + literals[i + 1 :])})"
