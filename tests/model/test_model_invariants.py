"""Every invariant of the frozen types fires, with and without ``python -O``."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.model.bound import Certificate, LowerBound
from hetesynth.model.collective import Chunk, Collective
from hetesynth.model.diagnostics import SourceError, Span
from hetesynth.model.problem import Arc, Problem, Resource
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Link, SharedGroup, Topology, Vertex, Wire

GB = Fraction(10**9)
GPUS = (Vertex("a", "gpu"), Vertex("b", "gpu"), Vertex("hub", "switch"))
WIRES = (Wire(0, 2, "nvlink", GB), Wire(2, 1, "nvlink", GB), Wire(0, 1, "pcie", GB))


def link(src: int = 0, dst: int = 1, wires: tuple[int, ...] = (0, 1)) -> Link:
    return Link(src, dst, "nvlink", wires, GB, 1, Fraction(0))


def topology(**changes: object) -> Topology:
    fields: dict[str, object] = {
        "name": "t", "vertices": GPUS, "ranks": 2, "wires": WIRES, "links": (link(),)
    } | changes  # fmt: skip
    return Topology(**fields)  # type: ignore[arg-type]


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


BROKEN: dict[str, Callable[[], object]] = {
    "wire bandwidth zero": lambda: Wire(0, 1, "x", Fraction(0)),
    "wire bandwidth negative": lambda: Wire(0, 1, "x", Fraction(-1)),
    "wire lanes": lambda: Wire(0, 1, "x", GB, lanes=0),
    "wire latency": lambda: Wire(0, 1, "x", GB, latency=Fraction(-1)),
    "wire loop": lambda: Wire(1, 1, "x", GB),
    "link without a bandwidth": lambda: Link.over(0, 1, [0], [Wire(0, 1, "x", None)]),
    "group bandwidth": lambda: SharedGroup("g", "pcie", Fraction(0), (0,)),
    "group without links": lambda: SharedGroup("g", "pcie", GB, ()),
    "no GPU": lambda: topology(vertices=(), ranks=0, wires=(), links=()),
    "GPUs not first": lambda: topology(vertices=(GPUS[2], GPUS[0], GPUS[1])),
    "too few GPUs": lambda: topology(vertices=(GPUS[0], GPUS[2], Vertex("c", "nic"))),
    "name twice": lambda: topology(vertices=(*GPUS, Vertex("a", "nic"))),
    "wire leaves the graph": lambda: topology(wires=(*WIRES, Wire(0, 7, "x", GB))),
    "link to a switch": lambda: topology(links=(link(0, 2, (0,)),)),
    "link to itself": lambda: topology(links=(link(0, 0, ()),)),
    "link not a path": lambda: topology(links=(link(0, 1, (1, 0)),)),
    "link stops short": lambda: topology(links=(link(0, 1, (0,)),)),
    "link without wires": lambda: topology(links=(link(0, 1, ()),)),
    "group of no link": lambda: topology(groups=(SharedGroup("g", "x", GB, (3,)),)),
    "reduce rates": lambda: topology(reduce_bandwidth=(GB,)),
    "copy rates": lambda: topology(copy_bandwidth=(GB,)),
    "chunk bytes": lambda: topology(chunk_bytes=0),
    "collective without ranks": lambda: collective(ranks=0),
    "collective without chunks": lambda: collective(chunks_per_rank=0),
    "pre too short": lambda: collective(pre=()),
    "post too long": lambda: collective(post=(frozenset({0}),) * 2),
    "chunk index": lambda: collective(chunks=(Chunk(1, (0,), 0),)),
    "chunk from nowhere": lambda: collective(pre=(frozenset(),)),
    "chunk to nowhere": lambda: collective(post=(frozenset(),)),
    "root of allgather": lambda: collective(root=0),
    "broadcast without root": lambda: collective(name="broadcast"),
    "resource capacity": lambda: Resource("r", (0,), 0),
    "ranks differ": lambda: problem(ranks=3),
    "arc capacity": lambda: problem(arcs=(Arc(0, 1, 0),)),
    "arc loop": lambda: problem(arcs=(Arc(1, 1, 1),)),
    "arc below zero": lambda: problem(arcs=(Arc(-1, 1, 1),)),
    "arc leaves the ranks": lambda: problem(arcs=(Arc(0, 2, 1),)),
    "transfer before zero": lambda: Transfer(-1, 0, 0, 0),
    "transfer of no duration": lambda: Transfer(1, 1, 0, 0),
    "transfer backwards": lambda: Transfer(2, 1, 0, 0),
    "transfer past the makespan": lambda: Schedule((Transfer(0, 2, 0, 0),), 1),
    "span line": lambda: Span("f", 0, 1),
    "span column": lambda: Span("f", 1, 0),
    "span length": lambda: Span("f", 1, 1, 0),
    "no diagnostics": lambda: SourceError([], {}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_invariant_fires(name: str) -> None:
    with pytest.raises(ValueError):
        BROKEN[name]()


def test_the_good_values_are_accepted() -> None:
    assert topology().links == (link(),)
    assert problem().resources[0].capacity == 1
    assert collective().reduces is False


def test_optimization_deletes_no_check() -> None:
    script = (
        "import test_model_invariants as t\n"
        "silent = []\n"
        "for name, make in t.BROKEN.items():\n"
        "    try: make()\n"
        "    except ValueError: continue\n"
        "    silent.append(name)\n"
        "import sys; sys.exit(', '.join(silent) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", script],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_values_are_frozen() -> None:
    for value in (WIRES[0], link(), topology(), collective(), problem(), Transfer(0, 1, 0, 0), Span("f", 1, 1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, 1)  # type: ignore[arg-type]


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
