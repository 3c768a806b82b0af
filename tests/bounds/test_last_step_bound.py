"""What first crosses in the last step must cross to everybody who wants it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.certificates import recheck
from support.graphs import line, problem, servers
from support.optimum import copying_optimum
from support.random_graphs import tiny_graphs
from support.verdicts import certificate_violations

from hetesynth.model.bound import LastStepWitness, LowerBound
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.lower import cut_bounds
from hetesynth.search.collectives import invert


def last_step(p: Problem) -> tuple[LowerBound, LastStepWitness]:
    _, bound = cut_bounds(p, DEFAULT.bounds)
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


@pytest.mark.parametrize(("sizes", "steps"), [([4, 4, 4], 4), ([4, 4, 8], 5), ([4, 4, 4, 8], 6), ([8, 8, 4], 6)])
def test_sums_that_are_added_one_at_a_time_arrive_earlier(sizes: list[int], steps: int) -> None:
    """HeteCCL eq. 8: with 4 NICs into a server of 4, a chunk more than 4 (T - 2) + 3 takes a step more."""
    p, _ = invert(problem(servers(sizes), "reducescatter", exclusive=True))
    bound, witness = last_step(p)
    assert (bound.steps, witness.copies) == (steps, 1)
    assert certificate_violations(p, bound) == []
    recheck(p, bound)
    assert certificate_violations(replace(p, exclusive_reduction=False), bound)


def test_sums_land_in_parts(proved: tuple[Problem, LowerBound, LastStepWitness]) -> None:
    _, bound, _ = proved
    assert certificate_violations(problem(servers([4, 8], [1, 1]), "allreduce"), bound)


def test_a_single_listener_adds_nothing() -> None:
    assert cut_bounds(problem(line(2), "allgather"), DEFAULT.bounds)[1] is None


@settings(max_examples=60, deadline=None)
@given(tiny_graphs(3), st.booleans())
def test_it_never_exceeds_the_optimum(graph: object, exclusive: bool) -> None:
    p = replace(problem(graph, "allgather"), exclusive_reduction=exclusive)  # type: ignore[arg-type]
    _, bound = cut_bounds(p, DEFAULT.bounds)
    best = copying_optimum(p)
    if bound is not None and best is not None:
        assert bound.steps <= best
        assert certificate_violations(p, bound) == []
        recheck(p, bound)
