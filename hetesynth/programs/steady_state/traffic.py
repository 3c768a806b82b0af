"""What the trees of a schedule load: resources, pairs of ranks, and when each transfer of a piece can begin.

A period is what the fullest resource needs for one piece of every chunk. A resource is shared max-min fairly by
its connections, so they are to carry equally much. Channels of a pair: ``own``: one for every stream; ``even``: as
few as steps allow, then another one for the pair that exceeds the mean of a scarce resource most;
``proportional``: in proportion to messages, as many as fit."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hetesynth.model.cost import Costs
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank

Pair = tuple[Rank, Rank]
TURNS = (1.0, 1.5, 0.3)
"""Of what a resource needs for a piece of every chunk, the time in which one crosses it, when messages are put in
order; tried in this order. 1 (all cross it together) is right for DGX-2 (95 % of the packing's time; 0.3: 73 %),
0.3 for MI250 (95 against 94 %), 1.5 for AllReduce on h20_4p8 (90 against 71 %)."""


class Traffic:
    """The transfers of one piece of every chunk, in the order of ``schedule``. ``steps_of_addition``: of a
    receiver for a value that is added."""

    def __init__(self, problem: Problem, schedule: Schedule, costs: Costs, steps_of_addition: int) -> None:
        arcs = problem.arcs
        self.transfers, self.costs = schedule.transfers, costs
        self.pairs = [(arcs[t.link].src, arcs[t.link].dst) for t in schedule.transfers]

        trees: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for t in schedule.transfers:
            trees[t.chunk].append((t.link, t.reduce))
        chunks_of_tree: dict[tuple[tuple[int, bool], ...], list[int]] = defaultdict(list)
        for chunk in sorted(trees):
            chunks_of_tree[tuple(sorted(trees[chunk]))].append(chunk)
        alike = list(chunks_of_tree.values())
        # of the chunks that go along the same tree, the how manieth a chunk is, and how many there are
        self.copy_of = {k: (place, len(chunks)) for chunks in alike for place, k in enumerate(chunks)}
        # a number for each chunk, the same for ``chunks_of_stream`` chunks that go along the same tree
        self.chunks_of_stream = size = math.gcd(*map(len, alike))
        groups = [chunks[first : first + size] for chunks in alike for first in range(0, len(chunks), size)]
        self.stream_of = {chunk: stream for stream, chunks in enumerate(groups) for chunk in chunks}

        messages: dict[Pair, int] = defaultdict(int)
        self.steps: dict[Pair, int] = defaultdict(int)  # what the messages of a pair take of the receiver
        self.steps_of_message = max((steps_of_addition for t in schedule.transfers if t.reduce), default=1)
        crossing: dict[int, set[Pair]] = defaultdict(set)
        carried: dict[int, int] = defaultdict(int)
        self.alpha: dict[int, float] = defaultdict(float)  # the longest of the links that cross each resource
        streams: dict[Pair, set[tuple[int, bool]]] = defaultdict(set)
        for t, pair in zip(schedule.transfers, self.pairs, strict=True):
            messages[pair] += 1
            streams[pair].add((self.stream_of[t.chunk], t.reduce))
            self.steps[pair] += steps_of_addition if t.reduce else 1
            for r in costs.link_resources[t.link]:
                crossing[r].add(pair)
                carried[r] += 1
                self.alpha[r] = max(self.alpha[r], costs.link_alpha[t.link])
        self.messages = dict(sorted(messages.items()))
        self.streams = {pair: len(of) for pair, of in sorted(streams.items())}  # those of additions told apart
        self.crossing = {r: tuple(sorted(of)) for r, of in sorted(crossing.items())}  # the pairs that draw from it
        self.seconds = {r: carried[r] / costs.resource_rate[r] for r in sorted(carried)}  # for one byte a transfer

    @property
    def seconds_per_byte(self) -> float:
        """The period over the bytes of a piece."""
        return max(self.seconds.values(), default=0.0)

    def latency_share(self, resource: int, connections: int, piece_bytes: float) -> float:
        """Alpha over the time of a message on each of ``connections``: what is lost where all wait at once."""
        return self.alpha[resource] * self.costs.resource_rate[resource] / (connections * piece_bytes)

    def longest(self, piece_bytes: float) -> float:
        """Periods from the begin of a piece until it is everywhere, where all that cross a resource share it."""
        return max(self._begins_and_ends(piece_bytes, 1.0)[1], default=0.0)

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
                fullest = max(self.seconds[r] for r in self.costs.link_resources[t.link])
                shared = turn * piece_bytes * fullest / copies
                seconds = self.costs.link_alpha[t.link] + max(piece_bytes / self.costs.link_rate[t.link], shared)
                crossing = takes[t.link, copies] = seconds / period
            end = begin + crossing
            arrivals[t.chunk, dst].append((t.end, end))
            begins.append(begin)
            ends.append(end)
        return begins, ends


Division = Literal["own", "even", "proportional"]
SHARED: tuple[Division, ...] = ("even", "proportional")
"""Where trees share connections."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a program may use: ``blocks`` of each rank, ``steps`` of a thread block, ``channels`` of a pair."""

    blocks: int
    steps: int
    channels: int


def channels_of_pairs(
    traffic: Traffic, pieces: int, piece_bytes: float, division: Division, room: Room
) -> dict[Pair, int] | None:
    """The channels of each pair; None where thread blocks or channels do not suffice."""
    if division == "own":
        own = dict(traffic.streams)
        longest = traffic.steps_of_message * traffic.chunks_of_stream * pieces
        return own if longest <= room.steps and _fits(own, room) else None
    fewest = fewest_channels(traffic, pieces, room.steps)
    if not _fits(fewest, room):
        return None
    if division == "even":
        return _even(traffic, pieces, piece_bytes, fewest, room)

    def channels(size: float) -> dict[Pair, int]:
        """In proportion to messages, about ``size`` of them on each."""
        return {
            pair: min(max(fewest[pair], round(number / size)), number * pieces)
            for pair, number in traffic.messages.items()
        }

    # the least messages a channel with which they fit: more of them never take more channels
    numbers = set(traffic.messages.values())
    sizes = sorted({number / k for number in numbers for k in range(1, room.channels + 1)})
    least = bisect_left(sizes, True, key=lambda size: _fits(channels(size), room))
    return channels(sizes[least]) if least < len(sizes) else fewest


def fewest_channels(traffic: Traffic, pieces: int, steps: int) -> dict[Pair, int]:
    """As few channels as thread blocks of ``steps`` steps allow."""
    return {pair: -(-needed * pieces // steps) for pair, needed in sorted(traffic.steps.items())}


def blocks_by_rank(channels: Mapping[Pair, int]) -> dict[Rank, int]:
    """Thread blocks of each rank: one for each connection that it sends on or receives from."""
    blocks: dict[Rank, int] = defaultdict(int)
    for pair, number in channels.items():
        for rank in pair:
            blocks[rank] += number
    return blocks


def _fits(channels: Mapping[Pair, int], room: Room) -> bool:
    most = max(blocks_by_rank(channels).values(), default=0)
    return most <= room.blocks and max(channels.values(), default=0) <= room.channels


def _even(
    traffic: Traffic, pieces: int, piece_bytes: float, fewest: Mapping[Pair, int], room: Room
) -> dict[Pair, int]:
    """Connections that meet in a resource that is in use for 0.6 of the time carry about equally much."""
    most = {pair: min(room.channels, number * pieces) for pair, number in traffic.messages.items()}
    channels = dict(fewest)
    open_pairs = {pair for pair in channels if channels[pair] < most[pair]}
    blocks = blocks_by_rank(channels)
    scarce = [r for r, seconds in traffic.seconds.items() if seconds >= 0.6 * traffic.seconds_per_byte]
    sharers: dict[Pair, list[int]] = defaultdict(list)
    for r in scarce:
        for pair in traffic.crossing[r]:
            sharers[pair].append(r)
    worst = {r: _worst(traffic, r, piece_bytes, channels, open_pairs) for r in scarce}
    while True:
        excess, pair = max(worst.values(), default=(0.0, (-1, -1)))
        if excess <= 1.03:
            return channels
        if all(blocks[rank] < room.blocks for rank in pair):
            channels[pair] += 1
            for rank in pair:
                blocks[rank] += 1
            if channels[pair] == most[pair]:
                open_pairs.discard(pair)
        else:
            open_pairs.discard(pair)
        worst.update((r, _worst(traffic, r, piece_bytes, channels, open_pairs)) for r in sharers[pair])


def _worst(
    traffic: Traffic, resource: int, piece_bytes: float, channels: Mapping[Pair, int], open_pairs: set[Pair]
) -> tuple[float, Pair]:
    """How much longer the resource takes than its bytes, by the connections of the pair that has most on each of
    them among those that may get another one."""
    pairs = traffic.crossing[resource]
    connections = sum(channels[p] for p in pairs)
    mean = sum(traffic.messages[p] for p in pairs) / connections
    most, pair = max(
        ((traffic.messages[p] / channels[p], p) for p in pairs if p in open_pairs), default=(0.0, (-1, -1))
    )
    return most / mean * (1 + traffic.latency_share(resource, connections, piece_bytes)), pair


def slowdown(traffic: Traffic, piece_bytes: float, channels: Mapping[Pair, int]) -> float:
    """The time of the resource that takes longest with these connections, in periods: it lasts as long as its
    fullest connection needs, and in the time of alpha that all of them wait together."""
    period, worst = traffic.seconds_per_byte, 1.0
    for r, pairs in traffic.crossing.items():
        connections = sum(channels[p] for p in pairs)
        mean = sum(traffic.messages[p] for p in pairs) / connections
        uneven = max(traffic.messages[p] / channels[p] for p in pairs) / mean
        waiting = 1 + traffic.latency_share(r, connections, piece_bytes)
        worst = max(worst, uneven * waiting * traffic.seconds[r] / period)
    return worst
