"""A network that a file describes as statements of a cluster: leaves are fabrics, what is above them are switches.

A trunk without a rate carries what was stated, else what hangs below its lower end, divided by the
oversubscription.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.network import Attachment, Network, Trunk, usual_nics
from hetesynth.topology.importers.network_text import LATENCY, TIER, NamedServer
from hetesynth.topology.importers.node_types import nic_rates
from hetesynth.topology.importers.pcie import gpus_of_nics
from hetesynth.topology.importers.wording import bandwidth, identifier, parts, time

Carried = dict[str, Fraction]  # what goes up from each switch


def statements(servers: Sequence[NamedServer], network: Network) -> list[str]:
    """The statements for those servers; hosts of the network that are none of them are left out."""
    by_host = {server.machine.host: server for server in servers} | {server.name: server for server in servers}
    joins: dict[str, list[str]] = defaultdict(list)
    carried: Carried = defaultdict(Fraction)
    of_host: dict[str, list[Attachment]] = defaultdict(list)
    for one in network.attachments:
        of_host[one.host].append(one)
    usual = usual_nics(network)
    for host, attachments in of_host.items():
        if host in by_host:
            _attach(by_host[host], attachments, usual, joins, carried)
    trunks = _used_trunks(network, set(joins))
    names = _names([*joins, *(end for trunk in trunks for end in (trunk.a, trunk.b))], {s.name for s in servers})
    latency = time(TIER if trunks else LATENCY)
    lines = [f"fabric {names[s]} {{ join {', '.join(join)}; latency {latency} }}" for s, join in joins.items()]
    return lines + _above(network, trunks, carried, names)


def _attach(
    server: NamedServer, attachments: Sequence[Attachment], usual: Sequence[str], joins: dict[str, list[str]],
    carried: Carried,
) -> None:  # fmt: skip
    """Note the NICs of a server at their switches, and what they carry; ``usual``: the NICs of a whole host."""
    rates = nic_rates(server.machine)
    if attachments[0].nic == "":
        joins[attachments[0].switch].append(f"{server.name}.nic*")
        carried[attachments[0].switch] += sum(rates, Fraction(0))
        return
    labels = [server.machine.nics[n].name for n in gpus_of_nics(server.machine)]
    by_name = {one.nic: one for one in attachments}
    ordered: list[Attachment | None] = [by_name.get(label) for label in labels]
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


def _names(switches: Sequence[str], used: set[str]) -> Mapping[str, str]:
    """A name of the language for each switch that nothing else has."""
    names: dict[str, str] = {}
    in_use = set(used)
    for switch in dict.fromkeys(switches):
        name = base = identifier(switch, "leaf")
        count = 1
        while name in in_use:
            count += 1
            name = f"{base}_{count}"
        in_use.add(name)
        names[switch] = name
    return names


def _above(network: Network, trunks: Sequence[Trunk], carried: Carried, names: Mapping[str, str]) -> list[str]:
    """The switches above the leaves, lower tiers first, and the trunks within a tier."""
    tiers = network.tiers()
    lines: list[str] = []
    ups: dict[str, list[Trunk]] = defaultdict(list)
    level = []
    for trunk in trunks:
        lower, upper = sorted((trunk.a, trunk.b), key=lambda end: tiers[end])
        if tiers[lower] == tiers[upper]:
            level.append(trunk)
        else:
            ups[upper].append(Trunk(lower, upper, trunk.lanes, trunk.rate))
    parents = Counter(trunk.a for below in ups.values() for trunk in below)
    for upper in sorted(ups, key=lambda switch: tiers[switch]):
        rated = [(names[t.a], *_rate(t, network, carried, parents[t.a])) for t in ups[upper]]
        carried[upper] += sum((rate * lanes for _, rate, lanes in rated), Fraction(0))
        lines += _switch(names[upper], rated)
    for trunk in level:
        rate, lanes = _rate(trunk, network, carried, 1)
        lines.append(
            f"link {names[trunk.a]} <-> {names[trunk.b]} {{ bandwidth {bandwidth(rate, lanes)}; kind uplink }}"
        )
    return lines


def _rate(trunk: Trunk, network: Network, carried: Carried, parents: int) -> tuple[Fraction, int]:
    """Rate of a cable, and how many: as read, as stated, or what hangs below, spread over the switches above."""
    if trunk.rate is not None:
        return trunk.rate, trunk.lanes
    rate = network.uplink or carried[trunk.a] / network.oversubscription / parents
    if not rate:
        raise HetesynthError(
            f"the rate of the uplinks of {trunk.a} is not known",
            code="HS733",
            help="state it with --uplink, for example --uplink 1600Gbps",
        )
    return rate, trunk.lanes


def _switch(name: str, rated: Sequence[tuple[str, Fraction, int]]) -> list[str]:
    """``switch`` with the ports that are alike, ``link`` for the others."""
    kinds = Counter((rate, lanes) for _, rate, lanes in rated)
    main = max(kinds, key=lambda kind: (kinds[kind], kind))
    same = list(dict.fromkeys(below for below, *kind in rated if tuple(kind) == main))
    rest = f"latency {time(TIER)}; kind uplink }}"
    lines = [f"switch {name} {{ ports {', '.join(same)}; bandwidth {bandwidth(*main)}; {rest}"]
    return lines + [
        f"link {below} <-> {name} {{ bandwidth {bandwidth(rate, lanes)}; kind uplink }}"
        for below, rate, lanes in rated
        if (rate, lanes) != main
    ]
