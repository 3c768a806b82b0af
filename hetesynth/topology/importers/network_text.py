"""The network between servers as statements of a cluster: NVLink domains, fabrics, leaves and a spine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.fabric import Fabric, Leaf
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.node_text import NVLINK_LATENCY
from hetesynth.topology.importers.node_types import nic_rates
from hetesynth.topology.importers.pcie import gpus_of_nics
from hetesynth.topology.importers.wording import bandwidth, identifier, parts, time

LATENCY = Fraction("1.3") / 10**6  # NIC to NIC through one switch; examples/ and the node library agree
TIER = Fraction("0.65") / 10**6  # of a leaf and of a spine, so that two leaves and a spine take 1.95 us
MANY = "*.nic*"
_SHOWN = 8


class NamedServer(Protocol):
    """What is needed of a server: its instance and its hardware."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def machine(self) -> Machine: ...  # noqa: D102


def statements(servers: Sequence[NamedServer], fabric: Fabric) -> list[str]:
    """The statements. Raises HetesynthError HS733 where servers would be apart."""
    lines = domains(servers)
    networked = [s for s in servers if s.machine.node_type or gpus_of_nics(s.machine)]
    joined = {s.machine.domain for s in servers}
    if len(servers) == 1 or (len(joined) == 1 and "" not in joined and len(networked) < 2):
        return lines
    if fabric.kind == "none":
        raise HetesynthError(
            f"{len(servers)} servers and no network between them",
            code="HS733",
            help="state it with --net switch, --net rails or --net leafspine:4:2",
        )
    if len(networked) < len(servers) and "" in joined:
        without = next(s.name for s in servers if s not in networked)
        raise HetesynthError(
            f"server {without} has no NIC that the network could join",
            code="HS733",
            help="import it by itself, or take a dump that lists its NICs",
        )
    match fabric.kind:
        case "switch":
            return [*lines, f"fabric net {{ join {MANY}; latency {time(LATENCY)} }}"]
        case "rails":
            return lines + _rails(networked)
        case "leafspine":
            return lines + _leaves(networked, _even(networked, fabric), fabric.oversubscription)
        case _:
            return lines + _leaves(networked, fabric.leaves, fabric.oversubscription)


def domains(servers: Sequence[NamedServer]) -> list[str]:
    """A switch of NVLinks over all servers of a domain."""
    domains: dict[str, list[NamedServer]] = defaultdict(list)
    for server in servers:
        if server.machine.domain:
            domains[server.machine.domain].append(server)
    lines = []
    for i, members in enumerate(domains.values()):
        kinds: dict[Fraction, list[str]] = defaultdict(list)
        for member in members:
            by_rate: dict[Fraction, list[int]] = defaultdict(list)
            for port in member.machine.ports:
                by_rate[port.rate * port.lanes].append(port.gpu)
            for rate, gpus in by_rate.items():
                kinds[rate].append(f"{member.name}.{parts('gpu', gpus)}")
        main = max(kinds, key=lambda rate: (len(kinds[rate]), rate))
        ports = ", ".join(kinds.pop(main))
        lines.append(
            f"switch nvlink{i} {{ ports {ports}; bandwidth {bandwidth(main)}; "
            f"latency {time(NVLINK_LATENCY)}; kind nvlink }}"
        )
        lines += [
            f"link {end} <-> nvlink{i} {{ bandwidth {bandwidth(rate)}; kind nvlink }}"
            for rate, ends in kinds.items()
            for end in ends
        ]
    return lines


def _rails(servers: Sequence[NamedServer]) -> list[str]:
    """NIC i of every server on fabric i; a NIC number that one server has alone is an error of the rule."""
    counts = {s.name: len(nic_rates(s.machine)) for s in servers}
    if len(set(counts.values())) > 1:
        raise _no_rails(
            "the servers have different numbers of NICs: "
            + ", ".join(f"{k} {v}" for k, v in list(counts.items())[:_SHOWN])
        )
    rails = range(next(iter(counts.values())))
    return [f"fabric rail{i} {{ join *.nic{i}; latency {time(LATENCY)} }}" for i in rails]


def _no_rails(why: str) -> HetesynthError:
    return HetesynthError(
        f"no rails: {why}", code="HS731", help="take --net switch, or import servers of one kind"
    )


def _even(servers: Sequence[NamedServer], fabric: Fabric) -> tuple[Leaf, ...]:
    """Leaves of ``fabric.servers`` servers each, in order."""
    groups = [servers[i : i + fabric.servers] for i in range(0, len(servers), fabric.servers)]
    return tuple(Leaf(f"leaf{i}", tuple(s.name for s in group)) for i, group in enumerate(groups))


def _leaves(servers: Sequence[NamedServer], leaves: Sequence[Leaf], oversubscription: Fraction) -> list[str]:
    """A fabric for each leaf and the spines above them."""
    by_host = {s.machine.host: s for s in servers} | {s.name: s for s in servers}
    lines: list[str] = []
    spines: dict[str, list[tuple[str, Fraction]]] = defaultdict(list)
    for leaf in leaves:
        members = [by_host[host] for host in leaf.hosts if host in by_host]
        if not members:
            continue
        name = identifier(leaf.name, "leaf")
        join = ", ".join(f"{member.name}.nic*" for member in members)
        lines.append(f"fabric {name} {{ join {join}; latency {time(TIER)} }}")
        spines[leaf.spine].append((name, leaf.uplink or _carried(members) / oversubscription))
    for spine, uplinks in spines.items():
        if len(uplinks) < 2:
            continue
        main = uplinks[0][1]
        same = ", ".join(name for name, rate in uplinks if rate == main)
        name = identifier(spine, "spine")
        rest = f"latency {time(TIER)}; kind uplink }}"
        lines.append(f"switch {name} {{ ports {same}; bandwidth {bandwidth(main)}; {rest}")
        lines += [
            f"link {leaf} <-> {name} {{ bandwidth {bandwidth(rate)}; kind uplink }}"
            for leaf, rate in uplinks
            if rate != main
        ]
    return lines


def _carried(members: Sequence[NamedServer]) -> Fraction:
    """What the NICs of a leaf carry together."""
    return sum((rate for s in members for rate in nic_rates(s.machine)), Fraction(0))
