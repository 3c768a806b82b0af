"""Over how many channels what a pair of ranks carries is spread, because one thread block does not fill its link.

In: costs, a schedule, the thread blocks of a GPU. Out: channels by pair, what C(u, v) and the copy rate ask for.
A pair is given the thread blocks for the rate at which it flows while the scarcest of its resources is full: its
share of what that resource carries. Decides nothing about which transfer goes where: the lowering does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hetesynth.model.cost import Costs
from hetesynth.model.program import Protocol
from hetesynth.model.runtime_costs import thread_blocks_for
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank

Pair = tuple[Rank, Rank]


def channels_of_pairs(costs: Costs, schedule: Schedule, protocol: Protocol, thread_blocks: int) -> dict[Pair, int]:
    """The pairs that need more than one channel, and how many, within the ``thread_blocks`` of every GPU.

    Empty where ``costs`` count no copy rates.
    """
    if costs.runtime is None:
        return {}
    needed: dict[Pair, int] = {}
    for pair, rate in _rates(costs, schedule).items():
        copying = costs.copy_rate(pair[0], protocol)
        needed[pair] = 1 if copying is None else thread_blocks_for(rate, copying)
    return {pair: number for pair, number in _within(needed, thread_blocks).items() if number > 1}


def chunk_seconds(costs: Costs, protocol: Protocol) -> dict[Pair, float]:
    """Seconds for each byte of a chunk that one thread block sends from one rank to another, nobody else sending;
    over all links of a pair together."""
    rates: dict[Pair, float] = defaultdict(float)
    for ends, rate in zip(costs.link_ends, costs.link_rate, strict=True):
        rates[ends] += rate
    copying = {src: costs.copy_rate(src, protocol) for src, _ in rates}
    return {pair: 1 / min(rate, copying[pair[0]] or rate) for pair, rate in rates.items()}


def _rates(costs: Costs, schedule: Schedule) -> dict[Pair, float]:
    """Bytes per second of each pair while the scarcest resource of each of its links is full."""
    of_link: dict[int, int] = defaultdict(int)
    for t in schedule.transfers:
        of_link[t.link] += 1
    of_resource: dict[int, int] = defaultdict(int)
    for link, chunks in of_link.items():
        for r in costs.link_resources[link]:
            of_resource[r] += chunks
    rates: dict[Pair, float] = defaultdict(float)
    for link, chunks in of_link.items():
        shares = (costs.resource_rate[r] * chunks / of_resource[r] for r in costs.link_resources[link])
        rates[costs.link_ends[link]] += min(shares)
    return dict(rates)


def _within(needed: dict[Pair, int], thread_blocks: int) -> dict[Pair, int]:
    """The same where every connection of a rank has a thread block of its own; the widest pairs give up channels
    first."""
    of_rank: dict[Rank, list[int]] = defaultdict(list)
    for pair, number in needed.items():
        for rank in pair:
            of_rank[rank].append(number)
    most = {rank: _width(numbers, thread_blocks) for rank, numbers in of_rank.items()}
    return {(s, d): min(number, most[s], most[d]) for (s, d), number in needed.items()}


def _width(numbers: Iterable[int], room: int) -> int:
    """The most channels that each pair may have so that all fit into ``room``; at least one."""
    widths = list(numbers)
    low, high = 1, max(widths, default=1)
    while low < high:
        width = (low + high + 1) // 2
        fits = sum(min(number, width) for number in widths) <= room
        low, high = (width, high) if fits else (low, width - 1)
    return low
