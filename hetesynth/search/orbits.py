"""Schedules that are their own images under the symmetries of a cluster: of alike chunks one is scheduled for all.

In: a copying problem. Out: the problem of one chunk of each orbit under a group of automorphisms that leaves no
rank in its place, in which a resource lends its capacity to all its images together; and the schedule of the
whole, all images of a schedule of that part. On a torus all ranks are alike: a problem as small as a scatter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hetesynth.machine_code import Ints
from hetesynth.model.problem import Problem, Resource
from hetesynth.model.schedule import Schedule
from hetesynth.search.bounds.lower import lower_bound
from hetesynth.search.copy_problem import CopyProblem, grouped, of_chunks
from hetesynth.search.greedy import greedy
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.symmetry import Automorphisms, candidates, closure
from hetesynth.search.search import Improve, Search


@dataclass(frozen=True, slots=True)
class Orbits:
    """The problem of the first chunk of each orbit, ``part``; ``images``: for each symmetry where the part's
    chunks and all arcs go."""

    part: Problem
    images: tuple[tuple[list[int], list[int]], ...]

    def unfolded(self, schedule: Schedule) -> Schedule:
        """Return the schedule of the whole: all images of ``schedule`` together."""
        return Schedule.of(
            (
                replace(t, chunk=chunks[t.chunk], link=arcs[t.link])
                for chunks, arcs in self.images
                for t in schedule.transfers
            ),
            schedule.makespan,
        )

    def solve(self, search: Search, improve: Improve, what: str) -> None:
        """Offer images of what ``improve`` finds for the part; its bounds are of the part only, and dropped."""
        steps = max(search.target, lower_bound(self.part, search.policy.packing).steps)
        told = search.oracle, search.progress, search.policy, search.decisions, search.trace
        budget = replace(search.budget, clock_decisions=search.clock_decisions)
        inner = Search(self.part, steps, budget, *told, started=search.started)
        try:
            improve(inner)
        finally:
            search.solver_spent |= inner.solver_spent
            if inner.best is not None:
                search.offer(self.unfolded(inner.best), what)


def orbits(problem: Problem) -> Orbits | None:
    """Return the orbits under the largest group that is found; None: nothing is alike."""
    tables = CopyProblem(problem)
    ends = [(arc.src, arc.dst) for arc in problem.arcs]
    rates = [Fraction(resource.capacity) for resource in tables.resources]
    network = Network.of_links(problem.ranks, ends, tables.resources_of, rates, [0.0] * len(ends))
    checker, every, here = Automorphisms(network), np.arange(len(ends)), np.arange(problem.ranks)
    generators: list[Ints] = []
    largest: Orbits | None = None
    servers = problem.servers or ("",) * problem.ranks
    tried = [c for c in candidates(servers, problem.ranks, None) if checker.resources(c) is not None]
    for candidate in sorted(tried, key=lambda c: -len(closure([c], problem.ranks) or ())):  # turns before mirrors
        group = closure([*generators, candidate], problem.ranks)
        if group is None or len(group) <= (1 if largest is None else len(largest.images)):
            continue
        if any((moved == here).any() for moved in group[1:]):
            continue
        smaller = _orbits(problem, tables, [(moved, checker.images(every, moved).tolist()) for moved in group])
        if smaller is not None:
            generators, largest = [*generators, candidate], smaller
    return largest


def _orbits(problem: Problem, tables: CopyProblem, group: list[tuple[Ints, list[int]]]) -> Orbits | None:
    """Return the orbits under ``group``, moved ranks and arcs; None: a chunk has no image, or capacity is lost."""
    where = grouped(problem.collective.ends)
    chunks_of: list[list[int]] = []
    for moved, _ in group:
        image = moved.tolist()
        of = [0] * len(problem.collective.chunks)
        for (pre, post), alike in where.items():
            there = where.get((frozenset(image[r] for r in pre), frozenset(image[r] for r in post)), ())
            if len(there) != len(alike):
                return None
            for k, other in zip(alike, there, strict=True):
                of[k] = other
        chunks_of.append(of)
    laws: dict[tuple[int, ...], int] = {}
    for resource in tables.resources:
        times = Counter(arcs[a] for _, arcs in group for a in resource.arcs)
        most = max(times.values())
        if resource.capacity % most:
            return None
        joint = tuple(sorted(times))
        laws[joint] = min(resource.capacity // most, laws.get(joint, resource.capacity))
    first = sorted({min(images) for images in zip(*chunks_of, strict=True)})
    part = replace(
        of_chunks(problem, first),
        segments=tuple(replace(segment, capacity=None) for segment in problem.segments),
        groups=tuple(Resource(f"orbit {n}", arcs, most) for n, (arcs, most) in enumerate(laws.items())),
        max_peers=None,
    )
    pairs = zip(chunks_of, group, strict=True)
    return Orbits(part, tuple(([of[k] for k in first], arcs) for of, (_, arcs) in pairs))


def improve(search: Search) -> None:
    """Offer a greedy schedule that is its own image, with as many times the rounds as the group has elements."""
    alike = orbits(search.problem)
    if alike is None:
        return

    def many_rounds(part: Search) -> None:
        greedy_policy = replace(part.policy.greedy, rounds=part.policy.greedy.rounds * len(alike.images))
        part.policy = replace(part.policy, greedy=greedy_policy)
        greedy.improve(part)

    alike.solve(search, many_rounds, "orbits")
