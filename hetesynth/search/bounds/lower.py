"""The best lower bound on the number of steps of a problem.

In: a copying problem, or allreduce. Out: a ``LowerBound`` with its witness. Reductions to one rank per chunk are
bounded through their dual, which takes exactly as many steps: the caller inverts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.search.bounds.cut import cut_bounds, volume_bound
from hetesynth.search.bounds.distance import distance_bound, doubling_bound
from hetesynth.search.bounds.growth import growth_bound


def all_bounds(
    problem: Problem, policy: BoundsPolicy = DEFAULT.bounds, packing: PackingPolicy = DEFAULT.packing
) -> list[LowerBound]:
    """Every bound that applies, best first; among equals the simplest proof first."""
    cheap, last_step = _without_flows(problem, policy)
    bounds = list(cheap)
    if not problem.collective.reduces:
        bounds += _flow_bounds(problem, max(b.steps for b in bounds), policy, packing)
    return sorted([*bounds, *last_step], key=lambda b: -b.steps)


def quick_bound(problem: Problem, policy: BoundsPolicy = DEFAULT.bounds) -> LowerBound:
    """The best of those that take no flows and no linear programs."""
    cheap, last_step = _without_flows(problem, policy)
    return max((*cheap, *last_step), key=lambda b: b.steps)


@lru_cache(maxsize=16)
def _without_flows(
    problem: Problem, policy: BoundsPolicy
) -> tuple[tuple[LowerBound, ...], tuple[LowerBound, ...]]:  # fmt: skip
    """The quick bounds; apart from them that of the last step, where there is one."""
    cut, last_step = cut_bounds(problem, policy)
    return tuple(_cheap_bounds(problem, cut, policy)), () if last_step is None else (last_step,)


def _flow_bounds(
    problem: Problem, at_least: int, policy: BoundsPolicy, packing: PackingPolicy
) -> Iterator[LowerBound]:  # fmt: skip
    """What enters each destination; what leaves each source, where every chunk has one target; prices of paths and
    of trees."""
    from hetesynth.search.bounds.flow import flow_bound
    from hetesynth.search.bounds.price import price_bound
    from hetesynth.search.bounds.tree_price import tree_price_bound

    into = flow_bound(problem, at_least, policy)
    if into is not None:
        yield into
    collective = problem.collective
    if all(len(post) == 1 for post in collective.post) and all(len(pre) == 1 for pre in collective.pre):
        out_of = flow_bound(problem.reversed(), at_least, policy)
        if out_of is not None:
            yield replace(out_of, proof=out_of.proof.replace("can reach", "can leave"), backwards=True)
    for prices in (price_bound(problem, policy), tree_price_bound(problem, policy, packing)):
        if prices is not None:
            yield prices


def lower_bound(
    problem: Problem, policy: BoundsPolicy = DEFAULT.bounds, packing: PackingPolicy = DEFAULT.packing
) -> LowerBound:
    """The best bound known."""
    return all_bounds(problem, policy, packing)[0]


def _cheap_bounds(problem: Problem, cut: LowerBound | None, policy: BoundsPolicy) -> Iterator[LowerBound]:
    collective = problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    moving = any(post - pre or (collective.reduces and len(pre) > 1) for pre, post in pairs)
    yield LowerBound(int(moving), "trivial", "something must move" if moving else "nothing has to move")
    yield distance_bound(problem)
    growth = None if problem.collective.reduces else growth_bound(problem, policy)
    for bound in (doubling_bound(problem), cut, volume_bound(problem, policy), growth):
        if bound is not None:
            yield bound
