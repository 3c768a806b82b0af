"""What the checkers of certificates share, case by case, and the bounds that need no table of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import Graph, line, problem, ring
from support.verdicts import certificate_violations

from hetesynth.judge.bounds.laws import Refuted, turned_around
from hetesynth.model.bound import DistanceWitness, LowerBound
from hetesynth.model.collective import Chunk, Collective, CollectiveName
from hetesynth.model.problem import Problem


def moving(graph: Graph, *moves: tuple[set[int], set[int]], name: CollectiveName = "allgather") -> Problem:
    """Chunks with these starts and ends."""
    chunks = tuple(Chunk(k, (0,), k) for k in range(len(moves)))
    pre, post = (tuple(frozenset(move[i]) for move in moves) for i in (0, 1))
    root = 0 if name in ("broadcast", "reduce") else None
    wanted = problem(graph, "allgather")
    return replace(wanted, collective=Collective(name, graph.ranks, 1, root, chunks, pre, post))


@pytest.mark.parametrize(
    ("name", "moves", "turned"),
    [
        ("allgather", [({0}, {1, 2}), ({1}, {0})], "allgather"),
        ("allgather", [({0}, {1, 2}), ({1, 2}, {0})], None), ("allgather", [({0, 1}, {2})], None),
        ("reduce", [({0, 1}, {2})], "broadcast"), ("reducescatter", [({0, 1}, {2})], "allgather"),
        ("reduce", [({0, 1}, {2}), ({0, 1}, {1, 2})], None), ("reduce", [({0, 1}, {1, 2})], None),
        ("allreduce", [({0, 1}, {2})], None),
    ],
)  # fmt: skip
def test_what_has_a_reverse(
    name: CollectiveName, moves: list[tuple[set[int], set[int]]], turned: CollectiveName | None
) -> None:
    wanted = moving(ring(3, both=False), *moves, name=name)
    if turned is None:
        with pytest.raises(Refuted, match=r"only chunks that start at one rank|is no reduction to one rank"):
            turned_around(wanted)
        return
    back = turned_around(wanted)
    assert (back.collective.name, back.collective.pre) == (turned, wanted.collective.post)
    assert [(a.src, a.dst) for a in back.arcs] == [(a.dst, a.src) for a in wanted.arcs]


NEAR_AND_FAR = moving(line(4), ({0, 2}, {3}), ({0, 1}, {0, 2}))
"""Chunk 0 is one link from rank 3 or, where contributions are summed, three."""


@pytest.mark.parametrize(
    ("wanted", "claim", "holds"),
    [
        (problem(line(4), "broadcast"), DistanceWitness(0, 3, 3), True),
        (problem(line(4), "broadcast"), DistanceWitness(0, 3, 4), False),
        (problem(line(4), "broadcast"), DistanceWitness(0, 3, 2), False),
        (problem(line(4), "broadcast"), DistanceWitness(0, 2, 2), True),
        (problem(line(4), "broadcast"), DistanceWitness(0, 2, 3), False),
        (problem(line(4), "broadcast"), DistanceWitness(9, 9, 0), True),  # which says nothing
        (problem(line(4), "broadcast"), DistanceWitness(-1, 3, 3), False),
        (problem(line(4), "broadcast"), DistanceWitness(1, 3, 3), False),
        (problem(line(4), "broadcast"), DistanceWitness(0, -1, 3), False),
        (problem(line(4), "broadcast"), DistanceWitness(0, 4, 3), False),
        (problem(line(4), "gather"), DistanceWitness(3, 1, 2), False),  # nobody wants it there
        (problem(line(4), "gather"), DistanceWitness(3, 0, 3), True),
        (problem(ring(4, both=False), "gather"), DistanceWitness(3, 0, 1), True),
        (problem(ring(4, both=False), "gather"), DistanceWitness(1, 0, 3), True),
        (problem(ring(4, both=False), "gather"), DistanceWitness(1, 0, 1), False),
        (problem(line(4), "reduce"), DistanceWitness(0, 0, 3), True),
        (NEAR_AND_FAR, DistanceWitness(0, 3, 1), True), (NEAR_AND_FAR, DistanceWitness(0, 3, 3), False),
        (moving(line(4), ({0, 2}, {3}), name="reduce"), DistanceWitness(0, 3, 3), True),
        (moving(line(4), ({0, 2}, {3}), name="reduce"), DistanceWitness(0, 3, 1), False),
        (moving(Graph(2), ({0}, {1})), DistanceWitness(0, 1, 5), True),  # no path: whatever is claimed holds
    ],
)  # fmt: skip
def test_distances_claimed_and_proved_together(wanted: Problem, claim: DistanceWitness, holds: bool) -> None:
    bound = LowerBound(claim.hops, "distance", "", claim)
    assert (not certificate_violations(wanted, bound)) == holds
    assert certificate_violations(wanted, replace(bound, steps=claim.hops + 1))
    assert certificate_violations(wanted, replace(bound, steps=claim.hops - 1))
