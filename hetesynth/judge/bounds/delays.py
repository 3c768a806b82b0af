"""Rechecks bounds by prices that are owed only while data can be on its way (docs/certificates.md, Delays).

In: a topology and a witness of prices and sets. Out: how much of the buffer can have paid by when. It is worked
out anew in exact numbers; no code is shared with what found the witness.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from hetesynth.judge.bounds.laws import NONE, Whole, demand, shortest_paths
from hetesynth.model.bound import DelayedPrices, EnteredSet, PartCrossings, ResourcePrices, Supply
from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Rank, Topology

Due = tuple[int, int, int]
"""(from when, until how long before the end, how much) a link owes for a set that it enters; times in ticks."""

_FORWARDS = ("allgather", "broadcast", "gather", "alltoall", "allreduce")
_BACKWARDS = ("reducescatter", "reduce", "scatter", "allreduce")


def priced(
    topology: Topology, witness: ResourcePrices | DelayedPrices
) -> tuple[list[int], list[tuple[Fraction, list[int]]]]:
    """Return the price of each link, and what each resource with a price earns in a second, with its links."""
    named = len(witness.wires) == len(topology.wires) and len(witness.groups) == len(topology.groups)
    demand(named, "the prices are not those of this topology's wires and groups")
    whole = all(isinstance(price, int) and price >= 0 for price in (*witness.wires, *witness.groups))
    demand(whole, "a price is no whole number, or negative")
    users: dict[int, list[int]] = {w: [] for w, price in enumerate(witness.wires) if price}
    by_link = [0] * len(topology.links)
    for i, link in enumerate(topology.links):
        for w in set(link.wires):
            if w in users:
                users[w].append(i)
                by_link[i] += witness.wires[w]
    resources: list[tuple[Fraction, list[int]]] = []
    for w, links in users.items():
        wire = topology.wires[w]
        demand(wire.bandwidth is not None, "a wire without a limit has a price")
        resources.append(((wire.bandwidth or Fraction(0)) * wire.lanes * witness.wires[w], links))
    for group, price in zip(topology.groups, witness.groups, strict=True):
        members = sorted(set(group.links))
        for i in members:
            by_link[i] += price
        if price:
            resources.append((group.bandwidth * group.lanes * price, members))
    return by_link, resources


def delayed(
    topology: Topology, name: CollectiveName, root: Rank | None, backwards: bool, witness: DelayedPrices
) -> Supply:
    """Return the supply that prices and sets prove: seconds, and bytes of the buffer a second more from then."""
    demand(name in (_BACKWARDS if backwards else _FORWARDS), "the collective is not looked at this way round")
    by_link, resources = priced(topology, witness)
    unit, alphas, apart = _latencies(topology, witness.nearest.denominator)
    if backwards:
        apart = apart.T
    dues: list[list[Due]] = [[] for _ in topology.links]
    owed = Fraction(0)
    for entered in witness.sets:
        outside = _outside(entered, topology.ranks, name, root, backwards)
        to_end = apart[:, list(entered.ranks) if entered.end is None else [entered.end]].min(axis=1)
        counted = [rank for rank in outside if to_end[rank] >= witness.nearest * unit]
        followed = root if name in ("broadcast", "reduce") else witness.source
        if name in ("broadcast", "reduce", "allreduce"):  # one rank's contribution to every byte
            demand(followed is not None and 0 <= followed < topology.ranks, "no rank's contribution is followed")
            counted = [rank for rank in counted if rank == followed]
            share = Fraction(1)
        else:  # a block of each rank, of an alltoall for each of the ends
            share = Fraction(len(counted) * (1 if entered.end is not None else len(entered.ranks)), topology.ranks)
        if counted:
            owed += entered.weight * share
            _enter(
                topology,
                alphas,
                set(entered.ranks),
                apart[counted].min(axis=0),
                to_end,
                entered.weight,
                backwards,
                dues,
            )
    demand(owed > 0, "nothing is said to be owed")
    for due, price in zip(dues, by_link, strict=True):
        demand(sum(weight for _, _, weight in due) <= price, "the sets that a link enters owe more than it costs")
    pieces: dict[int, Fraction] = {}
    for earned, links in resources:
        for delay, part in _parts({(by_link[i], tuple(dues[i])) for i in links if dues[i]}):
            pieces[delay] = pieces.get(delay, Fraction(0)) + part * earned
    return tuple((Fraction(delay, unit), pieces[delay] / owed) for delay in sorted(pieces))


def _latencies(topology: Topology, denominator: int = 1) -> tuple[int, list[int], Whole]:
    """Return the ticks in a second that make latencies whole; in ticks, each link's and the shortest paths'."""
    unit = lcm(denominator, *(link.latency.denominator for link in topology.links))
    alphas = [int(link.latency * unit) for link in topology.links]
    demand(max(alphas) * topology.ranks * 4 < NONE // 8, "the latencies are too fine to be added up")
    hop = np.full((topology.ranks, topology.ranks), NONE, dtype=np.int64)
    for link, alpha in zip(topology.links, alphas, strict=True):
        hop[link.src, link.dst] = min(int(hop[link.src, link.dst]), alpha)
    return unit, alphas, shortest_paths(hop)


def into_parts(topology: Topology, witness: PartCrossings) -> Supply:
    """Return the supply of what can enter the parts of an allreduce and is of use to the ends of the witness.

    With a the least latency between parts: what leaves a part less than a after the start can only be its own, and
    what enters one less than a before the end goes no farther. A wire of link (u, v) is of use from min(d(s, u),
    a) and a latency on, until min(d(v, k), a) before the end: s is the rank followed in the part of u, k the one
    in that of v that must get all. What is both, a part's own and goes no farther, is worth 2/p.
    """
    p, n = len(witness.parts), topology.ranks
    unit, alphas, apart = _latencies(topology)
    home = {rank: number for number, part in enumerate(witness.parts) for rank in part}
    demand(len(witness.ends) == p, "not every part has its ends")
    at_home = all(0 <= r < n and home[r] == number for number, pair in enumerate(witness.ends) for r in pair)
    demand(at_home, "an end is in another part")
    least = min((a for a, x in zip(alphas, topology.links, strict=True) if home[x.src] != home[x.dst]), default=0)
    sides = [set(side) for side in witness.sides]
    window: dict[tuple[int, int], tuple[int, int]] = {}  # of a wire into a part
    for alpha, link in zip(alphas, topology.links, strict=True):
        part = home[link.dst]
        if home[link.src] == part:
            continue
        begin = min(int(apart[witness.ends[home[link.src]][0], link.src]), least) + alpha
        end = min(int(apart[link.dst, witness.ends[part][1]]), least)
        for w in link.wires:
            if topology.wires[w].src in sides[part] and topology.wires[w].dst not in sides[part]:
                earliest, latest = window.get((part, w), (begin, end))
                window[part, w] = min(begin, earliest), min(end, latest)
    pieces: dict[int, Fraction] = {}
    for (_, w), (begin, end) in window.items():
        begin = min(begin, 2 * least)
        rate = (topology.wires[w].bandwidth or Fraction(0)) * topology.wires[w].lanes / witness.share
        less = rate * (1 - Fraction(2, p))
        for time, more in (
            (begin + end, rate - less),
            (begin + least, less),
            (2 * least + end, less),
            (3 * least, -less),
        ):
            pieces[time] = pieces.get(time, Fraction(0)) + more
    return tuple((Fraction(time, unit), pieces[time]) for time in sorted(pieces) if pieces[time])


def _outside(
    entered: EnteredSet, ranks: int, name: CollectiveName, root: Rank | None, backwards: bool
) -> list[Rank]:
    """Return the ranks outside a set. Refuted where nothing need enter the set, or its weight or end is wrong."""
    inside = set(entered.ranks)
    whole = len(inside) == len(entered.ranks) and inside < set(range(ranks))
    demand(whole and bool(inside), "a set is empty, has all ranks, or a rank twice")
    demand(isinstance(entered.weight, int) and entered.weight > 0, "a set owes nothing")
    demand(entered.end in inside or (entered.end is None and name == "alltoall"), "a set has an end outside")
    demand(name not in ("gather", "scatter") or entered.end == root, "the end is not where the data goes")
    return sorted(set(range(ranks)) - inside)


def _enter(
    topology: Topology,
    alphas: Sequence[int],
    inside: set[Rank],
    come: Whole,
    to_end: Whole,
    weight: int,
    backwards: bool,
    dues: list[list[Due]],
) -> None:
    """Add to ``dues`` what the links into the set owe. A link over which no data reaches the end owes nothing."""
    for i, link in enumerate(topology.links):
        src, dst = (link.dst, link.src) if backwards else (link.src, link.dst)
        if src not in inside and dst in inside and max(come[src], to_end[dst]) < NONE // 8:
            begin, end = int(come[src]), int(to_end[dst])
            # bytes flow after the latency: of a link seen backwards it lies behind them
            dues[i].append((begin, end + alphas[i], weight) if backwards else (begin + alphas[i], end, weight))


def _parts(links: Iterable[tuple[int, tuple[Due, ...]]]) -> list[tuple[int, Fraction]]:
    """Return (delay, part of a resource's price): the delay is the time before the first moment and after the last
    at which the part is earned. A resource earns the largest part that a link of it owes of its own price."""
    begins, ends = (
        [sorted((due[side], Fraction(due[2], price)) for due in dues) for price, dues in links] for side in (0, 1)
    )
    levels = sorted(
        {
            sum((part for _, part in steps[: k + 1]), Fraction(0))
            for side in (begins, ends)
            for steps in side
            for k in range(len(steps))
        }
    )
    parts, below = [], Fraction(0)
    for level in levels:
        first = min(moment for steps in begins if (moment := _reaches(steps, level)) is not None)
        last = min(moment for steps in ends if (moment := _reaches(steps, level)) is not None)
        parts.append((first + last, level - below))
        below = level
    return parts


def _reaches(steps: Sequence[tuple[int, Fraction]], level: Fraction) -> int | None:
    """Return the moment at which the sum of ``steps`` comes to ``level``; None: it never does."""
    total = Fraction(0)
    for moment, part in steps:
        total += part
        if total >= level:
            return moment
    return None


def promises_no_less(claimed: Supply, shown: Supply) -> bool:
    """Return True if ``claimed`` has at every time as much as ``shown``, or more."""
    times = sorted({time for time, _ in (*claimed, *shown)})
    ends_above = sum(rate for _, rate in claimed) >= sum(rate for _, rate in shown)
    return ends_above and all(_supplied_by(claimed, time) >= _supplied_by(shown, time) for time in times)


def _supplied_by(supply: Supply, time: Fraction) -> Fraction:
    return sum((rate * (time - since) for since, rate in supply if since < time), Fraction(0))
