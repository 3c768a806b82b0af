"""How many channels each pair of ranks gets: connections that meet in a scarce resource carry equally much.

In: the traffic of a piece, thread blocks and steps that a rank may use. Out: channels by pair. A resource is
shared max-min fairly by the connections that use it, whatever they have to carry. One that carries more than the
others is late, and what it feeds waits for it; so pairs with more messages get more channels.

``even``: every pair starts with as few channels as its steps allow. Then, while thread blocks are left, another
one goes to the pair that exceeds the mean of a scarce resource most (a divisor method, as for seats of a
parliament).
``proportional``: channels in proportion to messages, as many as fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from hetesynth.lowering.steady_state.traffic import Pair, Traffic
from hetesynth.model.topology import Rank
from hetesynth.policy.lowering import LoweringPolicy

Division = Literal["even", "proportional"]
DIVISIONS: tuple[Division, ...] = get_args(Division)


@dataclass(frozen=True, slots=True)
class Room:
    """What a program may use: ``blocks`` of each rank, ``steps`` of a thread block, ``channels`` of a pair."""

    blocks: int
    steps: int
    channels: int


def channels_of_pairs(
    traffic: Traffic, pieces: int, division: Division, room: Room, policy: LoweringPolicy
) -> dict[Pair, int] | None:
    """The channels of each pair; None where thread blocks or channels do not suffice."""
    fewest = fewest_channels(traffic, pieces, room.steps)
    if not _fits(fewest, room):
        return None
    if division == "proportional":
        return _proportional(traffic, pieces, fewest, room)
    return _even(traffic, pieces, fewest, room, policy)


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
    numbers = sorted(set(traffic.messages.values()))
    for size in sorted({number / k for number in numbers for k in range(1, room.channels + 1)}):
        channels = {
            pair: min(max(fewest[pair], round(number / size)), number * pieces)
            for pair, number in traffic.messages.items()
        }
        if _fits(channels, room):
            return channels
    return dict(fewest)


def _even(
    traffic: Traffic, pieces: int, fewest: Mapping[Pair, int], room: Room, policy: LoweringPolicy
) -> dict[Pair, int]:
    channels, full = dict(fewest), set[Pair]()
    blocks = blocks_by_rank(channels)
    scarce = traffic.scarce(policy.steady_even_from)
    sharers: dict[Pair, list[int]] = defaultdict(list)
    for r in scarce:
        for pair in traffic.crossing[r]:
            sharers[pair].append(r)
    worst = {r: _worst(traffic, r, channels, full, policy.steady_alone) for r in scarce}
    while True:
        excess, pair = max(worst.values(), default=(0.0, (-1, -1)))
        if excess <= policy.steady_unevenness:
            return channels
        most = min(room.channels, traffic.messages[pair] * pieces)
        if channels[pair] < most and all(blocks[rank] < room.blocks for rank in pair):
            channels[pair] += 1
            for rank in pair:
                blocks[rank] += 1
        else:
            full.add(pair)
        worst.update((r, _worst(traffic, r, channels, full, policy.steady_alone)) for r in sharers[pair])


def _worst(
    traffic: Traffic, resource: int, channels: Mapping[Pair, int], full: set[Pair], alone: int
) -> tuple[float, Pair]:
    """The pair that most exceeds the mean of a connection over ``resource``, of those that may get another one.

    ``alone``: the connections of a pair that has the resource for itself.
    """
    pairs = traffic.crossing[resource]
    open_pairs = [pair for pair in pairs if pair not in full]
    if len(pairs) == 1:
        return (alone / channels[pairs[0]] if open_pairs else 0.0), pairs[0]
    mean = sum(traffic.messages[p] for p in pairs) / sum(channels[p] for p in pairs)
    return max(((traffic.messages[p] / channels[p] / mean, p) for p in open_pairs), default=(0.0, (-1, -1)))


def unevenness(traffic: Traffic, channels: Mapping[Pair, int], share: float) -> float:
    """The most that a connection carries over the mean of its resource, for resources in use for ``share``."""
    worst = 1.0
    for r in traffic.scarce(share):
        pairs = traffic.crossing[r]
        mean = sum(traffic.messages[p] for p in pairs) / sum(channels[p] for p in pairs)
        worst = max(worst, *(traffic.messages[p] / channels[p] / mean for p in pairs))
    return worst
