"""Rounds cut into permutations: proper, whole, and as few as can be."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hetesynth.model.program import BufferSlice
from hetesynth.model.table import Message
from hetesynth.programs.tables.matchings import matchings


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """Messages of up to nine ranks, told apart by their source; several of a pair too."""
    rank, count = st.integers(0, 8), st.integers(1, 3)
    drawn = draw(st.lists(st.tuples(rank, rank, count), max_size=60))
    return [Message(a, b, BufferSlice("i", k), BufferSlice("o", k), n) for k, (a, b, n) in enumerate(drawn)]


@given(rounds())
def test_no_rank_sends_or_receives_twice_and_all_are_there(messages: list[Message]) -> None:
    parts = matchings(messages)
    for part in parts:
        assert len({m.src for m in part}) == len({m.dst for m in part}) == len(part) > 0
        assert len({m.count for m in part}) == 1
    assert Counter(m for part in parts for m in part) == Counter(messages)


@given(rounds())
def test_as_many_as_the_busiest_rank_asks(messages: list[Message]) -> None:
    parts = matchings(messages)
    for count in {m.count for m in messages}:
        ends = Counter(end for m in messages if m.count == count for end in ((True, m.src), (False, m.dst)))
        assert sum(part[0].count == count for part in parts) == max(ends.values())
