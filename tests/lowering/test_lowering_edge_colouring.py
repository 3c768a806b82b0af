"""Channels that every rank uses alike: for random peers, and where taking the lowest free one strands some."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hetesynth.model.problem import Arc, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import PORTABLE
from hetesynth.programs.msccl.channels import ChannelPlan, evenly_spread_channels, messages
from hetesynth.search.collectives import collective

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


def thread_blocks_needed(plan: ChannelPlan) -> int:
    """Of any rank, where every send shares with a receive of its channel if there is one left; 5 peers at most."""
    pairs = [(u, v) for u in range(6) for v in range(6) if u != v]
    problem = Problem(6, 6, (), tuple(Arc(u, v, 1) for u, v in pairs), (), collective("alltoall", 6, 1))
    chosen = random.Random(2)
    used = [a for a in range(len(pairs)) if chosen.random() < 0.8]
    schedule = Schedule.of(Transfer(0, 1, a, a) for a in used)
    carried = messages(problem, schedule, plan, replace(PORTABLE, max_peers_per_channel=2), 2)
    assert {(m.src, m.dst) for m in carried} == {pairs[a] for a in used}
    sends, receives = Counter((m.src, m.channel) for m in carried), Counter((m.dst, m.channel) for m in carried)
    assert max(*sends.values(), *receives.values()) == 2
    return max(sum(max(sends[rank, c], receives[rank, c]) for c in range(PORTABLE.channels)) for rank in range(6))


def test_ranks_with_as_many_peers_as_thread_blocks() -> None:
    assert thread_blocks_needed(ChannelPlan()) == 6
    assert thread_blocks_needed(ChannelPlan(spread_peers_evenly=True)) == 5
