"""Which links programs of a target use: which NICs its runtime gives to a GPU (docs/targets.md has the sources).

Of the NICs that a GPU reaches a runtime looks at those of the highest rate only, and among these at the nearest.
The GPUs next to them share them out by their number in the server; the channels of a GPU take turns over its
share, or all use the first of it. A sender is taken to use the NIC that the topology pairs with the receiver's.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from hetesynth.model.target import Target
from hetesynth.model.topology import HOST_KINDS, Link, Rank, Topology

Nearness = tuple[Fraction, int]
"""The rate from a GPU through a NIC, and minus how much of the host lies between them."""


def usable(topology: Topology, targets: Sequence[Target]) -> Topology:
    """Return ``topology`` without the links that no program for all of ``targets`` uses; itself if all are used.

    Used are, of the links between two GPUs, those whose receiving NIC is in the receiver's share, among these the
    ones whose sending NIC is one of the sender's best, among these the ones of highest rate, then least latency.
    """
    between: dict[int, list[int]] = {}
    for i, link in enumerate(topology.links):
        between.setdefault(link.src * topology.ranks + link.dst, []).append(i)
    if len(between) == len(topology.links):
        return topology
    near: dict[Rank, dict[int, Nearness]] = defaultdict(dict)
    nics = [tuple(_nic(topology, link, outward) for outward in (True, False)) for link in topology.links]
    for link, (sends, receives) in zip(topology.links, nics, strict=True):
        for rank, nic in ((link.src, sends), (link.dst, receives)):
            if nic is not None and nic not in near[rank]:
                near[rank][nic] = _nearness(topology, link, nic, outward=rank == link.src)
    best = {rank: _best(of_rank) for rank, of_rank in near.items()}
    share = _shares(topology, near, best, turns=all(target.nics_in_turn for target in targets))

    def by_nic(i: int) -> tuple[bool, bool]:
        link, (sends, receives) = topology.links[i], nics[i]
        return receives in share.get(link.dst, ()), sends in best.get(link.src, ())

    def by_rate(i: int) -> tuple[Fraction, Fraction]:
        link = topology.links[i]
        return link.bandwidth * link.lanes, -link.latency

    kept: list[int] = []
    for links in between.values():
        if len(links) > 1:
            links = _preferred(links, by_nic)
            looks = {(id(x.bandwidth), x.lanes, id(x.latency)) for x in (topology.links[i] for i in links)}
            links = _preferred(links, by_rate) if len(looks) > 1 else links  # fractions are slow
        kept += links
    return topology if len(kept) == len(topology.links) else topology.part(sorted(kept))


def _preferred(links: Sequence[int], value: Callable[[int], tuple[Any, ...]]) -> list[int]:
    """Return the links with the highest ``value``, in the order of ``links``."""
    values = list(map(value, links))
    most = max(values)
    return [i for i, one in zip(links, values, strict=True) if one == most]


def _nic(topology: Topology, link: Link, outward: bool) -> int | None:
    """Return the first NIC on ``link``, seen from the sender (``outward``) or the receiver; None: it has none."""
    for w in link.wires if outward else reversed(link.wires):
        vertex = topology.wires[w].dst if outward else topology.wires[w].src
        if topology.vertices[vertex].kind == "nic":
            return vertex
    return None


def _nearness(topology: Topology, link: Link, nic: int, *, outward: bool) -> Nearness:
    """Return the nearness of ``nic``, the first NIC on ``link``, from its GPU through the NIC and its port."""
    rates, hosts, passed = list[Fraction](), 0, False
    for w in link.wires if outward else reversed(link.wires):
        wire = topology.wires[w]
        if wire.bandwidth is not None:
            rates.append(wire.bandwidth * wire.lanes)
        if passed:
            break
        vertex = wire.dst if outward else wire.src
        passed = vertex == nic
        hosts += topology.vertices[vertex].kind in HOST_KINDS
    return min(rates, default=link.bandwidth * link.lanes), -hosts


def _best(near: Mapping[int, Nearness]) -> list[int]:
    """Return the keys of ``near`` that are fastest and, among these, nearest, in ascending order."""
    most = max(near.values())
    return sorted(one for one, nearness in near.items() if nearness == most)


def _shares(
    topology: Topology, near: Mapping[Rank, Mapping[int, Nearness]], best: Mapping[Rank, list[int]], *, turns: bool
) -> dict[Rank, list[int]]:
    """Return the NICs of each GPU's share; without ``turns`` only the first of them, the one that is used."""
    beside: dict[int, dict[int, Nearness]] = defaultdict(dict)
    for rank, nics in near.items():
        for nic, nearness in nics.items():
            beside[nic][rank] = nearness
    shares = {}
    for rank, chosen in best.items():
        count, number = len(chosen), topology.servers[:rank].count(topology.servers[rank])
        if count & (count - 1) == 0:  # the bits in reverse order spread GPUs that are neighbours
            bits = count.bit_length() - 1
            number = sum(1 << (bits - 1 - bit) for bit in range(bits) if number >> bit & 1)
        each = -(-count // len(_best(beside[chosen[0]]))) if turns else 1
        shares[rank] = [chosen[(number + i) % count] for i in range(each)]
    return shares
