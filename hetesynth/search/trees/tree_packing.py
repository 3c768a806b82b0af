"""Packed trees: routes that fill the scarcest resources to the last chunk, and no more.

In: a copying problem whose chunks go to everybody, and its lower bound in steps. Out: a tree for every chunk. A
few chunks of every kind are routed and the rest take copies of their trees, as a few trees with integer weights
carry the optimum (ForestColl, section 5). Balanced trees come within one chunk of the optimum; the last chunk is
found by negotiation (PathFinder, McMurchie and Ebeling 1995): what stays overfull becomes dearer for good, and
only chunks that cross it are routed anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, gcd

import numpy as np

from hetesynth.model.collective import Collective
from hetesynth.model.problem import Problem
from hetesynth.policy import Policy
from hetesynth.policy.trees import TreesPolicy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.list_scheduling import Tree
from hetesynth.search.trees.balanced_trees import TreeRouting


@dataclass(frozen=True, slots=True)
class Packing:
    """A tree for every chunk, and the chunks of the same tree in the same order: ``copy[k]`` counts them from 0.

    ``fullest``: steps of work on the busiest resource.
    """

    trees: list[Tree]
    copy: list[int]
    fullest: float


def packed(
    problem: Problem,
    bound: int,
    rng: np.random.Generator,
    ended: Callable[[], bool],
    policy: Policy,
) -> Packing | None:
    """Trees whose load is as even as was found in a bounded number of sweeps; None where peers run out."""
    kinds = _kinds(problem.collective)
    copies = _copies([len(kind) for kind in kinds], policy.trees)
    routed = sorted(k for kind in kinds for k in kind[: len(kind) // copies])
    # the problem of chunks alone
    whole = problem.collective
    part = replace(
        whole,
        chunks=tuple(replace(whole.chunks[k], index=i) for i, k in enumerate(routed)),
        pre=tuple(whole.pre[k] for k in routed),
        post=tuple(whole.post[k] for k in routed),
    )
    routing = _negotiated(replace(problem, collective=part), bound / copies, rng, ended, policy)
    if routing is None:
        return None
    fullest, routed_trees = routing
    tree_of = dict(zip(routed, routed_trees, strict=True))
    trees: list[Tree] = [[] for _ in problem.collective.chunks]
    copy = [0] * len(trees)
    for kind in kinds:
        few = len(kind) // copies
        for place, k in enumerate(kind):
            trees[k], copy[k] = tree_of[kind[place % few]], place // few
    return Packing(trees, copy, fullest * copies)


def _negotiated(
    problem: Problem, bound: float, rng: np.random.Generator, ended: Callable[[], bool], thresholds: Policy
) -> tuple[float, list[Tree]] | None:
    """The steps of work on the busiest resource, and the trees.

    In the first ``packing_below_bound`` of the sweeps ``bound`` is not aimed at itself: the last delivery often
    needs a step more.
    """
    policy = thresholds.trees
    routing = TreeRouting(problem, 1, rng, thresholds, policy.packing_sharpness)
    routing.target = max(1, ceil(bound) - 1, _entering(problem, routing.uses))
    best: tuple[float, list[Tree]] | None = None
    full_sweep = policy.packing_full_sweep
    affordable = policy.packing_work // (len(routing.trees) * problem.ranks)
    sweeps = min(policy.packing_sweeps, max(full_sweep, affordable))
    since = 0
    for number in range(sweeps):
        if number == int(policy.packing_below_bound * sweeps):
            routing.target = max(routing.target, floor(bound))
        if not routing.sweep(overfull_only=number % full_sweep > 0):
            break
        since += 1
        if best is None or routing.fullest < best[0]:
            best, since = (routing.fullest, routing.trees.copy()), 0
        if routing.fullest <= routing.target or ended() or (since >= policy.packing_stale and best[0] <= bound):
            break
        excess = np.maximum(0.0, routing.load / routing.capacity - routing.target)
        routing.scarcity *= 1.0 + policy.packing_scarcity * excess
    return best


def _entering(problem: Problem, uses: Sequence[Sequence[int]]) -> float:
    """Steps in which all that a rank lacks can enter it, at least, by the resources most shared by its links."""
    lacks, entering = [0] * problem.ranks, [0] * problem.ranks
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        for rank in post - pre:
            lacks[rank] += 1
    tables = CopyProblem(problem)
    resources = tables.resources
    for rank in range(problem.ranks):
        into = [uses[a] for a in tables.into[rank]]
        shared = Counter(r for used in into for r in used)
        ingress = {max(used, key=lambda r: (shared[r], -r)) for used in into}
        entering[rank] = sum(resources[r].capacity for r in ingress)
    return max(chunks / max(1, room) for chunks, room in zip(lacks, entering, strict=True))


def _kinds(collective: Collective) -> list[list[int]]:
    """Chunks that start and end at the same ranks."""
    kinds: dict[tuple[frozenset[int], frozenset[int]], list[int]] = defaultdict(list)
    for k, ends in enumerate(zip(collective.pre, collective.post, strict=True)):
        kinds[ends].append(k)
    return list(kinds.values())


def _copies(sizes: list[int], policy: TreesPolicy) -> int:
    """The least number of copies, so that few enough chunks are routed."""
    common = gcd(*sizes)
    few = max(1, min(policy.routed_of_kind, policy.routed * common // sum(sizes)))
    return next(c for c in range(1, common + 1) if common % c == 0 and (common // c <= few or c == common))
