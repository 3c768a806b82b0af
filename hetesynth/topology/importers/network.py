"""The network between servers, stated (``--net``) or as a file tells it, and the machines that its hosts are."""

import functools
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Literal

from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.topology.importers.machine import Machine, Remark, gpus_of_nics
from hetesynth.topology.importers.wording import network_rate, some
from hetesynth.topology.language.library import declared_types, library_type

MAX_SWITCHES = 10_000
MAX_ATTACHMENTS = 200_000
MAX_SERVERS = 1024
_LEAFSPINE = re.compile(r"leafspine:([0-9]{1,4})(?::([0-9]{1,4}(?:\.[0-9]{1,4})?))?")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A host at a switch, with the NIC called ``nic`` or, if that is "", with all of its NICs."""

    host: str
    switch: str
    nic: str = ""
    rate: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Trunk:
    """``lanes`` cables between two switches, each at ``rate``."""

    a: str
    b: str
    lanes: int = 1
    rate: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """The hosts attached to switches, and the trunks that join the switches."""

    attachments: tuple[Attachment, ...]
    trunks: tuple[Trunk, ...] = ()
    remarks: tuple[Remark, ...] = ()
    uplink: Fraction | None = None  # of trunks without a rate, else what hosts carry over the oversubscription
    oversubscription: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if len(self.attachments) > MAX_ATTACHMENTS or len(self.tiers()) > MAX_SWITCHES:
            what = f"the network has more than {MAX_ATTACHMENTS} hosts and NICs, or {MAX_SWITCHES} switches"
            raise HetesynthError(what, code="HS732", help="import a part of it")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host once, in the order of the file."""
        return tuple(dict.fromkeys(one.host for one in self.attachments))

    def by_host(self) -> dict[str, list[Attachment]]:
        """Return the attachments of each host, in the order of the file."""
        attached: dict[str, list[Attachment]] = defaultdict(list)
        for one in self.attachments:
            attached[one.host].append(one)
        return attached

    def usual_nics(self) -> list[str]:
        """Return the names of the NICs of the host that has most: where others have fewer, ports are down."""
        return [one.nic for one in max(self.by_host().values(), key=len)]

    def tiers(self) -> dict[str, float]:
        """Return how far each switch is from the hosts, 0 being a leaf, without switches that no host reaches."""
        import networkx as nx

        graph: nx.Graph[str] = nx.Graph((trunk.a, trunk.b) for trunk in self.trunks)
        leaves = {one.switch for one in self.attachments}
        graph.add_nodes_from(leaves)
        return dict(nx.multi_source_dijkstra_path_length(graph, leaves))


@dataclass(frozen=True, slots=True)
class Fabric:
    """The network between servers: as in a file, or one switch, one for each NIC number (rails), or leaves."""

    kind: Literal["switch", "rails", "leafspine", "network", "none"]
    servers: int = 0  # of a leaf
    oversubscription: Fraction = Fraction(1)  # what its NICs carry over what its uplinks do
    network: Network | None = None


def parse_fabric(text: str) -> Fabric:
    """Read ``switch``, ``rails``, ``leafspine:SERVERS[:OVERSUBSCRIPTION]`` or ``none``; HetesynthError HS731."""
    if text in ("switch", "rails", "none"):
        return Fabric(text)  # type: ignore[arg-type]
    if rule := _LEAFSPINE.fullmatch(text):
        servers, oversubscription = int(rule[1]), Fraction(rule[2] or 1)
        if 1 <= servers <= MAX_SERVERS and oversubscription:
            return Fabric("leafspine", servers, oversubscription)
    what = f"--net {text[:40]!r} is no rule for the network between servers"
    help_ = "switch, rails, none, or leafspine:4:2 for 4 servers a leaf, oversubscribed 2 to 1"
    raise HetesynthError(what, code="HS731", help=help_)


def machines_of_network(
    machines: Sequence[Machine], network: Network, patterns: str, node_type: str
) -> tuple[list[Machine], list[Remark]]:
    """Return a machine for each host that ``patterns`` fit and that is known, and what is to be remarked.

    A host without a machine of its name is of ``node_type`` of the library; else, where one machine alone was read
    and bears the name of no host, it stands for all of them. HS733 where none is known, HS814 where nothing fits.
    """
    fits = [pattern.strip() for pattern in patterns.split(",")]  # hosts with or without their domain
    hosts = [h for h in network.hosts if any(fnmatchcase(n, fit) for fit in fits for n in (h, h.split(".")[0]))]
    if not hosts:
        what = f"--hosts {patterns[:40]!r} fits no host of the network"
        raise HetesynthError(what, code="HS814", help=f"hosts are {some(network.hosts)}")
    named = {_plain(machine.host): machine for machine in machines if machine.host}
    plain_hosts = {_plain(host) for host in network.hosts}
    strangers = [machine for machine in machines if _plain(machine.host) not in plain_hosts]
    pattern: Machine | None = None  # what a host is that no machine is named after
    if node_type:
        skeletons = (machine for machine in strangers if machine.node_type)
        pattern = next(skeletons, Machine("", (), node_type=node_type))
    elif len(machines) == 1 and strangers:
        pattern = strangers[0]
    of_host = network.by_host()
    candidates = [(host, named.get(_plain(host), pattern)) for host in hosts]
    joined = [_with_rates(replace(machine, host=host), of_host[host]) for host, machine in candidates if machine]
    if not joined or len(joined) > MAX_SERVERS:
        what = "no file says what the hosts are" if not joined else f"more than {MAX_SERVERS} hosts"
        help_ = "name a library type with --node-type, or add a dump of a server with its host's name"
        raise HetesynthError(f"{what}: {some(hosts)}", code="HS733", help=help_)
    usual = network.usual_nics()
    nics = {host: {one.nic for one in of_host[host]} for host in hosts}
    absent = [f"{h} {' '.join(n for n in usual if n not in nics[h])}" for h in hosts if nics[h] < set(usual)]
    doubts = {
        "no link where other hosts have one (is a port down, or is it no GPU server, see --hosts)": absent,
        "hosts without a dump are left out": [host for host, machine in candidates if machine is None],
        "not in the network, and left out": [
            machine.host or "a server without a name" for machine in strangers if machine is not pattern
        ],
    }
    remarks = [*network.remarks, *(Remark("suspicious", f"{t}: {some(n)}") for t, n in doubts.items() if n)]
    if others := [host for host in network.hosts if host not in nics]:
        remarks.append(Remark("found", f"hosts that --hosts leaves out: {some(others)}"))
    if pattern is not None:
        what = node_type or "like the one server that was read"
        text = f"hosts without a dump of their own are {what}, all of them: --hosts takes some, for example 'gpu*'"
        remarks.append(Remark("assumed", text))
    return joined, remarks


def _plain(host: str) -> str:
    """Return a host's name without its domain and in small letters."""
    return host.split(".")[0].lower()


def _with_rates(machine: Machine, attachments: Sequence[Attachment]) -> Machine:
    """Return the machine with the network's rates of its NICs, or with its dump's rates where these are lower."""
    if machine.node_type:
        told_rates = {one.rate for one in attachments}
        if "(" in machine.node_type or len(told_rates) != 1:
            return machine
        node_type, doubts = with_nics(machine.node_type, 0, *told_rates)
        remarks = (*machine.remarks, *(Remark("suspicious", doubt) for doubt in doubts))
        return replace(machine, node_type=node_type, remarks=remarks)
    rates = {one.nic: one.rate for one in attachments if one.rate}
    used = tuple(gpus_of_nics(machine))
    if rates and not any(machine.nics[n].name in rates for n in used):  # the network names NICs otherwise
        rates = {machine.nics[n].name: one.rate for n, one in zip(used, attachments, strict=False) if one.rate}
    plugged = {*rates, *(one.nic for one in attachments)}
    down = [nic for nic in machine.nics if rates and nic.rate is None and nic.name not in plugged]
    text = f"{machine.host}: {', '.join(nic.name for nic in down)}: no port in the network, left out"
    nics = (
        replace(nic, rate=min(filter(None, (rates.get(nic.name), nic.rate)), default=None))
        for nic in machine.nics
        if nic not in down
    )
    remarks = (*machine.remarks, *([Remark("suspicious", text)] if down else []))
    return replace(machine, nics=tuple(nics), remarks=remarks)


def file_of(node_type: str) -> str:
    """Return the library file with ``node_type``. Raise HetesynthError HS734 if none has it."""
    types = declared_types("node")
    if node_type not in types:
        what = f"--node-type: the node library has no type {node_type[:40]!r}"
        help_ = did_you_mean(node_type.lower(), types, f"one of: {', '.join(sorted(types))}")
        raise HetesynthError(what, code="HS734", help=help_)
    return types[node_type]


@functools.cache
def with_nics(node_type: str, nics: int, rate: Fraction | None) -> tuple[str, tuple[str, ...]]:
    """Return the type with the NICs (0, None: not told) as far as its parameters allow, and contradictions."""
    entry = library_type(node_type)
    wished = {"nics": str(nics)} if nics and nics != entry.nics else {}
    if rate is not None and rate * entry.nics != entry.outside:
        wished["rate"] = network_rate(rate)
    if not wished:
        return node_type, ()
    told = f"{nics} NIC{'s' * (nics != 1)}" if nics else "NICs"
    told += f" of {network_rate(rate)}" if rate is not None else ""
    told += f", and the library's {node_type} has {entry.nics} of {network_rate(entry.outside / entry.nics)}"
    declared = {parameter.partition("=")[0].strip() for parameter in entry.parameters}
    if wished.keys() <= declared and (not nics or entry.gpus % nics == 0 or nics % entry.gpus == 0):
        given = ", ".join(f"{name} = {value}" for name, value in wished.items())
        rest = "" if rate is not None else "; --nic-rate states a rate other than the library's"
        return f"{node_type}({given})", (f"{told}: {given} taken{rest}",)
    return node_type, (f"{told}, which are taken: name another --node-type, or correct the text",)


def nic_rates(machine: Machine) -> tuple[Fraction, ...]:
    """Return the rates of the NICs of a server's text, in order; for a library type the library's rates."""
    if machine.node_type:
        return _rates_of(machine.node_type)
    return tuple(machine.nics[n].rate or Fraction(0) for n in gpus_of_nics(machine))


@functools.cache
def _rates_of(node_type: str) -> tuple[Fraction, ...]:
    """Return the rate of each NIC of a library type, read off one of two such servers joined by a fabric."""
    from hetesynth.topology.language import parse_topology

    text = f"import {file_of(node_type.partition('(')[0])}\ncluster c {{ instance a = {node_type} "
    text += f"instance b = {node_type} fabric f {{ join *.nic* }} }}"
    topology = parse_topology(text, f"the library's {node_type}")
    fabric = next(i for i, vertex in enumerate(topology.vertices) if vertex.kind == "fabric")
    return tuple(
        (wire.bandwidth or Fraction(0)) * wire.lanes
        for wire in topology.wires
        if wire.dst == fabric and topology.vertices[wire.src].server == "a"
    )
