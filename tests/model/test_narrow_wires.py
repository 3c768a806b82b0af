"""A wire that only one link crosses still limits it where rounding made the wire narrower than the link."""

from __future__ import annotations

from hetesynth.model.problem import Arc, Problem, Segment
from hetesynth.search.collectives import collective


def problem(wire: int) -> Problem:
    segments = (Segment(0, 1, wire, "0->1"), Segment(1, 0, 4, "1->0"))
    arcs = (Arc(0, 1, 4, (0,)), Arc(1, 0, 4, (1,)))
    return Problem(2, 2, segments, arcs, (), collective("allgather", 2))


def test_a_narrower_wire_is_a_law() -> None:
    assert {(r.name, r.capacity) for r in problem(3).resources} >= {("0->1", 3)}


def test_a_wire_as_wide_as_its_link_adds_nothing() -> None:
    assert all(len(r.arcs) == 1 and r.name.startswith("link") for r in problem(4).resources)
