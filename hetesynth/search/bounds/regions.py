"""Candidate regions for cuts: single ranks, and groups of ranks joined by wide links (servers, modules)."""

from __future__ import annotations

from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.policy.bounds import BoundsPolicy

Region = tuple[Rank, ...]


def partitions(problem: Problem, policy: BoundsPolicy) -> list[list[Region]]:
    """Partitions of the ranks, finest first: into single ranks, then into the components that remain when only
    links of at least a given capacity are kept, for each capacity. The trivial partition is left out."""
    levels = sorted({arc.capacity for arc in problem.arcs}, reverse=True)[: policy.region_levels]
    distinct: list[list[Region]] = [[(r,) for r in range(problem.ranks)]] if problem.ranks > 1 else []
    for level in levels:
        parts = _components(problem, level)
        if len(parts) > 1 and parts not in distinct:
            distinct.append(parts)
    return distinct


def _components(problem: Problem, level: int) -> list[Region]:
    leader = list(range(problem.ranks))

    def find(r: int) -> int:
        while leader[r] != r:
            leader[r] = leader[leader[r]]
            r = leader[r]
        return r

    for arc in problem.arcs:
        if arc.capacity >= level:
            a, b = find(arc.src), find(arc.dst)
            leader[max(a, b)] = min(a, b)
    members: dict[int, list[Rank]] = {}
    for r in range(problem.ranks):
        members.setdefault(find(r), []).append(r)
    return [tuple(members[r]) for r in sorted(members)]
