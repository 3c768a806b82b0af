"""What the checkers of certificates share, case by case, and the bounds that need no table of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import Graph, full, line, problem, ring
from support.verdicts import certificate_violations

from hetesynth.judge.bounds.judge import recheck
from hetesynth.judge.bounds.laws import Refuted, turned_around
from hetesynth.model.bound import DistanceWitness, LowerBound, UnsatWitness
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


@pytest.mark.parametrize(
    ("wanted", "method", "steps"),
    [
        (moving(line(3), ({0}, {0})), "trivial", 0), (moving(line(3), ({0, 1}, {0})), "trivial", 0),
        (moving(line(3), ({0}, {0}), ({1}, {0})), "trivial", 1),
        (moving(line(3), ({0, 1}, {0}), name="reduce"), "trivial", 1),
        (moving(line(3), ({0}, {0}), name="reduce"), "trivial", 0),
        *((moving(line(9), ({0}, set(range(n)))), "doubling", s) for n, s in ((1, 0), (2, 1), (3, 2), (4, 2))),
        *((moving(line(9), ({0}, set(range(n)))), "doubling", s) for n, s in ((5, 3), (8, 3), (9, 4))),
        (moving(line(9), ({0, 1}, set(range(2, 9)))), "doubling", 3),
        (moving(line(9), ({0, 1, 2}, set(range(7)))), "doubling", 2),
        (moving(line(9), (set(range(5)), {8}), name="reduce"), "doubling", 3),
        (moving(line(9), ({0}, set(range(8))), ({0}, {1})), "doubling", 3),
    ],
)  # fmt: skip
def test_bounds_without_a_witness(wanted: Problem, method: str, steps: int) -> None:
    exact = replace(wanted, exclusive_reduction=True)
    bound = LowerBound(steps, method, "")  # type: ignore[arg-type]
    for less in range(steps + 1):
        assert recheck(exact, replace(bound, steps=less)).complete
    assert certificate_violations(exact, replace(bound, steps=steps + 1))
    assert certificate_violations(exact, replace(bound, steps=-1))
    found = certificate_violations(wanted, bound)
    assert (found != []) == (method == "doubling") and all("nothing forbids" in v.message for v in found)


@pytest.mark.parametrize(("answer", "complete", "wrong"), [(True, 1, 0), (False, 0, 1), (None, 0, 0)])
def test_a_query_counts_once_it_is_unsatisfiable(answer: bool | None, complete: int, wrong: int) -> None:
    wanted = problem(full(3), "broadcast")
    query = "(declare-fun has_0_0_0 () Bool)(assert has_0_0_0)"
    found = recheck(wanted, LowerBound(2, "unsat", "", UnsatWitness(1, query)), unsat=lambda _: answer)
    assert (found.complete, bool(found.violations)) == (complete, wrong)
    assert (found.open is not None) == (answer is None)
    assert recheck(wanted, LowerBound(2, "unsat", "", UnsatWitness(1, query))).open
