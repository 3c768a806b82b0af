"""Random falsification: whatever the judge of bounds accepts is at most the true optimum of a tiny problem."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.graphs import problem
from support.optimum import copying_optimum, reducing_optimum
from support.random_graphs import tiny_graphs
from support.verdicts import certificate_violations

from hetesynth.model.bound import CutWitness, FlowWitness, LowerBound, PriceWitness, VolumeWitness
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.search.solve import bounds_of

COPYING: list[CollectiveName] = ["allgather", "broadcast", "gather", "scatter", "alltoall"]
REDUCTIONS: list[CollectiveName] = ["reduce", "reducescatter", "allreduce"]
few = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
many = settings(max_examples=6000, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    name = draw(st.sampled_from(COPYING + REDUCTIONS))
    most = 2 if name in ("reducescatter", "allreduce", "alltoall") else 3
    return problem(draw(tiny_graphs(most=most)), name, exclusive=draw(st.booleans()))


@st.composite
def witnesses(draw: st.DrawFn, wanted: Problem) -> LowerBound:
    """A bound out of thin air that adds up in itself as far as possible."""
    ranks = st.integers(0, wanted.ranks - 1)
    small = st.integers(0, 6)
    names = tuple(sorted(draw(st.sets(st.sampled_from([r.name for r in wanted.resources]), min_size=1))))
    capacity = sum(r.capacity for r in wanted.resources if r.name in names)
    kind = draw(st.sampled_from(["cut", "volume", "flow", "price"]))
    backwards = draw(st.booleans())
    if kind == "cut":
        region = tuple(sorted(draw(st.sets(ranks, min_size=1))))
        needed = draw(st.integers(1, 9))
        claim: Any = CutWitness(region, draw(st.sampled_from(["in", "out"])), names, needed, capacity)
        return LowerBound(-(-needed // capacity), "cut", "", claim, backwards)
    if kind == "volume":
        label = draw(st.lists(ranks, min_size=wanted.ranks, max_size=wanted.ranks))
        parts = tuple(tuple(r for r in range(wanted.ranks) if label[r] == x) for x in sorted(set(label)))
        chunks, crossings = len(wanted.collective.chunks), 2 * (len(parts) - 1)
        steps = -(-chunks * crossings // capacity)
        return LowerBound(steps, "volume", "", VolumeWitness(parts, chunks, crossings, names, capacity), backwards)
    if kind == "flow":
        steps = draw(st.integers(0, 3))
        places = [(t, v) for t in range(steps + 1) for v in range(wanted.ranks)]
        side = tuple(sorted(draw(st.sets(st.sampled_from(places)))))
        flow = draw(small)
        claim = FlowWitness(draw(ranks), steps, flow, flow + draw(st.integers(1, 3)), side)
        return LowerBound(steps + 1, "flow", "", claim, backwards)
    prices = tuple((name, draw(st.integers(0, 3))) for name in names)
    width = {r.name: r.capacity for r in wanted.resources}
    earned = sum(p * width[name] for name, p in prices)
    paid = draw(st.integers(0, 20))
    steps = -(-paid // earned) if earned else draw(small)
    return LowerBound(steps, "price", "", PriceWitness(prices, paid, earned), backwards)


@st.composite
def altered(draw: st.DrawFn, wanted: Problem) -> LowerBound:
    """A good bound with one number changed and the steps that follow from it."""
    bound = draw(st.sampled_from(bounds_of(wanted)))
    assume(bound.witness is not None)
    witness: Any = bound.witness
    numbers = [f.name for f in fields(witness) if isinstance(getattr(witness, f.name), int)]
    name = draw(st.sampled_from(numbers))
    witness = replace(witness, **{name: getattr(witness, name) + draw(st.sampled_from([-2, -1, 1, 2]))})
    more = draw(st.integers(0, 2))
    return replace(bound, witness=witness, steps=bound.steps + more, backwards=draw(st.booleans()))


def _optimum(wanted: Problem) -> int | None:
    return (reducing_optimum if wanted.collective.reduces else copying_optimum)(wanted)


def _never_too_much(data: st.DataObject) -> None:
    wanted = data.draw(problems())
    bound = data.draw(st.one_of(witnesses(wanted), altered(wanted)))
    if not certificate_violations(wanted, bound):
        best = _optimum(wanted)
        assert best is None or bound.steps <= best, (wanted, bound)


@given(st.data())
@few
def test_no_false_bound_is_accepted(data: st.DataObject) -> None:
    _never_too_much(data)


@pytest.mark.slow
@given(st.data())
@many
def test_no_false_bound_is_accepted_among_many(data: st.DataObject) -> None:
    _never_too_much(data)
