"""The eight collectives against tables written by hand, inversion and composition."""

from __future__ import annotations

import pytest
from support.graphs import fig10, problem, ring
from support.replay import accepts

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.collectives import DUAL, MAX_CHUNKS, collective, invert, split

# three ranks, root 1: block, pre, post of each chunk
HAND: dict[CollectiveName, list[tuple[tuple[int, ...], set[int], set[int]]]] = {
    "allgather": [((0,), {0}, {0, 1, 2}), ((1,), {1}, {0, 1, 2}), ((2,), {2}, {0, 1, 2})],
    "reducescatter": [((0,), {0, 1, 2}, {0}), ((1,), {0, 1, 2}, {1}), ((2,), {0, 1, 2}, {2})],
    "allreduce": [((k,), {0, 1, 2}, {0, 1, 2}) for k in range(3)],
    "broadcast": [((1,), {1}, {0, 1, 2})],
    "reduce": [((1,), {0, 1, 2}, {1})],
    "gather": [((0,), {0}, {1}), ((1,), {1}, {1}), ((2,), {2}, {1})],
    "scatter": [((0,), {1}, {0}), ((1,), {1}, {1}), ((2,), {1}, {2})],
    "alltoall": [((u, v), {u}, {v}) for u in range(3) for v in range(3)],
}


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_the_eight_collectives_by_hand(name: CollectiveName) -> None:
    made = collective(name, 3, 1, 1 if name in ROOTED else None)
    table = [(c.block, set(a), set(b)) for c, a, b in zip(made.chunks, made.pre, made.post, strict=True)]
    assert table == HAND[name]
    assert made.reduces is (name in ("reducescatter", "allreduce", "reduce"))
    assert made.root == (1 if name in ROOTED else None)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_pieces_repeat_the_block_and_are_numbered(name: CollectiveName) -> None:
    one, three = collective(name, 4, 1), collective(name, 4, 3)
    assert len(three.chunks) == 3 * len(one.chunks)
    whole = {c.block: (p, q) for c, p, q in zip(one.chunks, one.pre, one.post, strict=True)}
    assert {(c.block, c.part) for c in three.chunks} == {(b, part) for b in whole for part in range(3)}
    for c, pre, post in zip(three.chunks, three.pre, three.post, strict=True):
        assert (pre, post) == whole[c.block]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("allgathr", 4), "HS301"), (("allgather", 4, 0), "HS302"),
        (("allgather", 4, 1, 0), "HS303"), (("alltoall", 4, 1, 3), "HS303"), (("broadcast", 4, 1, 4), "HS303"),
        (("gather", 4, 1, -1), "HS303"), (("allgather", 4, MAX_CHUNKS), "HS304"), (("alltoall", 2001, 1), "HS304"),
    ],
)  # fmt: skip
def test_bad_requests_are_errors_of_the_user(arguments: tuple[str, int], code: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        collective(*arguments)  # type: ignore[arg-type]
    assert caught.value.code == code and caught.value.exit_code == 2 and caught.value.help


@pytest.mark.parametrize("name", sorted(DUAL))
def test_the_dual_of_the_dual_is_the_problem(name: CollectiveName) -> None:
    for graph in (ring(5, both=False), fig10()):
        original = problem(graph, name, 2)
        dual, _ = invert(original)
        back = dual.reversed()
        assert (back.segments, back.arcs, back.groups) == (original.segments, original.arcs, original.groups)
        assert (dual.collective.pre, dual.collective.post) == (original.collective.post, original.collective.pre)
        assert not dual.collective.reduces and dual.collective.root == original.collective.root
        assert [(a.dst, a.src) for a in dual.arcs] == [(a.src, a.dst) for a in original.arcs]
        for arc in dual.arcs:  # the reversed wires still form a path
            at = arc.src
            for s in arc.segments:
                assert dual.segments[s].src == at
                at = dual.segments[s].dst
            assert at == arc.dst


def test_a_broadcast_run_backwards_is_a_reduction() -> None:
    reduce = problem(ring(4, both=False), "reduce")
    dual, recover = invert(reduce)
    # the dual ring runs 1 -> 0 -> 3 -> 2: arc 3 is 0->3, arc 2 is 3->2, arc 1 is 2->1
    broadcast = Schedule.of([Transfer(0, 1, 0, 3), Transfer(1, 2, 0, 2), Transfer(2, 3, 0, 1)])
    assert accepts(dual, broadcast)
    backwards = recover(broadcast)
    assert backwards.transfers == tuple(Transfer(t, t + 1, 0, t + 1, reduce=True) for t in range(3))
    assert accepts(reduce, backwards)


def test_allreduce_splits_into_reducescatter_and_allgather() -> None:
    whole = problem(ring(3), "allreduce", 2, exclusive=True)
    first, second, join = split(whole)
    roots = tuple(frozenset({k % 3}) for k in range(6))
    assert (first.collective.name, first.collective.pre, first.collective.post) == (
        "reducescatter", whole.collective.pre, roots
    )  # fmt: skip
    assert (second.collective.name, second.collective.pre, second.collective.post) == (
        "allgather", roots, whole.collective.post
    )  # fmt: skip
    assert first.exclusive_reduction and not second.exclusive_reduction
    joined = join(Schedule.of([Transfer(0, 1, 0, 0, True)], 2), Schedule.of([Transfer(0, 1, 0, 1)], 3))
    assert joined == Schedule.of([Transfer(0, 1, 0, 0, True), Transfer(2, 3, 0, 1)], 5)
