"""Rechecking growth: how fast a chunk that every rank wants can spread over the parts of a cluster.

In: a problem and a witness. Out: the number of steps it proves; ``Refuted`` when it proves nothing. The claim that
is checked: until a step begins, the ranks that hold the chunk are at most all of the parts that held it one step
earlier, and one rank for every arrival since in another part; what they can send to other parts is bounded by the
named resources. In the last step a part without the chunk must take one arrival for each of its ranks.
"""

from __future__ import annotations

from hetesynth.judge.bounds.laws import carried, checked_ranks, demand
from hetesynth.model.bound import GrowthWitness
from hetesynth.model.problem import Problem

MAX_STEPS = 1_000_000


def growth_steps(problem: Problem, claim: GrowthWitness) -> int:
    """The first number of steps that the capacities do not exclude."""
    demand(0 <= claim.chunk < len(problem.collective.chunks), "it is about a chunk that does not exist")
    demand(len(problem.collective.post[claim.chunk]) == problem.ranks, "not every rank wants the chunk")
    demand(not problem.collective.reduces, "growth is about copies")
    checked_ranks(problem, (r for part in claim.parts for r in part), "the partition")
    home = {r: p for p, part in enumerate(claim.parts) for r in part}
    demand(len(home) == problem.ranks and all(claim.parts), "the parts leave a rank out, or one is empty")
    leaves_part, enters_part, leaves_rank = _capacities(problem, claim, home)
    holders = problem.collective.pre[claim.chunk]
    fresh = [p for p, part in enumerate(claim.parts) if holders.isdisjoint(part)]
    must_be_early = sum(enters_part[p] < len(claim.parts[p]) for p in fresh)
    smallest_first = sorted(len(claim.parts[p]) for p in fresh)
    old, new = (
        len(claim.parts) - len(fresh),
        0,
    )  # parts that had the chunk at first, and since
    out = min(leaves_part * old, leaves_rank * len(holders))
    for step in range(1, MAX_STEPS):
        missing = max(0, len(fresh) - new)
        if out >= sum(smallest_first[:missing]) and len(fresh) - missing >= must_be_early:
            return step
        if out == 0:
            return step
        before = min(len(claim.parts), old + new)
        arrivals = out
        new = min(len(fresh), new + arrivals)
        out = leaves_part * before + min(leaves_part, leaves_rank) * arrivals
    return MAX_STEPS


def _capacities(problem: Problem, claim: GrowthWitness, home: dict[int, int]) -> tuple[int, list[int], int]:
    """The most that leaves a part, what enters each part, the most that leaves a rank for other parts."""
    sides = (claim.out_of_parts, claim.into_parts, claim.out_of_ranks)
    sizes = (len(claim.parts), len(claim.parts), problem.ranks)
    demand(all(len(x) == n for x, n in zip(sides, sizes, strict=True)), "it does not name resources for everyone")
    out: list[set[int]] = [set() for _ in claim.parts]
    into: list[set[int]] = [set() for _ in claim.parts]
    of_rank: list[set[int]] = [set() for _ in range(problem.ranks)]
    for a, arc in enumerate(problem.arcs):
        if home[arc.src] != home[arc.dst]:
            out[home[arc.src]].add(a)
            into[home[arc.dst]].add(a)
            of_rank[arc.src].add(a)
    most_out = max(_carried(problem, n, links) for n, links in zip(claim.out_of_parts, out, strict=True))
    each_in = [_carried(problem, n, links) for n, links in zip(claim.into_parts, into, strict=True)]
    most_rank = max(_carried(problem, n, links) for n, links in zip(claim.out_of_ranks, of_rank, strict=True))
    return most_out, each_in, most_rank


def _carried(problem: Problem, names: tuple[str, ...], links: set[int]) -> int:
    return carried(problem, names, links) if links else 0
