"""Section 3 of dsl/reference.md: its examples are read, and mean what the formulas beside them say."""

from __future__ import annotations

import re
from collections import defaultdict
from fractions import Fraction as F
from pathlib import Path

from hetesynth.model.topology import Topology
from hetesynth.topology.language import parse_topology
from hetesynth.topology.language.paper import BETWEEN_NODES, IN_A_NODE, NAMES

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "dsl" / "reference.md").read_text().split("## 3. Paper form")[1].split("## 4. Limits")[0]
BLOCKS = [
    "\n".join(line[4:] for line in block.splitlines())
    for block in re.findall(r"(?:^    .*\n)+", SECTION, re.MULTILINE)
]
FIGURE, SERVERS, SWITCHED, PAIRS, GROUPS, PROFILES, FAILURES = map(parse_topology, BLOCKS)
GB = 10**9

Pair = tuple[int, int]


def limits(topology: Topology) -> dict[frozenset[Pair], F]:
    """For each set of pairs of GPUs the least rate of a wire or group that exactly they share."""
    users: dict[int, set[Pair]] = defaultdict(set)
    for link in topology.links:
        for wire in link.wires:
            users[wire].add((link.src, link.dst))
    least: dict[frozenset[Pair], F] = {}
    shared = [(users[i], w.bandwidth * w.lanes) for i, w in enumerate(topology.wires) if w.bandwidth and users[i]]
    for group in topology.groups:
        pairs = {(topology.links[i].src, topology.links[i].dst) for i in group.links}
        shared.append((pairs, group.bandwidth * group.lanes))
    for pairs, rate in shared:
        least[frozenset(pairs)] = min(rate / GB, least.get(frozenset(pairs), rate / GB))
    return least


def pairs(left: range | list[int], right: range | list[int]) -> frozenset[Pair]:
    return frozenset((u, v) for u in left for v in right if u != v)


def both(left: range | list[int], right: range | list[int], rate: float | str) -> dict[frozenset[Pair], F]:
    """``rate`` from left to right, and from right to left."""
    return {pairs(left, right): F(str(rate)), pairs(right, left): F(str(rate))}


def wires(gpus: range | list[int], rate: int) -> dict[frozenset[Pair], F]:
    return {frozenset([(u, v)]): F(rate) for u in gpus for v in gpus if u != v}


def test_each_example_is_read() -> None:
    assert len(BLOCKS) == len(re.findall(r"define nodenum", SECTION)) == 7


def test_each_word_is_explained() -> None:
    words = set(re.findall(r"`(\w+)", SECTION))
    assert not {*NAMES, *IN_A_NODE, *BETWEEN_NODES} - words


def test_connections_inside_a_node() -> None:
    expected = wires(range(4), 50) | wires(range(4, 8), 50)
    everyone = range(12)
    for first in (0, 2, 4, 6):
        module = range(4) if first < 4 else range(4, 8)
        outside = [v for v in everyone if v not in module]
        expected |= both([first, first + 1], outside, 16)
        expected |= both([first, first + 1], range(8, 12), 12.5)
    expected |= both(range(4), range(4, 8), 48)
    expected |= both(range(8), range(8, 12), 50)
    for u in range(8, 12):
        expected |= both([u], range(8, 12), 450)
    assert limits(SERVERS) == expected


def test_nics_on_a_switch() -> None:
    expected: dict[frozenset[Pair], F] = {}
    for node in ([0, 1], [2, 3], [4, 5]):
        expected |= wires(node, 50) | both(node, [v for v in range(6) if v not in node], 8)
    assert limits(SWITCHED) == expected
    assert {link.latency for link in SWITCHED.links if link.src // 2 != link.dst // 2} == {F(13, 10**7)}


def test_the_rate_of_a_nic_is_the_largest_of_its_pairs() -> None:
    expected: dict[frozenset[Pair], F] = {}
    for node, rate in (([0, 1], 12.5), ([2, 3], 8), ([4, 5], 12.5)):
        expected |= wires(node, 50) | both(node, [v for v in range(6) if v not in node], rate)
    expected |= both([0, 1], [2, 3], 8) | both([0, 1], [4, 5], 12.5) | both([2, 3], [4, 5], 8)
    assert limits(PAIRS) == expected


def test_failures_and_slowdowns() -> None:
    assert FAILURES.ranks == 7 and FAILURES.notes == ("node1.gpu3 is disabled",)
    assert limits(FAILURES)[pairs([5, 6], range(3))] == F(9, 4)
    assert limits(FAILURES)[pairs([3, 4], range(3))] == limits(FAILURES)[pairs([0, 1], range(3, 7))] == F(25, 2)
