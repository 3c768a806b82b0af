"""Schedules that repeat under the symmetries of a sketch: a strategy for the chunks that stand for all others.

In: a strategy and a sketch. Of the chunks that are images of each other one is scheduled, in a problem where every
resource lends its capacity to all its images together; the images of those transfers are the others. A law that
holds there for the sum over all images holds for each image of all transfers. Where the chunks that are scheduled
leave their server by the same relays, only those have links there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem, Resource
from hetesynth.model.sketch import Sketch, chunk_images, places
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import grouped, of_chunks
from hetesynth.search.orbits import Orbits
from hetesynth.search.search import Search, Strategy

Refused = str
"""The reason why the symmetries do not fit the problem."""


def symmetric(strategy: Strategy, sketch: Sketch) -> Strategy:
    """Return ``strategy`` for schedules that are their own images; its bounds are of a part only, and dropped."""

    def refuses(problem: Problem, policy: Policy) -> str | None:
        part = _part(problem, sketch)
        return part if isinstance(part, Refused) else strategy.refuses(part.part, policy)

    def improve(search: Search) -> LowerBound | None:
        part = _part(search.problem, sketch)
        if isinstance(part, Refused):
            return None
        part.solve(search, strategy.improve, f"{strategy.name}, symmetric")
        return None

    return replace(strategy, improve=improve, refuses=refuses, opening=None)


def _part(problem: Problem, sketch: Sketch) -> Orbits | Refused:
    generators = sketch.permutations(problem.ranks)
    between = grouped((arc.src, arc.dst) for arc in problem.arcs)
    place = [between[arc.src, arc.dst].index(a) for a, arc in enumerate(problem.arcs)]
    symmetries = [tuple(range(problem.ranks))]
    for one in symmetries:  # which grows: all that the generators make
        new = (tuple(moved[rank] for rank in one) for moved in generators)
        symmetries += [other for other in dict.fromkeys(new) if other not in symmetries]
        if len(symmetries) > problem.ranks:
            break
    if any(a == b for one in symmetries[1:] for a, b in enumerate(one)):
        return "its symmetries leave a rank in its place, and so have no one chunk for all others"
    arcs_of, chunks_of = [], []
    for one in symmetries:
        arcs = [between.get((one[arc.src], one[arc.dst]), ()) for arc in problem.arcs]
        if any(len(there) <= n for there, n in zip(arcs, place, strict=True)):
            return "a link has no image under its symmetries"
        arcs_of.append(tuple(there[n] for there, n in zip(arcs, place, strict=True)))
        images = chunk_images(problem.collective, one)
        if len(images) < len(problem.collective.chunks):
            return f"{problem.collective.name} with root {problem.collective.root} is not symmetric"
        chunks_of.append(images)
    laws = _joint(problem, arcs_of)
    if isinstance(laws, Refused):
        return laws
    first = sorted({min(images[k] for images in chunks_of) for k in range(len(problem.collective.chunks))})
    kept = _relayed(problem, sketch, first)
    number = {arc: n for n, arc in enumerate(kept)}
    part = replace(
        of_chunks(problem, first),
        arcs=tuple(problem.arcs[a] for a in kept),
        segments=tuple(replace(segment, capacity=None) for segment in problem.segments),
        groups=tuple(replace(law, arcs=tuple(number[a] for a in law.arcs if a in number)) for law in laws),
        max_peers=None,
    )
    images_of = [
        ([images[k] for k in first], [arcs[a] for a in kept])
        for images, arcs in zip(chunks_of, arcs_of, strict=True)
    ]
    return Orbits(part, tuple(images_of))


def _relayed(problem: Problem, sketch: Sketch, chunks: Sequence[int]) -> list[int]:
    """Return the arcs by which ``chunks`` may go: all, where chunks start at several servers or have no or
    different relays, or where relays send to no other server, as in a reduction turned around."""
    every, servers, place = list(range(len(problem.arcs))), problem.servers, places(problem.servers)
    homes = frozenset[int]().union(*(problem.collective.pre[k] for k in chunks))
    relays = {dict(sketch.relays).get(place[home]) for home in homes}
    if len({servers[home] for home in homes}) > 1 or len(relays) > 1 or None in relays:
        return every
    (home, *_), (allowed,) = homes, relays
    leaving = {a for a in every if servers[problem.arcs[a].src] == servers[home] != servers[problem.arcs[a].dst]}
    right = {a for a in leaving if place[problem.arcs[a].src] in (allowed or ())}
    return [a for a in every if not right or a not in leaving or a in right]


def _joint(problem: Problem, arcs_of: Sequence[tuple[int, ...]]) -> tuple[Resource, ...] | Refused:
    """Return for each resource one limit on all its images together, or why there is none."""
    capacity: dict[frozenset[int], int] = {}
    for resource in problem.binding_resources:
        arcs = frozenset(resource.arcs)
        capacity[arcs] = min(resource.capacity, capacity.get(arcs, resource.capacity))
    laws: dict[tuple[int, ...], int] = {}
    for arcs, least in capacity.items():
        images = [frozenset(image[a] for a in arcs) for image in arcs_of]
        if any(capacity.get(image) != least for image in images):
            return "a link, port or NIC has no image of its capacity under its symmetries"
        times = Counter(a for image in images for a in image)
        most, joint = max(times.values()), tuple(sorted(times))
        if most > least:
            return f"{most} images would cross a resource for {least} chunks in one step"
        laws[joint] = min(least // most, laws.get(joint, least))
    return tuple(Resource(f"images {number}", arcs, most) for number, (arcs, most) in enumerate(laws.items()))
