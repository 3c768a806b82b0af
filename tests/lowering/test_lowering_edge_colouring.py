"""Channels that every rank uses alike: for random peers, and where taking the lowest free one strands some."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hetesynth.programs.msccl.channels import evenly_spread_channels

RANKS = 9
EDGES = st.sets(
    st.tuples(st.integers(0, RANKS), st.integers(0, RANKS)).filter(lambda e: e[0] != e[1]), max_size=60
)


@given(EDGES.map(sorted), st.integers(1, 5))
def test_every_channel_has_as_many_peers_of_each_rank(edges: list[tuple[int, int]], most: int) -> None:
    channel = evenly_spread_channels(edges, most)
    assert channel == evenly_spread_channels(edges, most) and len(channel) == len(edges)
    widest = max((*Counter(e[0] for e in edges).values(), *Counter(e[1] for e in edges).values()), default=0)
    number = 1
    while widest > number * most:
        number *= 2
    assert all(0 <= c < number for c in channel), "halved no more often than needed"
    for end in (0, 1):
        there = Counter((edge[end], c) for edge, c in zip(edges, channel, strict=True))
        for rank, peers in Counter(edge[end] for edge in edges).items():
            for c in range(number):
                assert peers // number <= there[rank, c] <= -(-peers // number)
