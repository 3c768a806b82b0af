"""How many channels each pair of ranks gets: connections that meet in a scarce resource carry equally much.

In: the traffic of a piece, thread blocks and steps that a rank may use. Out: channels by pair. A resource is
shared max-min fairly by the connections that use it, whatever they have to carry. One that carries more than the
others is late, and what it feeds waits for it; so pairs with more messages get more channels.

``own``: every stream has a channel, so a thread block serves one edge of one tree: nothing waits behind what is
ready later, however often the program loops.
``even``: every pair starts with as few channels as its steps allow. Then, while thread blocks are left, another
one goes to the pair that exceeds the mean of a scarce resource most (a divisor method, as for seats of a
parliament).
``proportional``: channels in proportion to messages, as many as fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from hetesynth.model.topology import Rank
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.programs.steady_state.traffic import Pair, Traffic

Division = Literal["own", "even", "proportional"]
DIVISIONS: tuple[Division, ...] = get_args(Division)
SHARED: tuple[Division, ...] = ("even", "proportional")
"""Where trees share connections."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a program may use: ``blocks`` of each rank, ``steps`` of a thread block, ``channels`` of a pair."""

    blocks: int
    steps: int
    channels: int


def channels_of_pairs(
    traffic: Traffic, pieces: int, piece_bytes: float, division: Division, room: Room, policy: LoweringPolicy
) -> dict[Pair, int] | None:
    """The channels of each pair; None where thread blocks or channels do not suffice."""
    if division == "own":
        own = dict(traffic.streams)
        longest = traffic.steps_of_message * traffic.chunks_of_stream * pieces
        return own if longest <= room.steps and _fits(own, room) else None
    fewest = fewest_channels(traffic, pieces, room.steps)
    if not _fits(fewest, room):
        return None
    if division == "proportional":
        return _proportional(traffic, pieces, fewest, room)
    most = {pair: min(room.channels, number * pieces) for pair, number in traffic.messages.items()}
    return _even(traffic, piece_bytes, fewest, most, room, policy)


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


def _proportional(traffic: Traffic, pieces: int, fewest: Mapping[Pair, int], room: Room) -> dict[Pair, int]:
    """The least messages a channel with which they fit: more of them never take more channels."""

    def channels(size: float) -> dict[Pair, int]:
        return {
            pair: min(max(fewest[pair], round(number / size)), number * pieces)
            for pair, number in traffic.messages.items()
        }

    numbers = set(traffic.messages.values())
    sizes = sorted({number / k for number in numbers for k in range(1, room.channels + 1)})
    least = bisect_left(sizes, True, key=lambda size: _fits(channels(size), room))
    return channels(sizes[least]) if least < len(sizes) else dict(fewest)


def _even(
    traffic: Traffic,
    piece_bytes: float,
    fewest: Mapping[Pair, int],
    most: Mapping[Pair, int],
    room: Room,
    policy: LoweringPolicy,
) -> dict[Pair, int]:
    channels = dict(fewest)
    open_pairs = {pair for pair in channels if channels[pair] < most[pair]}
    blocks = blocks_by_rank(channels)
    scarce = traffic.scarce(policy.steady_even_from)
    sharers: dict[Pair, list[int]] = defaultdict(list)
    for r in scarce:
        for pair in traffic.crossing[r]:
            sharers[pair].append(r)
    worst = {r: _worst(traffic, r, piece_bytes, channels, open_pairs) for r in scarce}
    while True:
        excess, pair = max(worst.values(), default=(0.0, (-1, -1)))
        if excess <= policy.steady_unevenness:
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
