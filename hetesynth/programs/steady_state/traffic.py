"""What the trees of a schedule load: resources, pairs of ranks, and when each transfer of a piece can begin.

In: a problem, a schedule in which the transfers of each chunk are its tree, costs. Out: ``Traffic``. A period is
what the fullest resource needs for one piece of every chunk, so it is the least time between two pieces. Knows
nothing of programs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from hetesynth.model.cost import Costs
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank

Pair = tuple[Rank, Rank]


@dataclass(frozen=True)
class Traffic:
    """The transfers of one piece of every chunk, in the order of the schedule.

    ``pairs``: the ranks of each. ``messages``: transfers of a pair. ``steps``: what they take of the receiver's
    thread blocks; ``steps_of_message``: what one of them takes at most. ``crossing``: the pairs that draw from
    each resource. ``seconds``: of each resource, for one byte a transfer. ``alpha``: the longest of the links that
    cross each resource. ``copy_of``: of the chunks that go along the same tree, the how manieth a chunk is, and
    how many
    there are. ``stream_of``: a number for each chunk, the same for ``chunks_of_stream`` chunks that go along the
    same tree. ``streams``: of each pair, those of additions told apart.
    """

    transfers: tuple[Transfer, ...]
    pairs: tuple[Pair, ...]
    costs: Costs
    messages: Mapping[Pair, int]
    steps: Mapping[Pair, int]
    steps_of_message: int
    crossing: Mapping[int, tuple[Pair, ...]]
    seconds: Mapping[int, float]
    alpha: Mapping[int, float]
    copy_of: Mapping[int, tuple[int, int]]
    stream_of: Mapping[int, int]
    chunks_of_stream: int
    streams: Mapping[Pair, int]

    @classmethod
    def of(cls, problem: Problem, schedule: Schedule, costs: Costs, steps_of_addition: int) -> Traffic:
        """The traffic of ``schedule``; ``steps_of_addition``: of a receiver for a value that is added."""
        pairs = tuple((problem.arcs[t.link].src, problem.arcs[t.link].dst) for t in schedule.transfers)
        messages: dict[Pair, int] = defaultdict(int)
        steps: dict[Pair, int] = defaultdict(int)
        crossing: dict[int, dict[Pair, None]] = defaultdict(dict)
        carried: dict[int, int] = defaultdict(int)
        alpha: dict[int, float] = defaultdict(float)
        alike = _alike(schedule)
        stream_of, chunks_of_stream = _streams(alike)
        streams: dict[Pair, set[tuple[int, bool]]] = defaultdict(set)
        for t, pair in zip(schedule.transfers, pairs, strict=True):
            messages[pair] += 1
            streams[pair].add((stream_of[t.chunk], t.reduce))
            steps[pair] += steps_of_addition if t.reduce else 1
            for r in costs.link_resources[t.link]:
                crossing[r][pair] = None
                carried[r] += 1
                alpha[r] = max(alpha[r], costs.link_alpha[t.link])
        return cls(
            transfers=schedule.transfers,
            pairs=pairs,
            costs=costs,
            messages=dict(sorted(messages.items())),
            steps=dict(steps),
            steps_of_message=max((steps_of_addition for t in schedule.transfers if t.reduce), default=1),
            crossing={r: tuple(sorted(of)) for r, of in sorted(crossing.items())},
            seconds={r: carried[r] / costs.resource_rate[r] for r in sorted(carried)},
            alpha=alpha,
            copy_of={k: (place, len(chunks)) for chunks in alike for place, k in enumerate(chunks)},
            stream_of=stream_of,
            chunks_of_stream=chunks_of_stream,
            streams={pair: len(of) for pair, of in sorted(streams.items())},
        )

    @property
    def seconds_per_byte(self) -> float:
        """The period over the bytes of a piece."""
        return max(self.seconds.values(), default=0.0)

    def scarce(self, share: float) -> list[int]:
        """The resources that need at least ``share`` of the period."""
        return [r for r, seconds in self.seconds.items() if seconds >= share * self.seconds_per_byte]

    def latency_share(self, resource: int, connections: int, piece_bytes: float) -> float:
        """Alpha over the time of a message on each of ``connections``: what is lost where all wait at once."""
        return self.alpha[resource] * self.costs.resource_rate[resource] / (connections * piece_bytes)

    def longest(self, piece_bytes: float) -> float:
        """Periods from the begin of a piece until it is everywhere, where all that cross a resource share it."""
        _, ends = self._begins_and_ends(piece_bytes, 1.0)
        return max(ends, default=0.0)

    def phases(self, piece_bytes: float, turn: float) -> list[float]:
        """When each transfer of a piece can begin, in periods after the piece began.

        A crossing takes alpha and the time of its piece alone, or ``turn`` of the time that its fullest resource
        needs for one piece of every chunk: 1 where all that cross it share it fairly and end together.
        """
        return self._begins_and_ends(piece_bytes, turn)[0]

    def _begins_and_ends(self, piece_bytes: float, turn: float) -> tuple[list[float], list[float]]:
        period = self.seconds_per_byte * piece_bytes
        takes: dict[tuple[int, int], float] = {}  # periods of a crossing, by link and copies
        arrivals: dict[tuple[int, Rank], list[tuple[int, float]]] = defaultdict(list)
        begins: list[float] = []
        ends: list[float] = []
        for t, (src, dst) in zip(self.transfers, self.pairs, strict=True):
            copy, copies = self.copy_of[t.chunk]
            begin = -math.inf
            for arrived, at in arrivals[t.chunk, src]:
                if arrived <= t.start and at > begin:
                    begin = at
            if begin == -math.inf:
                begin = copy / copies  # chunks of one tree follow each other
            crossing = takes.get((t.link, copies))
            if crossing is None:
                crossing = takes[t.link, copies] = self._crossing(t.link, copies, piece_bytes, turn) / period
            end = begin + crossing
            arrivals[t.chunk, dst].append((t.end, end))
            begins.append(begin)
            ends.append(end)
        return begins, ends

    def _crossing(self, link: int, copies: int, piece_bytes: float, turn: float) -> float:
        """Seconds that a piece of one of ``copies`` chunks takes over ``link``."""
        alone = piece_bytes / self.costs.link_rate[link]
        shared = turn * piece_bytes * max(self.seconds[r] for r in self.costs.link_resources[link]) / copies
        return self.costs.link_alpha[link] + max(alone, shared)


def _streams(alike: list[list[int]]) -> tuple[dict[int, int], int]:
    """The stream of each chunk, and how many chunks each has: as many as divide all numbers of chunks alike."""
    size = math.gcd(*map(len, alike))
    groups = [chunks[first : first + size] for chunks in alike for first in range(0, len(chunks), size)]
    return {chunk: stream for stream, chunks in enumerate(groups) for chunk in chunks}, size


def _alike(schedule: Schedule) -> list[list[int]]:
    """The chunks that go along the same tree, for each tree."""
    trees: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for t in schedule.transfers:
        trees[t.chunk].append((t.link, t.reduce))
    alike: dict[tuple[tuple[int, bool], ...], list[int]] = defaultdict(list)
    for chunk in sorted(trees):
        alike[tuple(sorted(trees[chunk]))].append(chunk)
    return list(alike.values())
