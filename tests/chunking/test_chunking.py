"""Eq. 1 by hand, its error, the choice of tau_ref, groups, and its properties."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Link, SharedGroup, Topology, Vertex, Wire
from hetesynth.search.chunking import MAX_CAPACITY, Chunking, ChunkingOptions, Rounding, chunk
from hetesynth.search.collectives import collective

GB = 10**9
US = Fraction(1, 10**6)


def pairs(
    *kinds: tuple[str, Fraction | int, int, Fraction | int], groups: tuple[SharedGroup, ...] = ()
) -> Topology:
    """One GPU pair per (kind, bytes per second, lanes, seconds), a link from 2i to 2i+1."""
    vertices = tuple(Vertex(f"g{i}", "gpu") for i in range(2 * len(kinds)))
    wires = tuple(
        Wire(2 * i, 2 * i + 1, kind, Fraction(rate), lanes, Fraction(alpha))
        for i, (kind, rate, lanes, alpha) in enumerate(kinds)
    )
    links = tuple(Link.over(w.src, w.dst, [i], wires) for i, w in enumerate(wires))
    return Topology("pairs", vertices, len(vertices), wires, links, groups)


def capacities(made: Chunking) -> list[int]:
    return [c.chunks for c in made.links]


FIG10 = [("direct", 25 * GB, 2, 0), ("switch", 16 * GB, 1, 0), ("net", 8 * GB, 1, 0)]


@pytest.mark.parametrize(
    ("rounding", "wanted", "errors"),
    [
        ("ceil", [8, 2, 1], [Fraction(4 * 8, 25) - 1, 0, 0]),  # 25/8 = 3.125 -> 4 a lane
        ("floor", [6, 2, 1], [Fraction(3 * 8, 25) - 1, 0, 0]),
        ("nearest", [6, 2, 1], [Fraction(3 * 8, 25) - 1, 0, 0]),
    ],
)
def test_figure_10_by_hand(rounding: Rounding, wanted: list[int], errors: list[Fraction]) -> None:
    made = chunk(pairs(*FIG10), ChunkingOptions(rounding=rounding))
    assert capacities(made) == wanted
    assert [c.error for c in made.links] == errors
    assert [c.chunks for c in made.wires if c is not None] == wanted
    assert made.tau_ref == Fraction(10**6, 8 * GB) and "net" in made.reference
    worst = made.worst_error()
    assert worst is not None and abs(worst.error) == abs(errors[0])


def test_the_reference_may_be_chosen() -> None:
    fig10 = pairs(*FIG10)
    by_kind = chunk(fig10, ChunkingOptions(reference="switch"))
    assert capacities(by_kind) == [4, 1, 1] and by_kind.reference == "link type: switch"
    assert by_kind.links[2].error == 1, "a link of half the reference is promised twice what it has"
    stated = chunk(fig10, ChunkingOptions(reference=Fraction(1, 4000)))
    assert capacities(stated) == [14, 4, 2] and stated.reference == "as stated"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (ChunkingOptions(reference="nvlnk"), "HS403"), (ChunkingOptions(reference=Fraction(0)), "HS403"),
        (ChunkingOptions(reference=Fraction(-1)), "HS403"), (ChunkingOptions(reference=Fraction(10**6)), "HS402"),
    ],
)  # fmt: skip
def test_a_reference_that_does_not_fit_is_an_error_of_the_user(options: ChunkingOptions, code: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        chunk(pairs(*FIG10), options)
    assert caught.value.code == code and caught.value.help


def test_absurd_ratios_and_missing_links_are_errors_of_the_user() -> None:
    with pytest.raises(HetesynthError, match="a fast link would carry 1000001 chunks in one step"):
        chunk(pairs(("fast", (MAX_CAPACITY + 1) * GB, 1, 0), ("slow", GB, 1, 0)))
    with pytest.raises(HetesynthError) as caught:
        chunk(Topology("lone", (Vertex("g", "gpu"),), 1, (), ()))
    assert caught.value.code == "HS401"


def test_groups_and_shared_wires_are_quantized_alike() -> None:
    group = SharedGroup("pcie", "bus", Fraction(20 * GB), (0, 1), lanes=2)
    made = chunk(pairs(*FIG10, groups=(group,)))
    assert made.groups[0].chunks == 2 * 3 and made.groups[0].error == Fraction(3 * 8, 20) - 1
    wanted = made.problem(collective("allgather", 6))
    assert [(g.name, g.arcs, g.capacity) for g in wanted.groups] == [("pcie", (0, 1), 6)]
    assert [a.capacity for a in wanted.arcs] == [8, 2, 1]
    assert [s.capacity for s in wanted.segments] == [8, 2, 1]


rates = st.integers(1, 400).map(lambda gb: Fraction(gb * GB))
latencies = st.integers(0, 50).map(lambda tenths: tenths * US / 10)
kinds = st.lists(st.tuples(st.sampled_from("abc"), rates, st.integers(1, 4), latencies), min_size=1, max_size=6)


@settings(derandomize=True, max_examples=25, deadline=None, database=None)
@given(kinds, st.integers(10**5, 10**8))
def test_rounding_is_ordered_positive_and_honest(
    links: list[tuple[str, Fraction, int, Fraction]], size: int
) -> None:
    up, down, near = (
        chunk(pairs(*links), ChunkingOptions(chunk_bytes=size, rounding=r)) for r in ("ceil", "floor", "nearest")
    )
    for c, f, n, (_, rate, lanes, alpha) in zip(up.links, down.links, near.links, links, strict=True):
        assert 1 <= f.chunks <= n.chunks <= c.chunks
        tau = alpha + size / rate
        exact = up.tau_ref / tau
        assert exact >= 1, "no link is slower than the slowest"
        assert c.chunks - lanes < exact * lanes <= c.chunks
        assert f.error <= 0 <= c.error and abs(n.error) <= max(c.error, -f.error)
        for made in (c, f, n):
            assert made.tau == tau and made.error == made.chunks / (exact * lanes) - 1
