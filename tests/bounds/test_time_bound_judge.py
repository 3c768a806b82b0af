"""The judge of time bounds, case by case: exactly what a witness proves is accepted, and nothing above it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.bound import (
    DelayedPrices,
    EnteredSet,
    PartCrossings,
    ResourcePrices,
    SlowestPath,
    TimeBound,
    VertexCut,
)
from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Link, SharedGroup, Topology, Vertex, Wire

F = Fraction
Witness = VertexCut | PartCrossings | ResourcePrices | SlowestPath
KIND = {VertexCut: "cut", PartCrossings: "volume", ResourcePrices: "prices", SlowestPath: "latency"}


def cluster(*, cut_off: bool = False) -> Topology:
    """0 -> 1 twice (2 and 1 bytes/s), 1 -> 2 (3), 2 -> 0 (5), and 0 -> 2 over a switch (2 lanes of 1, then no
    limit); a group of 2 lanes of 1/4 on the first link and the
    switched one, a group of 1 on 1 -> 2. One wire carries no link. ``cut_off``: without
    the links into rank 0."""
    wires = (
        Wire(0, 1, "wire", F(2), 1, F(1)), Wire(1, 2, "wire", F(3), 1, F(2)), Wire(2, 0, "wire", F(5), 1, F(3)),
        Wire(0, 3, "port", F(1), 2, F(4)), Wire(3, 2, "port", None), Wire(1, 0, "wire", F(100)),
        Wire(0, 1, "wire", F(1), 1, F(1, 2)),
    )  # fmt: skip
    paths = [(0, 1, [0]), (1, 2, [1]), (2, 0, [2]), (0, 2, [3, 4]), (0, 1, [6])]
    links = tuple(Link.over(u, v, over, wires) for u, v, over in paths if not (cut_off and v == 0))
    vertices = (*(Vertex(f"g{i}", "gpu", "s") for i in range(3)), Vertex("x", "switch", "s"))
    switched = next(i for i, x in enumerate(links) if len(x.wires) == 2)
    groups = (SharedGroup("g", "shared", F(1, 4), (0, switched), 2), SharedGroup("h", "shared", F(1), (1,)))
    return Topology("small", vertices, 3, wires, links, groups)


def bound(witness: Witness, latency: Fraction, per_byte: Fraction, **more: object) -> TimeBound:
    return replace(TimeBound(KIND[type(witness)], latency, per_byte, "", witness), **more)  # type: ignore[arg-type]


def judged(name: CollectiveName, root: int | None, stated: TimeBound, topology: Topology | None = None) -> str:
    return "; ".join(v.message for v in time_bound_violations(topology or cluster(), name, root, stated))


def exactly(
    name: CollectiveName,
    root: int | None,
    witness: Witness,
    proved: tuple[Fraction, Fraction] | str,
    **more: object,
) -> None:
    """``proved``: seconds and seconds per byte, or a part of the refusal."""
    if isinstance(proved, str):
        assert proved in judged(name, root, bound(witness, F(0), F(0), **more))
        return
    latency, per_byte = proved
    tiny = F(1, 10**9)
    assert judged(name, root, bound(witness, latency, per_byte, **more)) == ""
    assert "s of latency; the witness shows" in judged(
        name, root, bound(witness, latency + tiny, per_byte, **more)
    )
    assert "s per byte; the witness shows" in judged(name, root, bound(witness, latency, per_byte + tiny, **more))


def cut(side: tuple[int, ...], share: Fraction, bandwidth: int | Fraction, *groups: int) -> VertexCut:
    return VertexCut(side, share, F(bandwidth), groups)


THIRD = F(1, 3)
CUTS: list[tuple[CollectiveName, int | None, VertexCut, bool, tuple[Fraction, Fraction] | str]] = [
    ("allgather", None, cut((0,), THIRD, 5), False, (F(1, 2), F(1, 15))),
    ("allgather", None, cut((0,), THIRD, F(49, 10)), False, "lets out 5 bytes per second, not 49/10"),
    ("allgather", None, cut((0,), F(1, 2), 5), False, "1/3 of the buffer must cross, not 1/2"),
    ("allgather", None, cut((0,), THIRD, F(3, 2), 0), False, (F(1, 2), F(2, 9))),
    ("allgather", None, cut((0,), THIRD, F(149, 100), 0), False, "lets out 3/2 bytes per second, not 149/100"),
    ("allgather", None, cut((1,), THIRD, 1, 1), False, (F(2), THIRD)),
    ("allreduce", None, cut((0, 1), F(2), 5), False, "1 of the buffer must cross, not 2"),
    ("allgather", None, cut((0, 3), THIRD, 5), False, "lets out None bytes per second"),
    ("allgather", None, cut((0, 3), THIRD, F(3, 2), 0), False, (F(1, 2), F(2, 9))),
    ("allgather", None, cut((1,), THIRD, 3), False, (F(2), F(1, 9))),
    ("allgather", None, cut((1,), THIRD, F(7, 2), 0), False, (F(2), F(2, 21))),  # a group of other links adds
    ("alltoall", None, cut((0, 1), 2 * THIRD, 5), False, (F(2), F(2, 15))),
    ("allreduce", None, cut((0, 1), F(1), 5), False, (F(2), F(1, 5))),
    ("allreduce", None, cut((0,), F(1), 5), True, (F(3), F(1, 5))),
    ("broadcast", 0, cut((0,), F(1), 5), False, (F(1, 2), F(1, 5))),
    ("broadcast", 1, cut((0,), F(1), 5), False, "0 of the buffer must cross, not 1"),
    ("gather", 2, cut((0, 1), 2 * THIRD, 5), False, (F(2), F(2, 15))),
    ("gather", 0, cut((0, 1), THIRD, 5), False, "0 of the buffer must cross, not 1/3"),
    ("scatter", 2, cut((0, 1), 2 * THIRD, 5), True, (F(3), F(2, 15))),
    ("scatter", 2, cut((0, 1), 2 * THIRD, 5), False, "0 of the buffer must cross"),
    ("reduce", 0, cut((0,), F(1), 5), True, (F(3), F(1, 5))),
    ("reducescatter", None, cut((0,), THIRD, 5), True, (F(3), F(1, 15))),
    ("reducescatter", None, cut((0,), THIRD, 5), False, "0 of the buffer must cross"),
    ("allgather", None, cut((0, 1, 2), THIRD, 5), False, "0 of the buffer must cross"),
    # nothing need cross: the links out of the side are slow for nobody
    ("broadcast", 1, cut((0,), F(0), 5), False, "nothing is said to cross"),
    ("allgather", None, cut((0,), F(-1), 5), False, "nothing is said to cross"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CUTS)))
def test_cuts(case: int) -> None:
    name, root, witness, backwards, proved = CUTS[case]
    exactly(name, root, witness, proved, backwards=backwards)


EACH = ((0,), (1,), (2,))
ROUND = ((1, 2), (0, 2, 3), (0, 1))
PARTS: list[tuple[CollectiveName, PartCrossings, tuple[Fraction, Fraction] | str]] = [
    # into 0: 5, into 1: 2 + 1, into 2: 3 + 2 over the switch's first wire
    ("allgather", PartCrossings(EACH, ROUND, F(2)), (F(1, 2), F(2, 13))),
    ("allgather", PartCrossings(EACH, ROUND, F(1)), (F(1, 2), F(1, 13))),
    ("allgather", PartCrossings(EACH, ROUND, F(2), ((0, 0), (1, 1), (2, 2))), "ends are of an allreduce"),
    ("allgather", PartCrossings(EACH, ROUND, F(3)), "only 2 of the buffer enters the parts"),
    ("reducescatter", PartCrossings(EACH, ROUND, F(2)), (F(1, 2), F(2, 13))),
    ("allreduce", PartCrossings(EACH, ROUND, F(4)), (F(1, 2), F(4, 13))),
    ("allreduce", PartCrossings(EACH, ROUND, F(5)), "only 4 of the buffer enters the parts"),
    ("alltoall", PartCrossings(EACH, ROUND, F(2)), (F(1, 2), F(2, 13))),
    ("alltoall", PartCrossings(((0, 1), (2,)), ((2,), (0, 1)), F(4, 3)), (F(2), F(2, 15))),
    ("alltoall", PartCrossings(((0, 1), (2,)), ((2,), (0, 1)), F(3, 2)), "only 4/3 of the buffer"),
    ("broadcast", PartCrossings(EACH, ROUND, F(1)), "not a bound for this collective"),
    ("allgather", PartCrossings(EACH, ROUND[:2], F(1)), "not a bound for this collective"),
    ("allgather", PartCrossings(EACH[:2], ROUND[:2], F(1)), "the parts are no partition of the ranks"),
    ("allgather", PartCrossings((*EACH, (0,)), (*ROUND, (1, 2)), F(1)), "the parts are no partition"),
    ("allgather", PartCrossings(((0,), (1,), (3,)), ROUND, F(1)), "the parts are no partition of the ranks"),
    ("allgather", PartCrossings(EACH, (ROUND[1], ROUND[0], ROUND[2]), F(1)), "does not separate its part"),
    ("allgather", PartCrossings(EACH, (*ROUND[:2], (0, 1, 3)), F(1)), "a limit"),
    ("allgather", PartCrossings(((0, 1, 2),), ((),), F(0)), "nothing is said to cross"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(PARTS)))
def test_parts(case: int) -> None:
    name, witness, proved = PARTS[case]
    exactly(name, None, witness, proved)


PATHS: list[tuple[CollectiveName, int | None, SlowestPath, tuple[Fraction, Fraction] | str]] = [
    ("allgather", None, SlowestPath(1, 0, THIRD, (1, 2)), (F(5), F(1, 15))),
    ("allgather", None, SlowestPath(0, 2, THIRD, (0, 1)), (F(5, 2), F(1, 15))),
    ("allgather", None, SlowestPath(0, 2, F(0), ()), (F(5, 2), F(0))),
    ("allgather", None, SlowestPath(0, 2, F(1, 2), (0, 1)), "more than one rank has to say"),
    ("allgather", None, SlowestPath(0, 0, THIRD, (1, 2)), "nothing of rank 0 need reach rank 0"),
    ("allgather", None, SlowestPath(1, 0, THIRD, (1,)), "the side does not separate the last rank"),
    ("allgather", None, SlowestPath(0, 2, THIRD, (0, 1, 3)), "a limit"),
    *((name, None, SlowestPath(1, 0, F(1), (1, 2)), "more than one rank has to say")
      for name in ("alltoall", "reducescatter")),
    ("allreduce", None, SlowestPath(1, 0, F(1), (1, 2)), (F(5), F(1, 5))),
    ("allreduce", None, SlowestPath(1, 0, F(2), (1, 2)), "more than one rank has to say"),
    ("broadcast", 1, SlowestPath(1, 0, F(1), (1, 2)), (F(5), F(1, 5))),
    ("broadcast", 2, SlowestPath(1, 0, F(1), (1, 2)), "nothing of rank 1 need reach rank 0"),
    ("scatter", 1, SlowestPath(1, 0, THIRD, (1, 2)), (F(5), F(1, 15))),
    ("scatter", 0, SlowestPath(1, 0, THIRD, (1, 2)), "nothing of rank 1 need reach rank 0"),
    ("reduce", 0, SlowestPath(1, 0, F(1), (1, 2)), (F(5), F(1, 5))),
    ("gather", 0, SlowestPath(1, 0, THIRD, (1, 2)), (F(5), F(1, 15))),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(PATHS)))
def test_slowest_paths(case: int) -> None:
    name, root, witness, proved = PATHS[case]
    exactly(name, root, witness, proved)


@pytest.mark.parametrize(
    ("name", "witness", "message"),
    [
        ("allgather", cut((1, 2), 2 * THIRD, 0), "lets out 0 bytes"),
        ("allgather", PartCrossings(((0,), (1, 2)), ((1, 2), (0,)), F(1)), "a limit"),
        ("allgather", SlowestPath(1, 0, THIRD, (1, 2)), "a limit"),
    ],
)
def test_where_nothing_enters(name: CollectiveName, witness: Witness, message: str) -> None:
    """No division by nothing."""
    assert message in judged(name, None, bound(witness, F(0), F(1)), cluster(cut_off=True))
    for latency, message in ((F(0), ""), (F(1, 9), "claims 1/9 s of latency; the witness shows 0")):
        stated = bound(SlowestPath(1, 0, F(0), ()), latency, F(0))
        assert judged(name, None, stated, cluster(cut_off=True)) == message


@pytest.mark.parametrize("kind", ["cut", "volume", "latency"])
def test_kinds_and_scopes(kind: str) -> None:
    good = bound(SlowestPath(0, 2, F(0), ()), F(1), F(0))
    assert not judged("allgather", None, good)
    wrong = replace(good, scope="tree-based")
    assert "is not of algorithms that are tree-based" in judged("allgather", None, wrong)
    if kind != "latency":
        assert f"none of a bound by {kind}" in judged("allgather", None, replace(good, kind=kind))  # type: ignore[arg-type]


TOLLS = ResourcePrices((4, 2, 3, 5, 0, 0, 6), (1, 0))
"""By link: 0->1 5 or 6, 1->2 2, 2->0 3, 0->2 6. In a second 4*2 + 2*3 + 3*5 + 5*2 + 6*1 + 1/2 are earned."""
EARNED = F(91, 2)
COSTS: list[tuple[CollectiveName, int | None, Fraction]] = [
    ("allgather", None, F(20, 3)), ("reducescatter", None, F(20, 3)), ("alltoall", None, F(29, 3)),
    ("broadcast", 0, F(7)), ("broadcast", 1, F(5)), ("reduce", 0, F(5)), ("reduce", 1, F(8)),
    ("scatter", 0, F(11, 3)), ("scatter", 1, F(7, 3)), ("gather", 0, F(8, 3)), ("gather", 1, F(13, 3)),
]  # fmt: skip
HALF = F(1, 2)


@pytest.mark.parametrize(("name", "root", "cost"), COSTS)
def test_prices(name: CollectiveName, root: int | None, cost: Fraction) -> None:
    exactly(name, root, TOLLS, (HALF, cost / EARNED))
    for more in ({"scope": "tree-based"}, {"backwards": True}):
        exactly(name, root, TOLLS, "parts and backwards moments are of an allreduce", **more)
    exactly(name, root, replace(TOLLS, parts=EACH), "parts and backwards moments are of an allreduce")


def test_prices_of_an_allreduce() -> None:
    exactly("allreduce", None, TOLLS, (HALF, 12 / EARNED), scope="tree-based")
    exactly(
        "allreduce", None, replace(TOLLS, parts=EACH), "are of a bound for every algorithm", scope="tree-based"
    )
    exactly("allreduce", None, TOLLS, "bound for every algorithm", scope="tree-based", backwards=True)
    for parts, cost in ((EACH, 12), (((0, 1), (2,)), 8), (((2,), (0, 1)), 8), (((0, 2), (1,)), 9)):
        exactly("allreduce", None, replace(TOLLS, parts=parts), (HALF, cost / EARNED))
    exactly("allreduce", None, replace(TOLLS, parts=EACH), (HALF, 12 / EARNED), backwards=True)
    # seen from the end: 2 leads to {0, 1} for 2, 1 is reached from 0 or 2 for 2, and something enters 2 for 3
    exactly("allreduce", None, replace(TOLLS, parts=((0, 1), (2,))), (HALF, 7 / EARNED), backwards=True)
    for none in ((), ((0, 1, 2),), ((0, 1), (2,), ()), ((0, 1), (1, 2)), ((0,), (1,))):
        exactly("allreduce", None, replace(TOLLS, parts=none), "the parts are no partition of the ranks")


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        (replace(TOLLS, wires=TOLLS.wires[1:]), "not those of this topology's wires and groups"),
        (replace(TOLLS, groups=()), "not those of this topology's wires and groups"),
        (replace(TOLLS, groups=(-1, 0)), "a price is no whole number, or negative"),
        (replace(TOLLS, wires=(0.5, *TOLLS.wires[1:])), "a price is no whole number, or negative"),  # type: ignore[arg-type]
        (replace(TOLLS, wires=(0, 0, 0, 0, 1, 0, 0)), "a wire without a limit has a price"),
        (ResourcePrices((0, 0, 0, 0, 0, 9, 0), (0, 0)), "nothing that a link uses has a price"),
        (ResourcePrices((0,) * 7, (0, 0)), "nothing that a link uses has a price"),
        (ResourcePrices((0, 1 + 2**60 // 12, 0, 0, 0, 0, 0), (0, 0)), "too large to be added up"),
    ],
)  # fmt: skip
def test_what_are_no_prices(prices: ResourcePrices, message: str) -> None:
    exactly("allgather", None, prices, message)


def test_prices_at_their_limits() -> None:
    """The largest, and such as are paid by one link or group alone. Broadcasts from 1 need not use 0 -> 1."""
    large = 2**60 // 12
    exactly("broadcast", 1, ResourcePrices((0, large, 0, 0, 0, 0, 0), (0, 0)), (F(2), F(1, 3)))
    exactly(
        "allreduce",
        None,
        ResourcePrices((0, 0, 0, 5, 0, 0, 0), (0, 0), EACH),
        "nothing that must move has a price",
    )
    exactly("alltoall", None, ResourcePrices((0,) * 7, (1, 0)), "nothing that must move has a price")
    exactly("broadcast", 1, ResourcePrices((1, 0, 0, 0, 0, 0, 1), (0, 0)), "nothing that must move has a price")
    exactly("allgather", None, ResourcePrices((1, 0, 0, 0, 0, 0, 1), (0, 0)), (HALF, F(2, 3) / 3))


@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce"])
def test_prices_where_some_rank_is_cut_off(name: CollectiveName) -> None:
    far = cluster(cut_off=True)
    priced = ResourcePrices((4, 2, 3, 5, 0, 0, 6), (1, 0), EACH if name == "allreduce" else ())
    assert judged(name, None, bound(priced, F(0), F(0)), far) == "some rank cannot be reached"
    if name == "allreduce":
        middle_first = bound(replace(priced, parts=((1,), (2,), (0,))), F(0), F(0))
        assert judged(name, None, middle_first, far) == "some rank cannot be reached"
        by_trees = bound(replace(priced, parts=()), F(0), F(0), scope="tree-based")
        assert judged(name, None, by_trees, far) == "some rank cannot be reached"


def test_the_largest_price_of_two_ranks() -> None:
    wires = (Wire(0, 1, "wire", F(1)), Wire(1, 0, "wire", F(1)))
    links = tuple(Link.over(w.src, w.dst, [i], wires) for i, w in enumerate(wires))
    two = Topology("two", tuple(Vertex(f"g{i}", "gpu", "s") for i in (0, 1)), 2, wires, links)
    for price, message in ((2**57 - 1, ""), (2**57, "the prices are too large to be added up")):
        assert judged("allgather", None, bound(ResourcePrices((price, 1), ()), F(0), F(0)), two) == message


def test_parts_that_no_link_joins_show_no_latency() -> None:
    """0 -> 1 and 2 -> 3, each over a switch that is counted to the other side."""
    wires = tuple(Wire(u, v, "port", F(2), 1, F(5)) for u, v in ((0, 4), (4, 1), (2, 5), (5, 3)))
    links = (Link.over(0, 1, [0, 1], wires), Link.over(2, 3, [2, 3], wires))
    vertices = (
        *(Vertex(f"g{i}", "gpu", "s") for i in range(4)),
        *(Vertex(f"x{i}", "switch", "s") for i in range(2)),
    )
    apart = Topology("apart", vertices, 4, wires, links)
    witness = PartCrossings(((0, 1), (2, 3)), ((2, 3, 4), (0, 1, 5)), F(1))
    assert judged("allgather", None, bound(witness, F(0), F(1, 8)), apart) == ""
    assert "the witness shows 0" in judged("allgather", None, bound(witness, F(1), F(1, 8)), apart)


def test_what_resources_give_counts_from_their_soonest_link_on() -> None:
    """The group from its first link on, which is sooner than its other; and a wire that no link uses, never."""
    early = (F(1, 2), F(6)), (F(1), F(17, 2)), (F(2), F(6)), (F(3), F(15)), (F(4), F(10))
    late = (F(1, 2), F(6)), (F(1), F(8)), (F(2), F(6)), (F(3), F(15)), (F(4), F(21, 2))
    for supply, refused in ((early, ""), (late, "said to be less than the witness shows")):
        stated = bound(TOLLS, HALF, 7 / EARNED, supply=tuple((time, rate / 7) for time, rate in supply))
        assert refused in judged("broadcast", 0, stated) and bool(refused) == bool(judged("broadcast", 0, stated))
    exactly("broadcast", 0, replace(TOLLS, wires=(4, 2, 3, 5, 0, 9, 6)), (HALF, 7 / (EARNED + 900)))


def test_where_nothing_can_be_on_its_way_delays_prove_nothing() -> None:
    owed = DelayedPrices((0,) * 7, (0, 0), (EnteredSet((0,), 1, 0),))
    stated = TimeBound("delays", F(0), F(0), "", owed)
    assert "nothing can be on its way" in judged("allgather", None, stated, cluster(cut_off=True))
