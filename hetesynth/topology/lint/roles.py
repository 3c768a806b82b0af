"""What pieces of hardware are, and the rates and latencies that such hardware has.

In: parts, also by the words that name them. Out: roles. The ranges are wide: from the oldest hardware of
a sort, derated, to several times the newest. Knows nothing of findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import Part, expand, glob
from hetesynth.topology.language.syntax import Word

BITS = 8  # of a byte
GB = 10**9
US = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class Role:
    """What a piece of hardware is, and the rates and latencies that such hardware has, in B/s and s."""

    what: str
    least: Fraction
    most: Fraction
    least_latency: Fraction = US / 100
    most_latency: Fraction = 50 * US


NVSWITCH = Role("a GPU's port of an NVSwitch", Fraction(100 * GB), Fraction(4000 * GB))
NVLINK = Role("an NVLink connection of two GPUs", Fraction(10 * GB), Fraction(2000 * GB))
NIC = Role("a NIC", Fraction(GB, 8), Fraction(200 * GB), US / 100, 200 * US)
PCIE = Role("PCIe", Fraction(GB), Fraction(300 * GB))
NETWORK = Role("a network between servers", Fraction(GB, 8), Fraction(500_000 * GB), US / 20, 200 * US)
SOCKET = Role("a port of a CPU", Fraction(GB, 8), Fraction(4000 * GB))  # x4 of a generation beside x16 of the next
UPI = Role("a link between two CPUs", Fraction(4 * GB), Fraction(1000 * GB))
REDUCE = Role("the reduction of a GPU", Fraction(10 * GB), Fraction(20_000 * GB))
INSIDE = Role("a connection inside a server", Fraction(GB, 8), Fraction(4000 * GB))
FAR = Role("a connection between sites", Fraction(0), Fraction(10**6 * GB), Fraction(0), Fraction(1))


def role_of(sort: str, name: str, kind: str, *, inside: bool) -> Role:
    """The role of a part by its sort and name and the kind of its links; ``inside``: it stands in a server."""
    name = name.lower()
    if sort == "switch" and ("nvswitch" in name or kind in ("nvlink", "nvswitch")):
        return NVSWITCH
    if sort == "router":
        return FAR
    if "pcie" in kind or sort == "pcie" or name.startswith("pcie"):
        return PCIE
    if sort in ("cpu", "numa"):
        return SOCKET
    if sort == "upi":
        return UPI
    if kind in ("wan", "lan", "router", "uplink"):
        return FAR
    return INSIDE if inside else NETWORK


class PartIndex:
    """Parts by name, with or without the names of the instances they are in."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._by_head: dict[str, dict[str, list[Part]]] = defaultdict(lambda: defaultdict(list))
        for part in parts:
            pieces = part.name.split(".")
            for i in range(len(pieces)):
                self._by_head[pieces[i]][".".join(pieces[i:])].append(part)
        self._matches: dict[str, list[Part]] = {}

    def matching(self, words: Iterable[Word]) -> Iterator[Part]:
        """The parts that ``words`` name."""
        for pattern in (name for word in words for name in expand(word, Findings())):
            if pattern not in self._matches:
                regex = glob(pattern)
                head = pattern.partition(".")[0]
                groups = self._by_head.values() if "*" in head else [self._by_head.get(head, {})]
                parts = [group[name] for group in groups for name in group if regex.fullmatch(name)]
                self._matches[pattern] = [part for named in parts for part in named]
            yield from self._matches[pattern]
