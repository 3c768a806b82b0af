"""Links, schedules, resources and certificates are made as they say."""

from __future__ import annotations

from fractions import Fraction

from hetesynth.model.bound import Certificate, LowerBound
from hetesynth.model.collective import Chunk, Collective
from hetesynth.model.problem import Arc, Problem, Resource
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Link, Wire

GB = Fraction(10**9)


def collective(**changes: object) -> Collective:
    fields: dict[str, object] = {
        "name": "allgather", "ranks": 2, "chunks_per_rank": 1, "root": None, "chunks": (Chunk(0, (0,), 0),),
        "pre": (frozenset({0}),), "post": (frozenset({0, 1}),),
    } | changes  # fmt: skip
    return Collective(**fields)  # type: ignore[arg-type]


def problem(**changes: object) -> Problem:
    fields: dict[str, object] = {
        "ranks": 2, "vertices": 2, "segments": (), "arcs": (Arc(0, 1, 1),), "groups": (),
        "collective": collective(),
    } | changes  # fmt: skip
    return Problem(**fields)  # type: ignore[arg-type]


def test_a_link_is_as_fast_as_its_slowest_wire_and_as_late_as_all() -> None:
    wires = [
        Wire(0, 2, "fast", 4 * GB, 1, Fraction(1)), Wire(2, 3, "free", None, 1, Fraction(2)),
        Wire(3, 1, "slow", GB, 3, Fraction(4)),
    ]  # fmt: skip
    assert Link.over(0, 1, [0, 1, 2], wires) == Link(0, 1, "slow", (0, 1, 2), GB, 3, Fraction(7))
    lanes = [Wire(0, 2, "wide", GB, 8), Wire(2, 1, "narrow", 2 * GB, 1)]
    assert Link.over(0, 1, [0, 1], lanes).kind == "narrow", "8 lanes of 1 GB/s beat one of 2"


def test_schedules_in_any_order_are_equal() -> None:
    a, b = Transfer(0, 1, 0, 0), Transfer(1, 2, 0, 1, reduce=True)
    assert Schedule.of([b, a]) == Schedule.of([a, b]) and hash(Schedule.of([b, a])) == hash(Schedule.of([a, b]))
    assert Schedule.of([b, a]).steps() == [[a], [b]]
    assert Schedule.of([a], makespan=3).steps() == [[a], [], []]
    assert Schedule.of([]).makespan == 0


def test_binding_resources_leave_out_what_another_implies() -> None:
    # two arcs in a group of 2: an arc of 2 is implied by the group, an arc of 1 is not
    wide = problem(arcs=(Arc(0, 1, 2), Arc(1, 0, 1)), groups=(Resource("g", (0, 1), 2),))
    assert [r.arcs for r in wide.resources] == [(0, 1), (0,), (1,)]
    assert [r.arcs for r in wide.binding_resources] == [(0, 1), (1,)]


def test_a_certificate_is_derived() -> None:
    bound = LowerBound(3, "cut", "words")
    assert Certificate(3, bound).proven_optimal and Certificate(3, bound).gap == 0
    assert not Certificate(5, bound).proven_optimal and Certificate(5, bound).gap == 2
