"""What NCCL and RCCL say of each generation of GPUs, and what published runs add.

GB/s (1e9 bytes) and microseconds. Sources: NCCL 5067397 (2.30), src/graph/search.cc:1051-1067 (rates that the
search tries) and src/graph/tuning.cc:149-211 (latencies and caps); NCCL v2.8.4-1 to v2.17.1-1, the same file, for
libraries before 2.18; RCCL 0cbce2a, src/graph/search.cc and src/graph/tuning.cc (the tuning of MI300X). The
fields of ``Generation`` that end in ``share``, and ``channel``, are no constants of the libraries but what large
published runs reach (docs/reality.md).
"""

import re
from dataclasses import dataclass, replace
from math import floor, log2
from typing import NamedTuple

from hetesynth.model.program import Protocol
from hetesynth.model.runtime_costs import HOPS, PROTOCOLS
from hetesynth.topology.importers.gpu_models import gpu_model, gpu_vendor

ByProtocol = tuple[float, float, float]
"""A figure with LL, LL128 and Simple."""
ByNodes = tuple[float, float, float]
"""A figure on one, two and more nodes."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of GPUs, with rates in GB/s.

    ``inside``, ``between``: rates of a channel that the search tries inside a node and between nodes, the fastest
    first. ``slot``: what the library counts for the 16 PCIe lanes of a NIC. ``ll``: what LL carries at most on one
    node. ``ring_ll128``, ``tree_ll128``, ``tree_simple``: what a channel carries at most, ``nvls_tree``: an NVLS
    head. ``nvls``: the share of a multicast that NCCL counts on, 0 where there is none; ``nvls_channels``: of a
    kernel. Of NCCL's own total large rings reach ``switch_share`` through a switch and ``mesh_share`` over direct
    links, and large runs with NVLS ``nvls_share``; ``channel``: what a channel of such a ring carries at most.
    """

    name: str
    inside: tuple[float, ...]
    between: tuple[float, ...]
    slot: float
    ll: float
    ring_ll128: float
    tree_ll128: ByNodes
    tree_simple: ByNodes
    nvls_tree: ByNodes = (0.0, 0.0, 0.0)
    nvls: float = 0.0
    nvls_channels: int = 0
    switch_share: float = 1.0
    mesh_share: float = 1.0
    nvls_share: float = 0.0
    channel: float = 1e9


_SLOW = (20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_SLOWEST = (2.4, 1.2, 0.24, 0.12)
_OLD_INSIDE, _OLD_BETWEEN = (40.0, 30.0, *_SLOW), (48.0, 30.0, 28.0, 24.0, *_SLOW, *_SLOWEST)
_FAST = (42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, *_SLOWEST)

# 100 is not in the source: without it six B200 would not use NVLS, as they do
_HOPPER_INSIDE = (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
_BLACKWELL_INSIDE = (100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0)
_BLACKWELL_BETWEEN = (96.0, 86.0, 80.0, 48.0, 45.1, *_FAST)
_CDNA_RATES = (48.0, 24.0, *_SLOW, *_SLOWEST)
_OF_20, _OF_HOPPER = (20.0, 20.0, 20.0), (36.7, 36.7, 29.0)

VOLTA = Generation("Volta", _OLD_INSIDE, _OLD_BETWEEN, 12.0, 39.0, 20.0, _OF_20, (26.5, 18.5, 10.0))
# direct links: 4 GPUs 205 of 240, a bridged pair 208 of 240, sends over 4 links 72 of 80
AMPERE = Generation("Ampere", _OLD_INSIDE, _OLD_BETWEEN, 24.0, 87.7, 20.0, _OF_20, (24.0, 23.6, 17.8))
AMPERE = replace(AMPERE, switch_share=0.975, mesh_share=0.865)
CDNA = Generation("CDNA", _CDNA_RATES, _CDNA_RATES, 48.0, 141.0, 36.7, _OF_HOPPER, (38.7, 41.4, 36.0))
CDNA = replace(CDNA, mesh_share=0.949)
# a channel: two nodes of 16 channels, AllReduce without NVLS 330, AllGather 329 GB/s
HOPPER = replace(CDNA, name="Hopper", inside=_HOPPER_INSIDE, between=(48.0, 45.0, *_FAST), mesh_share=1.0)
HOPPER = replace(HOPPER, nvls_tree=(0.0, 57.7, 45.5), nvls=0.85, nvls_channels=16, nvls_share=0.834, channel=20.6)
# a channel: one node of 32 channels, 678 with 5 GPUs and 682 GB/s with 8
_RATES = (40.0, (55.6, 31.7, 20.0), (70.0, 42.8, 24.0), (0.0, 96.0, 80.0))
BLACKWELL = Generation("Blackwell", _BLACKWELL_INSIDE, _BLACKWELL_BETWEEN, 96.0, 282.0, *_RATES)
BLACKWELL = replace(BLACKWELL, nvls=0.74, nvls_channels=24, nvls_share=0.748, channel=21.3)
_OLDER_CDNA, _UNTOLD = replace(CDNA, name="older CDNA"), replace(AMPERE, name="untold")
_FROM_SM = ((100, BLACKWELL), (90, HOPPER), (80, AMPERE), (0, VOLTA))


def generation_of(model: str) -> Generation:
    """The generation of GPUs of ``model``; where the name does not tell it, one like Ampere of another name."""
    if gpu_vendor(model) == "AMD":
        return CDNA if re.search(r"MI ?3", model, re.IGNORECASE) else _OLDER_CDNA
    facts = gpu_model(model)
    if facts is None:
        return _UNTOLD
    return next(generation for sm, generation in _FROM_SM if facts.sm >= sm)


class Steps(NamedTuple):
    """Microseconds with LL, LL128, Simple: of a call, and of a step over NVLink, over the host, between nodes."""

    base: ByProtocol
    nvlink: ByProtocol
    host: ByProtocol
    net: ByProtocol


_TREE_BY_SIZE = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1),
    (*(0.9,) * 7, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9, 1),
)


@dataclass(frozen=True, slots=True)
class Tables:
    """The latencies and the shares by which a library estimates rings and trees.

    Shares of the rate of all channels: ``ring_ll`` and ``tree_ll`` with LL, ``tree_simple`` with Simple;
    ``tree_by_size``: of a tree's rate with LL, LL128 and Simple for sizes from 64 B up by powers of two, the last
    for all larger. ``ll128``: GB/s of a channel, 0 where the generation says it. ``plateau``: how much longer the
    steps of a ring's AllReduce take between nodes.
    """

    ring: Steps
    tree: Steps
    ring_ll: float = 1 / 2
    tree_ll: float = 1 / 3.8
    tree_simple: ByNodes = (1.0, 1.0, 1.0)
    tree_by_size: tuple[tuple[float, ...], ...] = _TREE_BY_SIZE
    ll128: float = 0.0
    plateau: float = 1.4

    def by_size(self, protocol: Protocol, size: float) -> float:
        """The share of a tree's rate at ``size`` bytes."""
        shares = self.tree_by_size[PROTOCOLS.index(protocol)]
        return shares[min(floor(log2(max(1.0, size / 64))), len(shares) - 1)]


TABLES = Tables(
    ring=Steps((6.6, 14.0, 8.4), HOPS["nvlink"], HOPS["host"], HOPS["net"]),
    tree=Steps((6.8, 14.0, 8.4), (0.6, 1.25, 4.0), (1.0, 1.9, 4.0), HOPS["alone"]),
)
TABLES_BEFORE_2_18 = Tables(
    ring=Steps((3.6, 10.0, 8.4), (0.47, 1.9, 3.4), (1.0, 2.5, 5.7), (2.7, 4.0, 9.6)),
    tree=Steps((4.4, 4.4, 0.0), (0.52, 1.25, 28.0), (1.0, 1.9, 28.0), (5.0, 8.5, 28.0)),
    ring_ll=1 / 4,
    ll128=16.9,
    plateau=1.9,
)
TABLES_RCCL = Tables(
    ring=Steps((12.0, 12.0, 17.0), (0.8, 0.0, 2.1), (2.2, 2.2, 5.7), (9.5, 0.0, 320.0)),
    tree=Steps((12.0, 12.0, 17.0), (0.9, 0.0, 2.3), (2.2, 2.2, 5.7), (10.5, 0.0, 25.0)),
    ring_ll=0.08 * 0.4,  # with its correction from 1 to 4 MB
    tree_ll=0.06,
    tree_simple=(1.0, 0.11, 0.59),
    tree_by_size=((*(0.1,) * 6, *(1.0,) * 10, 0.1), (1.0,), (*(0.1,) * 15, 0.7, 1.0)),
)

NVLS_HOP, NVLS_TREE_NET = 25.0, 20.9
"""Microseconds of NVLS in a node, and of NVLSTree for each hop between nodes (tuning.cc:157-176)."""
