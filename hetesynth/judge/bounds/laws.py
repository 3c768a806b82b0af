"""What the checkers of certificates share: refusing a claim, the reversed problem, and who carries how much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem

REVERSED: dict[CollectiveName, CollectiveName] = {"reducescatter": "allgather", "reduce": "broadcast"}
NEVER = 1 << 60  # the distance to what no path reaches; twice this still fits 64 bits


class Refuted(Exception):
    """A certificate does not prove what it claims; the message says why."""


def demand(holds: bool, otherwise: str) -> None:
    """Raise Refuted(``otherwise``) unless ``holds``."""
    if not holds:
        raise Refuted(otherwise)


def turned_around(problem: Problem) -> Problem:
    """The problem that a witness marked ``backwards`` is about; it takes no more steps than ``problem``.

    A reduction to one rank per chunk becomes a copy from that rank: traced back from its complete value, every
    contribution took one path, and these paths form a tree that the copies run down (SCCL 3.4). A copy from one
    rank becomes a copy from any of its targets back to it: one of its paths, run backwards.
    """
    collective = problem.collective
    if not collective.reduces:
        single = all(len(pre) == 1 for pre in collective.pre)
        demand(single, "only chunks that start at one rank can be looked at backwards")
        return problem.reversed()
    single = collective.name in REVERSED and all(len(post) == 1 for post in collective.post)
    demand(single, f"{collective.name} is no reduction to one rank per chunk and has no reverse")
    turned = problem.reversed()
    return replace(turned, collective=replace(turned.collective, name=REVERSED[collective.name]))


def checked_ranks(problem: Problem, ranks: Iterable[int], what: str) -> set[int]:
    """``ranks`` as a set. Refuted when one is repeated or does not exist, or when there is none."""
    named = list(ranks)
    distinct = set(named)
    demand(bool(named), f"{what} is empty")
    demand(len(distinct) == len(named), f"{what} names a rank twice")
    demand(all(0 <= r < problem.ranks for r in distinct), f"{what} names a rank that does not exist")
    return distinct


def homes(problem: Problem, parts: Sequence[Sequence[int]]) -> dict[int, int]:
    """The number of the part of each rank. Refuted where ``parts`` is no partition of the ranks."""
    checked_ranks(problem, (r for part in parts for r in part), "the partition")
    home = {r: p for p, part in enumerate(parts) for r in part}
    demand(len(home) == problem.ranks, "the parts leave a rank out")
    demand(all(parts), "a part is empty")
    return home


def carried(problem: Problem, names: tuple[str, ...], links: set[int]) -> int:
    """Chunks that the resources ``names`` carry in a step. Refuted unless they cover every one of ``links``."""
    demand(bool(names), "no resource is named")
    distinct = set(names)
    demand(len(distinct) == len(names), "a resource is named twice")
    named = {resource.name: resource for resource in problem.resources if resource.name in distinct}
    for name in names:
        demand(name in named, f"there is no resource {name!r}")
    left = links.difference(*(resource.arcs for resource in named.values()))
    if left:
        arc = problem.arcs[min(left)]
        raise Refuted(f"no named resource limits link {min(left)} ({arc.src}->{arc.dst})")
    return sum(resource.capacity for resource in named.values())


def hops_over(beside: list[set[int]], start: Iterable[int]) -> list[int]:
    """Breadth-first distances over the neighbours ``beside``; NEVER where no path leads."""
    hops, away, reached = [NEVER] * len(beside), 0, set(start)
    while reached:
        for rank in reached:
            hops[rank] = away
        away += 1
        reached = {to for at in reached for to in beside[at] if hops[to] == NEVER}
    return hops


def quotient(needed: int, each: int) -> int:
    """Steps that ``needed`` takes at ``each`` a step."""
    demand(each > 0, "nothing can be carried in a step")
    return -(-needed // each)
