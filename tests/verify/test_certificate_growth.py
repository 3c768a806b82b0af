"""Growth witnesses that prove nothing are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import problem, servers
from support.verdicts import certificate_violations

from hetesynth.model.bound import GrowthWitness, LowerBound
from hetesynth.model.problem import Problem
from hetesynth.search.bounds.lower import growth_bound


@pytest.fixture(scope="module")
def proved() -> tuple[Problem, LowerBound, GrowthWitness]:
    wanted = problem(servers([4] * 8 + [8] * 4), "broadcast")
    bound = growth_bound(wanted)
    assert bound is not None and isinstance(bound.witness, GrowthWitness)
    assert certificate_violations(wanted, bound) == []
    return wanted, bound, bound.witness


def test_one_step_more_is_refused(proved: tuple[Problem, LowerBound, GrowthWitness]) -> None:
    wanted, bound, _ = proved
    assert certificate_violations(wanted, replace(bound, steps=bound.steps + 1))


@pytest.mark.parametrize("side", ["out_of_parts", "into_parts", "out_of_ranks"])
def test_a_resource_left_out_is_refused(proved: tuple[Problem, LowerBound, GrowthWitness], side: str) -> None:
    wanted, bound, witness = proved
    named = getattr(witness, side)
    for wrong in ((named[0][1:], *named[1:]), (("nothing",), *named[1:]), named[1:], ((), *named[1:])):
        claim = replace(witness, **{side: wrong})
        assert certificate_violations(wanted, replace(bound, witness=claim)), wrong


def test_a_partition_that_is_none_is_refused(proved: tuple[Problem, LowerBound, GrowthWitness]) -> None:
    wanted, bound, witness = proved
    for parts in (witness.parts[1:], (*witness.parts[:-1], ()), (witness.parts[0] * 2, *witness.parts[1:])):
        assert certificate_violations(wanted, replace(bound, witness=replace(witness, parts=parts)))


def test_a_chunk_that_only_some_want_is_refused(proved: tuple[Problem, LowerBound, GrowthWitness]) -> None:
    wanted, bound, _ = proved
    few = replace(wanted.collective, post=(frozenset(range(63)),))
    assert certificate_violations(replace(wanted, collective=few), bound)


@pytest.mark.parametrize("chunk", [-1, 1])
def test_a_chunk_that_is_not_there_is_refused(
    proved: tuple[Problem, LowerBound, GrowthWitness], chunk: int
) -> None:
    wanted, bound, witness = proved
    assert certificate_violations(wanted, replace(bound, witness=replace(witness, chunk=chunk)))
