"""Cuts, volumes and flows, case by case: the steps that a witness proves, or why it proves none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.graphs import Graph, full, line, problem, ring, star

from hetesynth.judge.bounds import judge as cuts
from hetesynth.judge.bounds import laws
from hetesynth.judge.bounds.laws import Refuted, turned_around
from hetesynth.model.bound import (
    CutWitness,
    DistanceWitness,
    FlowWitness,
    LastStepWitness,
    LowerBound,
    PriceWitness,
    UnsatWitness,
    VolumeWitness,
)
from hetesynth.model.collective import Chunk, Collective, CollectiveName
from hetesynth.model.problem import Arc, Problem


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


"""Chunk 0 is one link from rank 3 or, where contributions are summed, three."""


def judged(prove: Any, wanted: Problem, claim: Any) -> int | str:
    try:
        steps: int = prove(wanted, claim)
    except Refuted as reason:
        return str(reason)
    return steps


def check(prove: Any, wanted: Problem, claim: Any, expected: int | str) -> None:
    """``expected``: the steps, or a part of the refusal."""
    found = judged(prove, wanted, claim)
    assert found == expected if isinstance(expected, int) else isinstance(found, str) and expected in found


def over(wanted: Problem, *links: tuple[int, int]) -> tuple[str, ...]:
    """The names of the laws of single links."""
    return tuple(f"link {a} ({x.src}->{x.dst})" for a, x in enumerate(wanted.arcs) if (x.src, x.dst) in links)


CHAIN = problem(line(3), "allgather", 2)
INTO_2 = CutWitness((2,), "in", over(CHAIN, (1, 2)), 4, 1)
SUM = moving(line(3), ({0, 1}, {0}), ({0, 2}, {2}), ({2}, {2}), ({1}, {2}), name="reducescatter")
COPY = moving(line(3), ({0, 1}, {0}), ({0, 2}, {2}), ({2}, {2}), ({1}, {2}), ({0, 1}, {0, 2}))


@pytest.mark.parametrize(
    ("wanted", "claim", "expected"),
    [
        (CHAIN, INTO_2, 4), (CHAIN, replace(INTO_2, region=(0, 1), direction="out"), 4),
        (CHAIN, replace(INTO_2, direction="at"), "'at' is no direction"),
        (CHAIN, replace(INTO_2, direction="out", needed=2), "no named resource limits link 3"),
        (CHAIN, replace(INTO_2, needed=5), "5 chunks are said to cross, 4 must"),
        (CHAIN, replace(INTO_2, needed=3), "3 chunks are said to cross, 4 must"),
        (CHAIN, replace(INTO_2, capacity=2), "said to carry 2 a step, they carry 1"),
        (CHAIN, replace(INTO_2, region=(-1, 2)), "the region names a rank that does not exist"),
        # of sums every contribution outside must enter, of copies one where none is inside
        (SUM, CutWitness((2,), "in", over(SUM, (1, 2)), 2, 1), 2),
        (COPY, CutWitness((2,), "in", over(COPY, (1, 2)), 2, 1), 2),
        (COPY, CutWitness((2,), "in", over(COPY, (1, 2)), 3, 1), "3 chunks are said to cross, 2 must"),
        (SUM, CutWitness((0,), "in", over(SUM, (1, 0)), 1, 1), 1),
        (COPY, CutWitness((0,), "in", over(COPY, (1, 0)), 0, 1), 0),
    ],
)  # fmt: skip
def test_cuts(wanted: Problem, claim: CutWitness, expected: int | str) -> None:
    check(cuts.cut_steps, wanted, claim, expected)


MESH = problem(full(4), "broadcast")
LATE = LastStepWitness((0,), "out", over(MESH, (0, 1), (0, 2), (0, 3)), 1, 3, 3, 2)
TREE = problem(line(6), "broadcast")
LONG = LastStepWitness((0,), "out", over(TREE, (0, 1)), 1, 1, 5, 2)
PARTLY = moving(line(4), ({0}, {1, 2, 3}), ({0}, {3}), ({3}, {1, 2}), ({0}, {0}))
"""Of what starts at rank 0, three ranks beyond it want chunk 0, one wants chunk 1."""


@pytest.mark.parametrize(
    ("wanted", "claim", "expected"),
    [
        (MESH, LATE, 1), (TREE, LONG, 3), (TREE, replace(LONG, copies=3), 2),
        (TREE, replace(LONG, wanted=4), 2), (TREE, replace(LONG, wanted=1), 1),
        (TREE, replace(LONG, wanted=6), "chunk 0 is wanted by 5 ranks, not 6"),
        (TREE, replace(LONG, wanted=0), "nobody wants the chunks"),
        (TREE, replace(LONG, copies=1), "can pass a chunk on to 2 others in a step, not 1"),
        (replace(TREE, exclusive_reduction=True), replace(LONG, copies=1), 3),
        (replace(TREE, exclusive_reduction=True), replace(LONG, copies=0), "to 1 others in a step, not 0"),
        (TREE, replace(LONG, needed=2), "2 chunks are said to cross, 1 must"),
        (TREE, replace(LONG, region=(1, 2, 3, 4, 5), direction="in"), 3),
        # a single rank on the far side passes nothing on
        (TREE, LastStepWitness((5,), "in", over(TREE, (4, 5)), 1, 1, 1, 0), 1),
        (TREE, LastStepWitness((4, 5), "in", over(TREE, (3, 4)), 1, 1, 2, 0), "to 1 others in a step, not 0"),
        (TREE, LastStepWitness((4, 5), "in", over(TREE, (3, 4)), 1, 1, 2, 1), 2),
        (PARTLY, LastStepWitness((0,), "out", over(PARTLY, (0, 1)), 2, 1, 1, 2), 2),
        (PARTLY, LastStepWitness((0,), "out", over(PARTLY, (0, 1)), 2, 1, 2, 2), "chunk 1 is wanted by 1 ranks"),
        (
            moving(line(3), ({0, 1, 2}, {2}), name="reduce"),
            LastStepWitness((2,), "in", over(problem(line(3), "broadcast"), (1, 2)), 1, 1, 1, 0),
            "parts of a sum may cross in any step",
        ),
    ],
)  # fmt: skip
def test_cuts_with_a_last_step(wanted: Problem, claim: LastStepWitness, expected: int | str) -> None:
    check(cuts.last_step_steps, wanted, claim, expected)


PAIRS = moving(
    line(4), (set(range(4)), set(range(4))), ({0, 1, 2}, set(range(4))), ({0, 1}, {0, 1}), ({1, 3}, {0, 2}),
    ({0, 1, 2}, {0, 1}), name="allreduce",
)  # fmt: skip
HALVES = VolumeWitness(((0, 1), (2, 3)), 3, 2, over(PAIRS, (1, 2), (2, 1)), 2)


@pytest.mark.parametrize(
    ("wanted", "claim", "expected"),
    [
        (PAIRS, HALVES, 3), (PAIRS, replace(HALVES, chunks=4), "4 chunks are said to be needed"),
        (PAIRS, replace(HALVES, chunks=2), "every part, not 3"),
        (PAIRS, replace(HALVES, crossings=3), "2 parts need 2 crossings, not 3"),
        (PAIRS, replace(HALVES, capacity=1), "said to carry 1 a step, they carry 2"),
        (PAIRS, replace(HALVES, resources=over(PAIRS, (1, 2))), "no named resource limits link 3"),
        (PAIRS, replace(HALVES, parts=((0,), (2, 3))), "the parts leave a rank out"),
        (PAIRS, replace(HALVES, parts=((0, 1), (2, 3), ())), "a part is empty"),
        (PAIRS, replace(HALVES, parts=((0, 1), (2, 3, 1))), "the partition names a rank twice"),
        (PAIRS, replace(HALVES, parts=((-1, 0, 1), (2, 3))), "the partition names a rank that does not exist"),
        (PAIRS, VolumeWitness(((0,), (1,), (2, 3)), 2, 4,
                              over(PAIRS, (0, 1), (1, 0), (1, 2), (2, 1)), 4), 2),
        (problem(line(4), "allgather"), replace(HALVES, chunks=0), "the volume bound is for reductions"),
    ],
)  # fmt: skip
def test_volumes(wanted: Problem, claim: VolumeWitness, expected: int | str) -> None:
    check(cuts.volume_steps, wanted, claim, expected)


def side(*steps: set[int]) -> tuple[tuple[int, int], ...]:
    return tuple((t, v) for t, vertices in enumerate(steps) for v in sorted(vertices))


TWO = problem(line(2), "allgather", 3)
BY_1 = FlowWitness(1, 1, 1, 3, side({0}, {0}))
HUB = problem(star(3), "scatter", 2)  # vertex 3 is the switch
MIXED = moving(line(3), ({0}, {2}), ({0, 1}, {2}), ({2}, {2}), ({0, 2}, {2}), ({0}, {1}))
SUMS = moving(line(3), ({0}, {2}), ({0, 1}, {2}), ({2}, {2}), ({0, 2}, {2}), ({0}, {1}), name="reducescatter")
FLOW_CASES: list[tuple[Problem, FlowWitness, int | str]] = [
    (TWO, BY_1, 2), (TWO, replace(BY_1, steps=2, flow=2, source_side=side({0}, {0}, {0})), 3),
    (TWO, replace(BY_1, flow=2), 2), (TWO, replace(BY_1, flow=0), "the cut carries 1 of the 3 chunks, not 0"),
    (TWO, replace(BY_1, flow=3), "all 3 chunks can reach rank 1"),
    (TWO, replace(BY_1, needed=4), "4 chunks are said to be missing at rank 1, 3 are"),
    (TWO, replace(BY_1, needed=0), "0 chunks are said to be missing at rank 1, 3 are"),
    # some of the chunks only: those on the far side may be the others
    (TWO, replace(BY_1, needed=2), 2), (TWO, FlowWitness(1, 0, 0, 1, side({0})), 1),
    (TWO, FlowWitness(1, 0, 0, 3, side({0})), 1), (TWO, FlowWitness(1, 1, 0, 1, ()), "carries 1 of"),
    (TWO, FlowWitness(0, 1, 1, 3, side({1}, {1})), 2), (TWO, FlowWitness(1, 1, 3, 3, ()), "can reach rank 1"),
    (TWO, replace(BY_1, destination=2), "there is no rank 2"),
    (TWO, replace(BY_1, destination=-1), "there is no rank -1"),
    (TWO, replace(BY_1, steps=-1), "-1 steps are not rechecked"),
    (TWO, replace(BY_1, source_side=side({0, 1}, {0, 1})), "the destination is on the source side"),
    (TWO, replace(BY_1, source_side=side({0}, set())), "rank 0 keeps what it has after step 0"),
    *((TWO, replace(BY_1, source_side=(*BY_1.source_side, place)), "is no vertex of the time-expanded graph")
      for place in ((-1, 0), (2, 0), (0, -1), (0, 2))),
    # a rank of the last step belongs to the graph, a switch of the last step does not
    (HUB, FlowWitness(1, 1, 1, 2, side({0}, {0, 2})), 2),
    (HUB, FlowWitness(1, 1, 1, 2, side({0, 3}, {0, 2})), 2),
    (HUB, FlowWitness(1, 1, 1, 2, side({0, 3}, {0, 2, 3})), "(1, 3) is no vertex"),
    (HUB, FlowWitness(1, 1, 1, 2, side({0, 3, 4}, {0, 2})), "(0, 4) is no vertex"),
    # a switch forgets
    (HUB, FlowWitness(1, 2, 1, 2, side({0, 3}, {0}, {0})), "the cut carries 3 of the 2 chunks, not 1"),
    (problem(line(3), "scatter", 3), FlowWitness(2, 3, 2, 3, side({0}, {0}, {0, 1}, {0, 1})), 4),
    # copies are lacking where no holder is, sums where a contribution is missing
    (MIXED, FlowWitness(2, 1, 1, 2, side({0, 1}, {0, 1})), 2),
    (MIXED, FlowWitness(2, 1, 1, 3, side({0, 1}, {0, 1})), "3 chunks are said to be missing at rank 2, 2 are"),
    (MIXED, FlowWitness(2, 1, 0, 2, side({0}, {0, 1})), "the cut carries 1 of the 2 chunks, not 0"),
    (SUMS, FlowWitness(2, 1, 1, 3, side({0, 1}, {0, 1})), 2),
    (SUMS, FlowWitness(2, 1, 1, 4, side({0, 1}, {0, 1})), "4 chunks are said to be missing at rank 2, 3 are"),
    (SUMS, FlowWitness(2, 1, 0, 3, side({0}, {0, 1})), 2),
    (SUMS, FlowWitness(2, 1, 0, 3, side({1}, {0, 1})), "the cut carries 3 of the 3 chunks, not 0"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(FLOW_CASES)))
def test_flows(case: int) -> None:
    check(cuts.flow_steps, *FLOW_CASES[case])


def test_wires_limit_as_their_links_do() -> None:
    """A link of no wires, a wire of one link, a wire of two, a wire that no link takes, one without a limit."""
    graph = Graph(3)
    shared, own, _, free = (graph.segment(0, 2, 4), graph.segment(2, 1, 9), graph.segment(0, 1, 1),
                            graph.segment(0, 1, None))  # fmt: skip
    graph.arcs += [Arc(0, 2, 4, (shared,)), Arc(0, 1, 3, (shared, own)), Arc(0, 1, 2), Arc(1, 0, 1)]
    wanted = moving(graph, *[({0}, {1})] * 9)
    claim = FlowWitness(1, 1, 6, 9, side({0}, {0}))
    check(cuts.flow_steps, wanted, claim, 2)  # 4 over the shared wire, 2 over the link without wires
    check(cuts.flow_steps, wanted, replace(claim, flow=5), "the cut carries 6")
    check(cuts.flow_steps, wanted, replace(claim, steps=2, flow=8, source_side=side({0}, {0}, {0})), "carries 12")
    widest = replace(claim, source_side=side({0, 2}, {0, 2}), flow=5)
    check(cuts.flow_steps, wanted, widest, 2)  # 3 of the link that is alone on its wire, 2
    free_too = replace(wanted, arcs=(*wanted.arcs, Arc(0, 1, 1, (free,))))
    check(cuts.flow_steps, free_too, claim, "the cut carries 7")
    free_twice = replace(free_too, arcs=(*free_too.arcs, Arc(0, 1, 1, (free,))))
    check(
        cuts.flow_steps, free_twice, claim, f"step 0: {graph.segments[free].name} crosses the cut and has no limit"
    )
    for wires, message in (((own,), "the wires of link 4 are no path"), ((own, shared), "are no path"),
                           ((shared,), "the wires of link 4 do not end at rank 1")):  # fmt: skip
        check(cuts.flow_steps, replace(wanted, arcs=(*wanted.arcs, Arc(0, 1, 1, wires))), claim, message)


def test_the_simplest_proofs() -> None:
    two, four = line(2), line(4)
    moves: list[tuple[CollectiveName, set[int], set[int], int]] = [
        ("allgather", {0}, {0}, 0), ("allgather", {0}, {1}, 1), ("allgather", {0, 1}, {0}, 0),
        ("reduce", {0}, {0}, 0), ("reduce", {0, 1}, {0}, 1),
    ]  # fmt: skip
    for name, pre, post, steps in moves:
        check(cuts._trivial_steps, moving(two, (pre, post), name=name), None, steps)
    claim = DistanceWitness(0, 3, 1)
    check(cuts._distance_steps, moving(four, ({0, 1, 2}, {3})), claim, 1)
    check(cuts._distance_steps, moving(four, ({0, 1, 2}, {3})), replace(claim, hops=3), "is 1 links away")
    check(cuts._distance_steps, moving(four, ({0, 1, 2}, {3}), name="reduce"), replace(claim, hops=3), 3)
    check(cuts._distance_steps, moving(four, ({0, 1, 2}, {3}), name="reduce"), claim, "is 3 links away")
    check(cuts._distance_steps, moving(four, ({0}, {3})), DistanceWitness(9, 9, 0), 0)
    check(cuts._distance_steps, moving(four, ({0}, {3})), DistanceWitness(1, 3, 3), "there is no chunk 1")


def test_doublings() -> None:
    spread = moving(line(4), ({0, 1}, {0, 1, 2, 3}))
    check(cuts._doubling_steps, spread, None, "nothing forbids several additions")
    check(cuts._doubling_steps, replace(spread, exclusive_reduction=True), None, 1)
    check(cuts._doubling_steps, replace(moving(line(4), ({0}, {0})), exclusive_reduction=True), None, 0)
    summed = moving(line(4), ({0, 1, 2}, {0}), name="reduce")
    check(cuts._doubling_steps, replace(summed, exclusive_reduction=True), None, 2)


def test_a_query_counts_as_its_solver_says() -> None:
    far = moving(line(3), ({0}, {2}))
    bound = LowerBound(2, "unsat", "", UnsatWitness(1, "(assert false)"))
    assert cuts.recheck(far, bound, unsat=lambda query: True) == cuts.Recheck()
    assert cuts.recheck(far, bound, unsat=lambda query: None).open is not None
    assert cuts.recheck(far, bound).open is not None
    assert "satisfiable" in cuts.recheck(far, bound, unsat=lambda query: False).violations[0].message
    assert cuts.recheck(far, LowerBound(1, "trivial", "")) == cuts.Recheck()


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = moving(line(2), ({0}, {1}))
    flow = FlowWitness(1, 3, 0, 1, ())
    monkeypatch.setattr(cuts, "MAX_STEPS", 3)
    for steps, refused in ((3, False), (4, True), (-1, True)):
        assert ("not rechecked" in str(judged(cuts.flow_steps, wanted, replace(flow, steps=steps)))) == refused
    names = [resource.name for resource in wanted.resources]
    capacity = wanted.resources[0].capacity
    for most in (laws.MAX_PRICE, laws.MAX_PRICE + 1, -1):
        claim = PriceWitness(((names[0], most),), most, most * capacity)
        refused = most != laws.MAX_PRICE
        assert ("negative or too large" in str(judged(laws.price_steps, wanted, claim))) == refused
    claim = PriceWitness(((names[0], 1),), 1, capacity)
    for ranks, refused in ((2, False), (1, True)):
        monkeypatch.setattr(laws, "MAX_RANKS", ranks)
        assert ("ranks are not rechecked" in str(judged(laws.price_steps, wanted, claim))) == refused


def test_what_all_checks_share() -> None:
    wanted = problem(line(3), "broadcast")
    literals = (("a", True), ("b", False), ("c", True), ("d", True), ("e", True))
    assert laws.shown(literals) == "a or not b or c or d" and laws.shown(()) == "false"
    with pytest.raises(Refuted, match="the region is empty"):
        laws.checked_ranks(wanted, (), "the region")
    with pytest.raises(Refuted, match="no resource is named"):
        laws.carried(wanted, (), set())
    with pytest.raises(Refuted, match="there is no resource 'nothing'"):
        laws.carried(wanted, ("nothing",), set())
    with pytest.raises(Refuted, match=r"limits link 1 \(1->0\)"):
        laws.carried(wanted, (wanted.resources[0].name,), {0, 1, 2})
    for each in (0, -1):
        with pytest.raises(Refuted, match="nothing can be carried"):
            laws.quotient(1, each)
    assert laws.quotient(3, 2) == 2
