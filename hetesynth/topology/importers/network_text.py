"""The network between servers as statements of a cluster: NVLink domains, fabrics and the switches above them.

Leaves are fabrics, what is above them are switches. A trunk without a rate carries what was stated, else what
hangs below its lower end, divided by the oversubscription.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.network import Attachment, Fabric, Network, Trunk
from hetesynth.topology.importers.node_text import NVLINK_LATENCY
from hetesynth.topology.importers.node_types import nic_rates
from hetesynth.topology.importers.pcie import gpus_of_nics
from hetesynth.topology.importers.wording import bandwidth, identifier, parts, time

LATENCY = Fraction("1.3") / 10**6  # NIC to NIC through one switch; examples/ and the node library agree
TIER = Fraction("0.65") / 10**6  # of a leaf and of a spine, so that two leaves and a spine take 1.95 us
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Server:
    """A machine with the name of its instance and of its node type."""

    name: str
    machine: Machine
    node_type: str


def statements(servers: Sequence[Server], fabric: Fabric) -> list[str]:
    """Return the statements; HetesynthError HS733 where servers would be apart."""
    lines = _domains(servers)
    if fabric.network is not None:
        return lines + _network(servers, fabric.network)
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
    if fabric.kind == "switch":
        return [*lines, f"fabric net {{ join *.nic*; latency {time(LATENCY)} }}"]
    if fabric.kind == "rails":
        counts = {s.name: len(nic_rates(s.machine)) for s in networked}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:_SHOWN])
            raise HetesynthError(
                f"no rails: the servers have different numbers of NICs: {told}",
                code="HS731",
                help="take --net switch, or import servers of one kind",
            )
        rails = range(counts[networked[0].name])
        return lines + [f"fabric rail{i} {{ join *.nic{i}; latency {time(LATENCY)} }}" for i in rails]
    return lines + _leaves(networked, fabric)


def _leaves(servers: Sequence[Server], fabric: Fabric) -> list[str]:
    """A fabric for every ``fabric.servers`` servers, and a spine above them."""
    lines: list[str] = []
    uplinks = []
    for i, first in enumerate(range(0, len(servers), fabric.servers)):
        members = servers[first : first + fabric.servers]
        joined = ", ".join(f"{member.name}.nic*" for member in members)
        lines.append(f"fabric leaf{i} {{ join {joined}; latency {time(TIER)} }}")
        carried = sum((rate for s in members for rate in nic_rates(s.machine)), Fraction(0))
        uplinks.append((f"leaf{i}", carried / fabric.oversubscription, 1))
    if len(uplinks) < 2:
        return lines
    return lines + _switch("spine", uplinks, main=uplinks[0][1:])


def _domains(servers: Sequence[Server]) -> list[str]:
    """A switch of NVLinks over all servers of a domain."""
    domains: dict[str, list[Server]] = defaultdict(list)
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
        rest = f"latency {time(NVLINK_LATENCY)}; kind nvlink }}"
        lines.append(f"switch nvlink{i} {{ ports {ports}; bandwidth {bandwidth(main)}; {rest}")
        lines += [
            f"link {end} <-> nvlink{i} {{ bandwidth {bandwidth(rate)}; kind nvlink }}"
            for rate, ends in kinds.items()
            for end in ends
        ]
    return lines


def _network(servers: Sequence[Server], network: Network) -> list[str]:
    """A network that a file describes; hosts that are none of the servers are left out."""
    by_host = {server.machine.host: server for server in servers} | {server.name: server for server in servers}
    joins: dict[str, list[str]] = defaultdict(list)
    carried: dict[str, Fraction] = defaultdict(Fraction)  # what goes up from each switch
    usual = network.usual_nics()
    for host, attachments in network.by_host().items():
        if host in by_host:
            _attach(by_host[host], attachments, usual, joins, carried)
    trunks = _used_trunks(network, set(joins))
    names: dict[str, str] = {}
    in_use = {server.name for server in servers}
    for switch in dict.fromkeys([*joins, *(end for trunk in trunks for end in (trunk.a, trunk.b))]):
        name = base = identifier(switch, "leaf")
        count = 1
        while name in in_use:
            count += 1
            name = f"{base}_{count}"
        in_use.add(name)
        names[switch] = name
    latency = time(TIER if trunks else LATENCY)
    lines = [f"fabric {names[s]} {{ join {', '.join(join)}; latency {latency} }}" for s, join in joins.items()]
    return lines + _above(network, trunks, carried, names)


def _attach(
    server: Server,
    attachments: Sequence[Attachment],
    usual: Sequence[str],
    joins: dict[str, list[str]],
    carried: dict[str, Fraction],
) -> None:
    """Note the NICs of a server at their switches, and what they carry; ``usual``: the NICs of a whole host."""
    rates = nic_rates(server.machine)
    if attachments[0].nic == "":
        joins[attachments[0].switch].append(f"{server.name}.nic*")
        carried[attachments[0].switch] += sum(rates, Fraction(0))
        return
    by_name = {one.nic: one for one in attachments}
    ordered = [by_name.get(server.machine.nics[n].name) for n in gpus_of_nics(server.machine)]
    if not any(ordered):  # the file about the network names NICs otherwise
        ordered = [*map(by_name.get, usual)] if by_name.keys() <= set(usual) else [*attachments]
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(ordered):
        if one is not None and number < len(rates):
            numbers[one.switch].append(number)
            carried[one.switch] += rates[number]
    for switch, group in numbers.items():
        joins[switch].append(f"{server.name}.{parts('nic', group)}")


def _used_trunks(network: Network, leaves: set[str]) -> list[Trunk]:
    """The trunks on ways between leaves in use: ends that lead nowhere are cut off."""
    trunks = list(network.trunks)
    while True:
        degrees = Counter(end for pair in {frozenset((t.a, t.b)) for t in trunks} for end in pair)
        kept = [t for t in trunks if all(end in leaves or degrees[end] > 1 for end in (t.a, t.b))]
        if len(kept) == len(trunks):
            return trunks
        trunks = kept


def _above(
    network: Network, trunks: Iterable[Trunk], carried: dict[str, Fraction], names: dict[str, str]
) -> list[str]:
    """The switches above the leaves, lower tiers first, and the trunks within a tier."""
    tiers = network.tiers()
    ups: dict[str, list[Trunk]] = defaultdict(list)
    level = []
    for trunk in trunks:
        lower, upper = sorted((trunk.a, trunk.b), key=lambda end: tiers[end])
        if tiers[lower] == tiers[upper]:
            level.append(trunk)
        else:
            ups[upper].append(Trunk(lower, upper, trunk.lanes, trunk.rate))
    parents = Counter(trunk.a for below in ups.values() for trunk in below)

    def rate_of(trunk: Trunk, parents: int) -> Fraction:
        """As read, as stated, or what hangs below, spread over the switches above."""
        rate = trunk.rate or network.uplink or carried[trunk.a] / network.oversubscription / parents
        if not rate:
            raise HetesynthError(
                f"the rate of the uplinks of {trunk.a} is not known",
                code="HS733",
                help="state it with --uplink, for example --uplink 1600Gbps",
            )
        return rate

    lines: list[str] = []
    for upper in sorted(ups, key=lambda switch: tiers[switch]):
        rated = [(names[t.a], rate_of(t, parents[t.a]), t.lanes) for t in ups[upper]]
        carried[upper] += sum((rate * lanes for _, rate, lanes in rated), Fraction(0))
        kinds = Counter((rate, lanes) for _, rate, lanes in rated)
        lines += _switch(names[upper], rated, main=max(kinds, key=lambda kind: (kinds[kind], kind)))
    for trunk in level:
        rate = bandwidth(rate_of(trunk, 1), trunk.lanes)
        lines.append(f"link {names[trunk.a]} <-> {names[trunk.b]} {{ bandwidth {rate}; kind uplink }}")
    return lines


def _switch(name: str, rated: Sequence[tuple[str, Fraction, int]], main: tuple[Fraction, int]) -> list[str]:
    """``switch`` with the ports that are like ``main``, ``link`` for the others."""
    same = ", ".join(dict.fromkeys(below for below, *kind in rated if tuple(kind) == main))
    rest = f"latency {time(TIER)}; kind uplink }}"
    return [f"switch {name} {{ ports {same}; bandwidth {bandwidth(*main)}; {rest}"] + [
        f"link {below} <-> {name} {{ bandwidth {bandwidth(rate, lanes)}; kind uplink }}"
        for below, rate, lanes in rated
        if (rate, lanes) != main
    ]
