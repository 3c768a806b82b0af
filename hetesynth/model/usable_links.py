"""Which links programs of a target use: which NICs its runtime gives to a GPU (docs/targets.md has the sources).

Of the NICs that a GPU reaches a runtime looks at those of the highest rate only, and among these at the nearest.
The GPUs next to them share them out by their number in the server; the channels of a GPU take turns over its
share, or all use the first of it. A sender is taken to use the NIC that the topology pairs with the receiver's.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

from hetesynth.model.target import Target
from hetesynth.model.topology import HOST_KINDS, Link, Rank, Topology

Nearness = tuple[Fraction, int]
"""The rate from a GPU through a NIC, and minus how much of the host lies between them."""


def usable(topology: Topology, targets: Sequence[Target]) -> Topology:
    """``topology`` without the links that no program for all of ``targets`` uses; itself where there are none.

    Of the links between two GPUs those are used whose receiving NIC is in the receiver's share, of these those
    whose sending NIC is one of the sender's best, and of these those of the highest rate and the least latency.
    """
    between: dict[int, list[int]] = {}
    for i, link in enumerate(topology.links):
        between.setdefault(link.src * topology.ranks + link.dst, []).append(i)
    if len(between) == len(topology.links):
        return topology
    near: dict[Rank, dict[int, Nearness]] = defaultdict(dict)
    for link in topology.links:
        for rank in (link.src, link.dst):
            nic = _nic(topology, link, rank)
            if nic is not None:
                near[rank].setdefault(*nic)
    best = {rank: _best(nics) for rank, nics in near.items()}
    share = _shares(topology, near, best, turns=all(target.nics_in_turn for target in targets))

    def preference(i: int) -> tuple[bool, bool, Fraction, Fraction]:
        link = topology.links[i]
        sends, receives = _nic(topology, link, link.src), _nic(topology, link, link.dst)
        shared = receives is not None and receives[0] in share[link.dst]
        fast = sends is not None and sends[0] in best[link.src]
        return shared, fast, link.bandwidth * link.lanes, -link.latency

    kept: list[int] = []
    for links in between.values():
        if len(links) > 1:
            preferences = list(map(preference, links))
            links = [i for i, one in zip(links, preferences, strict=True) if one == max(preferences)]
        kept += links
    return topology if len(kept) == len(topology.links) else topology.part(sorted(kept))


def _nic(topology: Topology, link: Link, rank: Rank) -> tuple[int, Nearness] | None:
    """The NIC that ``link`` passes first, seen from ``rank``, one of its ends; None: it passes none."""
    outward = rank == link.src
    nic, rates, hosts = None, list[Fraction](), 0
    for w in link.wires if outward else reversed(link.wires):
        wire = topology.wires[w]
        if wire.bandwidth is not None:
            rates.append(wire.bandwidth * wire.lanes)
        if nic is not None:  # its port was the last of its rates
            return nic, (min(rates, default=link.bandwidth * link.lanes), -hosts)
        vertex = wire.dst if outward else wire.src
        nic = vertex if topology.vertices[vertex].kind == "nic" else None
        hosts += topology.vertices[vertex].kind in HOST_KINDS
    return None


def _best(near: Mapping[int, Nearness]) -> list[int]:
    """Those that are fastest and of these nearest, in order."""
    return sorted(one for one, nearness in near.items() if nearness == max(near.values()))


def _shares(
    topology: Topology, near: Mapping[Rank, Mapping[int, Nearness]], best: Mapping[Rank, list[int]], *, turns: bool
) -> dict[Rank, list[int]]:
    """The NICs of each GPU's share, of which without ``turns`` only the first is used."""
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
