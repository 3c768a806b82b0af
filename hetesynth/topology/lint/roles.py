"""What pieces of hardware are, and the rates and latencies that such hardware has.

In: statements, or parts by the words that name them. Out: roles. The ranges are wide: from the oldest hardware of
a sort, derated, to several times the newest. Knows nothing of findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import Part, expand, glob
from hetesynth.topology.language.syntax import Change, Element, Instance, Join, Network, Property, Word

BITS = 8  # of a byte
GB = 10**9
US = Fraction(1, 10**6)
LEAST_PCIE = Fraction(GB)  # below it: one lane of the first generation, as virtual bridges say


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
PCIE = Role("PCIe", LEAST_PCIE, Fraction(300 * GB))
NETWORK = Role("a network between servers", Fraction(GB, 8), Fraction(500_000 * GB), US / 20, 200 * US)
UPLINK = Role("a connection between switches", Fraction(GB, 8), Fraction(30_000 * GB), US / 20, 200 * US)
SOCKET = Role("a port of a CPU", Fraction(GB, 8), Fraction(4000 * GB))  # x4 of a generation beside x16 of the next
UPI = Role("a link between two CPUs", Fraction(4 * GB), Fraction(1000 * GB))
REDUCE = Role("the reduction of a GPU", Fraction(10 * GB), Fraction(20_000 * GB))
INSIDE = Role("a connection inside a server", Fraction(GB, 8), Fraction(4000 * GB))
FAR = Role("a connection between sites", Fraction(0), Fraction(10**6 * GB), Fraction(0), Fraction(1))

Statement = Element | Join | Network


def role_of(statement: Statement, prop: Property, *, inside: bool) -> Role:
    """The role of what ``statement`` describes in ``prop``; ``inside``: it stands in a server."""
    kind = link_kind(statement)
    if isinstance(statement, Element):
        return _role(statement.kind, statement.name.text, kind, inside=inside)
    if isinstance(statement, Network) and not statement.parts:
        return NETWORK if prop.name == "latency" else UPLINK
    if kind == "nvlink":
        return NVLINK
    return PCIE if statement.kind == "attach" else _role(statement.kind, "", kind, inside=inside)


def link_kind(statement: Statement | Change) -> str:
    """The kind of link that is stated."""
    return next((p.words[0].text for p in statement.properties if p.name == "kind" and p.words), "").lower()


def role_of_part(part: Part) -> Role:
    """The role of a part that was declared elsewhere."""
    name = part.name.rsplit(".", 1)[-1]
    return _role(part.kind, name, part.link_kind.lower(), inside=bool(part.server))


def _role(sort: str, name: str, kind: str, *, inside: bool) -> Role:
    name = name.lower()
    if sort == "nic":
        return NIC
    if sort == "switch" and ("nvswitch" in name or kind in ("nvlink", "nvswitch")):
        return NVSWITCH
    if sort == "router":
        return FAR
    if "pcie" in kind or sort == "pcie" or name.startswith("pcie"):
        return PCIE
    if sort in ("cpu", "numa"):
        return SOCKET
    if sort == "upi" and not kind:
        return UPI
    if kind in ("wan", "lan", "router", "uplink") or sort == "wan":
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

    def matching(self, words: Iterable[Word], instance: Instance | None = None) -> Iterator[Part]:
        """The parts that ``words`` name, of ``instance`` where they stand in its braces."""
        prefixes = [""]
        if instance is not None:
            more = "*" if instance.count is not None else ""
            prefixes = [f"{name}{more}." for name in expand(instance.name, Findings())]
        for word in words:
            for pattern in (prefix + name for name in expand(word, Findings()) for prefix in prefixes):
                if pattern not in self._matches:
                    regex = glob(pattern)
                    head = pattern.partition(".")[0]
                    groups = self._by_head.values() if "*" in head else [self._by_head.get(head, {})]
                    parts = [group[name] for group in groups for name in group if regex.fullmatch(name)]
                    self._matches[pattern] = [part for named in parts for part in named]
                yield from self._matches[pattern]
